"""What administrators do to submitters: set what they are granted, lend it for a while, reset their usage, forget them.

The rules are those of condor_userprio and of the accountant behind it; where these take a value and make another of it,
so does this. Each act is an event that stands in the log with who asked for it.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Final, NamedTuple

import msgspec

from ..decision.draft import Draft, Refusal, answer, check_super_user
from ..events import SET, SubmitterDeleted, SubmitterSet, SubmittersReset
from ..names import AccountName
from ..ports.stimuli import DeleteSubmitter, ResetUsage, SetSubmitter
from ..state.negotiators import negotiator_named, short
from ..state.state import Manager, Submitter
from ..units import SECOND
from .accounting import LEAST_FACTOR, LEAST_PRIORITY, accounts_of, first_factor, initial, terms_of

NO_LIMIT: Final = -1.0
"""The ceiling of who has none."""
LONGEST: Final = 10**10
"""Seconds that a lease or an instant may be, at most."""


class Grant(NamedTuple):
    """What can be set of a submitter."""

    words: str
    least: float  #: the least value that a log holds
    most: float
    option: str  #: how ``poolbook userprio`` sets it
    cancel: str = ""  #: how that calls off a lease (empty: it cannot be lent)

    @property
    def lease(self) -> str:
        """A lease of it, as the reference calls it."""
        return f"{self.words.replace(' ', '-')} lease"


_MOST: Final = 1e20
GRANTS: Final[dict[str, Grant]] = {
    "priority": Grant("priority", LEAST_PRIORITY, _MOST, "-setprio"),
    "factor": Grant("priority factor", LEAST_FACTOR, _MOST, "-setfactor", "-cancelfactorlease"),
    "floor": Grant("floor", 0.0, _MOST, "-setfloor", "-cancelfloorlease"),
    "ceiling": Grant("ceiling", NO_LIMIT, _MOST, "-setceiling", "-cancelceilinglease"),
    "usage": Grant("accumulated usage", 0.0, _MOST, "-setaccum"),
    "begin": Grant("begin of the usage", 0.0, float(LONGEST), "-setbegin"),
    "last": Grant("last usage time", 0.0, float(LONGEST), "-setlast"),
}
"""The rules of each of ``events.SET``."""


def unfit(name: str, value: float) -> str:
    """What is wrong with a value of one of ``GRANTS``; empty: nothing."""
    grant = GRANTS[name]
    if not isfinite(value):
        return "a finite number is wanted"
    if value < grant.least:
        return f"it must be greater than or equal to {grant.least:g}{_WAYS_OUT.get(name, '')}"
    if value > grant.most:
        return f"it must be less than or equal to {grant.most:g}"
    if name == "ceiling" and NO_LIMIT < value < 0:
        return "it is -1 (no limit), or 0 or more cores"
    return ""


_WAYS_OUT: Final[dict[str, str]] = {
    "factor": "; to favour somebody, raise the factors of the others",
    "floor": " cores; 0 is none",
    "ceiling": " cores; -1 is no limit",
}
"""What to do instead of setting what is too little."""


def set_submitter(draft: Draft[Manager], command: SetSubmitter) -> None:
    """Set something of a submitter; one that nobody knows yet gets a record by it. While it is lent, what is set holds
    until the lease is over; then it is again what it was before, as in the reference.

    :raises Refusal: it is not the user's to set, the name or value is none, a lease runs already, or none is there to
        be called off
    """
    check_super_user(draft, command, f"set the {command.name} of {command.submitter}")
    _check_name(draft, command.submitter)
    grant = GRANTS.get(command.name)
    if grant is None:
        raise Refusal(f"{command.name!r} is nothing that can be set of a submitter; there are {', '.join(SET)}")
    known = draft.state.submitters.get(str(AccountName(_whose(draft, command.negotiator), command.submitter)))
    until = _lease_end(known, command.name, draft.now)
    if command.cancel:
        _cancel(draft, command, grant, until)
        return
    value = float(command.value)
    if command.name == "priority" and value < LEAST_PRIORITY:
        value = LEAST_PRIORITY  # nobody has a better one, whatever was asked for
    if problem := unfit(command.name, value):
        raise Refusal(f"the {grant.words} of {command.submitter} cannot be {value:g}: {problem}")
    if command.duration:
        until = _lent_until(draft, command, grant, until)
    _set(draft, command, value, until)


def _set(draft: Draft[Manager], command: SetSubmitter, value: float, until: int) -> None:
    whose = _whose(draft, command.negotiator)
    factor = first_factor(draft.state, command.submitter, whose)
    name, user = command.submitter, command.user
    draft.emit(SubmitterSet(*draft.why("granted"), name, user, command.name, value, until, factor, whose))
    given = {"submitter": command.submitter, "name": command.name, "value": value, "until": until}
    answer(draft, command, "set submitter", _words(command), given)


def _words(command: SetSubmitter) -> str:
    for_how_long = "lease ended" if command.cancel else f"{command.value:g}"
    lent = f" for {command.duration} s" if command.duration else ""
    return f"{command.submitter} {command.name} {for_how_long}{lent}"


def _lease_end(known: Submitter | None, name: str, now: int) -> int:
    """When the lease of it that runs now is over; 0: none runs."""
    lease = None if known is None else known.leases.get(name)
    return lease[1] if lease is not None and now < lease[1] else 0


def _lent_until(draft: Draft[Manager], command: SetSubmitter, grant: Grant, running: int) -> int:
    """When a lease that begins now is over.

    :raises Refusal: it cannot be lent, or not for so long, or one runs already
    """
    _check_lendable(grant)
    if not 0 < command.duration <= LONGEST:
        raise Refusal(f"a lease of {command.duration} s: a whole number of seconds, from 1 to {LONGEST:,}, is wanted")
    if running:
        raise Refusal(
            f"{grant.lease} for {command.submitter} is already in effect (expires at {running // SECOND}): "
            f"`poolbook userprio {grant.cancel} {command.submitter}` calls it off"
        )
    return draft.now + command.duration * SECOND


def _cancel(draft: Draft[Manager], command: SetSubmitter, grant: Grant, running: int) -> None:
    _check_lendable(grant)
    if not running:
        raise Refusal(
            f"no {grant.lease} in effect for {command.submitter}: there is nothing to call off; "
            f"`poolbook userprio {grant.option} {command.submitter} <value>` sets it for good"
        )
    _set(draft, command, 0.0, draft.now)


def _check_lendable(grant: Grant) -> None:
    if not grant.cancel:
        lent = ", ".join(other.words for other in GRANTS.values() if other.cancel)
        raise Refusal(f"the {grant.words} cannot be lent for a time, as {lent} can: set it without a duration")


def reset_usage(draft: Draft[Manager], command: ResetUsage) -> None:
    """The usage of some submitters, or of all, counts from now on. What they have in use goes on to count.

    :raises Refusal: it is not the user's to reset, or a name is none
    """
    whose = ", ".join(command.submitters) or "all submitters"
    check_super_user(draft, command, f"reset the usage of {whose}")
    for name in command.submitters:
        _check_name(draft, name)
    whose = _whose(draft, command.negotiator)
    known = accounts_of(draft.state.submitters, whose)
    names = tuple(dict.fromkeys(command.submitters)) or tuple(known)
    factors = {name: first_factor(draft.state, name, whose) for name in names if name not in known}
    if names:
        draft.emit(SubmittersReset(*draft.why("granted"), names, command.user, factors, whose))
    arguments = msgspec.json.encode(command.submitters).decode()
    answer(draft, command, "reset usage", arguments, {"submitters": names})


def delete_submitter(draft: Draft[Manager], command: DeleteSubmitter) -> None:
    """Forget a submitter; one that nobody knows is forgotten already. If it comes again, it comes as new.

    :raises Refusal: it is not the user's to delete, or the name is none
    """
    name = command.submitter
    check_super_user(draft, command, f"delete {name}")
    _check_name(draft, name)
    whose = _whose(draft, command.negotiator)
    known = draft.state.submitters.get(str(AccountName(whose, name)))
    if known is not None:
        factor = initial(name, terms_of(draft.state.settings, whose)) if known.slots else 0.0
        draft.emit(SubmitterDeleted(*draft.why("granted"), name, command.user, factor, whose))
    answer(draft, command, "delete submitter", name, {"submitter": name, "known": known is not None})


def _whose(draft: Draft[Manager], name: str) -> str:
    """Return the negotiator in whose accounting something is to be done, as events have it.

    :raises Refusal: there is none of the name, or several and none is named
    """
    try:
        return short(negotiator_named(draft.state.settings, name))
    except LookupError as error:
        raise Refusal(str(error)) from None


_NAME = re.compile(r"\S+@[^\s@]+")


def _check_name(draft: Draft[Manager], name: str) -> None:
    if name not in accounts_of(draft.state.submitters) and not (_NAME.fullmatch(name) and name.isprintable()):
        raise Refusal(
            f"{name!r} is no submitter's name: the full one is wanted, user@domain, as `poolbook userprio -allusers` "
            "shows it"
        )

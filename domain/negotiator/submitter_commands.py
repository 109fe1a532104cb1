"""Administrators' commands for submitters: set or lease their values, reset their usage, or delete them.

The rules come from condor_userprio and the HTCondor accountant, which replace some invalid values. Each command is
logged as an event, with the user who sent it.
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
from ..state.negotiators import name_in_events, negotiator_named
from ..state.state import Manager
from ..units import SECOND
from .accounting import LEAST_FACTOR, LEAST_PRIORITY, accountant_settings_of, accounts_of, first_factor, initial_factor

NO_LIMIT: Final = -1.0
"""The ceiling of a submitter that has none."""
LONGEST: Final = 10**10
"""The maximum duration of a lease, and the maximum time, in seconds."""


class SubmitterValue(NamedTuple):
    """A value that can be set for a submitter."""

    words: str
    least: float  #: the minimum value in a log
    most: float
    option: str  #: the ``poolbook userprio`` option that sets it
    cancel: str = ""  #: the option that cancels its lease (empty: cannot be leased)

    @property
    def lease(self) -> str:
        """Return HTCondor's name for its lease."""
        return f"{self.words.replace(' ', '-')} lease"


_MOST: Final = 1e20
SUBMITTER_VALUES: Final[dict[str, SubmitterValue]] = {
    "priority": SubmitterValue("priority", LEAST_PRIORITY, _MOST, "-setprio"),
    "factor": SubmitterValue("priority factor", LEAST_FACTOR, _MOST, "-setfactor", "-cancelfactorlease"),
    "floor": SubmitterValue("floor", 0.0, _MOST, "-setfloor", "-cancelfloorlease"),
    "ceiling": SubmitterValue("ceiling", NO_LIMIT, _MOST, "-setceiling", "-cancelceilinglease"),
    "usage": SubmitterValue("accumulated usage", 0.0, _MOST, "-setaccum"),
    "begin": SubmitterValue("begin of the usage", 0.0, float(LONGEST), "-setbegin"),
    "last": SubmitterValue("last usage time", 0.0, float(LONGEST), "-setlast"),
}
"""The rules for each value in ``events.SET``."""


def invalid_reason(name: str, value: float) -> str:
    """Return why a value of one of ``SUBMITTER_VALUES`` is invalid, or an empty string if it is valid."""
    grant = SUBMITTER_VALUES[name]
    if not isfinite(value):
        return "use a finite number"
    if value < grant.least:
        return f"it must be greater than or equal to {grant.least:g}{_ADVICE.get(name, '')}"
    if value > grant.most:
        return f"it must be less than or equal to {grant.most:g}"
    if name == "ceiling" and NO_LIMIT < value < 0:
        return "it is -1 (no limit), or 0 or more cores"
    return ""


_ADVICE: Final[dict[str, str]] = {
    "factor": "; to favour a submitter, raise the factors of the others",
    "floor": " cores; 0 means no floor",
    "ceiling": " cores; -1 means no limit",
}
"""The advice for values that are too small."""


def set_submitter(draft: Draft[Manager], command: SetSubmitter) -> None:
    """Set a value of a submitter; create a record for an unknown submitter. As in HTCondor, a value that is set during
    a lease applies until the lease ends, and then the previous value applies again.

    :raises Refusal: if the user may not set it, the name or value is invalid, a lease is already in effect, or there is
        no lease to cancel
    """
    check_super_user(draft, command, f"set the {command.name} of {command.submitter}")
    _check_name(draft, command.submitter)
    grant = SUBMITTER_VALUES.get(command.name)
    if grant is None:
        raise Refusal(f"{command.name!r} cannot be set for a submitter; use one of {', '.join(SET)}")
    known = draft.state.submitters.get(str(AccountName(_negotiator_of(draft, command.negotiator), command.submitter)))
    lease = None if known is None else known.leases.get(command.name)
    until = lease[1] if lease is not None and draft.now < lease[1] else 0
    if command.cancel:
        _cancel(draft, command, grant, until)
        return
    value = float(command.value)
    if command.name == "priority" and value < LEAST_PRIORITY:
        value = LEAST_PRIORITY  # no priority is better
    if problem := invalid_reason(command.name, value):
        raise Refusal(f"the {grant.words} of {command.submitter} cannot be {value:g}: {problem}")
    if command.duration:
        until = _lease_end(draft, command, grant, until)
    _set(draft, command, value, until)


def _set(draft: Draft[Manager], command: SetSubmitter, value: float, until: int) -> None:
    negotiator = _negotiator_of(draft, command.negotiator)
    factor = first_factor(draft.state, command.submitter, negotiator)
    name, user = command.submitter, command.user
    draft.emit(SubmitterSet(*draft.header("granted"), name, user, command.name, value, until, factor, negotiator))
    fields = {"submitter": command.submitter, "name": command.name, "value": value, "until": until}
    answer(draft, command, "set submitter", _command_text(command), fields)


def _command_text(command: SetSubmitter) -> str:
    for_how_long = "lease ended" if command.cancel else f"{command.value:g}"
    lent = f" for {command.duration} s" if command.duration else ""
    return f"{command.submitter} {command.name} {for_how_long}{lent}"


def _lease_end(draft: Draft[Manager], command: SetSubmitter, grant: SubmitterValue, running: int) -> int:
    """Return when a lease that starts now ends.

    :raises Refusal: if the value cannot be leased, the duration is invalid, or a lease is already in effect
    """
    _check_leasable(grant)
    if not 0 < command.duration <= LONGEST:
        raise Refusal(f"a lease of {command.duration} s is not valid; use a whole number from 1 to {LONGEST:,} seconds")
    if running:
        raise Refusal(
            f"{grant.lease} for {command.submitter} is already in effect (expires at {running // SECOND}): "
            f"`poolbook userprio {grant.cancel} {command.submitter}` cancels it"
        )
    return draft.now + command.duration * SECOND


def _cancel(draft: Draft[Manager], command: SetSubmitter, grant: SubmitterValue, running: int) -> None:
    _check_leasable(grant)
    if not running:
        raise Refusal(
            f"no {grant.lease} in effect for {command.submitter}: there is nothing to cancel; "
            f"`poolbook userprio {grant.option} {command.submitter} <value>` sets it permanently"
        )
    _set(draft, command, 0.0, draft.now)


def _check_leasable(grant: SubmitterValue) -> None:
    if not grant.cancel:
        lent = ", ".join(other.words for other in SUBMITTER_VALUES.values() if other.cancel)
        raise Refusal(f"the {grant.words} cannot be leased (only {lent} can); set it without a duration")


def reset_usage(draft: Draft[Manager], command: ResetUsage) -> None:
    """Reset the usage of the given submitters, or of all. Resources currently in use continue to accumulate usage.

    :raises Refusal: if the user may not reset it, or a name is invalid
    """
    whose = ", ".join(command.submitters) or "all submitters"
    check_super_user(draft, command, f"reset the usage of {whose}")
    for name in command.submitters:
        _check_name(draft, name)
    whose = _negotiator_of(draft, command.negotiator)
    known = accounts_of(draft.state.submitters, whose)
    names = tuple(dict.fromkeys(command.submitters)) or tuple(known)
    factors = {name: first_factor(draft.state, name, whose) for name in names if name not in known}
    if names:
        draft.emit(SubmittersReset(*draft.header("granted"), names, command.user, factors, whose))
    arguments = msgspec.json.encode(command.submitters).decode()
    answer(draft, command, "reset usage", arguments, {"submitters": names})


def delete_submitter(draft: Draft[Manager], command: DeleteSubmitter) -> None:
    """Delete a submitter's record, if there is one. If the submitter returns, it is treated as new.

    :raises Refusal: if the user may not delete it, or the name is invalid
    """
    name = command.submitter
    check_super_user(draft, command, f"delete {name}")
    _check_name(draft, name)
    negotiator = _negotiator_of(draft, command.negotiator)
    known = draft.state.submitters.get(str(AccountName(negotiator, name)))
    if known is not None:
        factor = initial_factor(name, accountant_settings_of(draft.state.settings, negotiator)) if known.slots else 0.0
        draft.emit(SubmitterDeleted(*draft.header("granted"), name, command.user, factor, negotiator))
    answer(draft, command, "delete submitter", name, {"submitter": name, "known": known is not None})


def _negotiator_of(draft: Draft[Manager], name: str) -> str:
    """Return the name (as in events) of the negotiator to which a command applies.

    :raises Refusal: if the name is unknown, or there are several negotiators and the command names none
    """
    try:
        return name_in_events(negotiator_named(draft.state.settings, name))
    except LookupError as error:
        raise Refusal(str(error)) from None


_NAME = re.compile(r"\S+@[^\s@]+")


def _check_name(draft: Draft[Manager], name: str) -> None:
    if name not in accounts_of(draft.state.submitters) and not (_NAME.fullmatch(name) and name.isprintable()):
        raise Refusal(
            f"{name!r} is not a submitter's name: use the form user@domain; `poolbook userprio -allusers` lists the "
            "submitters"
        )

"""The changes of `poolbook userprio`: the requests that its options make, and their answers."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

from .options import Arguments, Command, Given, UsageError, whole_number


class _Edit(NamedTuple):
    """An option that changes something."""

    kind: str  #: the request that it makes
    name: str  #: the field of ``SetSubmitter`` that is set
    done: str  #: the answer, with the user and the value
    whole: bool = False  #: whether the value is a whole number, from ``least``; else any number
    least: int = 0
    lent: str = ""  #: the answer if the value has a duration in seconds; empty: it can have none


_SET, _RESET, _DELETE = "SetSubmitter", "ResetUsage", "DeleteSubmitter"
_LENT = "Set {} lease on {{user}} to {{value:{}}} for {{seconds}} seconds"

EDITS: dict[str, _Edit] = {
    "setprio": _Edit(_SET, "priority", "The priority of {user} was set to {value:f}"),
    "setfactor": _Edit(
        _SET, "factor", "The priority factor of {user} was set to {value:f}", lent=_LENT.format("priority-factor", "f")
    ),
    "setfloor": _Edit(_SET, "floor", "The floor of {user} was set to {value:d}", True, 0, _LENT.format("floor", "d")),
    "setceiling": _Edit(
        _SET, "ceiling", "The ceiling of {user} was set to {value:d}", True, -1, _LENT.format("ceiling", "d")
    ),
    "setaccum": _Edit(_SET, "usage", "The Accumulated Usage of {user} was set to {value:f}"),
    "setbegin": _Edit(_SET, "begin", "The Begin Usage Time of {user} was set to {value:d}", True),
    "setlast": _Edit(_SET, "last", "The Last Usage Time of {user} was set to {value:d}", True),
    "cancelfactorlease": _Edit(_SET, "factor", "Cancelled priority-factor lease for {user}"),
    "cancelfloorlease": _Edit(_SET, "floor", "Cancelled floor lease for {user}"),
    "cancelceilinglease": _Edit(_SET, "ceiling", "Cancelled ceiling lease for {user}"),
    "resetusage": _Edit(_RESET, "", "The accumulated usage of {user} was reset"),
    "resetall": _Edit(_RESET, "", "The accumulated usage was reset for all users"),
    "delete": _Edit(_DELETE, "", "The accountant record named {user} was deleted"),
}
"""The options that change something, with their requests and answers."""


class Request(NamedTuple):
    """A change that a command line asks for: the request without its id and its user, and the answer."""

    body: dict[str, Any]
    done: str


def read(command: Command, arguments: Arguments) -> Request | None:
    """Return the change that a command line asks for; None: none. Raise `UsageError` if it asks for more than one, or
    for an unknown one."""
    asked = list(arguments.every(*EDITS))
    if not asked:
        if arguments.has("duration"):
            raise UsageError(f"poolbook userprio: -duration goes with {_lent()}")
        return None
    if len(asked) > 1:
        raise UsageError(f"poolbook userprio: one change at a time: {asked[0].spelled} or {asked[1].spelled}")
    given = asked[0]
    if arguments.words:
        raise UsageError(f"poolbook userprio: {given.spelled} and {arguments.words[0]!r}: one submitter at a time")
    return _request(command, given, arguments.last("duration"))


def _lent() -> str:
    return ", ".join(f"-{name}" for name, edit in EDITS.items() if edit.lent)


def _request(command: Command, given: Given, duration: Given | None) -> Request:
    edit = EDITS[given.name]
    if duration is not None and not edit.lent:
        raise UsageError(f"poolbook userprio: -duration goes with {_lent()}, not with {given.spelled}")
    user = given.values[0] if given.values else ""
    body: dict[str, Any] = {"kind": edit.kind}
    if given.values:
        submitter(given.spelled, user)
    if edit.kind == _RESET:
        return Request({**body, "submitters": [user] if user else []}, edit.done.format(user=user))
    body["submitter"] = user
    if edit.kind == _DELETE:
        return Request(body, edit.done.format(user=user))
    body["name"] = edit.name
    if len(given.values) == 1:
        return Request({**body, "cancel": True}, edit.done.format(user=user))
    value = _value(command, given, edit)
    body["value"] = float(value)
    if duration is None:
        return Request(body, edit.done.format(user=user, value=value))
    body["duration"] = seconds = whole_number(command, duration, 1)
    return Request(body, edit.lent.format(user=user, value=value, seconds=seconds))


def submitter(option: str, name: str) -> str:
    """Check that a submitter's name is in full. Raise `UsageError` if it is not."""
    user, at, domain = name.rpartition("@")
    if not (user and at and domain):
        raise UsageError(
            f"poolbook userprio {option}: {name!r} is no submitter: user@domain is wanted, as `poolbook userprio "
            "-allusers` shows them"
        )
    return name


def _value(command: Command, given: Given, edit: _Edit) -> int | float:
    if edit.whole:
        return whole_number(command, given._replace(values=given.values[1:]), edit.least)
    try:
        value = float(given.values[1])
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise UsageError(f"poolbook userprio: {given.spelled} takes a number, not {given.values[1]!r}")
    return value

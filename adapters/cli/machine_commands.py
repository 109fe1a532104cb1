"""``poolbook drain, off, on, reconfig, reschedule``: send requests about a machine or pool, as condor_drain does."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..condor_tools.options import HELP, LOG, Arguments, Command, Option, Refusal, UsageError, parse, whole_number
from ..runtime.commands import ask, is_served, is_written
from ..runtime.requests import new_id
from .common import log_of, log_option

_ONE_POOL = "a log is one pool; name another with -log"
_JSON = Option("json", 1, "", "the answer as JSON")
_KIN = (
    Option("pool", 1, refused=_ONE_POOL),
    Option("version", 1, refused="use `poolbook -version`"),
    Option("debug", 3, colon=":", refused="the server's log says what it does"),
    Option("name", 1, refused=_ONE_POOL),
    Option("addr", 2, refused=_ONE_POOL),
)
"""Options of HTCondor's that none of these commands has."""
_ONE_MACHINE = "this machine alone is meant: serve the pool where the others are, too"
_KIN_OF_MANY = (
    *_KIN,
    Option("all", 2, refused=_ONE_MACHINE),
    Option("constraint", 1, refused=_ONE_MACHINE),
)
_ONE_PROCESS = "one process has all roles here: `poolbook serve` starts it, Ctrl-C ends it"
_KIN_OF_DAEMONS = (
    *_KIN_OF_MANY,
    Option("daemon", 2, refused=_ONE_PROCESS),
    Option("subsystem", 2, refused=_ONE_PROCESS),
    Option("schedd", 5, refused=_ONE_PROCESS),
    Option("collector", 5, refused=_ONE_PROCESS),
    Option("negotiator", 2, refused=_ONE_PROCESS),
    Option("master", 1, refused=_ONE_PROCESS),
)

DRAIN = Command(
    "drain",
    "MACHINE [options]",
    "Empties a machine of jobs: it takes no more, and those that it has go by the schedule. -cancel opens it again.",
    (
        Option("cancel", 1, "", "end the drain"),
        Option("fast", 1, "", "kill the jobs at once"),
        Option("quick", 1, "", "let them have their time to end (MachineMaxVacateTime), but no retirement time"),
        Option("graceful", 1, "", "let them have both, until the last must go (the default)"),
        Option("resume-on-completion", 1, "", "when done, take jobs again"),
        Option("exit-on-completion", 2, "", "when done, leave the pool"),
        Option("restart-on-completion", 4, "", "when done, leave the pool and join it again"),
        Option("reconfig-on-completion", 3, "", "when done, read the configuration and take jobs again"),
        Option("reason", 3, "<text>", "why; it stands in the slots' ads while the machine drains"),
        Option("request-id", 3, "<n>", "with -cancel: only if the drain has this number"),
        Option("check", 2, "<expr>", "only if this is true for each of the machine's slots"),
        Option("start", 5, "<expr>", "what START is while the machine drains, in place of false"),
        Option("verbose", 4, "", "print the number of the drain"),
        _JSON,
        LOG,
        HELP,
        *_KIN,
    ),
    (
        ("poolbook drain node7 -reason 'new disk'", "when its jobs have had their time"),
        ("poolbook drain -fast -resume-on-completion node7", "kill what runs there, and go on"),
        ("poolbook drain -cancel node7", "take jobs again"),
    ),
    (("node7, slot1@node7", "a machine, or a slot of it"),),
)
OFF = Command(
    "off",
    "[MACHINE] [options]",
    "Takes a machine (this one, if none is named) out of the pool when its jobs have gone. `poolbook on` undoes it.",
    (
        Option("peaceful", 3, "", "let jobs run to their end"),
        Option("graceful", 1, "", "let them have their retirement time and their time to end (the default)"),
        Option("fast", 1, "", "kill them"),
        Option("startd", 5, "", "the default, and the only daemon that can be turned off"),
        _JSON,
        LOG,
        HELP,
        *_KIN_OF_DAEMONS,
        Option("annex", 3, refused="there are no annexes"),
        Option("drain", 2, refused="`poolbook drain` empties a machine"),
        Option("start", 5, refused="`poolbook drain -start` says what START is while a machine is emptied"),
        Option("check", 2, refused="`poolbook drain -check` asks before a machine is emptied"),
        Option("reason", 1, refused="`poolbook drain -reason` says why a machine is emptied"),
        Option("request-id", 2, refused="`poolbook drain -cancel -request-id` takes back a drain"),
        Option("exec", 1, refused="no program is run when a machine leaves"),
        Option("force-graceful", 2, refused="-graceful takes back a -peaceful that went before, too"),
    ),
    (("poolbook off -peaceful", "when the jobs are done"),),
    (("node7", "a machine"),),
)
ON = Command(
    "on",
    "[options]",
    "Brings this machine back into the pool that is served here, after `poolbook off` or a drain that it left by.",
    (
        Option("startd", 5, "", "the default, and the only daemon that can be turned on"),
        _JSON,
        LOG,
        HELP,
        *_KIN_OF_DAEMONS,
    ),
    (("poolbook on", ""),),
)
RECONFIG = Command(
    "reconfig",
    "[options]",
    "Has the pool that is served here read its configuration again: this machine and the negotiator follow it. Slots "
    "and their types stay as they are.",
    (_JSON, LOG, HELP, *_KIN_OF_DAEMONS),
    (("poolbook reconfig", "to have other slots, `poolbook off` and then `poolbook on`"),),
)
RESCHEDULE = Command(
    "reschedule",
    "[options]",
    "Has the pool that is served here hold a negotiation cycle now, without waiting for NEGOTIATOR_INTERVAL.",
    (_JSON, LOG, HELP, *_KIN_OF_MANY),
    (("poolbook reschedule", "when nobody is to wait for the next one"),),
)

_SCHEDULES = ("fast", "quick", "graceful")
_COMPLETIONS = ("resume", "exit", "restart", "reconfig")


def _request(kind: str, **body: object) -> dict[str, object]:
    from ..machine.host import user_name

    return {"kind": kind, "id": new_id(), "user": user_name(), **body}


def _print(arguments: Arguments, answer: Mapping[str, Any], *lines: str) -> int:
    print(json.dumps(answer, indent=2) if arguments.has("json") else "\n".join(lines))
    return 0


def _one(command: Command, arguments: Arguments) -> str:
    if len(arguments.words) != 1:
        raise UsageError(f"poolbook {command.name}: name one machine, as `poolbook status -compact` shows them")
    return arguments.words[0]


def _served(command: Command, arguments: Arguments) -> str:
    """Return the log if a server holds it: what a machine's policy says of such a request depends on its sensors. Raise
    `Refusal` if no pool serves it, `LogError` if none can, because the log was imported."""
    url = log_of(arguments)
    if not (is_served(url) or is_written(url)):
        from ...domain.ports.log import LogMissing
        from ..runtime.open_pool import open_pool_log

        with suppress(LogMissing):
            open_pool_log(url, create=False).close()
        start = f"`poolbook serve{log_option(url)}`"
        raise Refusal(f"poolbook {command.name}: the pool is not running. Start it with {start}, then repeat this.")
    return url


def _text(arguments: Arguments, name: str) -> str:
    given = arguments.last(name)
    return given.values[0] if given is not None else ""


def drain(argv: Sequence[str]) -> int:
    arguments = parse(DRAIN, argv)
    machine = _one(DRAIN, arguments)
    completions = dict.fromkeys(name for name in _COMPLETIONS if arguments.has(f"{name}-on-completion"))
    if arguments.has("cancel"):
        return _cancel(arguments, machine, completions)
    if arguments.has("request-id"):
        raise UsageError("poolbook drain: -request-id may only be used with -cancel")
    if len(completions) > 1:
        first, second, *_ = completions
        raise UsageError(f"poolbook drain: -{second}-on-completion conflicts with -{first}-on-completion")
    schedule = arguments.last(*_SCHEDULES)
    body = _request(
        "Drain",
        machine=machine,
        schedule=schedule.name.capitalize() if schedule is not None else "Graceful",
        reason=_text(arguments, "reason"),
        completion=next(iter(completions), ""),
        check=_text(arguments, "check"),
        start=_text(arguments, "start"),
    )
    answer = ask(_served(DRAIN, arguments), body)
    lines = [
        f"Sent request to drain the startd <{answer['machine']}> with {machine}. This only affects the single startd; "
        "any other startds running on the same host will not be drained."
    ]
    if arguments.has("verbose"):
        lines.append(f"\tRequest id: {answer['request']}")
    return _print(arguments, answer, *lines)


def _cancel(arguments: Arguments, machine: str, completions: Mapping[str, None]) -> int:
    for wrong in ("check", "reason", "start", *(f"{name}-on-completion" for name in completions)):
        if arguments.has(wrong):
            raise UsageError(f"poolbook drain: -{wrong} may not be used with -cancel")
    number = arguments.last("request-id")
    body = _request("CancelDrain", machine=machine, drain=0 if number is None else whole_number(DRAIN, number, 1))
    return _print(arguments, ask(_served(DRAIN, arguments), body), f"Sent request to cancel draining on {machine}")


# How to shut down -> what condor_off prints of it.
_OFF = {
    "Peaceful": (
        'Sent "Set-Peaceful-Shutdown" command to {startd}',
        'Sent "Kill-Daemon-Peacefully" command to {master}',
    ),
    "Graceful": ('Sent "Kill-Daemon" command for "startd" to {master}',),
    "Fast": ('Sent "Kill-Daemon-Fast" command for "startd" to {master}',),
}


def off(argv: Sequence[str]) -> int:
    arguments = parse(OFF, argv)
    if len(arguments.words) > 1:
        raise UsageError("poolbook off: one machine at a time")
    from ..machine.host import host_name

    given = arguments.last("peaceful", "graceful", "fast")
    how = "Graceful" if given is None else given.name.capitalize()
    machine = arguments.words[0] if arguments.words else ""
    answer = ask(_served(OFF, arguments), _request("ShutDown", machine=machine or host_name(), how=how))
    of = {name: f"{name} {machine}" if machine else f"local {name}" for name in ("startd", "master")}
    return _print(arguments, answer, *(line.format(**of) for line in _OFF[how]))


def on(argv: Sequence[str]) -> int:
    return _tell(ON, argv, "on", 'Sent "Spawn-Daemon" command for "startd" to local master')


def reconfig(argv: Sequence[str]) -> int:
    return _tell(RECONFIG, argv, "reconfigure", 'Sent "Reconfig" command to local master')


def reschedule(argv: Sequence[str]) -> int:
    return _tell(RESCHEDULE, argv, "reschedule", 'Sent "Reschedule" command to local schedd')


def _tell(command: Command, argv: Sequence[str], kind: str, done: str) -> int:
    """Send a request to the machine on which the pool is served."""
    arguments = parse(command, argv)
    if arguments.words:
        raise UsageError(f"poolbook {command.name}: {arguments.words[0]!r} is no option; this machine alone is meant")
    answer = ask(_served(command, arguments), {"kind": kind})
    for warning in answer.get("warnings", ()):
        print(f"poolbook {command.name}: warning: {warning}", file=sys.stderr)
    return _print(arguments, answer, done)

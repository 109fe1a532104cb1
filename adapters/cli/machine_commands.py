"""``poolbook drain, off, on, restart, reconfig, reschedule``: requests about a machine or pool, like condor_drain."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...domain.coverage.settings import is_part_of_manager
from ..condor_tools.options import (
    Arguments,
    NotHere,
    ToolError,
    ToolSyntax,
    UsageError,
    command_table,
    last_number,
    parse,
)
from ..machine.host import host_name
from ..runtime.elsewhere import is_elsewhere
from ..runtime.pool_client import ask, is_served, is_written
from ..runtime.requests import NOT_FOUND, RequestRefused
from . import master
from .common import called_tool, is_this_pool, log_option, selected_log, unknown_host

DRAIN = command_table("drain")
OFF = command_table("off")
ON = command_table("on")
RECONFIG = command_table("reconfig")
RESCHEDULE = command_table("reschedule")
RESTART = command_table("restart")

_COMPLETIONS = [option.name for option in DRAIN.options if option.name.endswith("-on-completion")]


def _print_answer(arguments: Arguments, answer: Mapping[str, Any], *lines: str) -> int:
    print(json.dumps(answer, indent=2) if arguments.has("json") else "\n".join(lines))
    return 0


def _served_log(command: ToolSyntax, arguments: Arguments) -> str:
    """Return the log if a server holds it; the machine's policy for such a request depends on the server's sensors.
    Raise `ToolError` if the pool is not running, `LogError` if it cannot run because the log was imported."""
    url = selected_log(arguments, "pool", "addr", *(() if command is RESCHEDULE else ("name",)))
    if is_elsewhere(url) and command is not RESCHEDULE:
        raise ToolError(f"poolbook {command.name}: this command affects a machine; run it on that machine")
    if not (is_served(url) or is_written(url)):
        from ...domain.ports.log import LogMissing
        from ..runtime.open_pool import open_pool_log

        with suppress(LogMissing):
            open_pool_log(url, create=False).close()
        start = f"`poolbook serve{log_option(url)}`"
        raise ToolError(f"poolbook {command.name}: the pool is not running; start it with {start}, then try again")
    return url


def _ask_machine(command: ToolSyntax, arguments: Arguments, kind: str, name: str, **body: object) -> dict[str, Any]:
    """Return the answer to a request about a machine. Raise `NotHere` if the machine is unknown."""
    try:
        request = {"kind": kind, "machine": name, **body}
        answer: dict[str, Any] = ask(_served_log(command, arguments), request)
    except RequestRefused as error:
        if error.code != NOT_FOUND:
            raise
        raise NotHere(f"poolbook: {error}", unknown_host(name)[0]) from None
    return answer


def drain(argv: Sequence[str]) -> int:
    arguments = parse(DRAIN, argv)
    if len(arguments.words) != 1:
        raise UsageError("poolbook drain: specify one machine; `poolbook status -compact` lists them")
    (machine,) = arguments.words
    given_completions = [name for name in _COMPLETIONS if arguments.has(name)]
    if arguments.has("cancel"):
        return _cancel_drain(arguments, machine, given_completions)
    if arguments.has("request-id"):
        raise UsageError("poolbook drain: -request-id may only be used with -cancel")
    if len(given_completions) > 1:
        first, second, *_ = given_completions
        raise UsageError(f"poolbook drain: -{second} conflicts with -{first}: use only one of them")
    is_quick = arguments.last_name("fast", "quick")
    if is_quick and arguments.has("start"):
        message = f"-start is not used with -{is_quick}: only a graceful drain sets START"
        print(f"poolbook drain: {message}", file=sys.stderr)
    answer = _ask_machine(
        DRAIN,
        arguments,
        "Drain",
        machine,
        schedule=(arguments.last_name("fast", "quick", "graceful") or "graceful").capitalize(),
        reason=arguments.value("reason"),
        completion="".join(given_completions).removesuffix("-on-completion"),
        check=arguments.value("check"),
        start=arguments.value("start"),
    )
    lines = [
        f"Sent request to drain the startd <{answer['machine']}> with {machine}. This only affects the single startd; "
        "any other startds running on the same host will not be drained."
    ]
    if arguments.has("verbose"):
        lines.append(f"\tRequest id: {answer['request']}")
    return _print_answer(arguments, answer, *lines)


def _cancel_drain(arguments: Arguments, machine: str, given_completions: Sequence[str]) -> int:
    for wrong_option in ("check", "reason", "start", *given_completions):
        if arguments.has(wrong_option):
            raise UsageError(f"poolbook drain: -{wrong_option} may not be used with -cancel: omit one of them")
    number = last_number(DRAIN, arguments, "request-id", least=1)
    answer = _ask_machine(DRAIN, arguments, "CancelDrain", machine, drain=number or 0)
    return _print_answer(arguments, answer, f"Sent request to cancel draining on {machine}")


def _is_for_master(arguments: Arguments, daemon: str) -> bool:
    """Return True if a command is for the master of this machine: it names a daemon other than the startd, or the
    startd is a separate process of the master."""
    if daemon.lower() not in ("", "startd") or arguments.has("all"):
        return True
    url = selected_log(arguments, "pool", "addr", "name")
    return master.process_of(url, "STARTD") == "STARTD" and all(map(is_this_pool, arguments.words))


# How to shut down -> the output of condor_off.
_OFF = {
    "Peaceful": (
        'Sent "Set-Peaceful-Shutdown" command to {startd}',
        'Sent "Kill-Daemon-Peacefully" command to {master}',
    ),
    "Graceful": ('Sent "Kill-Daemon" command for "startd" to {master}',),
    "Fast": ('Sent "Kill-Daemon-Fast" command for "startd" to {master}',),
}


def _switch_part(command: ToolSyntax, arguments: Arguments, daemon: str, message: str) -> int:
    """Turn a part of the manager of the log on or off."""
    body = {"kind": "SwitchDaemons", "daemon": daemon, "on": command is ON, "everywhere": arguments.has("all")}
    return _print_answer(arguments, ask(_served_log(command, arguments), body), message)


def off(argv: Sequence[str]) -> int:
    arguments = parse(OFF, argv)
    if len(arguments.words) > 1:
        raise UsageError("poolbook off: specify only one machine")
    daemon = master.daemon_option(arguments)
    if is_part_of_manager(daemon.upper()):
        return _switch_part(OFF, arguments, daemon, master.off_message(arguments, daemon))
    if _is_for_master(arguments, daemon):
        return master.off(arguments, daemon if daemon or arguments.has("all") else "startd")
    shutdown_kind = (arguments.last_name("peaceful", "graceful", "fast") or "graceful").capitalize()
    machine = arguments.words[0] if arguments.words else ""
    answer = _ask_machine(OFF, arguments, "ShutDown", machine, machine=machine or host_name(), how=shutdown_kind)
    target_names = {name: f"{name} {machine}" if machine else f"local {name}" for name in ("startd", "master")}
    return _print_answer(arguments, answer, *(line.format(**target_names) for line in _OFF[shutdown_kind]))


def on(argv: Sequence[str]) -> int:
    arguments = parse(ON, argv)
    daemon = master.daemon_option(arguments)
    if is_part_of_manager(daemon.upper()):
        return _switch_part(ON, arguments, daemon, master.on_message(daemon))
    if _is_for_master(arguments, daemon):
        return master.on(arguments, daemon if daemon or arguments.has("all") else "startd")
    return _send_to_machine(ON, argv, "ComeBack", 'Sent "Spawn-Daemon" command for "startd" to local master')


def restart(argv: Sequence[str]) -> int:
    arguments = parse(RESTART, argv)
    master.check_is_here(arguments, "restart")
    daemon = master.daemon_option(arguments)
    if not daemon or _is_for_master(arguments, daemon):
        return master.restart(arguments, daemon)
    speed = master.restart_speed(arguments)
    answer = _ask_machine(RESTART, arguments, "ShutDown", host_name(), how=speed.capitalize(), restart=True)
    return _print_answer(arguments, answer, master.restart_message(daemon, speed))


def reconfig(argv: Sequence[str]) -> int:
    arguments = parse(RECONFIG, argv)
    daemon = master.daemon_option(arguments)
    if daemon or master.process_of(selected_log(arguments, "pool", "addr", "name"), "STARTD") is not None:
        message = f'Sent "Reconfig" command to local {daemon or "master"}'
        return master.send(arguments, "reconfig", daemon, "", message)
    return _send_to_machine(RECONFIG, argv, "ReadConfiguration", 'Sent "Reconfig" command to local master')


def reschedule(argv: Sequence[str]) -> int:
    return _send_to_machine(RESCHEDULE, argv, "Reschedule", 'Sent "Reschedule" command to local schedd', "name")


def _send_to_machine(command: ToolSyntax, argv: Sequence[str], kind: str, done_text: str, *option_names: str) -> int:
    arguments = parse(command, argv)
    for word in arguments.words:
        if not is_this_pool(word):
            error_text = f"poolbook {command.name}: {word!r} is not an option; the command only affects this machine"
            raise NotHere(error_text, unknown_host(word)[0]) if called_tool() else UsageError(error_text)
    option_values = {name: arguments.value(name) for name in option_names if arguments.has(name)}
    answer = ask(_served_log(command, arguments), {"kind": kind, **option_values})
    for warning in answer.get("warnings", ()):
        print(f"poolbook {command.name}: warning: {warning}", file=sys.stderr)
    return _print_answer(arguments, answer, done_text)

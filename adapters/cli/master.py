"""``poolbook master``: run the daemons of this machine. Also the commands to a running master: off, on, restart,
reconfig, set_shutdown."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..condor_tools.options import (
    Arguments,
    NotHere,
    ToolError,
    UsageError,
    command_table,
    parse,
)
from ..runtime.elsewhere import is_elsewhere
from ..stores.log_paths import log_paths
from .common import is_this_pool, log_option, selected_log, unknown_host

if TYPE_CHECKING:
    from ..master.daemon_commands import MasterOptions
    from ..master.service import MachineConfiguration

MASTER = command_table("master")
SET_SHUTDOWN = command_table("set_shutdown")
_STANDARD: Final = ("collector", "master", "negotiator", "schedd", "startd")
_BROKER: Final = ("broker-port", "nats", "credentials")
_NAMED: Final = ("daemon", "subsystem")
_RESTARTS: Final = {"peaceful": "Restart-Peaceful", "graceful": "Restart", "fast": "Restart-Fast"}
_KILLS: Final = {"peaceful": "-Peacefully", "graceful": "", "fast": "-Fast"}


def master(argv: Sequence[str]) -> int:
    arguments = parse(MASTER, argv)
    if arguments.words:
        raise UsageError(f"poolbook master: {arguments.words[0]!r} is not an option; use -config FILE and -log FILE")
    url = selected_log(arguments)
    if arguments.has("events"):
        return _print_events(log_paths(url).master_folder)
    from ..master.service import MasterService

    options = _options(arguments, url)
    with closing(MasterService(options.folder, lambda: _load(options, arguments), _print)) as service:
        if not service.machine.policy.starts_master:
            print("poolbook: START_MASTER is false: the master is not started")
            return 0
        then = service.run()
    sys.stdout.flush()
    if then == "Restart":
        from ..master.child_processes import poolbook_arguments

        os.execv(sys.executable, poolbook_arguments("master", *argv))
    if service.shutdown_program:
        os.execv(service.shutdown_program, [service.shutdown_program])
    return 0


def _print(line: str) -> None:
    print(f"poolbook: {line}", flush=True)


def _print_events(folder: Path) -> int:
    from ...domain.master.transitions import line_of
    from ..master.journal import read_journal
    from ..master.service import JOURNAL

    for transition in read_journal(folder / JOURNAL):
        if line := line_of(transition):
            print(f"{datetime.fromtimestamp(transition.at / 1_000_000):%Y-%m-%d %H:%M:%S}  {line}")
    return 0


def _options(arguments: Arguments, url: str) -> MasterOptions:
    from ..master.daemon_commands import MasterOptions
    from ..runtime.config_sources import config_files

    options = [f"-{name}" for name in ("group", "lost", "ignore-unenforced") if arguments.has(name)]
    broker = [word for each in arguments.all_given(*_BROKER) for word in (f"-{each.name}", *each.values)]
    files = [str(path.absolute()) for path in config_files(arguments.values("config"))]
    return MasterOptions(
        url, tuple(files), arguments.value("listen"), arguments.value("dialect"), arguments.value("http"),
        tuple(options), ("-users",) if arguments.has("users") else (), tuple(broker),
    )  # fmt: skip


def _load(options: MasterOptions, arguments: Arguments) -> MachineConfiguration:
    """Read the configuration of the master. Raise `ConfigError` if it is invalid."""
    from ...domain.coverage.settings import DAEMON_LIST, parse_daemon_list
    from ...domain.master.daemon_list import POOL, read_daemon_list
    from ...domain.master.master_settings import read_policy
    from ...domain.state_machines import DEFAULT_DIALECT, HTCONDOR_25, dialect_named
    from ..master.daemon_commands import DaemonCommands
    from ..master.service import MachineConfiguration
    from ..runtime.companions import companion_commands
    from ..runtime.configuration import load

    configuration = load(options.files, subsystem="MASTER", local_name=arguments.value("local-name"))
    files = list(options.files)
    listed_names = parse_daemon_list(configuration.get(DAEMON_LIST))
    companions = listed_names & companion_commands(options.url, configuration, files).keys()
    listed = read_daemon_list(configuration, companions, separate=bool(options.listen))
    is_pool = any(daemon.kind == POOL for daemon in listed.daemons)
    dialect = dialect_named(options.dialect or (DEFAULT_DIALECT if is_pool else HTCONDOR_25.name))
    commands = DaemonCommands(options, listed, configuration, lambda log: companion_commands(log, configuration, files))
    with_had = [name for name, daemon in commands.daemons.items() if "HAD" in daemon.parts]
    policy = read_policy(configuration, commands.daemons, dialect.gives_up_dying_daemons, with_had)
    return MachineConfiguration(configuration, listed, policy, commands)


# Commands to a running master


def restart(arguments: Arguments, daemon: str) -> int:
    """Carry out ``poolbook restart`` for a daemon (empty: the master)."""
    speed = restart_speed(arguments)
    return send(arguments, "restart", daemon, speed, restart_message(daemon, speed))


def restart_speed(arguments: Arguments) -> str:
    return arguments.last_name(*_RESTARTS) or "graceful"


def restart_message(daemon: str, speed: str) -> str:
    return f'Sent "{_RESTARTS[speed]}" command to local {_shown(daemon) or "master"}'


def set_shutdown(argv: Sequence[str]) -> int:
    arguments = parse(SET_SHUTDOWN, argv)
    check_is_here(arguments, "set_shutdown")
    if not arguments.has("exec"):
        raise UsageError("poolbook set_shutdown: name the program: -exec NAME, for the setting MASTER_SHUTDOWN_NAME")
    message = 'Sent "Set-Shutdown-Program" command to local master'
    return send(arguments, "set_shutdown", arguments.value("exec"), "", message)


def off(arguments: Arguments, daemon: str) -> int:
    """Carry out ``poolbook off`` for a daemon (empty: all but the master)."""
    check_is_here(arguments, "off")
    speed = arguments.last_name(*_KILLS) or "graceful"
    return send(arguments, "off", daemon, speed, off_message(arguments, daemon))


def off_message(arguments: Arguments, daemon: str) -> str:
    """Return what condor_off prints."""
    suffix = _KILLS[arguments.last_name(*_KILLS) or "graceful"]
    kind, target = ("Kill-Daemon", f' for "{_shown(daemon)}"') if daemon else ("Kill-All-Daemons", "")
    return f'Sent "{kind}{suffix}" command{target} to local master'


def on(arguments: Arguments, daemon: str) -> int:
    """Carry out ``poolbook on`` for a daemon (empty: all)."""
    check_is_here(arguments, "on")
    return send(arguments, "on", daemon, "", on_message(daemon))


def on_message(daemon: str) -> str:
    """Return what condor_on prints."""
    is_named = daemon and daemon.lower() != "master"
    command = f'"Spawn-Daemon" command for "{_shown(daemon)}"' if is_named else '"Spawn-All-Daemons" command'
    return f"Sent {command} to local master"


def daemon_option(arguments: Arguments) -> str:
    """Return the daemon that the options name, or an empty string; the manual writes ``-subsystem -had``. Raise
    `UsageError` if they name several."""
    given = list(arguments.all_given(*_STANDARD, *_NAMED))
    if len(given) > 1:
        raise UsageError(f"{given[1].spelling}: name only one daemon")
    return "".join(option.values[0].removeprefix("-") if option.values else option.name for option in given)


def process_of(url: str, daemon: str) -> str | None:
    """Return the process of a daemon (empty: there is none), or None if no master runs for the log at ``url``."""
    from ..master.client import ask_master

    answer = None if is_elsewhere(url) else ask_master(url, command="find", daemon=daemon)
    return None if answer is None else str(answer["process"])


def check_is_here(arguments: Arguments, command: str) -> None:
    for word in arguments.words:
        if not is_this_pool(word):
            text = f"poolbook {command}: {word}: the master of another machine is commanded on that machine"
            raise NotHere(text, unknown_host(word)[0])


def _shown(daemon: str) -> str:
    return daemon.lower() if daemon.lower() in _STANDARD else daemon


def send(arguments: Arguments, command: str, daemon: str, speed: str, message: str) -> int:
    """Send a command to the master of the log, and print the message. Raise `ToolError` if no master is running."""
    from ..master.client import ask_master

    url = selected_log(arguments, "pool", "name", "addr")
    answer = ask_master(url, command=command, daemon=daemon, how=speed.capitalize())
    if answer is None:
        raise ToolError(
            f"poolbook {command}: no master is running for this log; start it with `poolbook master{log_option(url)}`"
        )
    for warning in answer.get("warnings", ()):
        print(f"poolbook {command}: warning: {warning}", file=sys.stderr)
    print(json.dumps(answer, indent=2) if arguments.has("json") else message)
    return 0

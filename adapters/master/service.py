"""Run a machine's master: supervise its daemons, send mails about them, and accept commands on a private socket."""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...domain.errors import PoolbookError
from ...domain.master import transitions as t
from ...domain.master.obituary import obituary
from ...domain.master.supervision import MasterRefusal, Supervision
from ...domain.ports.world import Mail
from ...domain.units import SECOND
from ..machine.host import host_name
from ..machine.mail import Mailer, MailSettings
from ..machine.stop_signals import GRACEFUL, STOP_SIGNALS
from ..runtime.daemon_logs.log_settings import log_settings
from ..sockets import listen, make_private, peer_of
from .child_processes import ChildProcesses
from .client import SOCKET
from .installed_version import installed_version
from .journal import Journal
from .master_log import MasterLog

if TYPE_CHECKING:
    from ...domain.config import Configuration
    from ...domain.master.daemon_list import DaemonList, ListedDaemon
    from ...domain.master.master_settings import MasterPolicy
    from .daemon_commands import DaemonCommands

JOURNAL: Final = "transitions.jsonl"
_REQUEST_S: Final = 2.0
_LONGEST_REQUEST: Final = 1 << 16
_SIGNALS: Final[Mapping[int, str]] = {signal.SIGINT: GRACEFUL, signal.SIGHUP: "", **STOP_SIGNALS}
"""How the master stops after each signal; empty: it reads the configuration again."""


class MachineConfiguration:
    """What a master reads from its configuration."""

    def __init__(
        self, configuration: Configuration, listed: DaemonList, policy: MasterPolicy, commands: DaemonCommands
    ) -> None:
        self.configuration, self.listed, self.policy, self.commands = configuration, listed, policy, commands

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(daemon.name for daemon in self.listed.daemons)

    @property
    def startds(self) -> tuple[str, ...]:
        return tuple(daemon.name for daemon in self.listed.daemons if daemon.runs_jobs)


class MasterService:
    """A running master. ``load`` reads the configuration, and ``warn`` prints a line."""

    def __init__(self, folder: Path, load: Callable[[], MachineConfiguration], warn: Callable[[str], None]) -> None:
        """Raise `ConfigError` if the configuration is invalid, `OSError` if the folder cannot be used, `MasterRefusal`
        if another master uses it."""
        self._load, self._warn, self._folder = load, warn, folder
        self.machine = load()
        make_private(folder)
        self._lock = _locked(folder / "lock")
        self._journal = Journal(folder / JOURNAL)
        self._log: MasterLog | None = None
        self._selector = selectors.DefaultSelector()
        self._offset = time.time() - time.monotonic()  # a set clock neither delays nor hastens a restart
        self._supervision = Supervision(self.machine.policy, self._record)
        self._children = ChildProcesses(
            self._supervision, lambda name: self.machine.commands.command(name), self._watch, self._unwatch, self.now,
            self._process_transition,
        )  # fmt: skip
        self._mailer = Mailer(self._watch, self._unwatch, self._report_mail)
        self._signals: deque[int] = deque()
        self._mails = 0
        self._checks_at: int | None = None

    def now(self) -> int:
        return round((time.monotonic() + self._offset) * SECOND)

    def _watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def _unwatch(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)

    def _record(self, transition: t.Transition) -> None:
        self._journal.append(transition)
        if self._log is not None:
            self._log.write(transition)
        if line := t.line_of(transition):
            self._warn(line)

    # The loop

    def run(self) -> str:
        """Run until the master ends; return Exit or Restart."""
        with self._catching_signals(), self._listening():
            self._apply()
            self._children.act(
                self._supervision.begin(self.now(), installed_version(), self.machine.names, self.machine.startds)
            )
            self._checks_at = self._supervision.next_version_check(self.now())
            while not self._supervision.master.has_ended:
                self._step()
        return self._supervision.master.then

    @property
    def shutdown_program(self) -> str:
        return self._supervision.master.shutdown_program

    def close(self) -> None:
        self._children.close()
        self._mailer.close()
        self._selector.close()
        self._journal.close()
        os.close(self._lock)

    def _step(self) -> None:
        for key, _ in self._selector.select(self._seconds_until_due()):
            key.data()
        while self._signals:
            self._on_signal(self._signals.popleft())
        self._mailer.end_overdue_program()
        if self._checks_at is not None and self._checks_at <= self.now():
            self._check_version()
        self._children.tick()

    def _seconds_until_due(self) -> float | None:
        times = [time for time in (self._supervision.due(), self._checks_at) if time is not None]
        waits = [max(0.0, (time - self.now()) / SECOND) for time in times]
        mail = self._mailer.seconds_to_deadline()
        return min([*waits, *([] if mail is None else [mail])], default=None)

    def _check_version(self) -> None:
        master, version = self._supervision.master, installed_version()
        if version != master.version and not master.is_ending:
            self._children.act(self._supervision.new_version(self.now(), version))
        self._checks_at = self._supervision.next_version_check(self.now())

    @contextmanager
    def _catching_signals(self) -> Iterator[None]:
        receiver, sender = socket.socketpair()
        receiver.setblocking(False)
        sender.setblocking(False)
        self._watch(receiver.fileno(), lambda: self._signals.extend(receiver.recv(4096)))
        handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        signal.set_wakeup_fd(sender.fileno())
        try:
            yield
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._unwatch(receiver.fileno())
            receiver.close()
            sender.close()

    def _on_signal(self, number: int) -> None:
        how = _SIGNALS.get(number)
        if how:
            self._children.act(self._supervision.end(self.now(), "Exit", how))
        elif how is not None:
            self._reconfigure()

    # Configuration and mail

    def _apply(self) -> None:
        machine = self.machine
        self._supervision.policy = machine.policy
        self._mailer.settings = MailSettings.from_configuration(machine.configuration)
        settings = log_settings(lambda _: machine.configuration)
        self._log = (
            None
            if settings is None
            else MasterLog(settings, self._folder, self._folder / JOURNAL, self._program_of, self._warn)
        )
        for warning in machine.listed.warnings:
            self._warn(f"warning: {warning}")

    def _reconfigure(self) -> str:
        """Read the configuration again; return why it is rejected, or an empty string."""
        try:
            self.machine = self._load()
        except PoolbookError as error:
            self._warn(f"the configuration is not changed: {error}")
            return str(error)
        self._apply()
        machine = self.machine
        self._children.act(self._supervision.reconfigure(self.now(), machine.names, machine.startds))
        self._checks_at = self._supervision.next_version_check(self.now())
        return ""

    def _program_of(self, name: str) -> tuple[str, bool]:
        """Return a daemon's program, and whether it is one of Poolbook's daemons."""
        daemon = self.machine.commands.daemons.get(name)
        return (daemon.command[0], False) if daemon and daemon.command else (f"condor_{name.lower()}", True)

    def _process_transition(self, transition: t.Transition) -> None:
        if isinstance(transition, t.ObituaryDue | t.DaemonGivenUp):
            self._send_mail(transition)

    def _send_mail(self, death: t.ObituaryDue | t.DaemonGivenUp) -> None:
        configuration, name = self.machine.configuration, death.daemon
        program, _ = self._program_of(name)
        setting = f"{name}_LOG"
        is_set = configuration.is_defined(setting) and configuration.source(setting).kind != "default"
        log = Path(configuration.get(setting)) if is_set else self._folder / f"{name}.log"
        lines = self.machine.policy.obituary_lines
        names = ("EMAIL_SIGNATURE", "CONDOR_SUPPORT_EMAIL", "CONDOR_ADMIN")
        settings = {each: configuration.get(each) for each in names}
        subject, text = obituary(death, program, host_name(), settings, str(log), _last_lines(log, lines), lines)
        to = configuration.get(f"{name}_ADMIN_EMAIL") or settings["CONDOR_ADMIN"]
        self._mails += 1
        self._mailer.send(Mail(self._mails, tuple(to.replace(",", " ").split()), subject, text))

    def _report_mail(self, mail: Mail, failure: str) -> None:
        if failure:
            self._warn(f"warning: a mail to {', '.join(mail.to)} was not sent: {failure}")

    # Commands

    @contextmanager
    def _listening(self) -> Iterator[None]:
        listener = listen(self._folder / SOCKET, 16, 0o600)
        self._watch(listener.fileno(), partial(self._accept, listener))
        try:
            yield
        finally:
            self._unwatch(listener.fileno())
            listener.close()
            with suppress(FileNotFoundError):
                (self._folder / SOCKET).unlink()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError), listener.accept()[0] as connection:
            connection.settimeout(_REQUEST_S)
            if peer_of(connection) not in (0, os.geteuid()):
                answer = {"refusal": "only the user of the master, and root, may command it"}
            else:
                answer = self._answer(connection.makefile("rb").readline(_LONGEST_REQUEST))
            connection.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            return self._execute(request["command"], request.get("daemon", ""), request.get("how") or GRACEFUL)
        except (PoolbookError, ValueError, KeyError, TypeError) as error:
            return {"refusal": str(error)}

    def _execute(self, command: str, part: str, how: str) -> dict[str, Any]:
        supervision, act, now = self._supervision, self._children.act, self.now()
        if part.upper() in ("", "MASTER"):
            return self._execute_for_all(command, "Exit" if part else "Off", how)
        if command == "set_shutdown":
            name = f"MASTER_SHUTDOWN_{part.upper()}"
            program = self.machine.configuration.get(name)
            if not program:
                raise MasterRefusal(f"{name} is not set; set it to the path of the program")
            act(supervision.set_shutdown_program(now, part.upper(), program))
            return {}
        if command == "find":
            listed = self.machine.listed.select(part)
            return {"process": "" if listed is None else listed.name}
        daemon, warnings = self._process_of(part, command)
        match command:
            case "off":
                act(supervision.off(now, [daemon], how))
            case "on":
                act(supervision.on(now, [daemon]))
            case "restart":
                act(supervision.restart(now, daemon, how))
            case "reconfig":
                self._children.reconfigure(daemon)
            case _:
                raise MasterRefusal(f"{command} is not a command of the master")
        return {"warnings": warnings, "process": daemon}

    def _execute_for_all(self, command: str, then: str, how: str) -> dict[str, Any]:
        supervision, act, now = self._supervision, self._children.act, self.now()
        controlled = self.machine.policy.controlled
        match command:
            case "off":
                act(supervision.end(now, then, how))
            case "on":
                act(supervision.on(now, [name for name in supervision.master.daemons if name not in controlled]))
            case "restart":
                act(supervision.end(now, "Restart", how))
            case "reconfig":
                if why := self._reconfigure():
                    raise MasterRefusal(why)
            case _:
                raise MasterRefusal(f"{command} is not a command of the master")
        return {}

    def _process_of(self, part: str, command: str) -> tuple[str, list[str]]:
        """Return the process that does the work of a daemon, and warnings about its other parts."""
        daemon: ListedDaemon | None = self.machine.listed.select(part)
        if daemon is None or daemon.name not in self._supervision.master.daemons:
            names = ", ".join(part for each in self.machine.listed.daemons for part in each.parts)
            raise MasterRefusal(f"there is no daemon {part} here; the daemons of this machine are {names or 'none'}")
        others = [each for each in daemon.parts if each != part.upper()]
        if not others or part.upper() == daemon.name != "COLLECTOR" or command == "reconfig":
            return daemon.name, []
        same = f"{', '.join(daemon.parts)} are one process"
        if daemon.name == "POOL":
            raise MasterRefusal(
                f"{same}, POOL: `poolbook {command} -daemon POOL` affects all of them; a master with -listen runs a "
                f"process for each role"
            )
        return daemon.name, [f"{same}: this also affects {', '.join(others)}"]


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise MasterRefusal(f"another master runs in {path.parent}: stop it first, or use another log") from None
    return descriptor


def _last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a file, or nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 1000 * count))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-count:] if count else []

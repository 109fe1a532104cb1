"""Decide when the daemons of a machine are started, stopped and started again.

The caller passes what happened and the time; `Supervision` returns the resulting transitions, which the caller appends
to the master's log before it acts on them. A transition has been folded into the state when it is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from attrs import Factory, define

from ..errors import PoolbookError
from ..units import SECOND
from . import transitions as t
from .master_settings import NEVER, SPEEDS, MasterPolicy

NO_RESTART: Final = 99  #: the exit code with which a daemon asks not to be started again
_MAILS: Final = 4  #: the number of deaths in a row that are mailed
_MAIL_LESS: Final = frozenset({0, -9, NO_RESTART})  #: exit codes without a mail: an administrator sends signal 9
_FIRST_CHECK_S: Final = 5  #: after the start, until the first check for a new version


class MasterRefusal(PoolbookError):
    """A command that the master rejects."""


@define
class Daemon:
    """The state of a daemon. Times are microseconds since the epoch, or None."""

    pid: int = 0  #: 0: it is not running
    deaths: int = 0  #: in a row
    starts_at: int | None = None
    recovers_at: int | None = None
    stop: str = ""  #: how it is being stopped (empty: it is not)
    escalates_at: int | None = None
    again: bool = False  #: it is being stopped to be started again
    held: bool = False  #: it is not to run
    is_removed: bool = False  #: the configuration does not list it any more


@define
class Master:
    """The state of a master, changed only by `fold`."""

    daemons: dict[str, Daemon] = Factory(dict)
    startds: tuple[str, ...] = ()
    version: str = ""
    began: int = 0
    then: str = ""  #: as in `EndBegan`; empty: the daemons are not all being stopped
    how: str = ""
    delay: int = 0
    ends_at: int | None = None
    has_ended: bool = False
    shutdown_program: str = ""  #: the program to run when the master has exited

    @property
    def is_ending(self) -> bool:
        """Return True if the master itself is going to end, so that no daemon is started."""
        return self.then in ("Exit", "Restart")


def fold(master: Master, transition: t.Transition) -> None:
    """Change the state by a transition."""
    if isinstance(transition, t.DaemonTransition):
        _fold_daemon(master, master.daemons[transition.daemon], transition)
    else:
        _fold_master(master, transition)


def _fold_master(master: Master, transition: t.Transition) -> None:
    match transition:
        case t.MasterBegan(at, version, daemons, startds, held):
            master.daemons = {name: Daemon(held=held) for name in daemons}
            master.startds, master.version, master.began = startds, version, at
            master.then, master.how, master.delay, master.ends_at, master.has_ended = "", "", 0, None, False
        case t.Reconfigured(_, daemons, startds):
            for name in daemons:
                master.daemons.setdefault(name, Daemon())
            for name, daemon in master.daemons.items():
                daemon.is_removed = name not in daemons
            master.daemons = {name: each for name, each in master.daemons.items() if each.pid or not each.is_removed}
            master.startds = startds
        case t.EndBegan(_, then, how, delay):
            master.then, master.how, master.delay, master.ends_at = then, how, delay, None
            for daemon in master.daemons.values():
                daemon.held, daemon.starts_at = True, None
        case t.AllDaemonsEnded(_, ends_at):
            master.ends_at = ends_at
            master.then = master.then if master.is_ending else ""
        case t.MasterEnded():
            master.has_ended, master.ends_at = True, None
        case t.VersionChanged(_, _, new):
            master.version = new
        case t.ShutdownProgramSet(_, _, program):
            master.shutdown_program = program


def _fold_daemon(master: Master, daemon: Daemon, transition: t.DaemonTransition) -> None:
    match transition:
        case t.DaemonLaunched():
            daemon.starts_at = None
        case t.DaemonStarted(_, _, pid, recovers_at):
            daemon.pid, daemon.recovers_at = pid, recovers_at
        case t.DaemonExited():
            daemon.pid, daemon.stop, daemon.again = 0, "", False
            daemon.recovers_at = daemon.escalates_at = None
            if daemon.is_removed:
                del master.daemons[transition.daemon]
        case t.RestartScheduled(at, _, seconds, deaths):
            daemon.starts_at, daemon.deaths = at + seconds * SECOND, deaths
        case t.DaemonGivenUp(_, _, deaths):
            daemon.held, daemon.deaths = True, deaths
        case t.DaemonRecovered():
            daemon.deaths, daemon.recovers_at = 0, None
        case t.DaemonHeld(_, _, held):
            daemon.held = held
            daemon.starts_at = None
        case t.StopBegan(_, _, how, escalates_at, again):
            daemon.stop, daemon.escalates_at, daemon.again = how, escalates_at, again


class Supervision:
    """A master's decisions. ``record`` receives each transition when it is folded; ``policy`` may be replaced."""

    def __init__(self, policy: MasterPolicy, record: Callable[[t.Transition], None] = lambda _: None) -> None:
        self.policy = policy
        self.master = Master()
        self._record = record

    def _emit(self, *new_transitions: t.Transition) -> list[t.Transition]:
        for transition in new_transitions:
            self._record(transition)
            fold(self.master, transition)
        return list(new_transitions)

    # What happens

    def begin(self, now: int, version: str, daemons: Sequence[str], startds: Sequence[str] = ()) -> list[t.Transition]:
        """Start the daemons in this order, unless START_DAEMONS is false."""
        held = not self.policy.starts_daemons
        begun = self._emit(t.MasterBegan(now, version, tuple(daemons), tuple(startds), held))
        begun += self._leave_to_had(now, daemons)
        return begun + [each for name in daemons for each in self._launch(now, name)]

    def started(self, now: int, daemon: str, pid: int) -> list[t.Transition]:
        recovers_at = now + self.policy.back_off_of(daemon).recover * SECOND
        return self._emit(
            t.DaemonStarted(now, daemon, pid, recovers_at if self.master.daemons[daemon].deaths else None)
        )

    def not_started(self, now: int, daemon: str, error: str) -> list[t.Transition]:
        return self._emit(t.DaemonNotStarted(now, daemon, error)) + self._schedule(now, daemon)

    def exited(self, now: int, daemon: str, code: int) -> list[t.Transition]:
        """Decide about a daemon that has ended. ``code`` is as in `DaemonExited`."""
        state, master = self.master.daemons[daemon], self.master
        is_stopped = bool(state.stop and not state.again)
        expected = code == 0 and (is_stopped or state.held or master.is_ending or state.is_removed)
        made = self._emit(t.DaemonExited(now, daemon, state.pid, code, expected))
        if daemon not in master.daemons:
            return made + self._continue_end(now)
        if code == NO_RESTART:
            made += self._emit(t.DaemonHeld(now, daemon, True))
        if not master.then:
            made += self._obituary(now, daemon, code)
        if not master.is_ending:
            made += self._schedule(now, daemon, was_stopped=expected)
        if not master.then:  # another manager becomes active
            controlled = (name for name, had in self.policy.controlled.items() if had == daemon)
            made += self.off(now, [name for name in controlled if name in master.daemons], "Fast")
        return made + self._continue_end(now)

    def tick(self, now: int) -> list[t.Transition]:
        """Decide what is due."""
        made: list[t.Transition] = []
        for name, daemon in list(self.master.daemons.items()):
            if daemon.starts_at is not None and daemon.starts_at <= now:
                made += self._launch(now, name)
            if daemon.recovers_at is not None and daemon.recovers_at <= now:
                made += self._emit(t.DaemonRecovered(now, name))
            if daemon.escalates_at is not None and daemon.escalates_at <= now:
                made += self._stop(now, name, SPEEDS[SPEEDS.index(daemon.stop) + 1], again=daemon.again)
        if self.master.ends_at is not None and self.master.ends_at <= now:
            made += self._emit(t.MasterEnded(now, self.master.then))
        return made

    def due(self) -> int | None:
        """Return when `tick` must be called, or None if nothing is due."""
        times = [self.master.ends_at]
        for daemon in self.master.daemons.values():
            times += [daemon.starts_at, daemon.recovers_at, daemon.escalates_at]
        return min((time for time in times if time is not None), default=None)

    def next_version_check(self, now: int) -> int | None:
        """Return the first time after `now` at which to check for a new version, or None if never."""
        if not self.policy.check_interval or self.policy.new_binary == NEVER:
            return None
        first, interval = self.master.began + _FIRST_CHECK_S * SECOND, self.policy.check_interval * SECOND
        return first if now < first else first + ((now - first) // interval + 1) * interval

    # Commands

    def new_version(self, now: int, version: str) -> list[t.Transition]:
        """Restart for another version, if MASTER_NEW_BINARY_RESTART allows that."""
        mode = self.policy.new_binary
        made = self._emit(t.VersionChanged(now, self.master.version, version, mode))
        return made if mode == NEVER else made + self.end(now, "Restart", mode, self.policy.new_binary_delay)

    def off(self, now: int, daemons: Iterable[str], how: str) -> list[t.Transition]:
        made: list[t.Transition] = []
        for name in daemons:
            made += self._emit(t.DaemonHeld(now, name, True)) + self._stop(now, name, how)
        return made

    def on(self, now: int, daemons: Iterable[str]) -> list[t.Transition]:
        if self.master.is_ending:
            raise MasterRefusal("the master is ending; start it again to start daemons")
        made: list[t.Transition] = []
        for name in daemons:
            made += self._emit(t.DaemonHeld(now, name, False)) + self._launch(now, name)
        return made

    def restart(self, now: int, daemon: str, how: str) -> list[t.Transition]:
        """Stop a daemon, so that it is started again after its back-off, as in HTCondor."""
        if not self.master.daemons[daemon].pid:
            raise MasterRefusal(f"{daemon} is not running; `poolbook on -daemon {daemon}` starts it")
        return self._stop(now, daemon, how, again=True)

    def reconfigure(self, now: int, daemons: Sequence[str], startds: Sequence[str] = ()) -> list[t.Transition]:
        """Start daemons that are new in the configuration, stop daemons that it no longer lists. A wait that has
        begun keeps its length."""
        old = set(self.master.daemons)
        made = self._emit(t.Reconfigured(now, tuple(daemons), tuple(startds)))
        for name in [name for name, daemon in self.master.daemons.items() if daemon.is_removed]:
            made += self._stop(now, name, "Graceful")
        made += self._leave_to_had(now, [name for name in daemons if name not in old])
        if not self.policy.starts_daemons:
            return made + self.end(now, "Off", "Graceful")
        return made + [each for name in daemons if name not in old for each in self._launch(now, name)]

    def end(self, now: int, then: str, how: str, delay: int = 0) -> list[t.Transition]:
        """Stop all daemons; the ones that run jobs first, unless it is to be fast."""
        return self._emit(t.EndBegan(now, then, how, delay)) + self._continue_end(now)

    def set_shutdown_program(self, now: int, name: str, program: str) -> list[t.Transition]:
        return self._emit(t.ShutdownProgramSet(now, name, program))

    # Steps

    def _leave_to_had(self, now: int, daemons: Iterable[str]) -> list[t.Transition]:
        """Do not start those daemons that HAD starts."""
        return self._emit(*(t.DaemonHeld(now, name, True) for name in daemons if name in self.policy.controlled))

    def _launch(self, now: int, daemon: str) -> list[t.Transition]:
        state = self.master.daemons[daemon]
        if state.held or state.pid or self.master.is_ending:
            return []
        return self._emit(t.DaemonLaunched(now, daemon))

    def _schedule(self, now: int, daemon: str, was_stopped: bool = False) -> list[t.Transition]:
        state = self.master.daemons[daemon]
        if state.held:
            return []
        if was_stopped:
            return self._emit(t.RestartScheduled(now, daemon, 1, 0))
        back_off = self.policy.back_off_of(daemon)
        if self.policy.gives_up and state.deaths >= _MAILS and back_off.is_exhausted(state.deaths):
            return self._emit(t.DaemonGivenUp(now, daemon, state.deaths + 1))
        return self._emit(t.RestartScheduled(now, daemon, back_off.seconds(state.deaths), state.deaths + 1))

    def _obituary(self, now: int, daemon: str, code: int) -> list[t.Transition]:
        state = self.master.daemons[daemon]
        if not self.policy.obituaries or code in _MAIL_LESS or state.deaths >= _MAILS:
            return []
        seconds = None if state.held else self.policy.back_off_of(daemon).seconds(state.deaths)
        return self._emit(t.ObituaryDue(now, daemon, code, seconds))

    def _stop(self, now: int, daemon: str, how: str, again: bool = False) -> list[t.Transition]:
        state = self.master.daemons[daemon]
        if not state.pid or (state.stop and SPEEDS.index(state.stop) >= SPEEDS.index(how)):
            return []
        timeout = {"Graceful": self.policy.graceful_timeout, "Fast": self.policy.fast_timeout}.get(how)
        return self._emit(t.StopBegan(now, daemon, how, None if timeout is None else now + timeout * SECOND, again))

    def _continue_end(self, now: int) -> list[t.Transition]:
        master = self.master
        if not master.then or master.ends_at is not None:
            return []
        running = [name for name, daemon in master.daemons.items() if daemon.pid and daemon.held]
        if not running:
            return self._emit(t.AllDaemonsEnded(now, now + master.delay * SECOND if master.is_ending else None))
        first = [name for name in running if name in master.startds]
        waits = first and SPEEDS.index(master.how) < SPEEDS.index("Fast")
        return [each for name in (first if waits else running) for each in self._stop(now, name, master.how)]

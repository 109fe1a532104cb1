"""The transitions of a master and its daemons. The master appends each to its own log before it acts on it.

They are not events of a pool: the log of a pool has one writer, the role itself, which cannot record that it died.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import Struct


class Transition(Struct, frozen=True, tag=True, omit_defaults=True):
    """``at`` is the time in microseconds since the epoch."""

    text: ClassVar[str] = ""  #: the format of its line for the administrator; empty: none

    at: int


class MasterBegan(Transition, frozen=True):
    """A master started. Nothing of an earlier master applies to it."""

    text = "the master of Poolbook {version} runs {daemons}"
    version: str
    daemons: tuple[str, ...]  #: in the order of their start
    startds: tuple[str, ...] = ()  #: the daemons that run jobs; a slow shutdown stops them before the others
    held: bool = False  #: START_DAEMONS = False: no daemon is started until `poolbook on`


class Reconfigured(Transition, frozen=True):
    """The configuration was read again; the running daemons read it, too."""

    text = "the configuration was read again; the daemons are {daemons}"
    daemons: tuple[str, ...]
    startds: tuple[str, ...] = ()


class DaemonTransition(Transition, frozen=True):
    """A transition of one daemon."""

    daemon: str


class DaemonLaunched(DaemonTransition, frozen=True):
    """The master is about to start a daemon's process."""


class DaemonStarted(DaemonTransition, frozen=True):
    """A daemon's process runs."""

    text = "{daemon} was started (pid {pid})"
    pid: int
    recovers_at: int | None = None  #: when its earlier deaths are forgotten


class DaemonNotStarted(DaemonTransition, frozen=True):
    """A daemon's process could not be started."""

    text = "{daemon} cannot be started: {error}"
    error: str


class DaemonExited(DaemonTransition, frozen=True):
    """A daemon's process ended."""

    text = "{daemon} (pid {pid}) {end}"
    pid: int
    code: int  #: its exit code, or the negative number of the signal that ended it
    expected: bool = False  #: it was stopped, and ended without an error


class ObituaryDue(DaemonTransition, frozen=True):
    """The administrator is to receive a mail about a daemon that has ended."""

    text = "a mail about {daemon} is sent"
    code: int  #: as in `DaemonExited`
    seconds: int | None  #: until it is started again (None: it is not)


class RestartScheduled(DaemonTransition, frozen=True):
    """A daemon will be started again."""

    text = "{daemon} is started again in {seconds} s"
    seconds: int
    deaths: int  #: the number of its deaths in a row (0: it was stopped)


class DaemonGivenUp(DaemonTransition, frozen=True):
    """A daemon continued to die, and is not started again. The administrator receives a mail."""

    text = "{daemon} has died {deaths} times in a row, and is not started again until `poolbook on -daemon {daemon}`"
    deaths: int


class DaemonRecovered(DaemonTransition, frozen=True):
    """A daemon has run for so long that its earlier deaths are forgotten."""

    text = "{daemon} has recovered"


class DaemonHeld(DaemonTransition, frozen=True):
    """A daemon is not to run, or may run again."""

    held: bool


class StopBegan(DaemonTransition, frozen=True):
    """A daemon is being stopped, or faster than before."""

    text = "{daemon} is being stopped ({how})"
    how: str  #: a row of `supervision.SPEEDS`
    escalates_at: int | None = None  #: when it is stopped faster, if it still runs
    again: bool = False  #: it is started again, like a daemon that has died


class EndBegan(Transition, frozen=True):
    """All daemons are being stopped."""

    text = "all daemons are being stopped ({how}); then: {then}"
    then: str  #: Off (the master continues), Exit, or Restart (of the master)
    how: str
    delay: int = 0  #: seconds to wait when all daemons have ended


class AllDaemonsEnded(Transition, frozen=True):
    """No daemon runs any more."""

    text = "all daemons have ended"
    ends_at: int | None = None  #: when the master exits or restarts


class MasterEnded(Transition, frozen=True):
    """The master exits, or restarts in the same process."""

    text = "the master ends ({then})"
    then: str


class ShutdownProgramSet(Transition, frozen=True):
    """When the master exits, it runs a program: MASTER_SHUTDOWN_<name>."""

    text = "the program {program} is run when the master exits"
    name: str
    program: str


class VersionChanged(Transition, frozen=True):
    """Another version of Poolbook was installed."""

    text = "Poolbook {new} was installed in place of {old} (MASTER_NEW_BINARY_RESTART = {mode})"
    old: str
    new: str
    mode: str


Any = (
    MasterBegan | Reconfigured | DaemonLaunched | DaemonStarted | DaemonNotStarted | DaemonExited | ObituaryDue
    | RestartScheduled | DaemonGivenUp | DaemonRecovered | DaemonHeld | StopBegan | EndBegan | AllDaemonsEnded
    | MasterEnded | ShutdownProgramSet | VersionChanged
)  # fmt: skip
"""A transition, as the master's log is decoded."""


_SIGNALS: Final = {
    1: "Hangup", 2: "Interrupt", 3: "Quit", 4: "Illegal instruction", 6: "Aborted", 7: "Bus error",
    8: "Floating point exception", 9: "Killed", 11: "Segmentation fault", 13: "Broken pipe", 15: "Terminated",
}  # fmt: skip


def describe_end(code: int) -> str:
    """Describe an exit code, or the negative number of the signal that ended a process."""
    if code >= 0:
        return f"exited with status {code}"
    return f"died due to signal {-code} ({_SIGNALS.get(-code, 'other')})"


def line_of(transition: Transition) -> str:
    """Return the line that describes a transition, or an empty string if it needs none."""
    fields = {name: getattr(transition, name) for name in transition.__struct_fields__}
    if isinstance(transition, DaemonExited):
        fields["end"] = describe_end(transition.code)
    if isinstance(transition, MasterBegan | Reconfigured):
        fields["daemons"] = ", ".join(transition.daemons) or "no daemons"
    return transition.text.format(**fields)

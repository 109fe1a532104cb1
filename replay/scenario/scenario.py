"""The data classes of a scenario, and the error for an invalid scenario."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen

from ...domain.errors import PoolbookError
from .expectations import Measure, Watch
from .scenario_times import ScenarioCalendar

_NOTHING: Mapping[str, str] = MappingProxyType({})


class PlayError(PoolbookError):
    """A scenario cannot be parsed or run. The message contains the reason and the fix."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.message = message
        self.line = line  #: the number of the invalid line, from 1, or 0 if the error has no line


@frozen
class ConfigurationSource:
    """The file of a configuration, or its text after ``line`` of the scenario. ``machine`` is empty if it applies to
    all machines."""

    line: int
    file: str = ""
    text: str = ""
    machine: str = ""


@frozen
class ScenarioMachine:
    """The detected equipment of a machine: cores, MB of memory, KB of disk space for jobs."""

    name: str
    cores: int = 1
    memory: int = 1024
    disk: int = 10_000_000
    line: int = 0


@frozen
class ScenarioStep:
    """A step of a scenario at an instant (microseconds since the start). ``verb`` is one of ``VERBS``, or ``read``
    (readings in ``attributes``), ``reconfigure`` (with ``sources``; if empty, the configuration sources are
    unchanged), ``set`` (settings in ``attributes``) or ``expect`` (in ``expected`` or, for a period, in ``check``).
    ``commands`` are submit commands. ``thing`` is the object's name as written in the scenario; for slots and machines
    it may be a pattern. ``until`` is when a temporary reading or a period ends; if it is 0, the period runs from the
    start of the scenario to ``at``. ``text`` is the line after the time."""

    line: int
    at: int
    verb: str
    text: str
    thing: str = ""
    machine: str = ""
    flags: frozenset[str] = frozenset()
    options: Mapping[str, str] = _NOTHING
    attributes: Mapping[str, str] = _NOTHING
    commands: Mapping[str, str] = _NOTHING
    sources: tuple[ConfigurationSource, ...] = ()
    expected: tuple[str, ...] = ()
    check: Measure | Watch | None = None
    until: int = 0

    @property
    def period(self) -> tuple[int, int]:
        """Return the period of an expectation: from its first instant to its second one, or from the start to its only
        one. To hold in time without a condition before it, a condition has its only instant."""
        if isinstance(self.check, Watch) and self.check.starts_at_once:
            return self.at, self.at
        return (self.at, self.until) if self.until else (0, self.at)

    @property
    def last(self) -> int:
        """Return the instant at which an expectation is decided."""
        watch = self.check if isinstance(self.check, Watch) and self.check.starts_at_once else None
        return self.period[1] + (watch.within or 0 if watch else 0)


@frozen
class Scenario:
    """A parsed scenario. ``steps`` are sorted by instant and then by line, with expectations last. ``clock``: whether
    the start was given, so that times are shown as dates. ``end`` is in microseconds since the start."""

    calendar: ScenarioCalendar
    clock: bool
    dialect: str
    machines: tuple[ScenarioMachine, ...]
    sources: tuple[ConfigurationSource, ...]
    steps: tuple[ScenarioStep, ...]
    end: int

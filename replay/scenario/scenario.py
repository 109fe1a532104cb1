"""What a scenario says, as data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen

from .times import ScenarioCalendar

_NOTHING: Mapping[str, str] = MappingProxyType({})


@frozen
class ConfigurationSource:
    """A part of a configuration: a file's name, or the text itself, which stands in the scenario behind ``line``.
    ``machine`` is empty if it is every machine's."""

    line: int
    file: str = ""
    text: str = ""
    machine: str = ""


@frozen
class ScenarioMachine:
    """What is detected on a machine: cores, MB of memory, KB of disk space where jobs run."""

    name: str
    cores: int = 1
    memory: int = 1024
    disk: int = 10_000_000
    line: int = 0


@frozen
class ScenarioStep:
    """Something that happens at an instant (microseconds since the start).

    ``verb`` is one of ``VERBS``, or ``read`` (readings, in ``attributes``), ``reconfigure`` (by ``sources``; none: as
    before), ``set`` (``attributes`` are settings) or ``expect`` (``flags``: what is expected). ``thing`` is what it is
    done to, as it was written; for slots and machines it may be a pattern. Readings that hold for a while end at
    ``until``. ``words`` is the line as it was written, behind the time."""

    line: int
    at: int
    verb: str
    words: str
    thing: str = ""
    machine: str = ""
    flags: frozenset[str] = frozenset()
    options: Mapping[str, str] = _NOTHING
    attributes: Mapping[str, str] = _NOTHING
    sources: tuple[ConfigurationSource, ...] = ()
    expected: tuple[str, ...] = ()
    until: int = 0


@frozen
class Scenario:
    """``steps`` are in the order of their instants, those of one instant in the order in which they were written;
    expectations come behind all else of their instant. ``clock``: whether its start was written down, so that it is
    told by the clock. ``end``: when it is over."""

    calendar: ScenarioCalendar
    clock: bool
    dialect: str
    machines: tuple[ScenarioMachine, ...]
    sources: tuple[ConfigurationSource, ...]
    steps: tuple[ScenarioStep, ...]
    end: int

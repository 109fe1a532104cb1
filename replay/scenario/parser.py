"""Parse a scenario's text, without running it or reading files.

Lines that begin with one of ``HEADS``, except ``at``, apply from the start, wherever they are in the text. ``at`` lines
take effect at their instants, also in any order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, tzinfo
from typing import NoReturn
from zoneinfo import ZoneInfo, available_timezones

from attrs import define, field

from ...domain.state_machines import DIALECTS
from ...domain.suggestions import did_you_mean
from ...domain.units import SECOND
from .scenario import ConfigurationSource, PlayError, Scenario, ScenarioMachine, ScenarioStep
from .scenario_times import ScenarioCalendar, is_clock, is_time_word, may_have_two_words, start_instant
from .statements import ASSIGNED, MOST, NAME, OTHERS, StatementContext, instant, split, steps_of
from .verbs import VERBS, amount

BEGIN = ("2026-11-02", "08:00")  #: the default start of a scenario, in UTC: a Monday morning
REST = 3600 * SECOND  #: how long a scenario without `until` continues after its last line (microseconds)
DEFAULT = "ws1"  #: the machine of a scenario without `machine` lines
HEADS = {
    "start": "start DATE TIME [ZONE]: when it starts, for example `start 2026-11-02 08:00 Europe/Berlin`",
    "until": "until TIME: when it ends",
    "dialect": f"dialect NAME: {' or '.join(DIALECTS)}",
    "config": "config [for MACHINE] FILE, or without FILE the lines up to `end`",
    "machine": "machine NAME [cores=4 memory=8192 disk=1000000 count=10]",
    "at": "at TIME [to TIME] [every TIME [until TIME]] WHAT",
    "expect": f"{OTHERS['expect']}: at the time of the previous `at` line",
}
_JOB_VERBS = {name for name, verb in VERBS.items() if verb.attributes}
_EQUIPMENT = ("cores", "memory", "disk", "count")
_MACHINE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", re.ASCII)
_ORDER = {"unread": 0, "read": 1, "expect": 3}
"""The order within an instant: readings first, so that the policy uses them; expectations (3) after all other steps
(2)."""


@define
class _ScenarioLines:
    lines: list[str]
    number: int = 0

    def block(self, opened: int) -> str:
        """Return the lines up to ``end``. Raise PlayError if there is no ``end``."""
        first_line = self.number
        while self.number < len(self.lines):
            self.number += 1
            if self.lines[self.number - 1].strip() == "end":
                return "\n".join(self.lines[first_line : self.number - 1]) + "\n"
        raise PlayError("this configuration block is not closed; add a line `end` after it", opened)


@define
class _ScenarioReader:
    text: _ScenarioLines
    start: tuple[int, tzinfo] | None = None
    dialect: str = ""
    until: tuple[int, list[str]] = (0, [])
    machines: dict[str, ScenarioMachine] = field(factory=dict)
    sources: list[ConfigurationSource] = field(factory=list)
    heads: set[str] = field(factory=set)
    dated_lines: list[tuple[int, list[str], tuple[ConfigurationSource, ...]]] = field(factory=list)
    """The line number, words and configuration of each `at` line, parsed when all machines and the start are known."""

    def check_once(self, head: str) -> None:
        if head in self.heads:
            raise ValueError(f"a scenario can have only one `{head}` line; remove this one or the other")
        self.heads.add(head)

    def read_start(self, words: list[str]) -> None:
        self.check_once("start")
        if not 1 < len(words) < 4:
            raise_usage("start")
        zone = _parse_zone(words[2]) if len(words) > 2 else UTC
        self.start = start_instant(words[0], words[1], zone), zone

    def read_until(self, words: list[str]) -> None:
        self.check_once("until")
        self.until = self.text.number, words

    def read_dialect(self, words: list[str]) -> None:
        self.check_once("dialect")
        if len(words) != 1 or words[0] not in DIALECTS:
            raise ValueError(f"{' '.join(words)!r} is not a dialect{_suggestion_text(' '.join(words), DIALECTS)}")
        self.dialect = words[0]

    def read_config(self, words: list[str]) -> None:
        line, machine = self.text.number, ""
        if words[:1] == ["for"]:
            machine, words = (words[1] if len(words) > 1 else raise_usage("config")), words[2:]
        if len(words) > 1:
            raise_usage("config")
        file = words[0] if words else ""
        self.sources.append(ConfigurationSource(line, file, "" if file else self.text.block(line), machine))

    def read_machine(self, words: list[str]) -> None:
        name = words[0] if words else raise_usage("machine")
        equipment = {}
        for word in words[1:]:
            assignment = ASSIGNED.fullmatch(word)
            if assignment is None or assignment[1] not in _EQUIPMENT:
                hint = did_you_mean(word, [f"{each}=" for each in _EQUIPMENT], most=1)
                raise ValueError(f"{word!r} is not a property of a machine: {HEADS['machine']}{hint and f'; {hint}'}")
            equipment[assignment[1]] = amount(assignment[2])
        count = equipment.pop("count", 0)
        if not _MACHINE.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid machine name: use letters, digits, dots and dashes")
        names = [f"{name}{number}" for number in range(1, count + 1)] if 0 < count <= MOST else [name]
        if count > MOST or len(self.machines) + len(names) > MOST:
            raise ValueError(f"more than {MOST:,} machines are not supported")
        for each in names:
            if each in self.machines:
                raise ValueError(f"machine {each} already exists")
            self.machines[each] = ScenarioMachine(each, line=self.text.number, **equipment)

    def read_at(self, words: list[str]) -> None:
        line = self.text.number
        verb = next((number for number, word in enumerate(words) if not is_time_word(word)), len(words))
        sources: tuple[ConfigurationSource, ...] = ()
        names_no_file = all(word in (self.machines or (DEFAULT,)) for word in words[verb + 1 :])
        if words[verb : verb + 1] == ["reconfigure"] and names_no_file:
            sources = (ConfigurationSource(line, text=self.text.block(line)),)
        self.dated_lines.append((line, words, sources))

    def read_expect(self, words: list[str]) -> None:
        if not self.dated_lines:
            raise ValueError("`expect` needs an `at` line before it: write at TIME expect ...")
        previous = self.dated_lines[-1][1]
        count = 2 if len(previous) > 1 and may_have_two_words(previous[0]) and is_clock(previous[1]) else 1
        self.dated_lines.append((self.text.number, [*previous[:count], "expect", *words], ()))


def parse_scenario(text: str, until: str = "") -> Scenario:
    """Parse a scenario; `until`, if given, replaces its `until` line. Raise PlayError, with the line number, if the
    text is not a valid scenario."""
    reader = _ScenarioReader(_ScenarioLines(text.splitlines()))
    heads: Mapping[str, Callable[[list[str]], None]] = {head: getattr(reader, f"read_{head}") for head in HEADS}
    source = reader.text
    while source.number < len(source.lines):
        source.number += 1
        line = source.number
        with _errors_at_line(line):
            words = split(source.lines[line - 1])
            if words and words[0] not in heads:
                raise ValueError(f"{words[0]!r} cannot start a line of a scenario{_suggestion_text(words[0], heads)}")
            if words:
                heads[words[0]](words[1:])
    return _scenario(reader, until.split())


@contextmanager
def _errors_at_line(line: int) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise PlayError(str(error), line) from None


def _scenario(reader: _ScenarioReader, until: list[str]) -> Scenario:
    if not reader.machines:
        reader.machines[DEFAULT] = ScenarioMachine(DEFAULT)
    for source in reader.sources:
        if source.machine and source.machine not in reader.machines:
            raise PlayError(
                f"unknown machine {source.machine}{_suggestion_text(source.machine, reader.machines)}", source.line
            )
    calendar = ScenarioCalendar(*(reader.start or (start_instant(*BEGIN, UTC), UTC)))
    line, until_words = (0, until) if until else reader.until
    with _errors_at_line(line):
        end = instant(until_words, calendar) if line or until else 0
    steps: list[ScenarioStep] = []
    context = StatementContext(calendar, tuple(reader.machines), end, _configured_names(reader))
    for line, until_words, sources in reader.dated_lines:
        with _errors_at_line(line):
            steps += steps_of(line, until_words, sources, context)
            if len(steps) > MOST:
                raise ValueError(f"this is more than {MOST:,} steps in total: let things happen less often")
    steps.sort(key=lambda step: (step.at, _ORDER.get(step.verb, 2)))
    end = end or max((step.last if step.check else step.at for step in steps), default=0) + REST
    times = ((step, step.last if step.check else step.at) for step in steps if step.verb != "unread")
    late_step = next((step for step, last in times if last > end), None)
    if late_step is not None:
        raise PlayError("this is after the scenario's end: make `until` later", late_step.line)
    return Scenario(
        calendar,
        reader.start is not None,
        reader.dialect,
        tuple(reader.machines.values()),
        tuple(reader.sources),
        tuple(step for step in steps if step.at <= end),
        end,
    )


def _configured_names(reader: _ScenarioReader) -> frozenset[str]:
    """Return the lower-case names that occur in the scenario's own configuration and its lines about machines."""
    blocks = (
        source.text for sources in (reader.sources, *(step[2] for step in reader.dated_lines)) for source in sources
    )
    lines = (" ".join(words) for _, words, _ in reader.dated_lines if _JOB_VERBS.isdisjoint(words))
    return frozenset(name.lower() for text in (*blocks, *lines) for name in NAME.findall(text))


def _suggestion_text(word: str, known_words: Mapping[str, object]) -> str:
    """Return the known words with a similar spelling (or all of them), formatted to complete an error message."""
    hint = did_you_mean(word, known_words)
    return f"; {hint}" if hint else f": use one of {', '.join(list(known_words)[:30])}"


def raise_usage(head: str) -> NoReturn:
    raise ValueError(f"expected: {HEADS[head]}")


def _parse_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        hint = did_you_mean(name, available_timezones(), "use for example Europe/Berlin, or UTC", most=1)
        raise ValueError(f"{name!r} is not a time zone; {hint}") from None

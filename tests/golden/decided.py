"""Stories that never change, and every event that the pool makes of them: its decisions when they were recorded.

 They are not about single rules. They have many simultaneous events, drawn from seeds: machines under owners' policies,
a queue under a schedd's, users with quotas, limits and priorities, disks and processes that fail. So a changed decision
is noticed, wherever it is made. An intended change is recorded again, and its difference reviewed: python -m
tests.golden.decided [NAME...]
"""

from __future__ import annotations

import gzip
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path

from poolbook import Pool, PoolbookError
from poolbook.domain.events import Event
from poolbook.domain.ports.world import Launch
from poolbook.domain.state_machines import DIALECTS
from poolbook.domain.units import SECOND
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.virtual_world import Behaviour

from ..event_fields import fields_of
from ..policy.cases import STORIES
from ..policy.points import BEGIN, POLICIES, Point
from ..policy.stories import run_act, run_story
from ..simulation.story import Story
from .crowded_pool import ACTIONS, CONFIGURATIONS, JOBS

PROBLEM = "wrong:"
RECORDS = Path(__file__).with_name("decided")


def line_of(position: int, event: Event) -> str:
    """Return one event as a line: its position, instant in seconds, kind, and the fields that differ from their
    defaults."""
    kind = type(event)
    fields = [
        f"{name}={value!r}"
        for name, default in fields_of(kind).items()
        if name not in ("at", "writer") and (value := getattr(event, name)) != default
    ]
    return f"{position} {(event.at - BEGIN) / SECOND:g} {kind.__name__} {' '.join(fields)}"


def events_of(point: Point) -> Iterator[str]:
    yield from (line_of(position, event) for position, event in point.log.read())


# Owners' policies


def policies(dialect: str) -> Iterator[str]:
    """Return the stories of one slot under one policy."""
    for story in STORIES:
        yield f"== {story.of}"
        yield from events_of(run_story(story, dialect))


_LINES = (
    "touch", "touch", "load 0.9", "load 0.4", "load 0", "say Wanted=true", "say Wanted=false", "say Pause=true",
    "say Pause=false", "job seconds=50", "job seconds=200 grace=20 load=1", "job user=bob count=2 seconds=30",
    "job grace=never MaxJobRetirementTime=15", "job seconds=90 JobMaxVacateTime=5 user=bob Long=true", "exit", "exit 1",
    "hold 1", "remove 2", "vacate", "vacate fast", "drain Graceful", "drain Quick", "drain Fast",
    "drain Graceful completion=resume", "drain Quick completion=resume", "drain Graceful start=true", "undrain",
    "off Graceful", "off Peaceful", "pause", "unpause", "claim idle lease=30", "claim seconds=40 grace=10",
    "claim seconds=1000 lease=30", "activate seconds=20", "release", "deactivate", "close", "withdraw", "fail", "gone",
    "report", "silence", "heard", "notify", "set Start=true", "set KILL=true",
    "set MaxJobRetirementTime=10", "configure KILLING_TIMEOUT=3",
)  # fmt: skip
_APART = (0.0, 0.5, 1.0, 3.0, 4.25, 5.0, 10.0, 20.0, 37.0, 61.0, 180.0, 700.0)


def machines(dialect: str) -> Iterator[str]:
    """Run machines of two cores under owners' policies, with random actions."""
    for policy in POLICIES:
        for kind in ("static", "partitionable"):
            generator = random.Random(f"{dialect} {policy} {kind}")
            point = Point(dialect)
            point.point(POLICIES[policy], slots=2, kind=kind, STARTD_SLOT_ATTRS="State, Activity, KeyboardIdle")
            yield f"== {policy}, {kind}"
            for _ in range(24):
                point.advance(generator.choice(_APART))
                slot = generator.choice(("slot1@h", "slot2@h", "slot1_1@h"))
                line = generator.choice(_LINES)
                before = point.state.position
                try:
                    run_act(point, slot, line)
                except (KeyError, AssertionError):
                    yield f"-- {line} cannot happen to {slot}"
                else:
                    yield f"-- {line} of {slot} behind {before}"
            point.advance(400)
            yield from events_of(point)
            yield from (f"{name} {slot.state_activity}" for name, slot in point.state.slots.items())


# Users and their shares


STORY_SEEDS = range(6)


def crowds(dialect: str, seeds: Iterable[int] = STORY_SEEDS) -> Iterator[str]:
    """Yield the events of pools with transforms, rules, schedules, factories, groups, limits, preemption, drains."""
    for seed in seeds:
        yield f"== {seed}"
        yield from crowd(dialect, seed)


def crowd(dialect: str, seed: int) -> Iterator[str]:
    """Run one of them. Violations, and cycles that differ when they are repeated, are reported last."""
    reports: list[str] = []
    generator = random.Random(f"{dialect} {seed}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [text for text in CONFIGURATIONS if generator.random() < 0.6]
        with Pool.open(
            config="\n".join(parts), behave=_behaves, dialect=dialect, name="pool", uid_domain="site", user="alice"
        ) as pool:
            pool.subscribe(lambda position, event: reports.append(line_of(position, event)))
            for number in range(generator.randint(1, 3)):
                pool.add_machine(f"m{number}", cpus=generator.choice((2, 4, 6)), memory=8192)
            for _ in range(45):
                action = generator.choice(ACTIONS)
                try:
                    action(pool, generator)
                except (PoolbookError, ValueError, KeyError) as error:
                    reports.append(f"-- refused: {str(error)!r}")
            pool.run(limit=400)
            yield from reports
            for name, ads in (("job", pool.jobs()), ("slot", pool.slots()), ("ended", pool.history())):
                yield from (f"{name} {sorted(ad.items())}" for ad in ads)
            yield from (f"submitter {submitter_line}" for submitter_line in pool.submitters())
            yield from (f"{PROBLEM} {violation.rule} {violation.thing} {violation.words}" for violation in pool.judge())
            rechecked = recheck(pool.events())
            if not rechecked.sound:
                yield f"{PROBLEM} cycles {rechecked}"


def _behaves(launch: Launch) -> Behaviour:
    return JOBS[launch.cluster % len(JOBS)]


# Disks and processes


def steps() -> Iterator[str]:
    """Yield the order in which the pool and its supervisor use the disk, processes and each other, whatever fails."""
    for seed in range(100, 108):
        story = Story(seed)
        story.machine.trace = []
        yield f"== {seed}"
        story.tell()
        yield from story.machine.trace
        yield from story.machine.story


RECORDED: dict[str, Callable[[], Iterator[str]]] = {
    **{f"{tell.__name__}-{dialect}": lambda tell=tell, dialect=dialect: tell(dialect)  # type: ignore[misc]
       for tell in (policies, machines, crowds) for dialect in DIALECTS},
    "steps": steps,
}  # fmt: skip


@cache
def stories(name: str) -> dict[str, list[str]]:
    """Return the recorded lines, by story."""
    return by_story(gzip.decompress((RECORDS / f"{name}.txt.gz").read_bytes()).decode().splitlines())


def by_story(lines: Iterable[str]) -> dict[str, list[str]]:
    lines_by_story: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("== "):
            lines_by_story[line[3:]] = []
        else:
            lines_by_story[[*lines_by_story][-1]].append(line)
    return lines_by_story


def difference(recorded_lines: Sequence[str], now: Iterable[str]) -> str:
    """Return the first decision that differs from the recorded one, or an empty string."""
    last = "its beginning"
    for recorded_line, new in zip_longest(recorded_lines, now, fillvalue="nothing more"):
        if recorded_line != new:
            return f"behind {last}\n  was: {recorded_line}\n  is:  {new}\nmeant? python -m tests.golden.decided"
        last = new
    return ""


def record(names: Sequence[str]) -> None:
    RECORDS.mkdir(exist_ok=True)
    for name in names or RECORDED:
        text = "\n".join(RECORDED[name]())
        (RECORDS / f"{name}.txt.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        print(f"{name}: {text.count(chr(10)):,} lines")


if __name__ == "__main__":
    record(sys.argv[1:])

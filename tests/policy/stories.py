"""Short stories of one slot under one policy, and the transitions that each dialect makes of them.

A line of a story is an instant in seconds, a verb, and what it is done with: words, or ``Name=value``. What is expected
is each transition's row with V or K (it led to Preempting/Vacating, to Preempting/Killing), and the instant at which it
was taken, if that is another than the one before's. A machine joins at instant 0, its policy is asked every 5 seconds
while it is claimed, else every 20 (``points.SETTINGS``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from attrs import Factory, frozen

from poolbook.domain.events import Event, SlotDestroyed, SlotTransitioned
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state_machines import HTCONDOR_25
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import Behaviour

from .points import BEGIN, Point, at

_SHORT = {"Preempting/Vacating": "V", "Preempting/Killing": "K"}


@frozen
class Story:
    """``of`` is whose policy this is, in words; ``manual`` and ``htcondor`` are what the dialects make of it (empty:
    the dialect has no such story). ``slots``: how many there are; the first one's transitions are told."""

    of: str
    policy: dict[str, str]
    lines: tuple[str, ...]
    manual: str
    htcondor: str
    until: float = 300
    slots: int = 1
    kind: str = "static"
    slot: str = "slot1@h"
    settings: dict[str, str] = Factory(dict)

    def expected(self, dialect: str) -> str:
        return self.manual if dialect == "manual" else self.htcondor


def told(story: Story, dialect: str) -> Point:
    """A point that has lived through the story."""
    point = Point(dialect)
    play(story, point)
    return point


def play(story: Story, point: Point) -> None:
    """Let a point live through the story."""
    begin(story, point)
    for line in story.lines:
        instant, _, act = line.partition(" ")
        at(point, float(instant))
        do(point, story.slot, act)
    at(point, story.until)


def begin(story: Story, point: Point) -> None:
    """Let the story's machine join."""
    point.point(story.policy, slots=story.slots, kind=story.kind, **story.settings)


def do(point: Point, slot: str, act: str) -> None:
    """Let happen what a line says behind its instant."""
    verb, *words = act.split()
    VERBS[verb](point, slot, words)


def moves(point: Point, slot: str) -> str:
    """The slot's transitions, as stories expect them."""
    return " ".join(_moves(point, slot))


def _moves(point: Point, slot: str) -> Iterator[str]:
    last = 0.0
    for event in point.events():
        if isinstance(event, SlotTransitioned | SlotDestroyed) and event.slot == slot:
            row = _row(point.state.dialect.name, event)
            instant = (event.at - BEGIN) / SECOND
            if row:
                yield row + (f"@{instant:g}" if instant != last else "")
                last = instant


def _row(dialect: str, event: SlotTransitioned | SlotDestroyed) -> str:
    """The row that was taken, and where it led to if that is not said by the row."""
    target = getattr(event, "target", "")
    row = row_of(event, dialect)
    return row + (_SHORT.get(target, "") if row in ("10", "17", "18") else "")


def row_of(event: Event, dialect: str) -> str:
    """The slot's row that an event tells of, if any. A dynamic slot that is given back takes one in the dialect that
    knows of it, and no state and activity."""
    if isinstance(event, SlotDestroyed):
        return "2a" if event.cause == "merged" and dialect == HTCONDOR_25.name else ""
    return event.row if isinstance(event, SlotTransitioned) else ""


# Verbs


def _named(words: list[str]) -> dict[str, str]:
    return {name: value.replace("_", " ") for name, _, value in (word.partition("=") for word in words)}


def _behaviour(given: dict[str, str]) -> Behaviour:
    """What a job does: takes away what is said of it, and leaves what is of its ad."""
    grace = given.pop("grace", "0")
    return Behaviour(
        seconds=float(given.pop("seconds", "1000")),
        grace=None if grace == "never" else float(grace),
        load=float(given.pop("load", "0")),
    )


def _job(point: Point, slot: str, words: list[str]) -> None:
    """job [user=bob] [count=2] [seconds=50] [grace=5]: what else is named is of its ad."""
    given = _named(words)
    user, count, behaviour = given.pop("user", "alice"), int(given.pop("count", "1")), _behaviour(given)
    point.job(user, count, behaviour, **given)


def _claim(point: Point, slot: str, words: list[str]) -> None:
    """claim [idle] [lease=30] [seconds=50]: someone else's, for a job that begins at once unless ``idle``."""
    given = _named([word for word in words if word != "idle"])
    lease, behaviour = int(given.pop("lease", "0")), _behaviour(given)
    point.claim(slot, None if "idle" in words else behaviour, lease=lease, **given)


def _activate(point: Point, slot: str, words: list[str]) -> None:
    given = _named(words)
    point.activate(slot, _behaviour(given), **given)


def _tell(kind: type[s.SlotMessage], **more: object) -> Callable[[Point, str, list[str]], None]:
    def tell(point: Point, slot: str, words: list[str]) -> None:
        point.tell(kind, slot, **more)

    return tell


VERBS: dict[str, Callable[[Point, str, list[str]], Any]] = {
    "job": _job,
    "touch": lambda point, slot, words: point.touch(),
    "load": lambda point, slot, words: point.read(load=float(words[0])),
    "say": lambda point, slot, words: point.say(**_named(words)),
    "set": lambda point, slot, words: point.reconfigure(_named(words)),
    "configure": lambda point, slot, words: point.reconfigure({}, **_named(words)),
    "hold": lambda point, slot, words: point.act("hold", *words, user="root"),
    "remove": lambda point, slot, words: point.act("remove", *words, user="root"),
    "vacate": lambda point, slot, words: point.vacate_slot(slot, fast="fast" in words),
    "drain": lambda point, slot, words: point.drain(words[0], **_named(words[1:])),
    "undrain": lambda point, slot, words: point.undrain(),
    "client": lambda point, slot, words: point.client(**_named(words)),
    "exit": lambda point, slot, words: point.world.client_exits("h", int(words[0]) if words else 0),
    "off": lambda point, slot, words: point.off(words[0]),
    "pause": lambda point, slot, words: point.pause(slot),
    "unpause": lambda point, slot, words: point.unpause(slot),
    "claim": _claim,
    "activate": _activate,
    "silence": lambda point, slot, words: point.silence(slot),
    "heard": _tell(s.HolderHeard),
    "notify": _tell(s.NotifyMatch),
    "fail": _tell(s.FailClaim),
    "withdraw": _tell(s.WithdrawClaim),
    "release": _tell(s.ReleaseClaim),
    "deactivate": _tell(s.DeactivateClaim),
    "close": _tell(s.DeactivateClaim, closing=True),
    "gone": _tell(s.StarterGone),
    "report": _tell(s.StarterReported),
}

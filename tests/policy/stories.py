"""Short stories of one slot under one policy, and the resulting transitions in each dialect.

A line of a story is a time in seconds, a verb and its arguments: words, or ``Name=value``. The expected result lists
each transition's row, with V or K if it led to Preempting/Vacating or Preempting/Killing, and its time, if that differs
from the previous one's. A machine joins at time 0; its policy is evaluated every 5 seconds while it is claimed, else
every 20 (``points.SETTINGS``).
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
    """``of`` is whose policy this is, in words. ``manual`` and ``htcondor`` are the expected results of the dialects
    (empty: the dialect has no such story). ``slots``: how many there are; the first one's transitions count."""

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


def run_story(story: Story, dialect: str) -> Point:
    """Return an execution point that has gone through the story."""
    point = Point(dialect)
    play(story, point)
    return point


def play(story: Story, point: Point) -> None:
    """Run the story on an execution point."""
    begin(story, point)
    for line in story.lines:
        instant, _, act = line.partition(" ")
        at(point, float(instant))
        run_act(point, story.slot, act)
    at(point, story.until)


def begin(story: Story, point: Point) -> None:
    """Let the story's machine join."""
    point.point(story.policy, slots=story.slots, kind=story.kind, **story.settings)


def run_act(point: Point, slot: str, act: str) -> None:
    """Run one line of a story, without its time."""
    verb, *arguments = act.split()
    VERBS[verb](point, slot, arguments)


def moves(point: Point, slot: str) -> str:
    """Return the slot's transitions in the form of a story's expected result."""
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
    """Return the row that was taken, and the target if the row does not determine it."""
    target = getattr(event, "target", "")
    row = row_of(event, dialect)
    return row + (_SHORT.get(target, "") if row in ("10", "17", "18") else "")


def row_of(event: Event, dialect: str) -> str:
    """Return the slot's row that an event takes, if any. A dynamic slot that is destroyed takes a row in a dialect that
    has one, and has no state and activity."""
    if isinstance(event, SlotDestroyed):
        return "2a" if event.cause == "merged" and dialect == HTCONDOR_25.name else ""
    return event.row if isinstance(event, SlotTransitioned) else ""


# Verbs


def _named(arguments: list[str]) -> dict[str, str]:
    return {name: value.replace("_", " ") for name, _, value in (word.partition("=") for word in arguments)}


def _behaviour(attributes: dict[str, str]) -> Behaviour:
    """Return the job's behaviour; remove its options and leave the attributes of its ad."""
    grace = attributes.pop("grace", "0")
    return Behaviour(
        seconds=float(attributes.pop("seconds", "1000")),
        grace=None if grace == "never" else float(grace),
        load=float(attributes.pop("load", "0")),
    )


def _job(point: Point, slot: str, arguments: list[str]) -> None:
    """job [user=bob] [count=2] [seconds=50] [grace=5]: other names are attributes of its ad."""
    options = _named(arguments)
    user, count, behaviour = options.pop("user", "alice"), int(options.pop("count", "1")), _behaviour(options)
    point.job(user, count, behaviour, **options)


def _claim(point: Point, slot: str, arguments: list[str]) -> None:
    """claim [idle] [lease=30] [seconds=50]: an outside claim, whose job starts immediately unless ``idle``."""
    options = _named([word for word in arguments if word != "idle"])
    lease, behaviour = int(options.pop("lease", "0")), _behaviour(options)
    point.claim(slot, None if "idle" in arguments else behaviour, lease=lease, **options)


def _activate(point: Point, slot: str, arguments: list[str]) -> None:
    options = _named(arguments)
    point.activate(slot, _behaviour(options), **options)


def _tell(kind: type[s.SlotMessage], **more: object) -> Callable[[Point, str, list[str]], None]:
    def tell(point: Point, slot: str, arguments: list[str]) -> None:
        point.tell(kind, slot, **more)

    return tell


VERBS: dict[str, Callable[[Point, str, list[str]], Any]] = {
    "job": _job,
    "touch": lambda point, slot, arguments: point.touch(),
    "load": lambda point, slot, arguments: point.read(load=float(arguments[0])),
    "say": lambda point, slot, arguments: point.say(**_named(arguments)),
    "set": lambda point, slot, arguments: point.reconfigure(_named(arguments)),
    "configure": lambda point, slot, arguments: point.reconfigure({}, **_named(arguments)),
    "hold": lambda point, slot, arguments: point.act("hold", *arguments, user="root"),
    "remove": lambda point, slot, arguments: point.act("remove", *arguments, user="root"),
    "vacate": lambda point, slot, arguments: point.vacate_slot(slot, fast="fast" in arguments),
    "drain": lambda point, slot, arguments: point.drain(arguments[0], **_named(arguments[1:])),
    "undrain": lambda point, slot, arguments: point.undrain(),
    "client": lambda point, slot, arguments: point.client(**_named(arguments)),
    "exit": lambda point, slot, arguments: point.world.end_client("h", int(arguments[0]) if arguments else 0),
    "off": lambda point, slot, arguments: point.off(arguments[0]),
    "pause": lambda point, slot, arguments: point.pause(slot),
    "unpause": lambda point, slot, arguments: point.unpause(slot),
    "claim": _claim,
    "activate": _activate,
    "silence": lambda point, slot, arguments: point.silence(slot),
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

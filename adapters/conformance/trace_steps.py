"""What a golden trace is made of: the lives of a startd, each with its slots and what happened to it."""

from __future__ import annotations

from attrs import Factory, define, frozen

from ...domain.events import Ad
from ...domain.ports import stimuli as s


@frozen
class PublishedReadings:
    """What the owner's sensors published from here on."""

    attributes: Ad


@frozen
class Reconfigured:
    """The startd read its configuration again, for the ``number``-th time."""

    number: int


@frozen
class TraceStep:
    """What happened at an instant (microseconds), by the log's line."""

    at: int
    line: int
    what: s.Stimulus | PublishedReadings | Reconfigured


@frozen
class TraceSlot:
    """A slot as the startd made it, with the resources that the log names. ``kind``: static or partitionable."""

    name: str
    kind: str
    resources: Ad


@define
class StartdRun:
    """One startd's life: from its first line to the last, and what happened to it. ``began`` is when it made its slots,
    ``configured`` how many reconfigurations the startds before it had seen, ``stated`` what the log says of the values
    of its policy's expressions (after which reconfiguration, the expression's name, its value)."""

    first: int
    last: int
    machine: str
    began: int
    ended: int
    configured: int = 0
    slots: list[TraceSlot] = Factory(list)
    steps: list[TraceStep] = Factory(list)
    stated: list[tuple[int, str, str]] = Factory(list)

"""The data of a golden trace: the runs of its startds, each with its slots and stimuli."""

from __future__ import annotations

from attrs import Factory, define, frozen

from poolbook.domain.events import Ad
from poolbook.domain.ports import stimuli as s


@frozen
class PublishedReadings:
    """The readings that the owner's sensors published from here on."""

    attributes: Ad


@frozen
class Reconfigured:
    """The startd read its configuration again, for the ``number``-th time."""

    number: int


@frozen
class TraceStep:
    """A stimulus at an instant (microseconds), by the log's line."""

    at: int
    line: int
    what: s.Stimulus | PublishedReadings | Reconfigured


@frozen
class TraceSlot:
    """A slot as the startd made it, with its logged resources. ``kind``: static or partitionable."""

    name: str
    kind: str
    resources: Ad


@define
class StartdRun:
    """One startd, from its first line to its last. ``began`` is when it made its slots, ``configured`` counts the
    reconfigurations before it, ``stated`` has logged values of policy expressions (reconfigurations so far, name,
    value)."""

    first: int
    last: int
    machine: str
    began: int
    ended: int
    configured: int = 0
    slots: list[TraceSlot] = Factory(list)
    steps: list[TraceStep] = Factory(list)
    stated: list[tuple[int, str, str]] = Factory(list)

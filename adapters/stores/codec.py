"""Encode events for a log: a topic, which names the kind, and a state, which is JSON.

The logs of all releases stay readable. If the fields of an event kind change by more than a new field with a default,
the kind gets a new topic. The old topic moves to ``UPCASTS``, with a function that converts the old fields to the new
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from threading import Lock
from typing import Any

import msgspec

from ...domain.events import TOPICS, CycleHeld, Event
from ...domain.ports.log import LogDamaged, LogError, LogNewer
from .format import FORMAT
from .seal import Row

Fields = dict[str, Any]  #: an event as JSON: dicts, lists, texts, numbers, booleans and None
Upcast = tuple[str, Callable[[Fields], Fields] | None]
"""The topic that replaced a retired one, and the function that converts its fields (None: only the topic changed)."""


def _with_leaving(fields: Fields) -> Fields:
    """Add ``left``: before format 2, the event that ended a job also removed it from the queue."""
    return fields | {"left": True}


def _with_flags(fields: Fields) -> Fields:
    """Rename ``marks`` to ``flags``, the name in a claim since format 3."""
    return {"flags" if name == "marks" else name: value for name, value in fields.items()}


_RENAMED_TOPICS = {
    "founded": "pool.founded", "writer": "writer.began", "answered": "request.answered", "evidence": "evaluation",
    "pool=": "pool.configured", "machine+": "machine.joined", "machine=": "machine.configured",
    "machine-": "machine.left", "benchmarks": "benchmarks.ran", "busy": "cpu.busy", "drain+": "drain.began",
    "drain": "drain.moved", "drain!": "drain.final", "drain=": "drain.badput", "off": "shutdown.began",
    "slot+": "slot.created", "slot": "slot.moved", "slot=": "slot.changed", "slot-": "slot.destroyed",
    "claim+": "claim.made", "claim?": "claim.queued", "claim?-": "claim.withdrawn", "claim!": "claim.activated",
    "claim!-": "claim.deactivated", "claim~": "claim.silent", "starter!": "starter.signalled",
    "claim-": "claim.ended", "cycle": "cycle.held", "match-": "match.voided", "priorities": "priorities.updated",
    "submitter=": "submitter.set", "submitter0": "submitters.reset", "submitter-": "submitter.deleted",
    "submit": "cluster.submitted", "moved": "jobs.moved", "jobs=": "jobs.edited", "run+": "job.activated",
    "run": "job.began", "run=": "job.measured", "run!": "job.signalled", "exited": "job.exited",
    "source+": "source.found", "source": "source.read", "source!": "source.refused", "source?": "source.gap",
    "of-daemon": "daemon.reported", "of-slot": "slot.reported", "entries": "jobs.logged", "of-job": "job.reported",
    "of-submitter": "submitter.reported", "of-cycle": "cycle.reported", "ads": "ads.kept", "table": "table.written",
}  # fmt: skip
"""The topics of formats 1 and 2 whose events have the same fields as today's."""
UPCASTS: dict[str, Upcast] = {
    "jobs": ("moved", _with_leaving),  # of format 1
    "run-": ("exited", _with_leaving),  # of format 1
    "claim=": ("claim.flagged", _with_flags),
    "claims.earmarked": ("claims.reserved", None),
    "claims.earmark_ended": ("claims.reservation_ended", None),
    **{topic: (today, None) for topic, today in _RENAMED_TOPICS.items()},
}
"""The upcast of each retired topic; upcasts may form chains."""


def topics_of(kind: type[Event]) -> frozenset[str]:
    """Return the topics that events of this kind may have in logs: today's and the retired ones."""
    topics = {topic for topic, other_kind in TOPICS.items() if other_kind is kind}
    for topic, (target, _) in reversed(UPCASTS.items()):
        if target in topics:
            topics.add(topic)
    return frozenset(topics)


def _check_ranks(event: Event) -> None:
    # JSON has no infinity and NaN; the encoder would write null, and the log could not be read.
    assert isinstance(event, CycleHeld)
    for match in event.matches:
        if not isfinite(match.rank):
            raise ValueError(f"the rank of {match.job} with {match.slot} is {match.rank}, which JSON cannot represent")


_CHECKS: dict[type[Event], Callable[[Event], None]] = {CycleHeld: _check_ranks}
"""Checks for values that the encoder accepts but cannot restore, for the kinds with a float."""


class Codec:
    """Encodes events as topics and states, and decodes them, using a table of topics and a table of upcasts."""

    def __init__(
        self, topics: Mapping[str, type[Event]] = TOPICS, upcasts: Mapping[str, Upcast] = UPCASTS, format: int = FORMAT
    ) -> None:
        self._topics = {kind: topic for topic, kind in topics.items()}
        self._encode = msgspec.json.Encoder().encode
        self._decode = _Decoders(topics, upcasts)
        self._format = format

    def encode(self, events: Sequence[Event]) -> tuple[list[str], list[bytes]]:
        """Return the topics and the states of `events`. Raise `LogError` if a log cannot hold an event."""
        try:
            topics = list(map(self._topics.__getitem__, map(type, events)))
        except KeyError as error:
            raise LogError(f"{error.args[0].__name__} is not an event kind; `poolbook doc events` lists them") from None
        try:
            for kind, check in _CHECKS.items():
                if self._topics.get(kind) in topics:
                    for event in events:
                        if type(event) is kind:
                            check(event)
            return topics, list(map(self._encode, events))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise LogError(f"{self._unstorable_event(events)} cannot be stored in a log: {error}") from error

    def _unstorable_event(self, events: Sequence[Event]) -> str:
        for event in events:
            try:
                self._encode(event)
            except (ValueError, TypeError, OverflowError, RecursionError):
                return f"{type(event).__name__} of stimulus {event.stimulus!r}"
        return "an event"

    def decode(self, rows: Sequence[Row], log: str) -> list[Event]:
        """Decode `rows` of the log named `log`. Raise `LogNewer` for an unknown topic, `LogDamaged` for a wrong
        state."""
        decode = self._decode
        try:
            return [decode[topic](state) for _, _, _, topic, state in rows]
        except (KeyError, msgspec.MsgspecError, ValueError, TypeError, AttributeError):
            return [self._decode_one(row, log) for row in rows]

    def _decode_one(self, row: Row, log: str) -> Event:
        position, _, _, topic, state = row
        try:
            decode = self._decode[topic]
        except KeyError:
            raise LogNewer(
                f"{log}: the event at position {position} has the kind {topic!r}, which this version of Poolbook "
                f"(log format {self._format}) does not support; read the log with the later version that wrote it"
            ) from None
        try:
            return decode(state)
        except (KeyError, msgspec.MsgspecError, ValueError, TypeError, AttributeError) as error:
            raise LogDamaged(
                f"{log}: the data at position {position} is not a valid {topic!r} event ({error}); "
                "`poolbook verify` shows whether it was altered"
            ) from error


_DECODER_LOCK = Lock()  # msgspec crashes if two threads create decoders that share a type


class _Decoders(dict[str, Callable[[bytes], Event]]):
    """The decoders of topics. Each is created for the first event with its topic: most logs have few."""

    def __init__(self, topics: Mapping[str, type[Event]], upcasts: Mapping[str, Upcast]) -> None:
        self._topics, self._upcasts = topics, upcasts

    def __missing__(self, topic: str) -> Callable[[bytes], Event]:
        """Return the topic's decoder; a retired topic's decoder upcasts the fields step by step."""
        with _DECODER_LOCK:
            return self._create(topic)

    def _create(self, topic: str) -> Callable[[bytes], Event]:
        target = topic
        steps: list[Callable[[Fields], Fields]] = []
        while target in self._upcasts:
            target, step = self._upcasts[target]
            steps += [step] if step else []
        kind = self._topics[target]
        self[topic] = decode = _upcast_decoder(steps, kind) if steps else msgspec.json.Decoder(kind).decode
        return decode


def _upcast_decoder(steps: Sequence[Callable[[Fields], Fields]], kind: type[Event]) -> Callable[[bytes], Event]:
    def decode(state: bytes) -> Event:
        fields = msgspec.json.decode(state, type=dict[str, Any])
        for step in steps:
            fields = step(fields)
        # Through JSON, since only its decoder turns base64 into bytes and arrays into tuples.
        return msgspec.json.decode(msgspec.json.encode(fields), type=kind)

    return decode


CODEC = Codec()  #: the codec of this release

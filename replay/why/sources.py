"""Cite the logs of other roles: where an event of a role's log was sent from, if it resulted from an outbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from attrs import evolve

from ...domain import events as e
from ...domain.ports.log import EventStore
from ...domain.state.peers import MANAGER
from ..narration.sentences import Explanation, Sentence
from .select_events import decisions

_SENT_AS: Final[dict[type[e.Event], type[e.Event]]] = {
    **dict.fromkeys((e.SlotCreated, e.ClaimMade), e.ClaimGranted),
    **dict.fromkeys((e.JobExecuting, e.JobMeasured, e.JobExited), e.RunReported),
    **dict.fromkeys((e.JobTransferBegan, e.JobTransferEnded), e.RunReported),
    e.JobSignalled: e.StarterSignalled,
    e.ClaimActivated: e.JobActivated,
}
"""An event that results from another kind of event at another role -> that kind. Others are copies."""


class _Read(NamedTuple):
    """What a decision read: the entries of a peer's outbox."""

    position: int
    peer: str
    log: str
    first: int
    last: int


def cite_sources(log: EventStore, answer: Explanation, others: Mapping[str, EventStore]) -> Explanation:
    """Add to each sentence about what a role with a separate log has read: the sender's log, and the position there if
    that log is given.

    :param others: logs of other roles of the pool, by name
    """
    founded = next((event for _, event in log.read_stream("pool") if isinstance(event, e.PoolFounded)), None)
    if founded is None or len(founded.roles) != 1:
        return answer
    own_name = founded.roles[0] if founded.roles[0] == MANAGER else f"{founded.roles[0]}/{founded.name}"
    reads: dict[str, _Read] = {}
    sentences = {sentence.position: sentence.stimulus for sentence in (*answer.lines, *answer.life)}
    for position, event in decisions(log, sentences, log.head.position):
        if isinstance(event, e.Followed) and event.stimulus in sentences.values():
            before = next((other for _, other in log.read_back(event.stream, position, [e.Followed])), None)
            first = before.version + 1 if isinstance(before, e.Followed) and before.log == event.log else 1
            reads[event.stimulus] = _Read(position, event.peer, event.log, first, event.version)
    logs = {other.id: (name, other) for name, other in others.items()}

    def cite(sentence: Sentence) -> Sentence:
        read = reads.get(sentence.stimulus)
        if read is None or sentence.position < read.position or sentence.places:
            return sentence
        source = logs.get(read.log)
        if source is None:
            return evolve(sentence, places=(f"{read.peer}, entry {read.last} of its log {read.log}",))
        event = next(event for _, event in log.read(sentence.position - 1, 1))
        positions = _source_positions(source[1], own_name, read, event)
        return evolve(sentence, places=tuple(f"{source[0]} at {position}" for position in positions))

    return Explanation(tuple(map(cite, answer.lines)), tuple(map(cite, answer.life)))


def _source_positions(source: EventStore, peer: str, read: _Read, event: e.Event) -> list[int]:
    """Return the positions of the sent events from which an event results."""
    sent: dict[int, e.Event] = {}
    for _, entry in source.read_stream(f"peer/{peer}"):
        if isinstance(entry, e.Sent) and read.first <= entry.version <= read.last:
            for position in entry.positions:
                sent |= dict(source.read(position - 1, 1))
    kinds = type(event), _SENT_AS.get(type(event))
    of_kind = {position: other for position, other in sent.items() if type(other) in kinds}
    return [position for position, other in of_kind.items() if _is_same(other, event)] or list(of_kind or sent)


def _is_same(sent: e.Event, event: e.Event) -> bool:
    """Return True if a sent event is about the same slot or run as an event, as far as both name one."""
    pairs = [(getattr(sent, name, None), getattr(event, name, None)) for name in ("slot", "key")]
    return any(here == there is not None for here, there in pairs)

"""What own and imported logs say alike of a slot: its creation, its transitions, and where it is."""

from __future__ import annotations

from datetime import tzinfo

from ...domain import events as e
from ...domain.state_machines import DELETED, state
from ...domain.state_machines.slot_rows import INITIAL_PAIR
from .formatting import instant
from .sentence_tables import row_code
from .sentences import Sentence


class SlotLife:
    """A slot as the events up to one of them leave it, and the sentences that led there (``chain``)."""

    def __init__(self, name: str, zone: tzinfo) -> None:
        self.name, self.zone = name, zone
        self.chain: list[Sentence] = []
        self.since: Sentence | None = None  #: what put it where it is
        self.pair = self.kind = ""
        self.holder = self.job = ""
        self.is_gone = False

    def say(self, position: int, event: e.Event, code: str, **facts: str) -> Sentence:
        """Add a sentence on an event to the chain."""
        sentence = Sentence(event.at, position, code, facts, event.cause, event.stimulus)
        self.chain.append(sentence)
        return sentence

    def create(self, position: int, event: e.SlotCreated, **facts: str) -> None:
        """Begin with a slot of this name that has been created."""
        self.pair, self.kind, self.is_gone = INITIAL_PAIR, event.kind, False
        self.holder = self.job = ""
        origin = f"from {event.parent}" if event.parent else f"with machine {event.machine}"
        self.since = self.say(position, event, "born", **{"origin": origin, "kind": event.kind, **facts})

    def move(self, position: int, event: e.SlotTransitioned, cause: str, why: str, row: str, **facts: str) -> None:
        """Take a transition, by a ``row`` of its table; ``cause``: why it happened, as a pool's own event would have
        it, and ``why``: the same in words."""
        self.pair = event.target
        target = "no more" if event.target == DELETED else event.target
        moved = {"job": f"job {self.job}" if self.job else "its job", "why": why}
        moved |= {"source": event.source, "target": target, "row": row, **facts}
        self.since = self.say(position, event, row_code(event.row, event.target, cause, self.job), **moved)

    def head(self, since: Sentence) -> Sentence:
        """Say where it is since a sentence's event."""
        gone = self.is_gone or self.pair == DELETED
        held = self.holder and not self.job and state(self.pair or INITIAL_PAIR) in ("Claimed", "Preempting")
        code = "slot_gone" if gone else "slot_unknown" if not self.pair else "slot_is_held" if held else "slot_is"
        facts = {"slot": self.name, "pair": self.pair, "since": instant(since.at, self.zone)}
        facts |= {"runs": self.job, "holder": self.holder}
        return Sentence(since.at, since.position, code, facts, since.cause, since.stimulus)

"""Golden: an access point with its manager, and an execution point, run ten jobs in two processes with separate logs.

A socket connects them. ``Socket`` is the fabric on both sides: it sends the messages, with the events that the other
side learns. Both sides make the same decisions as the roles in one log: no rule depends on where the other role is.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import msgspec
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd, unparse
from poolbook.domain.decide.decide import complete_decision, decide
from poolbook.domain.decide.delivery import RECEIVERS, receive, receiver_of
from poolbook.domain.decision.draft import Draft, Tables
from poolbook.domain.events.base import TOPICS
from poolbook.domain.fold.evolve import affects_role, fold_onto
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.slot_attributes import SlotAd
from poolbook.domain.state.state import AccessPoint, ExecutionPoint, LogState, Manager, State
from poolbook.domain.units import SECOND

from ..children import child
from .pools import JOB, MACHINE

JOBS, SLOTS = 10, 4
BEGIN = 1_800_000_000 * SECOND


@dataclass(repr=False)
class SubmitNode(AccessPoint, Manager):
    """An access point and the central manager, in one log."""


class Frame(msgspec.Struct):
    """A transmission: a stimulus, a message, the end of a decision or an answer, with the events that come before."""

    what: str
    stimulus: str
    now: int
    events: list[tuple[str, msgspec.Raw]]
    kind: str
    body: msgspec.Raw


KINDS: dict[str, Any] = {kind.__name__: kind for kind in TOPICS.values()}
KINDS |= {kind.__name__: kind for rules in RECEIVERS.values() for kind in rules}
KINDS |= {kind.__name__: kind for kind in (s.FoundPool, s.AddMachine, s.EvaluatePolicies)}


def plain(value: Any) -> Any:
    return value.as_plain_dict() if isinstance(value, SlotAd) else unparse(value)


def encoded(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value, enc_hook=plain))


def decoded(body: msgspec.Raw, kind: Any) -> Any:
    return msgspec.json.decode(body, type=kind, dec_hook=lambda _, text: ClassAd.from_new(text))


def answer_of(message: type[Any]) -> Any:
    """Return the type of the answer to a message."""
    bases = message.__dict__.get("__orig_bases__")
    return bases[0].__args__[0] if bases else str | bool | None


class Socket:
    """One of the two processes: its roles' state, its log, and the fabric by which they reach the others."""

    def __init__(self, state: LogState, other_process: type[LogState], connection: socket.socket) -> None:
        self.state, self.other, self.log = state, other_process, list[e.Event]()
        self.tables, self._connection = Tables(), connection
        self._reader = connection.makefile("rb")
        self._draft: Draft[Any] | None = None
        self._shared: dict[int, int] = {}
        """How many of a draft's events the other side has or does not learn."""

    # Own decisions

    def decide(self, stimulus: s.Stimulus, now: int) -> list[e.Event]:
        events = decide(self.state, stimulus, now, self.tables, fabric=self)
        self.log += events
        return events

    def ask(self, stimulus: s.Stimulus, now: int) -> None:
        """Have the other side decide, and serve its requests meanwhile."""
        self._draft = Draft(self.state, stimulus.id, now, self.tables, fabric=self)
        self._write("stimulus", self._draft, type(stimulus).__name__, stimulus)
        self._await(self._draft, None)
        self._end()

    # The fabric

    def deliver(self, sender: Draft[Any], message: Any) -> Any:
        if isinstance(self.state, receiver_of(message)):
            return receive(sender, message)
        self._write("message", sender, type(message).__name__, message)
        return self._await(sender, answer_of(type(message)))

    def conclude(self, sender: Draft[Any]) -> None:
        self._write("conclude", sender)
        self._await(sender, None)
        self._shared.pop(id(sender))

    # The connection

    def serve(self) -> None:
        """Serve the other side's requests until it closes the connection."""
        while (frame := self._read()) is not None:
            if frame.what == "stimulus":
                self.decide(decoded(frame.body, KINDS[frame.kind]), frame.now)
                self._send(Frame("answer", "", 0, [], "", encoded(None)))
                continue
            if self._draft is None:
                self._draft = Draft(self.state, frame.stimulus, frame.now, self.tables, fabric=self)
            self._take(self._draft, frame)
            if frame.what == "conclude":
                self._end()

    def _await(self, draft: Draft[Any], kind: Any) -> Any:
        while (frame := self._read()) is not None:
            if frame.what == "answer":
                self._emit(draft, frame)
                return decoded(frame.body, kind)
            self._take(draft, frame)
        raise ConnectionError("the other side is gone")

    def _take(self, draft: Draft[Any], frame: Frame) -> None:
        self._emit(draft, frame)
        answer = None
        if frame.what == "message":
            answer = receive(draft, decoded(frame.body, KINDS[frame.kind]))
        else:
            complete_decision(draft)
        self._write("answer", draft, body=answer)

    def _emit(self, draft: Draft[Any], frame: Frame) -> None:
        """Fold events that the other side has logged, and log them."""
        for kind, event in frame.events:
            draft.emit(decoded(event, KINDS[kind]))
        self._shared[id(draft)] = len(draft.events)

    def _end(self) -> None:
        assert self._draft is not None
        self.log += self._draft.events
        self._shared.pop(id(self._draft), None)
        self._draft = None

    def _write(self, message: str, draft: Draft[Any], kind: str = "", body: Any = None) -> None:
        news = draft.events[self._shared.get(id(draft), 0) :]
        self._shared[id(draft)] = len(draft.events)
        learned = [(type(event).__name__, encoded(event)) for event in news if affects_role(self.other, event)]
        self._send(Frame(message, draft.stimulus, draft.now, learned, kind, encoded(body)))

    def _send(self, frame: Frame) -> None:
        self._connection.sendall(msgspec.json.encode(frame) + b"\n")

    def _read(self) -> Frame | None:
        line = self._reader.readline()
        return msgspec.json.decode(line, type=Frame) if line else None


# The story


FOUND = s.FoundPool("founding", "pool", "manual", "example.org", "0.1", {})
SLOT = {"Cpus": "1", "Memory": "1024", "Disk": "1000000"}
PLANS = tuple(s.SlotPlan(f"slot{number}@h", "static", SLOT) for number in range(1, SLOTS + 1))
OWNER = {"PREEMPT": "TARGET.JobPrio < 0", "WANT_VACATE": "true"}
ADD = s.AddMachine("machine", "h", {**MACHINE, **OWNER}, PLANS)

Ask = Callable[[s.Stimulus, int], object]


def story(state: Any, decide: Ask, ask: Ask) -> None:
    """Run ten jobs on four slots; one is evicted by its slot's owner because its user has edited it, and runs again."""
    now = BEGIN
    decide(FOUND, now)
    ask(FOUND, now)
    ask(ADD, now)
    ask(s.EvaluatePolicies("round", ("h",)), now)
    decide(s.Submit("submit", "alice", 0, JOB, JOBS, ()), now)
    has_edited = False
    while any(cluster.live > cluster.status_counts[4] for cluster in state.clusters.values()):
        now += 60 * SECOND
        assert now < BEGIN + 3600 * SECOND, "the jobs do not end"
        decide(s.Negotiate(f"cycle {now}"), now)
        decide(s.ClaimMatches(f"claim {now}"), now)
        for key, run in [*state.activations.items()]:
            decide(s.ActivationStarted(f"began {run.proc}", key, 1, "/scratch", now), now)
        if not has_edited:
            has_edited = True
            decide(s.Edit("edit", "alice", s.Selection(jobs=((1, 0),)), {"JobPrio": "-1"}), now)
            ask(s.EvaluatePolicies("edited", ("h",)), now)
            assert {activation.proc for activation in state.activations.values() if activation.stop_signal} == {0}, (
                "the edit reached the policy"
            )
            decide(s.Edit("again", "alice", s.Selection(jobs=((1, 0),)), {"JobPrio": "1"}), now)
        now += 30 * SECOND
        for key, run in [*state.activations.items()]:
            decide(s.ActivationEnded(f"ended {run.proc}", key, now, 0), now)
    decide(s.LeaveQueue("leave", ((1, ((0, JOBS - 1),)),)), now)


@contextmanager
def two_processes() -> Iterator[tuple[Socket, Callable[[], list[e.Event]]]]:
    """Return the access point's side, and a function that returns the log of the execution point, which runs in a
    child."""
    end, other_end = socket.socketpair()

    def point(tell: int) -> None:
        end.close()
        side = Socket(ExecutionPoint(), SubmitNode, other_end)
        side.serve()
        assert parts(fold_onto(ExecutionPoint(), enumerate(side.log, 1))) == parts(side.state)
        with os.fdopen(tell, "wb") as log:
            log.write(msgspec.json.encode([(type(event).__name__, encoded(event)) for event in side.log]))

    with child(point) as other:
        other_end.close()
        side = Socket(SubmitNode(), ExecutionPoint, end)

        def log() -> list[e.Event]:
            side._reader.close()
            end.close()
            text = b""
            while data := other.read():
                text += data
            assert other.wait() == 0
            names_and_fields = msgspec.json.decode(text, type=list[tuple[str, msgspec.Raw]])
            return [decoded(event, KINDS[kind]) for kind, event in names_and_fields]

        yield side, log


def parts(state: LogState) -> dict[str, Any]:
    return {field.name: getattr(state, field.name) for field in fields(state) if field.compare}


def comparable(event: e.Event) -> str:
    """Return an event without what depends on the log that has it: positions, and the ads that a log with a queue does
    not repeat."""
    for name, nothing in (("ad", {}), ("key", ""), ("evidence", 0)):
        if hasattr(event, name) and not isinstance(event, e.ClusterSubmitted | e.MachineJoined | e.SlotCreated):
            event = replace(event, **{name: nothing})
    return re.sub(r"#\d+'", "#'", repr(decoded(encoded(event), type(event))))


def test_ten_jobs_run_where_two_processes_decide() -> None:
    with two_processes() as (side, log_of_point):
        story(side.state, side.decide, side.ask)
        point_log = log_of_point()
    node = side.state
    assert isinstance(node, SubmitNode)
    assert (node.clusters, node.activations, node.claims, node.matches, node.assigned_slots) == ({}, {}, {}, {}, {})
    assert sum(isinstance(event, e.JobExited) for event in side.log) == JOBS + 1
    assert parts(fold_onto(SubmitNode(), enumerate(side.log, 1))) == parts(node)
    point = fold_onto(ExecutionPoint(), enumerate(point_log, 1))
    assert {slot.state_activity for slot in point.slots.values()} == {"Unclaimed/Idle"}
    assert (point.starters, point.slot_matches, point.stopping) == ({}, {}, {})
    assert not {e.ClusterSubmitted, e.JobActivated} - {type(event) for event in side.log}
    assert not {e.ClusterSubmitted, e.MailDue, e.PrioritiesUpdated} & {type(event) for event in point_log}


def test_two_processes_make_the_same_decisions_as_the_roles_in_one_log() -> None:
    whole_state, log, tables = State(), list[e.Event](), Tables()

    def together(stimulus: s.Stimulus, now: int) -> None:
        if stimulus is not FOUND or not log:
            log.extend(decide(whole_state, stimulus, now, tables))

    story(whole_state, together, together)
    with two_processes() as (side, log_of_point):
        story(side.state, side.decide, side.ask)
        point_log = log_of_point()
    for kind, log_of_side in ((SubmitNode, side.log), (ExecutionPoint, point_log)):
        assert [comparable(event) for event in log_of_side if affects_role(kind, event)] == [
            comparable(event) for event in log if affects_role(kind, event)
        ]

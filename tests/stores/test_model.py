"""Property: after any operations through two handles, a log equals a list of the accepted events."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from poolbook.domain.events import Event, WriterBegan
from poolbook.domain.ports.log import EventStore, Fenced

from .places import KINDS, place_of
from .samples import AT, any_event

which = st.sampled_from([0, 1])


class Model(RuleBasedStateMachine):
    kind: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.place = self.stack.enter_context(place_of(self.kind, folder))
        self.events: list[Event] = []
        self.epoch = 0
        self.logs: list[EventStore] = [self.place.open(), self.place.open()]
        self.known = [0, 0]  # how far each handle has seen

    @rule(handle=which, events=st.lists(any_event, max_size=5))
    def append(self, handle: int, events: list[Event]) -> None:
        if self.known[handle] != len(self.events) and events:
            with pytest.raises(Fenced):
                self.logs[handle].append(events)
            return
        position = self.logs[handle].append(events)
        if events:
            self.events += events
            self.known[handle] = len(self.events)
        assert position == self.known[handle]

    @rule(handle=which)
    def raise_epoch(self, handle: int) -> None:
        self.epoch += 1
        assert self.logs[handle].raise_epoch("w", AT, "s") == self.epoch
        self.events.append(WriterBegan(at=AT, cause="writer", stimulus="s", epoch=self.epoch, writer="w"))
        self.known[handle] = len(self.events)

    @rule(handle=which)
    def refresh(self, handle: int) -> None:
        assert self.logs[handle].refresh().position == len(self.events)
        self.known[handle] = len(self.events)

    @rule(handle=which)
    def open_again(self, handle: int) -> None:
        self.logs[handle].close()
        self.logs[handle] = self.place.open(create=False)
        self.known[handle] = len(self.events)

    @rule(handle=which, after=st.integers(0, 40), limit=st.none() | st.integers(0, 40))
    def read(self, handle: int, after: int, limit: int | None) -> None:
        expected = list(enumerate(self.events[: self.known[handle]], 1))[after:]
        assert list(self.logs[handle].read(after, limit)) == expected[:limit]

    @rule(handle=which, number=st.integers(0, 40), after=st.integers(0, 40))
    def read_stream(self, handle: int, number: int, after: int) -> None:
        seen = list(enumerate(self.events[: self.known[handle]], 1))
        if number < len(seen):
            stream = seen[number][1].stream
            expected = [pair for pair in seen[after:] if pair[1].stream == stream]
            assert list(self.logs[handle].read_stream(stream, after)) == expected
            before = [pair for pair in seen[: max(after - 1, 0)] if pair[1].stream == stream]
            assert list(self.logs[handle].read_back(stream, after)) == before[::-1]
            same_kind = [pair for pair in before if type(pair[1]) is type(seen[number][1])]
            assert list(self.logs[handle].read_back(stream, after, [type(seen[number][1])])) == same_kind[::-1]

    @invariant()
    def the_head_is_what_the_handle_has_seen(self) -> None:
        assert [log.head.position for log in self.logs] == self.known

    def teardown(self) -> None:
        try:
            assert self.place.problems() == []
        finally:
            for log in self.logs:
                log.close()
            self.stack.close()


def machine(name: str) -> type[Model]:
    return type(f"Model_{name}", (Model,), {"kind": name})


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_equals_a_list(kind: str) -> None:
    run_state_machine_as_test(
        machine(kind),
        settings=settings(
            max_examples=20 if kind != "postgresql" else 5,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

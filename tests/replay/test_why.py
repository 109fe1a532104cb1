"""Property: `why` answers for every job and slot of any log, the same from its streams as from the whole log, now and
at any instant."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import closing
from datetime import UTC, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.bench.long_log import write_long_log

from poolbook import Pool as OwnPool
from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.runtime.views import rebuild
from poolbook.adapters.stores.log_prefix import LogPrefix
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import ClaimMade, Event, LoggedEvent, SlotCreated, SlotTransitioned
from poolbook.domain.ports.log import EventStore
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND
from poolbook.replay.narration.sentences import MOST_LINES, UnknownThingError, dated_line
from poolbook.replay.virtual_world import EPOCH
from poolbook.replay.why import select_events as select_events_module
from poolbook.replay.why import slot as slot_module
from poolbook.replay.why.answer import why
from poolbook.replay.why.job import why_job
from poolbook.replay.why.select_events import SlotPositions, job_events, slot_events
from poolbook.replay.why.slot import why_slot

from ..together import together
from .virtual_pool import Pool

COMMANDS = st.sampled_from(
    """
    submit alice 2 seconds=30
    submit bob 2 seconds=300 grace=-1 differ
    submit bob 1 memory=9000
    submit alice 1 hold
    submit alice 1 end=failure
    hold alice 1
    hold bob 2.0
    release alice all
    release bob all
    remove alice 1.0
    remove bob bob
    suspend alice 1.1
    continue alice alice
    vacate root slot1_1@h
    vacate root slot1_2@h fast
    edit bob bob JobPrio=4
    run 10 s
    run 11 min
    """.strip().splitlines()
).map(str.strip)


@given(commands=st.lists(COMMANDS, min_size=5, max_size=25), back=st.integers(0, 700))
@settings(max_examples=15, deadline=None)
def test_every_job_and_slot_has_an_answer(commands: list[str], back: int) -> None:
    pool = Pool()
    pool.say("machine h Cpus=2 Memory=2048")
    for command in commands:
        pool.say(command)
    all_events, state = pool.events(), pool.engine.state
    at = pool.engine.world.now() - back * SECOND
    for number in range(1, state.next_cluster):
        for proc in (0, 1):
            stream_events = job_events(pool.log, number, proc)
            answers = _job(all_events, number, proc)
            assert answers == _job(stream_events, number, proc, None, pool)
            assert _job(all_events, number, proc, at) == _job(stream_events, number, proc, at, pool)
            _agrees(state, number, proc, answers)
    for name in {event.slot for _, event in all_events if isinstance(event, SlotCreated)}:
        answer = why_slot(all_events, name)
        assert answer == why_slot(slot_events(pool.log, name), name)
        slot = state.slots.get(name)
        assert (
            f"{name} has been {slot.state_activity} since" if slot else f"{name} has not existed since"
        ) in answer.texts[0]
        assert len(answer.lines) <= MOST_LINES
        assert [sentence.position for sentence in answer.life] == sorted(sentence.position for sentence in answer.life)


def _job(
    events: list[tuple[int, Event]], number: int, proc: int, at: int | None = None, pool: Pool | None = None
) -> list[str]:
    """Return the answer from a log's events, or from the job's events and the pool's log."""
    try:
        answer = why_job(events, number, proc, at, read_log=None if pool is None else pool.log.read)
        assert len(answer.lines) <= MOST_LINES
        return [*answer.texts, *map(dated_line, answer.life)]
    except UnknownThingError:
        return []


_SAID = {
    "Idle": "has been waiting (Idle) since",
    "Running": "has been running on",
    "Suspended": "has been suspended on",
    "Held": "has been held since",
    "Removed": "was removed at",
}


def _agrees(state: State, number: int, proc: int, answer: list[str]) -> None:
    """Check that the answer begins with the job's status in the pool."""
    cluster = state.clusters.get(number)
    if cluster is not None and proc in cluster:
        assert f"Job {number}.{proc} {_SAID[cluster.status_of(proc)]} " in answer[0]
    elif answer:
        assert f"Job {number}.{proc} completed at" in answer[0] or f"Job {number}.{proc} was removed at" in answer[0]


@pytest.fixture(scope="module")
def pool() -> Pool:
    pool = Pool()
    for command in (
        "machine h",
        "submit alice 1 seconds=30",
        "run 10 s",
        "hold alice 1",
        "run 1 min",
        "release alice 1",
    ):
        pool.say(command)
    pool.say("run 1 h")
    return pool


@pytest.mark.parametrize(
    ("seconds", "answer"),
    [
        (0, "Job 1.0 has been running on slot1_1@h since 2027-01-15 08:00:00. The negotiator matched"),
        (10, "Job 1.0 has been held since 2027-01-15 08:00:10. alice put job 1.0 on hold (condor_hold) "
             "(code 1, UserRequest: a user asked for it to be held)."),
        (80, "Job 1.0 has been running on slot1_1@h since 2027-01-15 08:01:10. The negotiator matched"),
        (100, "Job 1.0 completed at 2027-01-15 08:01:40, with code 0. Job 1.0 ended after 30 s on slot1_1@h, with code "
              "0; it left the queue."),
    ],
)  # fmt: skip
def test_why_answers_for_any_instant(pool: Pool, seconds: int, answer: str) -> None:
    lines = why_job(pool.events(), 1, 0, EPOCH + seconds * SECOND).lines
    assert " ".join(line.full for line in lines).startswith(answer)


@together(
    ("reason", "answer"),
    [
        ("", "alice removed job 1.0 (condor_rm)."),
        ("via poolbook rm", "alice removed job 1.0 (poolbook rm)."),
        ("via poolbook rm -forcex", "alice removed job 1.0 (poolbook rm -forcex)."),
        ("wrong input", "alice removed job 1.0: wrong input."),
    ],
)
def test_why_names_the_command_or_the_reason_that_a_user_gave(reason: str, answer: str) -> None:
    with OwnPool.open("memory:", user="alice") as pool:
        pool.submit({"executable": "/bin/true"})
        pool.remove(1, reason=reason)
        assert answer in pool.why("1.0")


def test_a_thing_is_unknown_before_its_first_event(pool: Pool) -> None:
    with pytest.raises(UnknownThingError, match=r"the log has no job 1\.0 at 2027-01-15 07:59:59: `poolbook q`"):
        why_job(pool.events(), 1, 0, EPOCH - SECOND)
    with pytest.raises(
        UnknownThingError, match=r"the log has no slot slot1@h at 2027-01-15 07:59:59: `poolbook status`"
    ):
        why_slot(pool.events(), "slot1@h", EPOCH - SECOND)


def test_a_process_that_its_cluster_never_had_is_unknown(pool: Pool) -> None:
    with pytest.raises(UnknownThingError, match=r"no job 1\.7"):
        why_job(job_events(pool.log, 1), 1, 7)


def test_a_slot_is_explained_as_of_a_past_instant(pool: Pool) -> None:
    answer = why(pool.log, "slot1_1@h", EPOCH + 5 * SECOND)
    assert answer.texts[0].startswith("Slot slot1_1@h has been Claimed/Busy since 2027-01-15 08:00:00; job 1.0 of")
    assert answer.lines[1].full.endswith("(Claimed/Idle -> Claimed/Busy by transition 11).")
    assert why(pool.log, "slot1_1@h").texts[0].startswith("Slot slot1_1@h has not existed since")


def test_times_are_in_the_requested_zone(pool: Pool) -> None:
    zone = timezone(timedelta(hours=1))
    sentence = why_job(pool.events(), 1, 0, EPOCH, zone).lines[0]
    expected = "Job 1.0 has been running on slot1_1@h since 2027-01-15 09:00:00."
    assert dated_line(sentence, zone) == f"2027-01-15 09:00:00  {expected}"


def test_a_sentence_serializes_as_a_plain_dict(pool: Pool) -> None:
    sentence = why_job(pool.events(), 1, 0).life[0]
    assert json.loads(json.dumps(sentence.as_dict())) == {
        "at": "2027-01-15T08:00:00.000000Z",
        "position": 5,
        "text": "alice submitted job 1.0.",
        "full": "alice submitted job 1.0.",
        "code": "submitted",
        "facts": {"job": "1.0", "user": "alice", "count": "", "hold": "", "named": ""},
        "places": [],
        "cause": "submitted",
        "stimulus": "submit-2",
    }


def test_the_history_of_a_long_claim_keeps_its_first_and_last_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log("memory:", create=True)
    write_long_log(log, 8_000)
    answer = why_slot(slot_events(log, "slot3@h"), "slot3@h")
    assert answer == why_slot(log.read(), "slot3@h")
    monkeypatch.setattr(slot_module, "MOST", 1_000_000)
    complete = why_slot(log.read(), "slot3@h")
    assert answer.lines == complete.lines
    first, omission, last = answer.life[: slot_module.BEGINNING], answer.life[6], answer.life[7:]
    assert (*first, *last) == (*complete.life[:6], *complete.life[-len(last) :])
    assert omission.text == "The sentences between are omitted here; `poolbook log slot3@h` shows all events."
    assert len(complete.life) > 1_500


class _CountedLog(LogPrefix):
    """A log that counts the events that are read from it, and lists the kinds that are searched for in streams."""

    def __init__(self, log: EventStore) -> None:
        super().__init__(log, log.head.position)
        self.count = 0
        self.searched: list[Collection[type[Event]]] = []

    def _counted(self, events: Iterator[LoggedEvent]) -> Iterator[LoggedEvent]:
        for pair in events:
            self.count += 1
            yield pair

    def read(self, after: int = 0, limit: int | None = None, size: int | None = None) -> Iterator[LoggedEvent]:
        return self._counted(super().read(after, limit, size))

    def read_stream(self, stream: str, after: int = 0) -> Iterator[LoggedEvent]:
        return self._counted(super().read_stream(stream, after))

    def read_back(
        self, stream: str, before: int | None = None, kinds: Collection[type[Event]] = ()
    ) -> Iterator[LoggedEvent]:
        self.searched.append(kinds)
        return self._counted(super().read_back(stream, before, kinds))


def test_a_slot_is_explained_from_as_many_events_of_a_long_log_as_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(select_events_module, "_MOST_READ", 200)
    monkeypatch.setattr(select_events_module, "_NARRATED", 20)
    counts = []
    for jobs in (2_000, 8_000):
        log = open_log("memory:", create=True)
        write_long_log(log, jobs)
        counted_log = _CountedLog(log)
        assert why(counted_log, "slot3@h").lines == why_slot(log.read(), "slot3@h").lines
        counts.append(counted_log.count)
    assert counts[0] == counts[1] < 3_000


def test_a_job_is_explained_from_as_many_events_of_a_long_log_as_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.bench.long_log.CLUSTER", 500)
    counts = []
    for jobs in (2_000, 8_000):
        log = open_log("memory:", create=True)
        write_long_log(log, jobs)
        counted_log = _CountedLog(log)
        assert why(counted_log, "2.7") == why_job(log.read(), 2, 7)
        counts.append(counted_log.count)
    assert counts[0] == counts[1] < 3_000


def test_the_views_spare_the_search_for_the_beginning_of_a_long_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select_events_module, "_MOST_READ", 200)
    monkeypatch.setattr(select_events_module, "_NARRATED", 20)
    url = str(tmp_path / "pool.db")
    with closing(open_log(url, create=True)) as log:
        write_long_log(log, 4_000)
        expected = why(log, "slot3@h")
        born, claimed = (
            next(position for position, event in log.read_stream("slot/slot3@h") if isinstance(event, kind))
            for kind in (SlotCreated, ClaimMade)
        )
        counted_log = _CountedLog(log)
        assert why(counted_log, "slot3@h", known=SlotPositions(born, claimed)) == expected
        assert all(ClaimMade not in kinds and SlotCreated not in kinds for kinds in counted_log.searched)
    rebuild(url)
    with Queries(url) as queries:
        assert queries.why("slot3@h", None, UTC) == expected


def test_a_long_history_keeps_an_old_step_that_explains_the_state() -> None:
    """Job 1.0 was suspended thousands of steps ago."""
    log = open_log("memory:", create=True)
    write_long_log(log, 100)
    events = [event for _, event in log.read()]
    moves = [event for event in events if isinstance(event, SlotTransitioned) and event.slot == "slot3@h"]
    template = next(event for event in moves if event.row == "11")
    suspended = replace(template, row="14", cause="suspend_command", source="Claimed/Busy", target="Claimed/Suspended")
    log.append([suspended, *([replace(template, row="99")] * 3_000)])
    answer = why_slot(slot_events(log, "slot3@h"), "slot3@h")
    assert "row 14" in " ".join(line.code for line in answer.lines)

"""Property: every job and slot of any log has an answer, of its streams as of the whole log, now and at any instant."""

from __future__ import annotations

import json
from datetime import timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.events import Event, SlotCreated
from poolbook.domain.state.state import State
from poolbook.replay.virtual_world import EPOCH, SECOND
from poolbook.replay.why import UnknownThingError, job_events, slot_events, tell, why_job, why_slot
from poolbook.replay.why.answer import why

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
@settings(max_examples=100, deadline=None)
def test_every_job_and_slot_has_an_answer(commands: list[str], back: int) -> None:
    pool = Pool()
    pool.say("machine h Cpus=2 Memory=2048")
    for command in commands:
        pool.say(command)
    everything, state = pool.events(), pool.engine.state
    at = pool.engine.world.now() - back * SECOND
    for number in range(1, state.next_cluster):
        of_streams = job_events(pool.log, number)
        for proc in (0, 1):
            found = _job(everything, number, proc)
            assert found == _job(of_streams, number, proc)
            assert _job(everything, number, proc, at) == _job(of_streams, number, proc, at)
            _agrees(state, number, proc, found)
    for name in {event.slot for _, event in everything if isinstance(event, SlotCreated)}:
        sentences = why_slot(everything, name)
        assert sentences == why_slot(slot_events(pool.log, name), name)
        slot = state.slots.get(name)
        assert (f"{name} is {slot.state_activity} since" if slot else f"{name} is no more") in sentences[0].text
        assert [s.position for s in sentences[1:]] == sorted(s.position for s in sentences[1:])


def _job(events: list[tuple[int, Event]], number: int, proc: int, at: int | None = None) -> list[str]:
    try:
        return [tell(sentence) for sentence in why_job(events, number, proc, at)]
    except UnknownThingError:
        return []


_SAID = {
    "Idle": "waits (Idle)",
    "Running": "runs",
    "Suspended": "is suspended",
    "Held": "is held",
    "Removed": "is being removed",
}


def _agrees(state: State, number: int, proc: int, found: list[str]) -> None:
    """The answer's first words are the job's status in the pool."""
    cluster = state.clusters.get(number)
    if cluster is not None and proc in cluster:
        assert f"Job {number}.{proc} {_SAID[cluster.status_of(proc)]} since" in found[0]
    elif found:
        assert f"Job {number}.{proc} ended at" in found[0] or f"Job {number}.{proc} was removed at" in found[0]


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
        (0, "Job 1.0 runs since 2027-01-15 08:00:00 on slot1_1@h."),
        (10, "Job 1.0 is held since 2027-01-15 08:00:10: alice asked for it to be held: via condor_hold "
             "(by user alice) (code 1, UserRequest: somebody asked for it to be held)."),
        (80, "Job 1.0 runs since 2027-01-15 08:01:10 on slot1_1@h."),
        (100, "Job 1.0 ended at 2027-01-15 08:01:40: it ended by itself, after 30 s on slot1_1@h, with code 0; "
              "it left the queue."),
    ],
)  # fmt: skip
def test_an_answer_can_be_had_for_any_instant(pool: Pool, seconds: int, answer: str) -> None:
    assert why_job(pool.events(), 1, 0, EPOCH + seconds * SECOND)[0].text == answer


def test_before_its_time_a_thing_is_unknown(pool: Pool) -> None:
    with pytest.raises(UnknownThingError, match=r"the log has no job 1\.0 at 2027-01-15 07:59:59: `poolbook q`"):
        why_job(pool.events(), 1, 0, EPOCH - SECOND)
    with pytest.raises(
        UnknownThingError, match=r"the log has no slot slot1@h at 2027-01-15 07:59:59: `poolbook status`"
    ):
        why_slot(pool.events(), "slot1@h", EPOCH - SECOND)


def test_a_process_that_its_cluster_never_had_is_unknown(pool: Pool) -> None:
    with pytest.raises(UnknownThingError, match=r"no job 1\.7"):
        why_job(job_events(pool.log, 1), 1, 7)


def test_a_slot_of_the_past_is_told_as_it_was(pool: Pool) -> None:
    answer = why(pool.log, "slot1_1@h", EPOCH + 5 * SECOND)[0].text
    assert answer.startswith("Slot slot1_1@h is Claimed/Busy since 2027-01-15 08:00:00 by transition 11:")
    assert why(pool.log, "slot1_1@h")[0].text.startswith("Slot slot1_1@h is no more")


def test_times_are_those_of_the_zone_that_is_asked_for(pool: Pool) -> None:
    zone = timezone(timedelta(hours=1))
    sentence = why_job(pool.events(), 1, 0, EPOCH, zone)[0]
    assert tell(sentence, zone) == "2027-01-15 09:00:00  Job 1.0 runs since 2027-01-15 09:00:00 on slot1_1@h."


def test_a_sentence_is_a_plain_dict_for_json(pool: Pool) -> None:
    sentence = why_job(pool.events(), 1, 0)[1]
    assert json.loads(json.dumps(sentence.as_dict())) == {
        "at": "2027-01-15T08:00:00.000000Z",
        "position": 5,
        "text": "alice submitted it.",
        "more": "",
        "cause": "submitted",
        "stimulus": "submit-2",
    }

"""Table: how `why` explains a job that cycles rejected or matched, from their records, whatever has changed since."""

from __future__ import annotations

import pytest

from poolbook.domain import events as e
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import EPOCH
from poolbook.replay.why.answer import why
from poolbook.replay.why.job import why_job
from poolbook.replay.why.select_events import job_events

from .contested_pool import contested_pool
from .virtual_pool import Pool


@pytest.fixture(scope="module")
def pool() -> Pool:
    return contested_pool()


REJECTIONS = [
    # in use
    ("3.0", 606, "all matching slots are in use, and PREEMPTION_REQUIREMENTS does not allow their preemption",
     "; 11 claimed slots (dynamic ones included) match, but may not be preempted: PREEMPTION_REQUIREMENTS is not true "
     "for 11; "),
    ("3.8", 900, "all matching slots are in use and prefer their current jobs",
     "6 claimed slots (dynamic ones included) match, but may not be preempted: 3 prefer their current jobs, 3 are "
     "used by the same submitter; "),
    ("1.0", 660, "all matching slots are in use by the same submitter",
     "preempted: 3 are used by users whose priority is not worse, 8 are used by the same submitter; "),
    ("5.4", 1660, "all matching slots are in use by users whose priority is not worse",
     "preempted: PREEMPTION_REQUIREMENTS is not true for 3, 4 are used by users whose priority is not worse, 4 "
     "are used by the same submitter; "),
    # limits
    ("2.1", 60, "all matching slots are in use",
     "; alice@example.org, the only submitter, had the whole pool (12 cores)"),
    # clauses
    ("6.0", 906,
     "no slot can run it: it requests 87.9 GiB of memory; the largest slot has 8.0 GiB (request_memory)",
     "of 9 slots, none meets its Requirements; no slot meets TARGET.Memory >= RequestMemory (RequestMemory = 90000); "),
]  # fmt: skip


def _rejection(pool: Pool, job: str, seconds: int | None = None) -> tuple[str, str]:
    """Return the short reason for a rejection, and its cycle's explanation with the evidence."""
    answer = why(pool.log, job, None if seconds is None else EPOCH + seconds * SECOND)
    lines_by_code = {line.code: line for line in (*answer.lines, *answer.life)}
    return lines_by_code["waiting_reason"].text, lines_by_code["refused"].full


@pytest.mark.parametrize(("job", "seconds", "short", "explanation"), REJECTIONS)
def test_why_names_what_keeps_a_job_waiting(pool: Pool, job: str, seconds: int, short: str, explanation: str) -> None:
    short_line, cycle = _rejection(pool, job, seconds)
    assert short_line.lower() == f"{short}.".lower()
    assert cycle.startswith("The negotiation cycle at 2027-01-15 08:")
    assert explanation in cycle


@pytest.mark.parametrize("slots", ["", " kind=static slots=4"])
@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], "all matching slots are in use"),
        (["submit bob 4 seconds=900"], "the fair share of alice@example.org is used up"),
    ],
)
def test_a_share_is_mentioned_only_with_several_submitters(slots: str, others: list[str], expected: str) -> None:
    pool = Pool()
    for command in ("submit alice 6 seconds=900", *others, f"machine h Cpus=4 Memory=2048{slots}", "run 3 min"):
        pool.say(command)
    assert _rejection(pool, "1.5")[0].lower() == f"{expected}.".lower()


MATCHES = [
    (
        "1.0",
        0,
        "matched job 1.0 with slot1@a, which was free. Its ranks: NEGOTIATOR_POST_JOB_RANK 999. Its Requirements = ",
    ),
    ("2.0", 0, "slot1_3@c, which was free. Its ranks: Rank 7936, NEGOTIATOR_POST_JOB_RANK 999."),
    ("4.0", 600, ": the slot's RANK prefers this job to the job of alice@example.org. Its ranks: PREEMPTION_RANK 5546"),
    (
        "3.3",
        900,
        "with slot4@a: the submitter of this job has a better priority than alice@example.org. Its ranks: "
        "PREEMPTION_RANK 57",
    ),
]


@pytest.mark.parametrize(("job", "seconds", "expected"), MATCHES)
def test_why_names_the_ranks_of_a_match_and_the_preempted_job(
    pool: Pool, job: str, seconds: int, expected: str
) -> None:
    texts = [
        sentence.full
        for sentence in why(pool.log, job, EPOCH + seconds * SECOND).life
        if sentence.cause == "negotiated"
    ]
    assert any(expected in text for text in texts), texts


def test_why_of_a_slot_names_the_job_preempted_for_its_match(pool: Pool) -> None:
    texts = [sentence.text for sentence in why(pool.log, "slot1@a", EPOCH + 600 * SECOND).life]
    assert (
        "The negotiator matched it with job 4.0: the slot's RANK prefers it to the job of alice@example.org." in texts
    )


def test_why_gives_the_cores_of_a_ceiling() -> None:
    pool = Pool()
    pool.say("machine h kind=static slots=4 Cpus=1 Memory=2048")
    pool.say("grant alice@example.org ceiling 2")
    pool.say("submit alice 3 seconds=100")
    short, cycle = _rejection(pool, "1.2")
    assert short == "alice@example.org has reached its ceiling."
    assert "; the ceiling of alice@example.org was reached (2 of 2 cores)" in cycle


def test_why_reports_that_preemption_is_not_considered() -> None:
    pool = Pool(NEGOTIATOR_CONSIDER_PREEMPTION="false")
    pool.say("machine h kind=static slots=1 Cpus=1 Memory=2048")
    pool.say("submit alice 1 seconds=1000")
    pool.say("submit bob 1 seconds=100")
    short, cycle = _rejection(pool, "2.0")
    assert short == "All matching slots are in use, and preemption is turned off."
    assert ": 1 is not preempted, because NEGOTIATOR_CONSIDER_PREEMPTION is false" in cycle


def test_the_present_obstacle_is_evaluated_now() -> None:
    pool = Pool()
    pool.say("machine h kind=static slots=1 Cpus=1 Memory=2048")
    pool.say("submit bob 1 memory=9000")
    now = pool.engine.world.now()
    pool.log.append([
        e.PoolConfigured(now, "configured", "x", {"PREEMPTION_REQUIREMENTS": "true"}),
        e.SlotAdChanged(now, "configured", "x", "slot1@h", {"Memory": "10000", "Arch": '"ARM"'}),
        e.JobsEdited(now, "edited", "y", 1, ((0, 0),), {"RequestMemory": "1"}),
    ])  # fmt: skip
    short, cycle = _rejection(pool, "1.0")
    assert short == 'No slot can run it: none of 1 slot meets all its requests (slot1@h has Arch = "ARM").'
    assert (
        "of 1 slot, none meets its Requirements; no slot meets TARGET.Memory >= RequestMemory (RequestMemory = 1); "
        in cycle
    )
    assert cycle.endswith(" leaves 0.")


def test_a_submitters_share_does_not_explain_another_submitters_job() -> None:
    pool = Pool()
    pool.say("machine h kind=static slots=2 Cpus=1 Memory=2048")
    pool.say("submit alice 3 seconds=1000")
    at = pool.engine.world.now()
    pool.log.append([e.ClusterSubmitted(at, "submitted", "x", 2, "bob@example.org", _ad(pool), 1, (), "Idle")])
    assert "No negotiation cycle has considered it yet." in why(pool.log, "2.0").texts
    assert not any("No negotiation cycle" in text for text in why(pool.log, "1.2").texts)


def _ad(pool: Pool) -> dict[str, str]:
    return next(event.ad for _, event in pool.events() if isinstance(event, e.ClusterSubmitted))


def test_the_gathered_streams_give_the_same_answer_as_the_whole_log(pool: Pool) -> None:
    for number in range(1, 7):
        stream_events = job_events(pool.log, number)
        answer = why_job(stream_events, number, 0, read_log=pool.log.read)
        assert answer == why_job(pool.events(), number, 0)

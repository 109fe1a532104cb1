"""Property: whatever users do with their jobs, HTCondor's own reader reads the resulting log, and each job's story in
it is legal. Hypothesis drives a whole pool in virtual time."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import htcondor2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolbook.domain.ports.world import Launch
from poolbook.replay.virtual_world import Behaviour, VirtualWorld

from .pool import JOB, Pool, events_of, utc

# The events that may follow in the story of one job: state -> event -> state.
STORY: dict[str, dict[str, str]] = {
    "unknown": {"000": "waits"},
    "waits": {"001": "runs", "009": "over", "012": "held", "021": "failed", "033": "waits"},
    "runs": {
        "004": "waits", "005": "over", "006": "runs", "010": "stopped", "021": "failed", "024": "lost", "033": "runs",
    },
    "stopped": {"004": "waits", "006": "stopped", "011": "runs", "024": "lost", "033": "stopped"},
    "failed": {"004": "waits"},
    "lost": {"004": "waits"},
    "held": {"012": "held", "013": "waits", "009": "over", "033": "held"},
    "over": {},
}  # fmt: skip


def final_states(events: list[str]) -> dict[str, str]:
    """Return the final state of each job's story; raise KeyError for an illegal one."""
    state: dict[str, str] = defaultdict(lambda: "unknown")
    for event in events:
        number, _, job = event[: event.index(")")].partition(" (")
        state[job] = STORY[state[job]][number]
    return state


def behave(launch: Launch) -> Behaviour:
    """Behave as the job's Args say: seconds, and a letter for how it ends."""
    seconds, _, how = launch.job_ad["Args"].strip('"').partition(" ")
    return Behaviour(
        float(seconds),
        signal=11 if how == "dies" else None,
        grace=None if how == "stays" else 2.0,
        failure="Error from slot1@host: it cannot be started" if how == "fails" else "",
        lost=how == "vanishes",
    )


ENDS = ("ends", "dies", "stays", "fails", "vanishes")
SUBMITS = st.tuples(st.just("submit"), st.integers(1, 3), st.integers(1, 90), st.sampled_from(ENDS))
RUNS = st.tuples(st.just("run"), st.sampled_from([0.0, 0.5, 3.0, 20.0, 700.0]), st.none(), st.none())
ACTIONS = ("hold", "release", "remove", "vacate", "suspend", "continue")
ACTS = st.tuples(st.just("act"), st.sampled_from(ACTIONS), st.integers(0, 3), st.booleans())
EDITS = st.tuples(st.just("prio"), st.integers(-3, 3), st.integers(0, 5), st.none())
MEASURES = st.tuples(st.just("measure"), st.integers(0, 5), st.integers(1, 5000), st.none())
Step = tuple[object, ...]
# Two jobs run when the history begins: most of the possible events happen to those.
BEGINNINGS = st.tuples(st.just("submit"), st.just(2), st.integers(5, 90), st.sampled_from(ENDS)).map(
    lambda submit: [submit, ("run", 1.0, None, None)]
)
HISTORIES: st.SearchStrategy[list[Step]] = st.builds(
    lambda first, then: [*first, *then],
    BEGINNINGS,
    st.lists(st.one_of(ACTS, ACTS, RUNS, SUBMITS, EDITS, MEASURES), min_size=4, max_size=25),
)


def live(pool: Pool) -> list[tuple[int, int]]:
    return [(cluster.id, proc) for cluster in pool.engine.state.clusters.values() for proc in cluster.procs()]


def perform(pool: Pool, step: Step) -> None:
    match step:
        case ("submit", int(count), int(seconds), how):
            pool.submit({**JOB, "Args": f'"{seconds} {how}"'}, count)
        case ("run", float(seconds), _, _):
            pool.run(seconds)
        case ("act", str(action), int(index), bool(fast)):
            jobs = live(pool)
            if jobs:
                pool.act(action, jobs[index % len(jobs)], fast=fast)
        case ("prio", int(prio), int(index), _):
            jobs = live(pool)
            if jobs:
                pool.edit({"JobPrio": str(prio)}, jobs[index % len(jobs)])
        case ("measure", int(index), int(resident), _):
            running = [a for a in pool.engine.state.activations.values() if a.executing]
            if running:
                activation = running[index % len(running)]
                pool.measure((activation.cluster, activation.proc), 2 * resident, resident)


def pool_after(history: list[Step]) -> Pool:
    """Return a pool in which all this has happened, and every job has ended."""
    pool = Pool(VirtualWorld(behave))
    pool.machine("host", 2, Cpus="1", Memory="1024", Disk="4096")
    for step in history:
        perform(pool, step)
    pool.act("remove")
    pool.run(5000)
    assert not pool.engine.state.clusters
    return pool


def examples(number: int) -> settings:
    return settings(
        max_examples=number, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


def test_every_story_is_legal_and_read_by_htcondor(tmp_path: Path) -> None:
    seen: set[str] = set()

    @examples(50)
    @given(history=HISTORIES)
    def legal(history: list[Step]) -> None:
        pool = pool_after(history)
        events = events_of(pool.log())
        assert set(final_states(events).values()) == {"over"}
        assert not pool.logs._clusters and not pool.logs._runs  # nothing is kept about ended jobs
        seen.update(event[:3] for event in events)

        file = tmp_path / "job.log"
        file.write_text(pool.log())
        read = list(htcondor2.JobEventLog(str(file)).events(stop_after=0))
        heads = [f"{int(event.type):03d} ({event.cluster:03d}.{event.proc:03d}." for event in read]
        assert heads == [event[: len(head)] for event, head in zip(events, heads, strict=True)]

    legal()
    assert seen == {number for follows in STORY.values() for number in follows}


@examples(30)
@given(history=HISTORIES, data=st.data())
def test_a_fold_that_skips_written_events_continues_like_one_that_wrote_them(
    history: list[Step], data: st.DataObject
) -> None:
    pool = pool_after(history)
    cut = data.draw(st.integers(0, len(pool.happened)))
    full_fold, late_fold = utc(), utc()
    for position, event in pool.happened[:cut]:
        full_fold.fold(position, event)
        late_fold.skip(position, event)
    for position, event in pool.happened[cut:]:
        assert full_fold.fold(position, event) == late_fold.fold(position, event)

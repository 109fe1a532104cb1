"""Golden: summaries of a cluster's jobs, in the pool's own logs and in the records of real pools."""

from __future__ import annotations

import pytest

from poolbook.domain.units import SECOND
from poolbook.replay.narration.sentences import UnknownThingError
from poolbook.replay.virtual_world import EPOCH
from poolbook.replay.why.answer import why
from poolbook.replay.why.cluster import UNKNOWN_STATE

from ..importing.folders import TRACES, recorded
from .virtual_pool import Pool

STORIES: list[tuple[tuple[str, ...], list[str]]] = [
    (("submit alice 3 seconds=30", "run 1 min"), ["Cluster 1 has 3 jobs: 3 completed."]),
    (
        ("submit alice 2 seconds=30 code=3", "run 1 min", "run 1 min"),
        ["Cluster 1 has 2 jobs: 2 failed (exit 3).", "Job 1.0 completed at 2027-01-15 08:00:30, with code 3."],
    ),
    (
        ("submit alice 2 seconds=30 end=signal", "run 1 min"),
        ["Cluster 1 has 2 jobs: 2 failed (signal 11).", "Job 1.0 completed at 2027-01-15 08:00:30, with signal 11."],
    ),
    (
        ("submit alice 3 seconds=900", "run 1 min", "hold alice 1.1", "remove alice 1.2", "run 1 min"),
        ["Cluster 1 has 3 jobs: 1 removed, 1 held, 1 running.", "Job 1.1 has been held since"],
    ),
    (
        ("submit alice 2 hold", "release alice 1.0", "run 1 s", "suspend alice 1.0"),
        ["Cluster 1 has 2 jobs: 1 held, 1 suspended.", "Job 1.1 has been held since"],
    ),
    (
        ("submit alice 2 memory=9000",),
        [
            "Cluster 1 has 2 jobs: 2 idle.",
            "Job 1.0 has been waiting (Idle) since 2027-01-15 08:00:00.",
        ],
    ),
    (
        ("submit alice 1 seconds=30 end=failure", "run 1 s"),
        ["Cluster 1 has 1 job: 1 held.", "Job 1.0 has been held since 2027-01-15 08:00:00."],
    ),
]


@pytest.mark.parametrize(("story", "beginnings"), STORIES)
def test_a_cluster_is_summarized_by_its_jobs_outcomes(story: tuple[str, ...], beginnings: list[str]) -> None:
    pool = Pool()
    for command in ("machine h Cpus=4 Memory=2048", *story):
        pool.say(command)
    texts = [text for text in why(pool.log, "1").texts if text.startswith(("Cluster", "Job 1."))]
    assert [text[: len(begin)] for text, begin in zip(texts, beginnings, strict=False)] == beginnings
    assert len(why(pool.log, "1").lines) <= 5


def test_a_cluster_is_summarized_as_of_any_instant() -> None:
    pool = Pool()
    for command in ("machine h Cpus=4 Memory=2048", "submit alice 2 seconds=30", "run 1 h"):
        pool.say(command)
    assert why(pool.log, "1", EPOCH + SECOND).texts[0] == "Cluster 1 has 2 jobs: 2 running."
    assert why(pool.log, "1").texts[0] == "Cluster 1 has 2 jobs: 2 completed."
    with pytest.raises(UnknownThingError, match=r"no cluster 1 at 2027-01-15 07:59:59: `poolbook q`"):
        why(pool.log, "1", EPOCH - SECOND)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pool", "pool is not a job, cluster or slot: `poolbook log pool` prints its events; why accepts"),
        ("machine/h", "`poolbook log machine/h` prints its events"),
        (
            "nonsense",
            "'nonsense' is none of these: why accepts a job (12.3), a cluster (12) or a slot (slot1@host)",
        ),
    ],
)
def test_an_unsupported_name_is_refused_with_the_command_that_shows_it(name: str, expected: str) -> None:
    pool = Pool()
    with pytest.raises(ValueError) as error:
        why(pool.log, name)
    assert expected in str(error.value)


def test_the_summary_names_the_jobs_whose_ends_are_not_recorded() -> None:
    log, _ = recorded(TRACES / "10-fairshare")
    summary, missing, *_ = [line.full for line in why(log, "1").lines]
    assert summary == f"Cluster 1 has 110 jobs: 10 completed, 86 removed, 14 {UNKNOWN_STATE}."
    assert missing.startswith(
        "Records are missing from 2026-11-20 22:52:52 to 2026-11-20 22:55:08: the ends of 14 jobs are not known. ["
    )
    earlier = why(log, "1", 1_795_215_160 * SECOND)  # 22:52:40
    assert not any("missing" in text for text in earlier.texts)


def test_a_slot_with_a_unique_name_needs_no_machine() -> None:
    pool = Pool()
    pool.say("machine h Cpus=1 Memory=1024 kind=static slots=1")
    (name,) = pool.engine.state.slots
    assert why(pool.log, "slot1") == why(pool.log, name)
    pool.say("machine i Cpus=1 Memory=1024 kind=static slots=1")
    with pytest.raises(ValueError, match=r"'slot1' is none .*; the log has 2 slots of that name, as slot1@h"):
        why(pool.log, "slot1")

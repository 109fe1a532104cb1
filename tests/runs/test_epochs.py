"""Golden and property: the runs of jobs as ads, in the form of the epoch history."""

from __future__ import annotations

import pytest

from poolbook.domain.events import JobExited
from poolbook.domain.events.base import Ad
from poolbook.replay.runs import epochs as epochs_module
from poolbook.replay.runs.epochs import EPOCHS, ads_of_clusters, ads_with_positions, latest_ads

from ..replay.virtual_point import PointPool
from ..together import together

STORIES = {
    "jobs that end": ("submit alice 2 seconds=30", "run 60 s"),
    "a run that is vacated, and the next": (
        "submit alice 1 seconds=30", "run 10 s", "vacate root slot1_1@h", "run 90 s",
    ),
    "a run that is held, and the next": (
        "submit alice 1 seconds=30", "run 10 s", "hold alice 1.0", "run 10 s", "release alice 1.0", "run 60 s",
    ),
    "a job that is removed while it runs": ("submit alice 1 seconds=300", "run 10 s", "remove alice 1.0", "run 20 s"),
    "a run that is lost": ("submit alice 1 seconds=30 end=lost", "run 31 s"),
}  # fmt: skip


def pool_of(story: str) -> PointPool:
    pool = PointPool()
    for line in ("machine h Cpus=4 Memory=8192", *STORIES[story]):
        pool.say(line)
    return pool


def shown(ad: Ad, *names: str) -> list[str]:
    return [ad.get(name, "") for name in names]


@together(
    ("story", "runs"),
    [
        ("jobs that end", [["0", "0", "2", "0", ""], ["1", "0", "2", "0", ""]]),
        ("a run that is vacated, and the next", [["0", "0", "2", "", "1010"], ["0", "1", "2", "0", ""]]),
        ("a run that is held, and the next", [["0", "0", "2", "", "1"], ["0", "1", "2", "0", ""]]),
        ("a job that is removed while it runs", [["0", "0", "2", "", "1023"]]),
    ],
)
def test_each_ad_has_the_jobs_state_at_the_runs_end(story: str, runs: list[list[str]]) -> None:
    ads = [ad for _, ad in ads_with_positions(pool_of(story).log.read(), EPOCHS)]
    assert [shown(ad, "ProcId", "RunInstanceID", "JobStatus", "ExitCode", "VacateReasonCode") for ad in ads] == runs
    assert {ad["EpochAdType"] for ad in ads} == {'"EPOCH"'}
    assert all(ad["RemoteHost"].startswith('"slot1_') for ad in ads)


@together("story", STORIES)
def test_there_are_as_many_ads_as_ended_runs(story: str) -> None:
    log = pool_of(story).log
    ended = [(event.cluster, event.proc) for _, event in log.read() if isinstance(event, JobExited)]
    assert ended
    ads = [ad for _, ad in ads_with_positions(log.read(), EPOCHS)]
    assert [(int(ad["ClusterId"]), int(ad["ProcId"])) for ad in ads] == ended


@together("story", STORIES)
def test_the_events_of_a_jobs_cluster_are_enough(story: str) -> None:
    log = pool_of(story).log
    assert ads_of_clusters(log, [1], EPOCHS) == list(ads_with_positions(log.read(), EPOCHS))


@pytest.mark.parametrize("part", [1, 2, 7, 50_000])
def test_the_latest_ads_are_those_of_the_whole_log_in_parts_of_any_size(
    monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(epochs_module, "_PART", part)
    log = pool_of("a run that is held, and the next").log
    assert list(latest_ads(log, EPOCHS)) == list(ads_with_positions(log.read(), EPOCHS))[::-1]

"""Golden: the actions on real HTCondor 25.14 pools in the traces 12 (what the schedd allows), 13 (deferred jobs and
policies) and 21 (factories), repeated in virtual time with the same submit files and configuration. The refusals, the
ads of the queue at each snapshot, those of the history, and each job's log equal the real ones, except for what two
tables list with its reasons."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from attrs import frozen

from poolbook.domain.classad import ClassAd, Expression
from poolbook.domain.classad.unparse import unparse_old
from poolbook.domain.ports.world import Launch
from poolbook.replay.virtual_world import Behaviour

from ..beside.differences import all_differences, known_differences, unlisted_differences
from ..beside.page import TRACES as TRACES_DIFFER
from ..beside.stories import Outcome, word
from .pool import events_of
from .test_deferred_logs import CRON, DATA, Runs, Snapshots, Step, play

ALLOWED_CASES: list[Step] = [
    ("22:47:20", "configure", ""),
    ("22:47:21", "submit 1", "alice-ok"),
    ("22:47:21", "submit 2", "alice-warn"),
    ("22:47:21", "refused 3", "alice-small"),
    ("22:47:21", "refused 4", "bob-b"),
    ("22:47:21", "refused 5", "alice-cpus"),
    ("22:47:21", "refused 7", "alice-two"),
    ("22:47:21", "submit 8", "alice-sl6"),
    ("22:47:21", "submit 9", "alice-sl6b"),
    ("22:47:21", "submit 10", "carol-default"),
    ("22:47:22", "submit 11", "carol-group"),
    ("22:47:22", "submit 12", "carol-wronggroup"),
    ("22:47:22", "submit 13", "alice-wronggroup"),
    ("22:47:22", "submit 15", "alice-local"),
    ("22:47:22", "submit 16", "alice-ok"),
    ("22:47:22", "submit 17", "alice-small request_memory=700"),
    ("22:47:22", "snapshot", "q-1"),
    ("22:47:22", "edit RequestMemory=100", "alice 1"),
    ("22:47:25", "machine", "2 12052"),
    ("22:47:35", "submit 18", "alice-fact"),
    ("22:47:37", "configure", "\nMAX_JOBS_PER_OWNER = 4"),
    ("22:47:37", "refused 19", "alice-lim1"),
    ("22:47:37", "refused 20", "alice-lim2"),
    ("22:47:47", "remove", "alice 18 8 16 17"),
    ("22:47:50", "end", "alice"),
]
FACTORIES: list[Step] = [
    ("22:59:35", "submit 2", "alice-six"),
    ("22:59:35", "submit 3", "alice-three"),
    ("22:59:35", "submit 5", "bob-idle"),
    ("22:59:35", "submit 6", "bob-mat"),
    ("22:59:35", "submit 7", "carol-items"),
    ("22:59:35", "submit 8", "carol-matching"),
    ("22:59:35", "submit 10", "carol-noexec"),
    ("22:59:35", "machine", "2 12052"),
    ("23:00:50", "submit 11", "carol-h"),
    ("23:00:50", "edit JobPrio=7", "carol 11"),
    ("23:00:50", "edit Foo=bar", "carol 11.1"),
    ("23:00:50", "remove", "carol 11.0"),
    ("23:00:50", "release", "carol 11.1"),
    ("23:00:51", "hold", "carol 11.2"),
    ("23:00:59", "remove", "carol 11.2"),
    ("23:01:00", "end", "carol"),
]
"""All accepted submissions; the refused ones changed nothing. The jobs before cluster 11 have left the queue."""


@frozen
class Trace:
    """The actions, and the jobs that end differently in virtual time for a reason that the trace does not contain."""

    name: str
    steps: Sequence[Step]
    runs: Runs
    interval: str
    ads: int  #: how many ads of jobs are compared, in all snapshots and in the history
    logs: int  #: the logs of how many jobs, and of how many factories
    elsewhere: frozenset[str] = frozenset()

    @property
    def folder(self) -> Path:
        return DATA / "traces" / self.name


def missing(launch: Launch) -> Behaviour:
    why = "Failed to execute '/no/such/file': (errno=2: 'No such file or directory')"
    return Behaviour(failure=f"Error from {launch.slot}: {why}")


TRACES = (
    # In the queue its local job had not begun yet: a real schedd looks for such jobs each second.
    Trace(
        "12-submit-policy", ALLOWED_CASES, {**dict.fromkeys(range(16), 5.0), 16: 100.0, 17: 100.0}, "2", 24, 14,
        frozenset({"q-1 15.0"}),
    ),
    # Its job 23 lacks a file, which does not matter in virtual time: tests/data/beside/missing-input.sub covers it.
    Trace(
        "13-deferral-crontab", CRON, {**dict.fromkeys(range(12), 1.0), 22: missing}, "5", 31, 11,
        frozenset({"23.0"}),
    ),
    # Its jobs 2.5 and 3.* were removed when the recording ended; here they complete.
    Trace(
        "21-factory-limits", FACTORIES, dict.fromkeys(range(20), 3.0), "5", 17, 29,
        frozenset({"2.5", "3.0", "3.1", "3.2"}),
    ),
)  # fmt: skip
Ads = dict[str, dict[str, str]]


def recorded(path: Path) -> Ads:
    """Return the ads of a file, by job."""
    ads = {}
    for text in re.split(r"\n\s*\n|^\*\*\*.*$", gzip.decompress(path.read_bytes()).decode(), flags=re.MULTILINE):
        ad = dict(line.split(" = ", 1) for line in text.split("\n") if " = " in line)
        if "ClusterId" in ad:
            ads[f"{ad['ClusterId']}.{ad['ProcId']}"] = ad
    return ads


def as_text(ads: Iterable[ClassAd]) -> Ads:
    texts = [{name: _text(ad[name]) for name in ad} for ad in ads]
    return {f"{ad['ClusterId']}.{ad['ProcId']}": ad for ad in texts}


def _text(value: object) -> str:
    return unparse_old(value) if isinstance(value, Expression) else str(value)


def logged(folder: Path) -> str:
    """Return all users' logs of a trace."""
    logs = [gzip.decompress(path.read_bytes()).decode() for path in sorted(folder.glob("*-job.log.gz"))]
    return "".join([*logs, *(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*-job.log")))])


def events_by_job(log: str) -> dict[str, tuple[str, ...]]:
    """Return a log's events of each job, and of whole clusters, without times, addresses, sizes and usage."""
    events_by_job: dict[str, list[str]] = {}
    for event in events_of(log):
        number, cluster, proc, remainder = re.match(
            r"(\d+) \((\d+)\.(-?\d+)\.000\) \S+ \S+ (.*)", event, re.DOTALL
        ).groups()  # type: ignore[union-attr]
        if number != "006":
            text = re.sub(r"\tPartitionable Resources.*", "", remainder, flags=re.DOTALL)
            text = re.sub(
                r"<[^>]*>|\t+Usr \d.*\n|\t\d+  -  .*\n|\t(Cpus|Disk|GPUs|Memory|Condor\w+) = .*\n|\.\.\.\n", "", text
            )
            events_by_job.setdefault(f"{int(cluster)}.{int(proc)}", []).append(f"{number} {plain(text).strip()}")
    return {job: tuple(events) for job, events in events_by_job.items()}


def plain(text: str) -> str:
    return re.sub(r"slot\d+@[\w.-]+", "SLOT", text)


def comparable_outcome(trace: Trace, name: str, ads: Ads, logs: Mapping[str, tuple[str, ...]]) -> dict[str, Outcome]:
    """Return the outcome of jobs, without the parts that differ between any two runs."""
    return {
        f"{trace.name[:2]}-{job}": Outcome(
            logs.get(job, ()), {name: word(name, text) or plain(text) for name, text in ads.get(job, {}).items()}, {}
        )
        for job in ads.keys() | logs.keys()
        if not trace.elsewhere & {job, f"{name} {job}"}
    }


@pytest.mark.parametrize("trace", TRACES, ids=[trace.name for trace in TRACES])
def test_the_actions_in_a_real_pool_have_the_same_outcome_here(trace: Trace) -> None:
    snapshots: Snapshots = {}
    pool = play("2026-11-20", trace.steps, trace.folder / "submit", trace.runs, trace.interval, snapshots)
    our_ads = {**snapshots, "history": list(pool.views().history_ads())}
    differences, count = [], 0
    for name, ads in our_ads.items():
        recorded_ads, played_ads = recorded(trace.folder / f"{name}.ads.gz"), as_text(ads)
        common = recorded_ads.keys() & played_ads.keys()  # the recorder omitted some
        count += len(common)
        differences += all_differences(
            *(
                comparable_outcome(trace, name, {job: ads_of_one[job] for job in common}, {})
                for ads_of_one in (recorded_ads, played_ads)
            )
        )
    logs = events_by_job(logged(trace.folder)), events_by_job("".join(pool.files.values()))
    differences += all_differences(*(comparable_outcome(trace, "log", {}, log) for log in logs))
    assert unlisted_differences(differences, [*known_differences(), *known_differences(TRACES_DIFFER)]) == []
    assert (count, len(logs[1])) == (trace.ads, trace.logs)

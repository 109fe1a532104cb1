"""Golden: what was done to real HTCondor 25.14 pools in the traces 12 (what the schedd allows), 13 (deferred jobs and
policies) and 21 (factories), done here in virtual time with the same submit files and configuration: who is refused,
the ads of the queue at each snapshot, those of the history, and each job's log are the real ones, but for what two
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

from ..beside.differences import compared, known, unlisted
from ..beside.page import TRACES as TRACES_DIFFER
from ..beside.stories import Told, word
from .pool import events_of
from .test_deferred_logs import CRON, DATA, Kept, Runs, Step, played

ALLOWED: list[Step] = [
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
"""All that was taken; what was refused changed nothing. The jobs before cluster 11 have left by then."""


@frozen
class Trace:
    """What was done, and which jobs of it come to something else here for a reason that the trace does not have."""

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
        "12-submit-policy", ALLOWED, {**dict.fromkeys(range(16), 5.0), 16: 100.0, 17: 100.0}, "2", 24, 14,
        frozenset({"q-1 15.0"}),
    ),
    # Its job 23 misses a file, which nothing does in virtual time: tests/data/beside/missing-input.sub does.
    Trace(
        "13-deferral-crontab", CRON, {**dict.fromkeys(range(12), 1.0), 22: missing}, "5", 31, 11,
        frozenset({"23.0"}),
    ),
    # Its jobs 2.5 and 3.* were removed when the recording ended; here they come to their end.
    Trace(
        "21-factory-limits", FACTORIES, dict.fromkeys(range(20), 3.0), "5", 17, 29,
        frozenset({"2.5", "3.0", "3.1", "3.2"}),
    ),
)  # fmt: skip
Ads = dict[str, dict[str, str]]


def recorded(path: Path) -> Ads:
    """The ads of a file, by their jobs."""
    found = {}
    for text in re.split(r"\n\s*\n|^\*\*\*.*$", gzip.decompress(path.read_bytes()).decode(), flags=re.MULTILINE):
        ad = dict(line.split(" = ", 1) for line in text.split("\n") if " = " in line)
        if "ClusterId" in ad:
            found[f"{ad['ClusterId']}.{ad['ProcId']}"] = ad
    return found


def as_text(ads: Iterable[ClassAd]) -> Ads:
    texts = [{name: _text(ad[name]) for name in ad} for ad in ads]
    return {f"{ad['ClusterId']}.{ad['ProcId']}": ad for ad in texts}


def _text(value: object) -> str:
    return unparse_old(value) if isinstance(value, Expression) else str(value)


def logged(folder: Path) -> str:
    """All users' logs of a trace."""
    packed = [gzip.decompress(path.read_bytes()).decode() for path in sorted(folder.glob("*-job.log.gz"))]
    return "".join([*packed, *(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*-job.log")))])


def happened(log: str) -> dict[str, tuple[str, ...]]:
    """What a log tells of each job, and of clusters as a whole, without times, addresses, sizes and usage."""
    found: dict[str, list[str]] = {}
    for event in events_of(log):
        number, cluster, proc, rest = re.match(r"(\d+) \((\d+)\.(-?\d+)\.000\) \S+ \S+ (.*)", event, re.DOTALL).groups()  # type: ignore[union-attr]
        if number != "006":
            text = re.sub(r"\tPartitionable Resources.*", "", rest, flags=re.DOTALL)
            text = re.sub(
                r"<[^>]*>|\t+Usr \d.*\n|\t\d+  -  .*\n|\t(Cpus|Disk|GPUs|Memory|Condor\w+) = .*\n|\.\.\.\n", "", text
            )
            found.setdefault(f"{int(cluster)}.{int(proc)}", []).append(f"{number} {plain(text).strip()}")
    return {job: tuple(events) for job, events in found.items()}


def plain(text: str) -> str:
    return re.sub(r"slot\d+@[\w.-]+", "SLOT", text)


def told(trace: Trace, name: str, ads: Ads, logs: Mapping[str, tuple[str, ...]]) -> dict[str, Told]:
    """What became of jobs, without what no two runs have in common."""
    return {
        f"{trace.name[:2]}-{job}": Told(
            logs.get(job, ()), {name: word(name, text) or plain(text) for name, text in ads.get(job, {}).items()}, {}
        )
        for job in ads.keys() | logs.keys()
        if not trace.elsewhere & {job, f"{name} {job}"}
    }


@pytest.mark.parametrize("trace", TRACES, ids=[trace.name for trace in TRACES])
def test_what_was_done_in_a_real_pool_comes_to_the_same_here(trace: Trace) -> None:
    kept: Kept = {}
    pool = played("2026-11-20", trace.steps, trace.folder / "submit", trace.runs, trace.interval, kept)
    ours = {**kept, "history": list(pool.views().history_ads())}
    found, count = [], 0
    for name, ads in ours.items():
        there, here = recorded(trace.folder / f"{name}.ads.gz"), as_text(ads)
        both = there.keys() & here.keys()  # the recorder left some out
        count += len(both)
        found += compared(*(told(trace, name, {job: side[job] for job in both}, {}) for side in (there, here)))
    logs = happened(logged(trace.folder)), happened("".join(pool.files.values()))
    found += compared(*(told(trace, "log", {}, log) for log in logs))
    assert unlisted(found, [*known(), *known(TRACES_DIFFER)]) == []
    assert (count, len(logs[1])) == (trace.ads, trace.logs)

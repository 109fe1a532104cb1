"""Queries of a log: `Queries` answers them for the commands, for `Log` and for every other caller."""

from __future__ import annotations

import ast
from datetime import UTC
from pathlib import Path

import pytest

import poolbook
from poolbook.adapters.library.embedded_pool import Pool
from poolbook.adapters.library.read_only_log import Log
from poolbook.adapters.runtime.queries import LogBeginsLater, NotRecorded, Queries
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.replay.forensics.daemon_tables import NotKnown
from poolbook.replay.forensics.imported_log import IMPORTED
from poolbook.replay.narration.formatting import EVER

ROOT = Path(poolbook.__file__).parent


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a pool's own log: one job ended, two are running, one is idle."""
    url = str(tmp_path / "pool.db")
    with Pool.open(url, settings={"NEGOTIATOR_INTERVAL": 10}) as pool:
        pool.add_machine("host", cpus=2, memory=4096)
        for seconds in (5, 500, 500, 500):
            pool.submit({"executable": "/bin/sleep", "arguments": seconds, "request_memory": 1})
        pool.advance(60)
    return url


@pytest.fixture
def imported(tmp_path: Path) -> str:
    """Return an imported log without records."""
    url = str(tmp_path / "audit.db")
    log = open_log(url, create=True)
    log.append([e.PoolFounded(1, "founded", "import", "h", "htcondor-25", "h", "0", {IMPORTED: "true"})])
    log.close()
    return url


def test_ads_of_idle_jobs_have_the_rejection_if_requested(url: str) -> None:
    with Queries(url) as queries:
        *_, last = (event for _, event in queries.log.read() if isinstance(event, e.CycleHeld) and event.unmatched)
        names = ("LastRejMatchReason", "LastRejMatchTime", "LastRejMatchNegotiator")
        values = {ad.eval("ClusterId"): [ad.eval(name) for name in names] for ad in queries.queue(rejections=True).ads}
        assert values[4] == ["submitter limit exceeded", last.at // 1_000_000, queries.views.pool().name]
        assert {tuple(map(str, values[2])), tuple(map(str, values[3]))} == {("undefined",) * 3}


def test_one_class_answers_for_a_pools_own_log(url: str) -> None:
    with Queries(url) as queries, Log.open(url) as log:
        assert not queries.imported
        assert (
            [ad.eval("ClusterId") for ad in queries.queue().ads] == [2, 3, 4] == [ad["ClusterId"] for ad in log.jobs()]
        )
        assert [ad.eval("Name") for ad in queries.slots(0)] == [ad["Name"] for ad in log.slots()]
        assert [ad.eval("MyType") for ad in queries.ads("Scheduler", 0)] == ["Scheduler"]
        assert [ad.eval("ClusterId") for ad in queries.history()] == [1]
        assert queries.standings() == log.submitters() and queries.usage() == log.usage()
        (submitter,) = (standing.name for standing in queries.standings())
        assert len(queries.claims_of(submitter)) == 2
        records = queries.accounting(0).records
        assert [record["Name"] for record in records if not record.get("IsAccountingGroup")] == [submitter]
        assert queries.why("4.0", None, UTC).texts == log.why("4.0")
        assert [member.cause for member in queries.entries(None, 0, EVER)]
        assert len(queries.runs(0, EVER, UTC).runs) == 3
        assert queries.verify().sound and not queries.audit().contradictions


def test_queries_that_a_log_cannot_answer_are_explained(url: str, imported: str) -> None:
    with Queries(url) as log_queries, pytest.raises(ValueError, match="'machine' is not"):
        log_queries.usage("machine")
    for ask in (Queries.queue, Queries.history, Queries.standings, lambda queries: queries.slots(0)):
        with Queries(url, at=5) as early_queries, pytest.raises(LogBeginsLater):
            ask(early_queries)
    with Queries(imported) as other:
        assert other.imported and list(other.slots(0)) == [] == list(other.ads("Machine", 0))
        with pytest.raises(NotRecorded, match="the imported records contain only slots"):
            other.ads("Negotiator", 0)
        with pytest.raises(NotRecorded, match="`poolbook status` shows who uses the slots"):
            other.claims_of("alice@h")
        with pytest.raises(NotKnown):
            other.queue()
        with pytest.raises(NotKnown):
            other.standings()


def test_an_empty_log_has_no_past(tmp_path: Path) -> None:
    empty = str(tmp_path / "empty.db")
    open_log(empty, create=True).close()
    with Queries(empty, at=5) as queries, pytest.raises(poolbook.PoolbookError, match="the log is empty"):
        queries.queue()


ASK_BY_THEMSELVES = {
    "import_folders.py": "the new log that it restores",
    "log_commands.py": "why",
    "play.py": "the log of a scenario that is being played",
    "time_window.py": "the instants that options name",
}


def test_commands_use_the_query_class() -> None:
    """No command opens a log or its views directly, except the commands that write one."""
    names = {
        path.name
        for path in (ROOT / "adapters/cli").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id in ("open_log", "views_current", "is_imported")
    }
    assert names <= set(ASK_BY_THEMSELVES)

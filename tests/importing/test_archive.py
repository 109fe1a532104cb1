"""Property: packed ads are unpacked unchanged, all or one. Golden: queries on them."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools.job_selection import satisfies
from poolbook.adapters.runtime.views import views_current
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd, Context, parse
from poolbook.domain.events import AdsKept
from poolbook.domain.imported.packed_ads import KeptAd, attributes, index_of_event, pack, select, unpack, unpack_one
from poolbook.projections.imported_ads import AdPlace, Spent
from poolbook.projections.job_query import SelectedJobs
from poolbook.projections.projector import apply
from poolbook.projections.schema import create
from poolbook.projections.views import Views

from ..together import together
from .folders import TRACES, imported, write

SECOND = 1_000_000
NAMES = st.sampled_from(("ClusterId", "ProcId", "Owner", "QDate", "Cmd", "RemoteWallClockTime", "GlobalJobId", "X"))
VALUES = st.one_of(st.integers().map(str), st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12))
LINES = st.one_of(st.tuples(NAMES, VALUES).map(" = ".join), VALUES)
HEADS = st.dictionaries(st.sampled_from(("Offset", "ClusterId", "Owner", "EpochAdType")), VALUES, max_size=3)
ADS = st.lists(st.builds(KeptAd, st.integers(0, 10**9), st.lists(LINES, min_size=1).map("\n".join), HEADS), max_size=20)


def event(*ads: KeptAd, kind: str = "history", at: int = 0, stimulus: str = "1:1") -> AdsKept:
    return AdsKept(at, "reported", stimulus, kind, len(ads), *pack(ads))


def job(number: str, user: str = "alice", line: int = 1, **more: str) -> KeptAd:
    """Return an ad of a job that ran for 90 s on a slot with two cores."""
    cluster, _, proc = number.partition(".")
    attributes = {
        "ClusterId": cluster, "ProcId": proc, "QDate": "1000", "User": f'"{user}@x"', "Owner": f'"{user}"',
        "RemoteWallClockTime": "90.0", "CumulativeSlotTime": "180.0", "RemoteUserCpu": "60.5", "RemoteSysCpu": "1.25",
        "GlobalJobId": f'"ap#{number}#1000"',
    } | more  # fmt: skip
    return KeptAd(line, "\n".join(f"{name} = {value}" for name, value in attributes.items()), {})


def views(*events: AdsKept) -> Views:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create(connection)
    for position, event in enumerate(events, 1):
        apply(connection, [(position, event)])
    return Views(connection)


@given(ADS)
@settings(max_examples=25, deadline=None)
def test_packed_ads_are_unpacked_unchanged(ads: list[KeptAd]) -> None:
    packed_event = event(*ads)
    assert unpack(packed_event) == ads
    assert [unpack_one(packed_event, number) for number in range(len(ads))] == ads
    assert pack(ads) == (packed_event.ads, packed_event.index)


@given(ADS)
@example([KeptAd(0, "GlobalJobId = #", {})])
@settings(max_examples=25, deadline=None)
def test_the_index_agrees_with_the_ads(ads: list[KeptAd]) -> None:
    indexed = index_of_event(event(*ads))
    assert indexed.lines == [ad.line for ad in ads]
    for field, name in (("cluster", "ClusterId"), ("owner", "Owner"), ("job", "GlobalJobId")):
        # An attribute that occurs twice in an ad, which no reader accepts, may have either value.
        expected = [
            [line[len(name) + 3 :] for line in ad.text.split("\n") if line.startswith(f"{name} = ")] for ad in ads
        ]
        column = indexed.expressions(field)
        assert all(value in (values or [""]) for value, values in zip(column, expected, strict=True))


@given(ADS)
@settings(max_examples=25, deadline=None)
def test_attributes_are_selected_from_texts_as_from_packed_ads(ads: list[KeptAd]) -> None:
    ads = [
        ad for ad in ads if len({line.partition(" = ")[0] for line in ad.text.split("\n")}) == ad.text.count("\n") + 1
    ]
    assert select(event(*ads), ("Owner", "X")) == [attributes(ad.text, ("Owner", "X")) for ad in ads]


def test_attributes_are_found_in_any_case_and_named_as_requested() -> None:
    text = 'OWNER = "a"\nOwners = 2\nrequestmemory = 1 = 2'
    assert attributes(text, ("Owner", "RequestMemory", "Cmd")) == {"Owner": '"a"', "RequestMemory": "1 = 2"}


@together(
    ("field", "text", "micros"),
    [
        ("wall", "28.0", 28 * SECOND),
        ("wall", "1.5", 1_500_000),
        ("wall", "1E2", 100 * SECOND),
        ("wall", "RemoteUserCpu * 2", 0),
        ("wall", "9" * 40, 0),
        ("wall", 'real("NaN")', 0),
    ],
)
def test_times_are_read_in_microseconds(field: str, text: str, micros: int) -> None:
    assert index_of_event(event(job("1.0", RemoteWallClockTime=text))).microseconds(field) == [micros]


def test_the_cpu_time_is_that_of_all_runs_if_the_ad_has_it() -> None:
    indexed = index_of_event(event(job("1.0"), job("1.1", CumulativeRemoteUserCpu="99.0")))
    assert indexed.microseconds("user_cpu") == [60_500_000, 99 * SECOND]


def test_a_history_is_queried_by_job_owner_and_order() -> None:
    archive = views(event(job("1.0"), job("1.1", "bob")), event(job("2.0"), job("1.0", line=9)))
    all_jobs = [AdPlace(2, 1), AdPlace(2, 0), AdPlace(1, 1), AdPlace(1, 0)]
    for selection, places in (
        (SelectedJobs(), all_jobs),
        (SelectedJobs(ids=((1, 0),)), [AdPlace(2, 1), AdPlace(1, 0)]),
        (SelectedJobs(ids=((1, None),)), [AdPlace(2, 1), AdPlace(1, 1), AdPlace(1, 0)]),
        (SelectedJobs(ids=((2, None), (1, 1))), [AdPlace(2, 0), AdPlace(1, 1)]),
        (SelectedJobs(owners=("bob",)), [AdPlace(1, 1)]),
        (SelectedJobs(ids=((2, 0),), owners=("bob",)), [AdPlace(2, 0), AdPlace(1, 1)]),
        (SelectedJobs(ids=((7, 7),)), []),
    ):
        assert list(archive.kept_ad_places(selection)) == places
        assert list(archive.kept_ad_places(selection, forwards=True)) == places[::-1]


def test_usage_is_summed_by_user_group_and_cluster() -> None:
    archive = views(event(job("1.0"), job("1.1", "bob", AcctGroup='"g"')), event(job("2.0")))
    job_usage = (90 * SECOND, 61_750_000, 180 * SECOND)
    double_usage = tuple(2 * amount for amount in job_usage)
    assert archive.usage() == [Spent("alice@x", 2, *double_usage), Spent("bob@x", 1, *job_usage)]
    assert archive.usage("group") == [Spent("", 2, *double_usage), Spent("g", 1, *job_usage)]
    assert archive.usage("cluster") == [Spent("1", 2, *double_usage), Spent("2", 1, *job_usage)]


@pytest.mark.parametrize("together", [True, False])
def test_a_job_twice_in_the_history_counts_once_with_its_last_ad(together: bool) -> None:
    ads = [job("1.0"), job("1.0", "bob", RemoteWallClockTime="100.0")]
    archive = views(event(*ads)) if together else views(*map(event, ads))
    usage = archive.usage()
    assert usage == [Spent("bob@x", 1, 100 * SECOND, 61_750_000, 180 * SECOND)]
    assert archive.usage("cluster") == [Spent("1", *usage[0][1:])]
    assert len(list(archive.kept_ad_places())) == 2


def test_jobs_with_one_number_but_different_submit_times_are_two() -> None:
    (usage,) = views(event(job("1.0"), job("1.0", QDate="2000"))).usage()
    assert usage.jobs == 2


def test_views_do_not_depend_on_where_batches_end() -> None:
    events = [event(job("1.0"), job("1.1", "bob")), event(job("1.0")), event(job("3.0"), kind="job_ads")]
    at_once = sqlite3.connect(":memory:", isolation_level=None)
    create(at_once)
    apply(at_once, list(enumerate(events, 1)))
    one_by_one = views(*events).connection
    for table in ("archive", "accounts", "samples"):
        rows = f"SELECT * FROM {table} ORDER BY 1, 2"
        assert at_once.execute(rows).fetchall() == one_by_one.execute(rows).fetchall() != []


def test_a_sources_latest_sample_replaces_its_earlier_ones() -> None:
    archive = views(
        event(job("1.0"), kind="job_ads", at=5, stimulus="1:1"),
        event(job("2.0"), kind="job_ads", at=9, stimulus="2:1"),
        event(job("2.1"), kind="job_ads", at=8, stimulus="2:40"),
        event(KeptAd(1, 'Name = "slot1"', {}), kind="machine_ads", at=99, stimulus="3:1"),
    )
    assert archive.last_sample("job_ads") == [2, 3]
    assert archive.last_sample("machine_ads") == [4]
    assert archive.last_sample("submitter_ads") == []


def test_ads_kept_in_a_log_are_read_from_it() -> None:
    log = open_log("memory:kept", create=True)
    ads = [job("1.0"), job("1.1")]
    log.append([event(*ads)])
    assert [ad for _, stored in log.read() if isinstance(stored, AdsKept) for ad in unpack(stored)] == ads
    with views_current("memory:kept") as current_views:
        assert current_views.usage()[0].jobs == 2
    log.close()


# Queries on an imported log: `poolbook history` and `poolbook usage`


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An import of condor_history's output from a recorded pool, in its order."""
    path = tmp_path_factory.mktemp("imported") / "audit.db"
    with closing(open_log(str(path), create=True)) as store:
        imported(TRACES / "08a-pslot", log=store)
    return str(path)


def printed_ads() -> list[dict[str, str]]:
    """Return the history's ads, as condor_history printed them: the last job first."""
    text = gzip.decompress((TRACES / "08a-pslot" / "history.ads.gz").read_bytes()).decode()
    names = ("ClusterId", "ProcId", "Owner", "User", "RemoteWallClockTime", "CumulativeSlotTime", "JobStatus")
    return [ad for ad in (attributes(block, names) for block in text.split("\n\n")) if ad]


def test_history_prints_an_imported_logs_jobs_newest_first(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{ad['ClusterId']} {ad['ProcId']} {ad['Owner'][1:-1]}" for ad in printed_ads()]
    options = ("-af", "ClusterId", "ProcId", "Owner")
    assert output_of(capsys, "history", "-log", log, *options).splitlines() == rows
    assert output_of(capsys, "history", "-log", log, "-forwards", *options).splitlines() == rows[::-1]
    assert output_of(capsys, "history", "-log", log, "-limit", "3", *options).splitlines() == rows[:3]
    assert output_of(capsys, "history", "-log", log, "bob", *options).splitlines() == [
        row for row in rows if row.endswith(" bob")
    ]
    printed_ad = printed_ads()[5]
    number = f"{printed_ad['ClusterId']}.{printed_ad['ProcId']}"
    assert output_of(capsys, "history", "-log", log, number, *options).splitlines() == [rows[5]]
    assert output_of(capsys, "history", "-log", log, "-since", number, *options).splitlines() == rows[:5]
    assert f"ClusterId = {printed_ad['ClusterId']}\n" in output_of(capsys, "history", "-log", log, number, "-long")
    assert number in output_of(capsys, "history", "-log", log, number)


def test_history_lists_a_job_in_two_files_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = gzip.decompress((TRACES / "12-submit-policy" / "history.ads.gz").read_bytes()).decode()
    blocks = [block for block in text.split("\n\n") if "ClusterId" in block]
    write(tmp_path / "files" / "history", "\n\n".join(blocks[:8]) + "\n\n")
    write(tmp_path / "files" / "history.old", "\n\n".join(blocks[4:12]) + "\n\n")
    path = str(tmp_path / "twice.db")
    with closing(open_log(path, create=True)) as store:
        imported(tmp_path / "files", log=store)
    rows = output_of(capsys, "history", "-log", path, "-af", "ClusterId", "ProcId").splitlines()
    assert len(rows) == len(set(rows)) == 12


CONSTRAINTS = (
    "JobStatus == 4",
    "jobstatus =!= 4 && RemoteWallClockTime > 5",
    "NoSuchAttribute is undefined",
    "MemoryUsage > 0",
    'regexp("^al", Owner)',
    "MY.ProcId == 0",
    'eval("ProcId") == 0',
    "'ProcId' == 0",
    "size(LastRemoteHost) > 3",
    "NumHoldsByReason.UserRequest > 0 || ExitCode",
)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_constraint_selects_exactly_the_jobs_for_which_it_is_true(
    log: str, constraint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(open_log(log, create=False, read_only=True)) as store:
        kept_ads = [
            ad
            for _, event in store.read()
            if isinstance(event, AdsKept) and event.kind == "history"
            for ad in unpack(event)
        ]
    expression = parse(constraint)
    matching = [
        ad for ad in map(ClassAd.from_old, (ad.text for ad in kept_ads)) if satisfies(expression, ad, Context())
    ]
    rows = output_of(
        capsys, "history", "-log", log, "-constraint", constraint, "-af", "ClusterId", "ProcId"
    ).splitlines()
    assert sorted(rows) == sorted(f"{ad.eval('ClusterId')} {ad.eval('ProcId')}" for ad in matching)


def test_usage_is_the_sum_of_the_ads_values(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    usage = json.loads(output_of(capsys, "usage", "-log", log, "-json"))
    for row in usage:
        ads = [ad for ad in printed_ads() if ad["User"][1:-1] == row["name"]]
        assert row["jobs"] == len(ads)
        for field, name in (("wall", "RemoteWallClockTime"), ("slot_time", "CumulativeSlotTime")):
            assert row[field] == sum(round(float(ad.get(name, "0")) * SECOND) for ad in ads)
    assert sum(row["jobs"] for row in usage) == len(printed_ads())
    table = output_of(capsys, "usage", "-log", log, "alice").splitlines()
    assert [line.split()[0].partition("@")[0] for line in table] == ["USER", "alice", "total"]


def test_usage_of_a_pools_own_log_equals_its_historys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "pool.db")
    at = 1_800_000_000 * SECOND
    usage_ad = {"RemoteWallClockTime": "90.5", "CumulativeSlotTime": "181.0", "CumulativeRemoteUserCpu": "60.0"}
    completion = e.JobsTransitioned(at, "user_remove", "r", 1, ((0, 2),), "remove", "Idle", "Removed", usage_ad)
    with closing(open_log(path, create=True)) as store:
        store.append([
            e.PoolFounded(at, "founded", "f", "pool", "manual", "x", "0.1", {}),
            e.ClusterSubmitted(at, "submitted", "s", 1, "alice@x", {"Owner": '"alice"'}, 5, (), "Idle"),
            completion,
            e.JobsTransitioned(at, "left_queue", "l", 1, ((0, 2),), "leave", "Removed", "Left", {}),
        ])  # fmt: skip
    for group_by, name in (("user", "alice@x"), ("group", ""), ("cluster", "1")):
        (row,) = json.loads(output_of(capsys, "usage", "-log", path, "-by", group_by, "-json"))
        assert row == {
            "name": name, "jobs": 3, "wall": 271_500_000, "cpu": 180 * SECOND, "slot_time": 543 * SECOND,
        }  # fmt: skip


def test_usage_names_what_it_is_grouped_by(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "-by", "moon"]) == 2
    assert "user, group, cluster" in capsys.readouterr().err

"""An export has the log's facts, with types, time zones and units that other programs understand; they read it back."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pytest

from poolbook import Behaviour, Log, Pool, import_pool
from poolbook.adapters.cli.main import main
from poolbook.replay.accounts.intervals import slot_intervals
from poolbook.replay.exports.tables import TABLES, VERSION, rows_of
from poolbook.replay.listing.members import entries
from poolbook.replay.runs.of_log import runs_of

from .page import fill

TRACES = Path(__file__).parent.parent / "data" / "traces"
START = 1_800_000_000
EVER = 1 << 62


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log of a pool with completed, removed and held jobs of two users, on slots of several sizes."""
    path = str(tmp_path_factory.mktemp("own") / "pool.db")
    with Pool.open(path, user="alice", uid_domain="x", behave=lambda _: Behaviour(seconds=90.5), start=START) as pool:
        pool.add_machine("node1", cpus=4, memory="4 GB")
        pool.submit({"executable": "/bin/work", "request_cpus": 2}, count=3)
        pool.submit({"executable": "/bin/work", "accounting_group": "physics"}, count=2, user="bob")
        pool.advance(30)
        pool.remove("1.0")
        pool.hold("2.1", user="bob")
        pool.advance(600)
    return path


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("imported") / "audit.db")
    import_pool(str(TRACES / "01-plain"), path, zone="UTC")
    return path


@pytest.fixture(scope="module", params=["own", "imported"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.fixture(scope="module")
def exported(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    for kind in ("parquet", "csv", "jsonl"):
        assert main(["export", kind, str(folder), "-log", url]) == 0
    return folder


def expected_rows(url: str, table: str) -> list[tuple[object, ...]]:
    """The rows of a table, with instants as datetimes in UTC."""
    kinds = [column.kind for column in TABLES[table].columns]
    with Log.open(url) as log:
        return [
            tuple(
                datetime.fromtimestamp(value // 1_000_000, UTC).replace(microsecond=value % 1_000_000)
                if kind == "time" and isinstance(value, int)
                else value
                for kind, value in zip(kinds, row, strict=True)
            )
            for row in rows_of(table, log._log)
        ]


@pytest.mark.parametrize("table", TABLES)
def test_duckdb_reads_back_every_row_of_a_parquet_file_with_its_types(url: str, exported: Path, table: str) -> None:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")  # instants are instants, whatever the reader's zone
    rows = connection.execute(f"SELECT * FROM '{exported}/{table}.parquet'").fetchall()
    assert rows == expected_rows(url, table)
    described = connection.execute(f"DESCRIBE SELECT * FROM '{exported}/{table}.parquet'").fetchall()
    kinds = {"str": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "time": "TIMESTAMP WITH TIME ZONE"}
    assert [(name, kind) for name, kind, *_ in described] == [
        (column.name, kinds[column.kind]) for column in TABLES[table].columns
    ]


@pytest.mark.parametrize("table", TABLES)
def test_pandas_reads_the_same_from_csv_as_from_parquet(url: str, exported: Path, table: str) -> None:
    columns = TABLES[table].columns
    texts = {column.name: str for column in columns if column.kind == "str"}
    times = [column.name for column in columns if column.kind == "time"]
    frame = pandas.read_csv(exported / f"{table}.csv", dtype=texts, keep_default_na=False, parse_dates=times)
    rows = [tuple(row) for row in frame.itertuples(index=False)]
    assert rows == expected_rows(url, table)


@pytest.mark.parametrize("table", TABLES)
def test_json_lines_have_a_row_per_line_with_the_names_of_the_columns(url: str, exported: Path, table: str) -> None:
    columns = TABLES[table].columns
    lines = (exported / f"{table}.jsonl").read_text().splitlines()
    rows = []
    for line in lines:
        row = json.loads(line)
        assert list(row) == [column.name for column in columns]
        for column in columns:
            if column.kind == "time":
                row[column.name] = datetime.fromisoformat(row[column.name])
            elif column.name in ("event", "statistics"):
                row[column.name] = json.dumps(row[column.name], separators=(",", ":"), ensure_ascii=False)
        rows.append(tuple(row.values()))
    expected = expected_rows(url, table)
    assert [len(row) for row in rows] == [len(row) for row in expected]
    skipped = {index for index, column in enumerate(columns) if column.name in ("event", "statistics")}
    assert [[value for index, value in enumerate(row) if index not in skipped] for row in rows] == [
        [value for index, value in enumerate(row) if index not in skipped] for row in expected
    ]


def test_a_parquet_file_names_its_schema_version_and_log(url: str, exported: Path) -> None:
    (pairs,) = zip(
        *duckdb.execute(f"SELECT [key, value] FROM parquet_kv_metadata('{exported}/runs.parquet')").fetchall(),
        strict=True,
    )
    metadata = {bytes(key): bytes(value) for key, value in pairs}
    with Log.open(url) as log:
        assert metadata[b"poolbook_log"].decode() == log.id
    assert metadata[b"poolbook_schema"].decode() == str(VERSION)
    assert metadata[b"poolbook_table"] == b"runs"


def test_sums_over_the_slots_table_are_the_slots_time_by_class(url: str, exported: Path) -> None:
    with Log.open(url) as log:
        expected = Counter[str]()
        for part in slot_intervals(log._log):
            expected[part.kind] += part.end - part.begin
    statement = f"SELECT class, SUM(duration_us)::BIGINT FROM '{exported}/slots.parquet' GROUP BY 1"
    assert dict(duckdb.execute(statement).fetchall()) == expected


def test_sums_over_the_slots_table_are_those_of_the_account_command(url: str, exported: Path, capsys: Any) -> None:
    assert main(["account", "-by", "user,class", "-json", "-log", url]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    statement = (
        "SELECT user_name, class, SUM(duration_us) / 1e6, SUM(duration_us * cores) / 1e6 "
        f"FROM '{exported}/slots.parquet' GROUP BY 1, 2"
    )
    sums = {(user, kind): times for user, kind, *times in duckdb.execute(statement).fetchall()}
    assert len(rows) == len(sums) > 1
    for row in rows:
        assert sums[row["user"], row["class"]] == pytest.approx([row["slot_seconds"], row["core_seconds"]], abs=1e-3)


def test_the_runs_table_has_the_runs_of_the_log(url: str, exported: Path) -> None:
    with Log.open(url) as log:
        expected = Counter((run.user, run.outcome) for run in runs_of(log._log).runs)
    statement = f"SELECT user_name, outcome, COUNT(*) FROM '{exported}/runs.parquet' GROUP BY 1, 2"
    assert {(user, outcome): count for user, outcome, count in duckdb.execute(statement).fetchall()} == expected


def test_a_window_selects_the_rows_of_a_period(own: str, tmp_path: Path) -> None:
    window = ["-from", "2027-01-15 08:01", "-to", "2027-01-15 08:02"]
    assert main(["export", "parquet", str(tmp_path), "-only", "slots,events", *window, "-log", own]) == 0
    seconds = f"SELECT DISTINCT slot, SUM(duration_us) // 1000000 FROM '{tmp_path}/slots.parquet' GROUP BY 1"
    lengths = dict(duckdb.execute(seconds).fetchall())
    assert lengths["slot1@node1"] == 60
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.parquet", "slots.parquet"]


def test_one_table_can_be_printed(own: str, capfdbinary: Any) -> None:
    assert main(["export", "csv", "-", "-only", "runs", "-log", own]) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[0].startswith("job,cluster,proc,user_name")
    assert len(lines) == 1 + len(expected_rows(own, "runs"))


def test_a_workload_can_be_printed(own: str, capfdbinary: Any) -> None:
    assert main(["export", "swf", "-", "-log", own]) == 0
    assert capfdbinary.readouterr().out.startswith(b"; Version: 2.2\n")


def test_an_existing_file_is_only_replaced_with_force(own: str, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "runs.csv"
    target.write_text("mine")
    command = ["export", "csv", str(tmp_path), "-only", "runs", "-log", own]
    assert main(command) == 1
    assert "replace it with -replace" in capsys.readouterr().err
    assert target.read_text() == "mine"
    assert main([*command, "-replace"]) == 0
    assert target.read_text().startswith("job,")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "specify a format (parquet, csv, jsonl, swf, ocel, perfetto, daemon-logs)"),
        (["xml", "out"], "specify a format"),
        (["csv", "-"], "`-` prints one table"),
        (["parquet", "-", "-only", "runs"], "`-` prints one table"),
        (["csv", "out", "-only", "jobs"], "unknown table; use runs, slots, cycles, events, transitions"),
        (["swf", "out", "-only", "runs"], "-only is only for parquet, csv, jsonl"),
        (["swf", "no/such/folder/x.swf"], "cannot be written: No such file or directory"),
        (["ocel", "no/such/folder/x.sqlite"], "cannot be written: No such file or directory"),
        (["ocel", "-"], "the output is a database and cannot be printed; name a file"),
        (["csv", "/dev/null/x"], "is not a directory that can be created: Not a directory"),
    ],
)
def test_a_wrong_command_is_an_error_that_names_the_fix(own: str, words: list[str], error: str, capsys: Any) -> None:
    assert main(["export", *words, "-log", own]) in (1, 2)
    assert error in capsys.readouterr().err


# -- A log through a text file -----------------------------------------------------------------------------------------


def printed(command: str, url: str, capsys: Any) -> str:
    assert main([*command.split(), "-log", url]) == 0
    return str(capsys.readouterr().out)


def test_an_exported_log_that_is_imported_again_gives_the_same_views(
    url: str, exported: Path, tmp_path: Path, capsys: Any
) -> None:
    copy = str(tmp_path / "copy.db")
    assert main(["import", str(exported / "events.jsonl"), "-log", copy]) == 0
    capsys.readouterr()
    with Log.open(url) as first, Log.open(copy) as second:
        assert list(first.events()) == list(second.events())
        assert (first.id, first.jobs(), first.slots(), first.history()) == (
            second.id, second.jobs(), second.slots(), second.history()
        )  # fmt: skip
        assert second.verify().sound
    for command in ("log -json", "usage -json", "history -long"):
        assert printed(command, copy, capsys) == printed(command, url, capsys)


def test_the_import_of_an_export_never_adds_to_another_log(
    own: str, exported: Path, tmp_path: Path, capsys: Any
) -> None:
    target = tmp_path / "used.db"
    target.write_bytes(Path(own).read_bytes())
    assert main(["import", str(exported / "events.jsonl"), "-log", str(target)]) == 1
    assert "already has events; name a new log" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda lines: lines[:3] + lines[4:], "line 4 has position 5; export the whole log"),
        (lambda lines: [*lines[:3], b"{", *lines[4:]], "line 4 is not a row of the table `events`"),
        (
            lambda lines: [*lines[:3], lines[3].replace(b'"kind": "', b'"kind": "no '), *lines[4:]],
            "line 4 is not a row",
        ),
    ],
    ids=["a missing line", "a damaged line", "an unknown kind"],
)
def test_a_damaged_export_is_an_error_and_leaves_no_log(
    own: str, tmp_path: Path, change: Any, error: str, capsys: Any
) -> None:
    assert main(["export", "jsonl", str(tmp_path), "-only", "events", "-log", own]) == 0
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(change(file.read_bytes().splitlines())))
    copy = tmp_path / "copy.db"
    assert main(["import", str(file), "-log", str(copy)]) == 1
    assert error in capsys.readouterr().err
    assert list(tmp_path.glob("copy.db*")) == []


# -- Formats that are one file -----------------------------------------------------------------------------------------


def test_an_ocel_database_relates_each_event_to_its_objects(own: str, tmp_path: Path) -> None:
    path = str(tmp_path / "log.sqlite")
    assert main(["export", "ocel", path, "-log", own]) == 0
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA foreign_keys = ON")
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        kinds = dict(database.execute("SELECT ocel_type, ocel_type_map FROM object_map_type"))
        assert set(kinds) == {"job", "slot", "machine", "user"}
        for name in ("event", "object"):
            types = database.execute(f"SELECT ocel_type, ocel_type_map FROM {name}_map_type").fetchall()
            assert len({mapped for _, mapped in types}) == len(types)
            for kind, mapped in types:
                ids = database.execute(f"SELECT ocel_id FROM {name} WHERE ocel_type = ?", (kind,)).fetchall()
                assert sorted(ids) == sorted(database.execute(f'SELECT DISTINCT ocel_id FROM "{name}_{mapped}"'))
        story = database.execute(
            "SELECT e.ocel_type FROM event e JOIN event_object r ON r.ocel_event_id = e.ocel_id "
            "WHERE r.ocel_object_id = '1.0' ORDER BY CAST(e.ocel_id AS REAL)"
        ).fetchall()
        assert story[0] == ("job submit",)
        assert {"job activate", "job remove"} <= {kind for (kind,) in story}
        (time,) = database.execute("SELECT MIN(ocel_time) FROM event_job_submit").fetchone()
        assert datetime.fromisoformat(time) == datetime.fromtimestamp(START, UTC)
        relations = set(database.execute("SELECT * FROM object_object WHERE ocel_source_id = '1.1'"))
        assert ("1.1", "alice@x", "submitted by") in relations


def test_a_perfetto_trace_has_a_slice_for_each_interval_of_a_slot(url: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert main(["export", "perfetto", str(path), "-log", url]) == 0
    trace = json.loads(path.read_text())
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    with Log.open(url) as log:
        expected = [(part.slot, part.begin, part.end, part.kind) for part in slot_intervals(log._log)]
    assert [
        (names[event["pid"], event["tid"]], event["ts"], event["ts"] + event["dur"], event["cat"]) for event in slices
    ] == expected


def swf_lines(path: Path) -> Iterator[list[int]]:
    for line in path.read_text().splitlines():
        if not line.startswith(";"):
            yield [int(word) for word in line.split()]


def test_a_workload_has_the_submission_wait_and_run_of_each_job_in_seconds(own: str, tmp_path: Path) -> None:
    path = tmp_path / "pool.swf"
    assert main(["export", "swf", str(path), "-log", own]) == 0
    text = path.read_text()
    assert "; Version: 2.2\n" in text and f"; UnixStartTime: {START}\n" in text and "; MaxProcs: 4\n" in text
    jobs = {job[0]: job for job in swf_lines(path)}
    assert len(jobs) == 5 and {len(job) for job in jobs.values()} == {18}
    number, submitted, wait, run, processors = jobs[2][:5]
    assert (number, submitted, wait, processors) == (2, 0, 0, 2)
    assert run in (90, 91)
    assert jobs[1][10] == 0  # removed while it ran
    assert [jobs[n][11] for n in (1, 4)] == [1, 2]


def test_a_workload_is_played_on_a_number_of_slots(own: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "pool.swf"
    assert main(["export", "swf", str(path), "-log", own]) == 0
    capsys.readouterr()
    played = str(tmp_path / "played.db")
    assert main(["play", "-swf", str(path), "-slots", "4", "-quiet", "-audit", "-log", played]) == 0
    printed = capsys.readouterr()
    assert "jobs: 4 submitted, 4 started, 4 exited" in printed.out
    assert "warning: 1 job without a run time left out" in printed.err
    with Log.open(played) as log:
        walls = sorted(round(job["RemoteWallClockTime"]) for job in log.history())
    assert walls == sorted(job[3] for job in swf_lines(path) if job[3] > 0)  # a held job never ran


@pytest.mark.parametrize(
    ("text", "slots", "error"),
    [
        ("1 2 3\n", "4", "line 1 is not a job in the Standard Workload Format, which has 18 numbers per line"),
        ("; only\n1 0 0 10 8 -1 -1 8 -1 -1 1 1 1 -1 -1 -1 -1 -1\n", "4", "job 1 needs 8 processors; use -slots 8"),
    ],
)
def test_an_invalid_workload_is_an_error(tmp_path: Path, text: str, slots: str, error: str, capsys: Any) -> None:
    path = tmp_path / "x.swf"
    path.write_text(text)
    assert main(["play", "-swf", str(path), "-slots", slots]) == 1
    assert error in capsys.readouterr().err


# -- sql ---------------------------------------------------------------------------------------------------------------


def test_slots_without_a_workload_are_an_error_that_names_the_fix(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "a.play").write_text("at 0:10 submit alice run=1:00\n")
    assert main(["play", str(tmp_path / "a.play"), "-slots", "4"]) == 2
    assert "only for -swf; use `machine NAME cores=N`" in capsys.readouterr().err


def test_sql_says_that_a_statement_has_no_rows(own: str, capsys: Any) -> None:
    assert main(["sql", "SELECT * FROM queue WHERE owner = 'nobody'", "-log", own]) == 0
    assert capsys.readouterr().out == "No rows.\n"


def test_sql_prints_the_rows_of_a_statement_as_a_table(own: str, capsys: Any) -> None:
    assert main(["sql", "SELECT owner, status, SUM(jobs) AS jobs FROM finished GROUP BY 1, 2", "-log", own]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["owner", "status", "jobs"],
        ["alice", "Completed", "2"],
        ["alice", "Removed", "1"],
        ["bob", "Completed", "1"],
    ]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("-csv", "cluster,jobs\r\n2,1\r\n"),
        ("-jsonl", '{"cluster": 2, "jobs": 1}\n'),
        ("-json", '[\n  {\n    "cluster": 2,\n    "jobs": 1\n  }\n]\n'),
    ],
)
def test_sql_prints_other_formats(own: str, option: str, expected: str, capsys: Any) -> None:
    assert main(["sql", "SELECT cluster, jobs FROM queue", option, "-log", own]) == 0
    assert capsys.readouterr().out == expected


def test_sql_queries_the_views_at_a_time(own: str, capsys: Any) -> None:
    statement = "SELECT SUM(jobs) AS jobs FROM queue WHERE status = 'Running'"
    assert main(["sql", statement, "-at", "2027-01-15 08:00:20", "-json", "-log", own]) == 0
    assert json.loads(capsys.readouterr().out) == [{"jobs": 2}]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("DELETE FROM jobs", "attempt to write a readonly database"),
        ("ATTACH 'other.db' AS other", "the statement returns no rows, but `sql` only reads"),
        ("SELECT 1; SELECT 2", "only execute one statement at a time; the views are"),
        ("SELECT * FROM missing", "no such table: missing; the views are queue, finished, waiting, documentation"),
        ("SELEC", "syntax error"),
    ],
)
def test_sql_changes_nothing_and_explains_errors(own: str, statement: str, error: str, capsys: Any) -> None:
    assert main(["sql", statement, "-log", own]) == 1
    assert error in capsys.readouterr().err


def test_the_transitions_table_has_one_row_per_job_of_a_bulk_event(own: str) -> None:
    with Log.open(own) as log:
        expected = [(member.position, member.index, member.thing) for member in entries(log._log, None, 0, EVER)]
    assert [(row[0], row[1], row[4]) for row in expected_rows(own, "transitions")] == expected


def test_the_page_has_the_columns_of_each_table() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "export.md").read_text()
    assert fill(page) == page

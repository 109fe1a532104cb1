"""Golden and property: a real schedd's queue at several instants, and through the compactions of its log."""

from __future__ import annotations

import time
from datetime import datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.cli import queries
from poolbook.adapters.condor_files.daemon_table_reader import TableReader
from poolbook.adapters.condor_tools.options import ToolError, UsageError
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import Ad, Event, SourceFound, TableWritten
from poolbook.domain.ports.log import EventStore
from poolbook.replay.forensics.daemon_tables import DaemonTable, NotKnown, jobs_of, queue, tables

from ..importing.feeding import DATA, content, read
from ..importing.folders import imported, write
from ..together import together

QUEUE = DATA / "queue"
SPOOL = QUEUE / "spool"
NAMES = {1: "job_queue.log.1.gz", 2: "job_queue.log.2.gz", 3: "job_queue.log.3.gz", 4: "job_queue.log.gz"}
SECOND = 1_000_000

IN_MEMORY = frozenset({"autoclusterattrs", "autoclusterid", "firstjobmatchdate"})
"""Attributes that the schedd writes when it compacts its log, not when they change, and may have lost."""


class Sample(NamedTuple):
    """A recorded condor_q: how long each file was then, and the time in seconds."""

    number: int
    file: int
    bytes: int
    time: int

    @property
    def jobs(self) -> list[dict[str, str]]:
        blocks = content(QUEUE / f"q-{self.number}.ads.gz").decode().strip().split("\n\n")
        ads = [dict(line.split(" = ", 1) for line in block.split("\n")) for block in blocks if block]
        return [{name.lower(): text for name, text in ad.items() if name != "ServerTime"} for ad in ads]


def samples() -> list[Sample]:
    rows = (QUEUE / "instants.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [Sample(*map(int, row.split("\t")[:4])) for row in rows]


def transactions(file: int, size: int | None = None) -> list[TableWritten]:
    """Return the transactions of a file, or of its first bytes."""
    events = read(TableReader, "queue", content(SPOOL / NAMES[file])[:size])[0]
    assert all(isinstance(event, TableWritten) for event in events)
    return [event for event in events if isinstance(event, TableWritten)]


@cache
def log_of_the_spool() -> EventStore:
    return imported(SPOOL)[0]


def comparable_value(text: str) -> float | str:
    """Return a value with numbers as floats: the schedd writes 2.000000 and shows 2.0."""
    try:
        return float(text)
    except ValueError:
        return text


def equal_ads(ad: dict[str, str], other_ad: dict[str, str]) -> bool:
    names = {name for name in {*ad, *other_ad} if name not in IN_MEMORY or (name in ad and name in other_ad)}
    return all(
        name in ad and name in other_ad and comparable_value(ad[name]) == comparable_value(other_ad[name])
        for name in names
    )


def equal_queues(ads: list[Ad], other_ads: list[dict[str, str]]) -> bool:
    lower_case_ads = [{name.lower(): text for name, text in ad.items()} for ad in ads]
    return len(ads) == len(other_ads) and all(map(equal_ads, lower_case_ads, other_ads))


@together("sample", samples())
def test_the_queue_after_a_transaction_equals_condor_qs(sample: Sample) -> None:
    """The schedd was ahead of its file by transactions that it wrote later: condor_q saw one of the states between the
    file's and the next sample's."""
    later_sizes = [other.bytes for other in samples() if other.file == sample.file and other.bytes > sample.bytes]
    first_position, last_position = (
        len(transactions(sample.file, sample.bytes)),
        len(transactions(sample.file, later_sizes[0] if later_sizes else None)),
    )
    table, matched = DaemonTable("queue"), False
    for number, event in enumerate(transactions(sample.file), 1):
        table.fold_line(event)
        matched = matched or (first_position <= number <= last_position and equal_queues(jobs_of(table), sample.jobs))
    assert matched


def test_samples_of_a_quiet_schedd_equal_the_files_state() -> None:
    equal = 0
    for sample in samples():
        table = DaemonTable("queue")
        for event in transactions(sample.file, sample.bytes):
            table.fold_line(event)
        equal += equal_queues(jobs_of(table), sample.jobs)
    assert equal >= 18


@pytest.mark.parametrize(("before", "after"), list(pairwise(NAMES)))
def test_a_compaction_changes_nothing(before: int, after: int) -> None:
    old_table, new_table = DaemonTable("queue"), DaemonTable("queue")
    for event in transactions(before):
        old_table.fold_line(event)
    for event in transactions(after):
        if not new_table.includes(event, 0):
            break
        new_table.fold_line(event)
    # The schedd moves a status that all jobs of a cluster share to the cluster's ad: each job keeps its value.
    assert equal_queues(
        jobs_of(new_table), [{name.lower(): text for name, text in ad.items()} for ad in jobs_of(old_table)]
    )
    assert new_table.held.keys() == old_table.held.keys()
    header_keys = [key for key in old_table.held if key.startswith("0.")]
    assert len(header_keys) >= 3
    headers = (
        [{name: text for name, (_, text) in table.held[key].items()} for key in header_keys]
        for table in (new_table, old_table)
    )
    assert next(headers) == next(headers)
    assert (new_table.sequence, new_table.born) == (old_table.sequence + 1, old_table.born)


def jobs_at(second: int) -> dict[str, str]:
    """Return the jobs and their status numbers, so many seconds after the table's beginning."""
    ads = queue(log_of_the_spool(), (1_795_269_929 + second) * SECOND).jobs
    return {f"{ad['ClusterId']}.{ad['ProcId']}": ad["JobStatus"] for ad in ads}


def test_the_queue_at_an_instant() -> None:
    assert jobs_at(0) == {}
    assert jobs_at(1) == {"1.0": "1", "1.1": "1", "1.2": "1"}
    assert jobs_at(9) == {"1.0": "2", "1.1": "1", "1.2": "2", "2.0": "1", "2.1": "5"}
    assert jobs_at(60) == {"2.0": "2", "4.0": "5", "5.0": "2", "5.1": "1"}
    assert jobs_at(3600) == {"2.0": "1"}
    assert queue(log_of_the_spool()).jobs == queue(log_of_the_spool(), 1 << 60).jobs


def test_the_queue_is_unknown_before_the_log_begins() -> None:
    with pytest.raises(NotKnown) as error:
        queue(log_of_the_spool(), 1_795_269_000 * SECOND)
    assert error.value.since == 1_795_269_929 * SECOND


def test_the_queue_of_each_transaction_is_that_of_its_file() -> None:
    numbers = [len(transactions(1)), len(transactions(1)) + len(transactions(2))]
    for file, number in enumerate(numbers, 1):
        table = DaemonTable("queue")
        for event in transactions(file):
            table.fold_line(event)
        assert queue(log_of_the_spool(), number=number).jobs == jobs_of(table)


def test_the_order_of_imports_does_not_matter(tmp_path: Path) -> None:
    for folder, names in {"a": NAMES[4], "b": NAMES[2]}.items():
        write(tmp_path / folder / "spool" / "job_queue.log", content(SPOOL / names))
    log, _ = imported(tmp_path / "a")
    imported(tmp_path / "b", log=log)
    assert len(tables(log, "queue")) == 2  # two directories, two schedds
    alone, _ = imported(tmp_path / "a" / "spool")
    write(tmp_path / "a" / "spool" / "job_queue.log", content(SPOOL / NAMES[2]))
    imported(tmp_path / "a" / "spool", log=alone)
    (table,) = tables(alone, "queue")
    assert (table.sequence, jobs_of(table)) == (4, queue(log_of_the_spool()).jobs)


def test_without_the_schedds_log_the_queue_is_the_last_condor_qs(tmp_path: Path) -> None:
    for number in (2, 14, 24):
        text = content(QUEUE / f"q-{number}.ads.gz")
        write(tmp_path / f"q-{number}.ads", text)
    log, _ = imported(tmp_path)
    samples_by_number = {sample.number: sample for sample in samples()}
    for sample in (samples_by_number[2], samples_by_number[14], samples_by_number[24]):
        assert equal_queues([dict(ad, ServerTime="") for ad in queue(log, (sample.time + 5) * SECOND).jobs], [
            ad | {"servertime": ""} for ad in sample.jobs
        ])  # fmt: skip
    with pytest.raises(NotKnown):
        queue(log, (samples_by_number[2].time - 5) * SECOND)


def test_a_log_without_a_queue_says_so(tmp_path: Path) -> None:
    write(tmp_path / "NegotiatorLog", "11/20/26 12:00:00 ---------- Started Negotiation Cycle ----------\n")
    with pytest.raises(NotKnown) as error:
        queue(imported(tmp_path)[0])
    assert error.value.since == 0


COMPACTED = [
    # A recorded run whose schedd compacted its queue when it stopped, an earlier instant, and the jobs that condor_q
    # printed then, with their statuses.
    ("02-owner-return", "2026-11-20T22:40:20Z", "1.0 S"),
    ("05-prio-preempt", "2026-11-20T22:36:51Z", "1.0 R 1.1 R 1.2 R 1.3 I"),
    ("05-prio-preempt", "2026-11-20T22:37:07Z", "1.0 I 1.1 I 1.2 R 1.3 I 2.0 R 2.1 R"),
]


@pytest.mark.parametrize(("run", "instant", "jobs"), COMPACTED)
def test_after_a_compaction_the_records_of_jobs_show_the_earlier_queue(
    run: str, instant: str, jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "audit.db")
    log = open_log(path, create=True)
    imported(DATA / "traces" / run, log=log)
    with pytest.raises(NotKnown, match=r"job_queue\.log was first read then, already compacted"):
        queue(log, round(datetime.fromisoformat(instant).timestamp() * SECOND))
    log.close()
    queries.queue(["-log", path, "-at", instant, "-af:j", "JobStatus"])
    output = capsys.readouterr()
    letters = output.out.replace(" 1\n", " I ").replace(" 2\n", " R ").replace(" 7\n", " S ")
    assert letters.strip() == jobs
    assert "no imported job_queue.log covers this time" in output.err
    with pytest.raises(ToolError, match=r"is unknown before 2026-11-20 .*, because no record of the log shows it"):
        queries.queue(["-log", path, "-at", "2026-11-01"])
    queries.queue(["-log", path, "-totals"])  # in the file's final state, the queue is known
    assert "Total for query: " in capsys.readouterr().out


def compacted(number: int, *lines: str) -> str:
    """Return a queue file of a schedd that begins with a job of 12:00:00 on 2026-11-20."""
    header = f"107 {number} CreationTimestamp 1795170000"
    job = ("101 01.-1 Job Machine", "101 1.0 Job Machine", "103 1.0 QDate 1795176000")
    return "".join(f"{line}\n" for line in (header, *job, *lines))


CHANGES = ("105 ", "103 1.0 LastMatchTime 1795176060", "106 ")
INSTANTS = [
    # the files' numbers and changes; the second after 12:00:00 from which the queue is known
    ({1: ()}, 0),
    ({2: ()}, None),
    ({2: CHANGES}, 60),
    ({2: ("103 1.0 Undated 1", *CHANGES)}, 60),
    ({1: CHANGES, 2: ()}, 0),
    ({1: CHANGES, 3: ()}, None),
    ({2: CHANGES, 3: ()}, 60),
]


@pytest.mark.parametrize(("files", "second"), INSTANTS)
def test_the_queue_is_known_from_the_instant_at_which_no_compaction_hides_jobs(
    files: dict[int, tuple[str, ...]], second: int | None, tmp_path: Path
) -> None:
    for number, lines in files.items():
        write(tmp_path / f"job_queue.log.{number}", compacted(number, *lines))
    log, _ = imported(tmp_path)
    found_at = next(event.at for _, event in log.read_stream("source/1") if isinstance(event, SourceFound))
    known_from = found_at if second is None else (1_795_176_000 + second) * SECOND
    assert len(queue(log, known_from).jobs) == 1
    with pytest.raises(NotKnown) as error:
        queue(log, known_from - 1)
    assert error.value.since == known_from


def test_the_previous_file_has_the_queue_until_the_compaction(tmp_path: Path) -> None:
    completion = ("105 ", "103 2.0 CompletionDate 1795176100", "102 2.0", "106 ")
    write(tmp_path / "job_queue.log.1", compacted(1, "101 2.0 Job Machine", *completion))
    write(tmp_path / "job_queue.log", compacted(2))
    log, _ = imported(tmp_path)
    jobs = {second: len(queue(log, (1_795_176_000 + second) * SECOND).jobs) for second in (50, 100)}
    assert jobs == {50: 2, 100: 1}


def fold(*lines: str, kind: str = "queue") -> DaemonTable:
    table = DaemonTable(kind)
    for event in read(TableReader, kind, "".join(f"{line}\n" for line in lines).encode())[0]:
        assert isinstance(event, TableWritten)
        table.fold_line(event)
    return table


HEAD = "107 1 CreationTimestamp 1795214023"
CLUSTER = (HEAD, "101 02.-1 Job Machine", '103 02.-1 Cmd "a"', "103 02.-1 JobStatus 1", "101 2.0 Job Machine")
INHERITANCE = [
    # the lines of the file, and the resulting job, without the attributes that every job has
    ((), {"Cmd": '"a"', "JobStatus": "1"}),
    (('103 2.0 cmd "b"',), {"Cmd": '"b"', "JobStatus": "1"}),
    (('103 2.0 Cmd "b"', "104 2.0 CMD"), {"Cmd": "undefined", "JobStatus": "1"}),
    (("103 2.0 Own 1", "104 2.0 own"), {"Cmd": '"a"', "JobStatus": "1"}),
    (("104 02.-1 Cmd",), {"JobStatus": "1"}),
    (("103 2.7 Cmd 1", "104 2.7 Cmd", "102 2.7"), {"Cmd": '"a"', "JobStatus": "1"}),
    (("101 2.-2 ClusterPvt (empty)", "101 0.2 Owner (empty)", "101 2.-100 JobSet (empty)"),
     {"Cmd": '"a"', "JobStatus": "1"}),
]  # fmt: skip


@together(("lines", "expected"), INHERITANCE)
def test_a_job_inherits_the_attributes_of_its_cluster(lines: tuple[str, ...], expected: dict[str, str]) -> None:
    (job,) = jobs_of(fold(*CLUSTER, *lines))
    assert job == expected | {"MyType": '"Job"', "TargetType": '"Machine"', "ClusterId": "2", "ProcId": "0"}


def test_jobs_are_sorted_by_id_and_removed_with_their_record() -> None:
    lines = [f"101 {job} Job Machine" for job in ("10.0", "9.10", "9.9", "9.0")]
    assert [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in jobs_of(fold(*lines))] == ["9.0", "9.9", "9.10", "10.0"]
    assert len(jobs_of(fold(*lines, "102 9.10"))) == 3


def test_jobs_without_a_beginning_exist_only_after_a_gap(tmp_path: Path) -> None:
    lines = "103 Customer.a@h Priority 0.5\n105 \n106 \n"
    header = f"{HEAD}\n101 Accountant. * *\n"
    write(tmp_path / "whole" / "Accountantnew.log", header + lines)
    write(tmp_path / "cut" / "Accountantnew.log", f"{header}...... trimmed ......\n{lines}")
    accounts = {name: tables(imported(tmp_path / name)[0], "accountant")[0].ads() for name in ("whole", "cut")}
    assert accounts["whole"].keys() == {"Accountant."}
    assert accounts["cut"]["Customer.a@h"] == {"Priority": "0.5"}


OPERATIONS = st.lists(
    st.one_of(
        st.builds("101 {} Job Machine".format, keys := st.sampled_from(["1.0", "1.1", "01.-1", "0.0", "x"])),
        st.builds("102 {}".format, keys),
        st.builds("103 {} {} {}".format, keys, names := st.sampled_from(["A", "a", "B"]), st.sampled_from("123")),
        st.builds("104 {} {}".format, keys, names),
    ),
    max_size=25,
)


@given(OPERATIONS)
def test_a_rewritten_table_equals_the_original(operations: list[str]) -> None:
    table = fold(HEAD, *operations)
    rewritten = [HEAD]
    for key, ad in table.ads().items():
        rewritten += [f"101 {key} (empty) (empty)", *(f"103 {key} {name} {text}" for name, text in ad.items())]
    assert fold(*rewritten).ads() == table.ads()


@given(
    st.lists(
        st.tuples(st.integers(101, 107), st.text(max_size=5), st.text(max_size=3), st.text(max_size=3)), max_size=9
    )
)
def test_no_operation_of_an_edited_log_raises(operations: list[tuple[int, str, str, str]]) -> None:
    table = DaemonTable("queue")
    event: Event = TableWritten(1, "reported", "1:1", "queue", 1, tuple(operations))
    assert isinstance(event, TableWritten)
    table.fold_line(event)
    jobs_of(table)


# The command


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log into which the spool was imported."""
    path = str(tmp_path_factory.mktemp("q") / "audit.db")
    log = open_log(path, create=True)
    imported(SPOOL, log=log)
    log.close()
    return path


QUERIES = [
    # the options of poolbook q, its output
    (("-at", "2026-11-21T14:05:38Z"), "1.0 2\n1.1 1\n1.2 2\n2.0 1\n2.1 5\n"),
    (("-at", "2026-11-21T15:05:38+01:00", "bob"), "2.0 1\n2.1 5\n"),
    (("-at", "2026-11-21T14:05:38Z", "-hold"), "2.1 5\n"),
    (("-at", "2026-11-21T14:05:38Z", "-constraint", "JobStatus == 1", "-limit", "1"), "1.1 1\n"),
    (("-at", "2026-11-21T14:06:30Z", "5.1"), "5.1 1\n"),
    (("-at", "14:06:30", "5.1"), "5.1 1\n"),  # at the end of the day on which the records end
    ((), "2.0 1\n"),
]


@pytest.mark.parametrize(("options", "expected"), QUERIES)
def test_q_of_an_imported_log_shows_all_users_jobs_at_the_instant(
    audit: str,
    options: tuple[str, ...],
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert queries.queue([*options, "-log", audit, "-af:j", "JobStatus"]) == 0
    assert capsys.readouterr().out == expected


def test_q_measures_run_times_up_to_the_instant(audit: str, capsys: pytest.CaptureFixture[str]) -> None:
    queries.queue(["-log", audit, "1.0", "-nobatch", "-at", "2026-11-21T14:05:40Z"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " 1.0 " in line]
    assert "0+00:00:06 R" in line


def test_q_reports_when_an_imported_log_begins(audit: str) -> None:
    with pytest.raises(ToolError, match=r"is unknown before 2026-11-21 .*, because the table starts then"):
        queries.queue(["-log", audit, "-at", "2020-01-01"])
    with pytest.raises(UsageError, match="is not a time"):
        queries.queue(["-log", audit, "-at", "JobStatus"])


def test_q_still_accepts_attributes_of_every_name_but_at(audit: str, capsys: pytest.CaptureFixture[str]) -> None:
    queries.queue(["-log", audit, "-long", "-att", "JobStatus"])
    assert capsys.readouterr().out == "JobStatus = 1\n\n"

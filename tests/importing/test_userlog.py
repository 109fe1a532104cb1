"""Golden: the entries read from real job event logs are those in the file, with the facts that HTCondor's own reader
finds. Property: no cut and no rubbish changes the entries that are read from the rest. The logs have each of their
formats."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape
from zoneinfo import ZoneInfo

import classad2
import htcondor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from poolbook.adapters.condor_files.job_event_log_reader import LONGEST, JobEventLogReader
from poolbook.adapters.condor_files.source_reader import SourceFile
from poolbook.domain import events as e
from poolbook.domain.imported.job_event_log import facts
from poolbook.replay.forensics.imported_log import single_entries

from ..together import together

TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"
LOGS = sorted([*TRACES.glob("*/EventLog*"), *TRACES.glob("*/*-job.log*")])
MODIFIED = datetime(2026, 11, 21, tzinfo=UTC).timestamp()


def source(zone: tzinfo = UTC, modified: float = MODIFIED) -> SourceFile:
    return SourceFile(3, "job.log", "userlog", "h", zone, modified, 10**15)


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def read(data: bytes, zone: tzinfo = UTC, modified: float = MODIFIED) -> tuple[list[e.Event], int]:
    """Return everything read from a log, and how many bytes were left."""
    events_read, bytes_read = JobEventLogReader(source(zone, modified), None, 0).read(data)
    return single_events(events_read), len(data) - bytes_read


def in_pieces(data: bytes, cuts: list[int], new_readers: bool) -> list[e.Event]:
    """Return everything read in pieces, by one reader or by a new one each time."""
    reader = JobEventLogReader(source(), None, 0)
    events: list[e.Event] = []
    pending, before = b"", 0
    for position in [*sorted(cuts), len(data)]:
        pending, before = pending + data[before:position], position
        if new_readers:
            reader = JobEventLogReader(source(), json.loads(json.dumps(reader.state())), reader.line)
        piece_events, bytes_read = reader.read(pending)
        events, pending = events + piece_events, pending[bytes_read:]
    return single_events(events)


def single_events(events: list[e.Event]) -> list[e.Event]:
    """Return the events, with each entry separate."""
    return [event for _, event in single_entries(enumerate(events))]


def entries(events: list[e.Event]) -> list[e.JobLogged]:
    return [event for event in events if isinstance(event, e.JobLogged)]


def jobs(events: list[e.Event]) -> list[str]:
    return [f"{logged.number:03d} {logged.cluster}.{logged.proc}" for logged in entries(events)]


def refused_lines(events: list[e.Event]) -> list[tuple[int, str]]:
    return [(event.line, event.words) for event in events if isinstance(event, e.SourceRefused)]


def entry(number: int = 9, job: str = "1.0", when: str = "2026-11-20 22:33:44", text: str = "Job was aborted.") -> str:
    cluster, _, proc = job.partition(".")
    return f"{number:03d} ({int(cluster):03d}.{int(proc):03d}.000) {when} {text}\n...\n"


def reference(path: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """Return the events of a log as HTCondor reads it."""
    unpacked = tmp_path / "log"
    # HTCondor's reader stops at the marker of a cut.
    unpacked.write_bytes(re.sub(rb"(?m)^(## trimmed here|\.{6} trimmed).*\n", b"", content(path)))
    return [dict(event) for event in htcondor2.JobEventLog(str(unpacked)).events(0)]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.name}")
class TestRealLogs:
    def test_each_entry_is_read_and_none_is_refused(self, path: Path) -> None:
        events, bytes_left = read(content(path))
        entry_counts = Counter(re.findall(rb"(?m)^(\d{3}) \((?!-01\.-01)", content(path)))
        assert Counter(f"{logged.number:03d}".encode() for logged in entries(events)) == entry_counts
        assert refused_lines(events) == []
        assert bytes_left == 0

    def test_lines_texts_and_jobs_equal_the_files(self, path: Path) -> None:
        lines = content(path).decode().split("\n")
        for logged in entries(read(content(path))[0]):
            line = int(logged.stimulus.partition(":")[2]) - 1
            assert lines[line].startswith(
                f"{logged.number:03d} ({logged.cluster:03d}.{logged.proc:03d}.000) ".replace("(-1.", "(-01.")
            )
            body = logged.text.split("\n")
            assert lines[line].endswith(body[0])
            assert lines[line + 1 : line + len(body)] == body[1:]
            assert lines[line + len(body)] == "..."

    def test_facts_equal_those_that_htcondor_reads(self, path: Path, tmp_path: Path) -> None:
        reference_entries = [logged for logged in reference(path, tmp_path) if logged.get("Cluster", -1) >= 0]
        our_entries = entries(read(content(path))[0])
        assert len(reference_entries) == len(our_entries)
        for logged, ad in zip(our_entries, reference_entries, strict=True):
            assert (logged.number, logged.cluster, logged.proc) == (
                ad["EventTypeNumber"],
                ad["Cluster"],
                ad.get("Proc", -1),
            )
            assert logged.at == int(datetime.fromisoformat(ad["EventTime"]).replace(tzinfo=UTC).timestamp()) * 1_000_000
            assert compared(logged.number, facts(logged.number, logged.text)) == htcondor_facts(ad)

    def test_facts_do_not_depend_on_the_indentation(self, path: Path) -> None:
        longest_entries = {
            logged.number: logged for logged in sorted(entries(read(content(path))[0]), key=lambda x: len(x.text))
        }
        for logged in longest_entries.values():
            for indented in (" ", " " * 4, " " * 8, "\t ", "\t" * 3):
                text = re.sub(r"\n(?:\t| {4})", lambda _, by=indented: "\n" + by, logged.text)  # type: ignore[misc]
                assert facts(logged.number, text + "  \t") == facts(logged.number, logged.text)

    def test_json_xml_and_dos_line_ends_give_the_same_entries(self, path: Path, tmp_path: Path) -> None:
        ads = reference(path, tmp_path)
        plain = [content_of(logged) for logged in entries(read(content(path))[0])]
        for form in (as_json, as_xml):
            data = "".join(form(ad) for ad in ads).encode()
            events, bytes_left = read(data)
            assert (refused_lines(events), bytes_left) == ([], 0)
            reread_entries = [content_of(logged) for logged in entries(events)]
            for entry_before, now in zip(plain, reread_entries, strict=True):
                assert now == entry_before
        returned = read(content(path).replace(b"\n", b"\r\n"))
        assert returned == read(content(path))


FACTS_OF_ADS = {
    "SubmitHost": "host",
    "ExecuteHost": "host",
    "SlotName": "slot",
    "ReturnValue": "code",
    "TerminatedBySignal": "signal",
    "CoreFile": "core",
    "Size": "image",
    "MemoryUsage": "memory",
    "ResidentSetSize": "resident",
    "NumberOfPIDs": "processes",
    "HoldReason": "reason",
    "Reason": "reason",
    "ErrorMsg": "reason",
    "DisconnectReason": "reason",
    "StartdName": "slot",
    "StartdAddr": "host",
    "HoldReasonCode": "code",
    "HoldReasonSubCode": "subcode",
    "ReasonCode": "reason_code",
    "ReasonSubCode": "reason_subcode",
    "LogNotes": "notes",
    "Daemon": "daemon",
    "SentBytes": "sent",
    "ReceivedBytes": "received",
    "TotalSentBytes": "total_sent",
    "TotalReceivedBytes": "total_received",
}
USAGE = {
    "RunRemoteUsage": "",
    "RunLocalUsage": "local_",
    "TotalRemoteUsage": "total_",
    "TotalLocalUsage": "total_local_",
}


def htcondor_facts(ad: dict[str, Any]) -> dict[str, str]:
    """Return the facts that HTCondor's reader finds, for the types that have more than a text."""
    number = ad["EventTypeNumber"]
    facts: dict[str, str] = {}
    for name, value in ad.items():
        if name == "ExecuteHost" and number == 21:
            facts["slot"] = value
        elif name in USAGE:
            time_match = re.findall(r"(\d+) (\d\d):(\d\d):(\d\d)", value)
            for kind, (days, hours, minutes, seconds) in zip(("user", "system"), time_match, strict=True):
                total = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
                facts[f"{USAGE[name]}{kind}_cpu"] = str(total * 1_000_000)
        elif name in FACTS_OF_ADS and (name != "MemoryUsage" or number == 6):
            facts[FACTS_OF_ADS[name]] = str(int(value) if isinstance(value, float) else value)
        elif resource := resource_of(number, name):
            facts[resource] = number_of(value)
        elif name == "ExecuteProps":
            facts |= {key: json.dumps(value[key]) for key in value}
        elif name in ("Checkpointed", "TerminatedAndRequeued"):
            facts[{"Checkpointed": "checkpointed"}.get(name, "requeued")] = str(value).lower()
    return facts


def resource_of(number: int, name: str) -> str:
    match = re.fullmatch(r"(Request)?(Cpus|Disk|GPUs|Memory|TimeExecute|TimeSlotBusy)(Usage)?", name)
    if number not in (4, 5) or match is None:
        return ""
    return f"{match[2].lower()}_{'requested' if match[1] else 'used' if match[3] else 'allocated'}"


def number_of(value: Any) -> str:
    return f"{float(value):g}"


RESOURCES = "_(used|requested|allocated)$"


def compared(number: int, our_facts: dict[str, str]) -> dict[str, str]:
    """Return our facts, without facts that HTCondor's reader lacks: resources of an eviction, and warnings."""
    if number in (33, 36):
        return {}
    excluded = {"words", "severity", "warnings"} | {
        name for name in our_facts if number == 4 and re.search(RESOURCES, name)
    }
    if our_facts.get("reason_subcode") == "0":
        excluded.add("reason_subcode")
    return {
        name: number_of(value) if re.search(RESOURCES, name) else value
        for name, value in our_facts.items()
        if name not in excluded
    }


def content_of(logged: e.JobLogged) -> object:
    """Return an entry's content, without what an ad cannot hold."""
    return (
        logged.at,
        logged.cluster,
        logged.proc,
        logged.number,
        compared(logged.number, facts(logged.number, logged.text)),
    )


def as_json(ad: dict[str, Any]) -> str:
    """Return an entry as HTCondor writes it in the JSON format."""
    return str(classad2.ClassAd(ad).printJson()) + "\n"


def as_xml(ad: dict[str, Any], indent: str = "") -> str:
    """Return an entry as HTCondor writes it in the XML format."""
    lines = "".join(f'{indent}    <a n="{name}">{xml_value(ad[name], indent)}</a>\n' for name in ad)
    return f"<c>\n{lines}{indent}</c>" + ("" if indent else "\n")


def xml_value(value: Any, indent: str) -> str:
    if isinstance(value, bool):
        return f'<b v="{"t" if value else "f"}"/>'
    if isinstance(value, int):
        return f"<i>{value}</i>"
    if isinstance(value, float):
        return f"<r>{value:1.15E}</r>"
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        return f"<s>{escape(text)}</s>"
    return as_xml({name: value[name] for name in value}, indent + "    ")


NOON = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()) * 1_000_000
BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000_000


@together(
    "when, zone, at",
    [
        ("2026-11-20 12:00:00", UTC, NOON),
        ("2026-11-20T12:00:00", UTC, NOON),
        ("2026-11-20 12:00:00.123", UTC, NOON + 123_000),
        ("2026-11-20 12:00:00", BERLIN, NOON - HOUR),
        ("2026-11-20 12:00:00Z", BERLIN, NOON),
        ("2026-11-20T12:00:00.5Z", BERLIN, NOON + 500_000),
        ("2026-11-20 12:00:00+00:00", BERLIN, NOON),
        ("2026-11-20 14:00:00+0200", UTC, NOON),
        ("11/20 12:00:00", UTC, NOON),
        ("11/20 12:00:00.250", BERLIN, NOON - HOUR + 250_000),
    ],
)
def test_a_time_may_have_any_form_that_htcondor_writes(when: str, zone: tzinfo, at: int) -> None:
    events, bytes_left = read((entry(0, when=when) + entry(9, when=when)).encode(), zone)
    assert [logged.at for logged in entries(events)] == [at, at]
    assert bytes_left == 0


GLOBAL = "Global JobLog: ctime={} id=0.5.1.2.1.3 sequence={} size=0 events=0 offset=0 event_off=0 max_rotation=1"


def test_an_old_date_has_the_headers_year_and_the_next_one_after_december() -> None:
    begin = int(datetime(2019, 12, 31, 23, tzinfo=UTC).timestamp())
    log = f"008 (-01.-01.-01) 12/31 23:00:00 {GLOBAL.format(begin, 1)}   \n...\n"
    log += entry(when="12/31 23:59:59") + entry(when="01/01 00:00:01") + entry(when="01/02 00:00:01")
    events = read(log.encode())[0]
    assert [datetime.fromtimestamp(logged.at / 1e6, UTC).year for logged in entries(events)] == [2019, 2020, 2020]


def test_without_a_header_the_first_entry_precedes_the_files_modification() -> None:
    log = "".join(entry(when=when) for when in ("12/30 10:00:00", "12/31 10:00:00", "01/02 10:00:00"))
    modified = datetime(2026, 1, 3, tzinfo=UTC).timestamp()
    events = read(log.encode(), modified=modified)[0]
    assert [datetime.fromtimestamp(logged.at / 1e6, UTC).year for logged in entries(events)] == [2025, 2025, 2026]


def test_a_late_entry_of_another_writer_after_new_year_has_the_old_year() -> None:
    log = "".join(entry(when=when) for when in ("12/31 23:59:58", "01/01 00:00:01", "12/31 23:59:59", "01/01 00:00:02"))
    modified = datetime(2027, 6, 1, tzinfo=UTC).timestamp()
    events = read(log.encode(), modified=modified)[0]
    assert [datetime.fromtimestamp(logged.at / 1e6, UTC).year for logged in entries(events)] == [2026, 2027, 2026, 2027]


def test_the_repeated_hour_is_resolved_by_the_previous_time() -> None:
    log = "".join(entry(when=f"2026-10-25 0{when}") for when in ("1:59:00", "2:30:00", "2:59:00", "2:30:00", "3:00:00"))
    instants = [logged.at for logged in entries(read(log.encode(), BERLIN)[0])]
    assert [(at - instants[0]) // 60_000_000 for at in instants] == [0, 31, 60, 91, 121]


def test_the_headers_of_an_event_log_are_remembered_but_not_events() -> None:
    log = f"008 (-01.-01.-01) 2026-11-20 12:00:00 {GLOBAL.format(1795176000, 7)}\n...\n" + entry(when="11/20 12:00:01")
    reader = JobEventLogReader(source(), None, 0)
    events, _ = reader.read(log.encode())
    assert jobs(single_events(events)) == ["009 1.0"]
    assert reader.state()["header"] == {"ctime": 1795176000, "id": "0.5.1.2.1.3", "sequence": 7}


CASES: dict[str, tuple[str, list[str], list[int]]] = {
    # the text, the entries, the lines of the refused ones
    "blank lines between": ("\n\n" + entry(0) + "\n \n" + entry(9), ["000 1.0", "009 1.0"], []),
    "an entry without words": ("041 (001.000.000) 2026-11-20 12:00:00 \n\tBytes reserved: 5\n...\n", ["041 1.0"], []),
    "torn between lines": ("005 (001.000.000) 2026-11-20 12:00:00 Job ter\n" + entry(9), ["009 1.0"], [1]),
    "torn within its first line": ("005 (001.000.000) 2026-11-20 12:00:00 Job ter" + entry(9), ["009 1.0"], [1]),
    "torn within a line of figures": (entry(0) + entry(5, text="Job terminated.\n\t\tUsr 0 00:0")[:-5] + entry(9),
        ["000 1.0", "009 1.0"], [3]),
    "torn within its dots": (entry(0, "2.0")[:-2] + entry(9), ["009 1.0"], [1]),
    "only its last line end missing": (entry(0, "2.0")[:-1] + entry(9), ["000 2.0", "009 1.0"], []),
    "a reason that looks like an entry": (
        entry(9, text="Job was aborted.\n\tsee 005 (007.000.000) 2026-11-20 12:00:00 Job ended."), ["009 1.0"], []),
    "torn twice": (entry(0)[:-5] + "\n" + entry(1, "1.1")[:-4] + entry(9, "1.2"), ["009 1.2"], [1, 2]),
    "rubbish, then an entry": ("\x00\x01 rubbish\nmore\n" + entry(9), ["009 1.0"], [1]),
    "rubbish and an entry in a line": ("\x00\x01 rubbish" + entry(9), ["009 1.0"], [1]),
    "rubbish first, then one entry torn into another": (
        "rubbish\n...\n001 (001.000.000) 2026-11-20 12:00:00 Job exec" + entry(9),
        ["009 1.0"],
        [1, 3],
    ),
    "rubbish that contains dots": ("rubbish\n...\n" + entry(9), ["009 1.0"], [1]),
    "dots alone": ("...\n...\n" + entry(9), ["009 1.0"], []),
    "no such time": (entry(0, when="2026-13-20 12:00:00") + entry(9), ["009 1.0"], [1]),
    "no time": ("000 (001.000.000) yesterday Job submitted\n...\n" + entry(9), ["009 1.0"], [1]),
    "a number of no known type": (entry(98) + entry(9), ["098 1.0", "009 1.0"], []),
    "a remark about no job": ("008 (-01.-01.-01) 2026-11-20 12:00:00 hello\n...\n", ["008 -1.-1"], []),
    "a json entry between": (entry(0) + '{"EventTypeNumber": 9, "EventTime": "2026-11-20T12:00:00", "Cluster": 5, '
        '"Proc": 1, "Subproc": 0}\n' + entry(9), ["000 1.0", "009 5.1", "009 1.0"], []),
    "a torn json entry": ('{\n  "EventTypeNumber": 9,\n' + '{\n  "EventTypeNumber": 9,\n "Cluster": 1, "Proc": 0,\n '
        '"EventTime": "2026-11-20T12:00:00"\n}\n', ["009 1.0"], [1]),
    "json without an entry": ('{"a": 1}\n{"a"\n' + entry(9), ["009 1.0"], [1, 2]),
    "a torn xml entry": ('<?xml version="1.0"?>\n<c>\n    <a n="Proc"><i>5</i>\n<c>\n  <a n="EventTypeNumber"><i>9</i>'
        '</a>\n <a n="EventTime"><s>2026-11-20T12:00:00</s></a><a n="Cluster"><i>1</i></a><a n="Proc"><i>0</i></a>\n'
        "</c>\n", ["009 1.0"], [2]),
    "xml without an entry": ("<c>\n<b>\n</c>\n<d>\n" + entry(9), ["009 1.0"], [1, 4]),
    "a torn classic entry before a json one": (entry(0)[:-5] + '\n{"EventTypeNumber": 9, "EventTime": '
        '"2026-11-20T12:00:00", "Cluster": 5, "Proc": 1}\n', ["009 5.1"], [1]),
}  # fmt: skip


@pytest.mark.parametrize("log, expected, lines", CASES.values(), ids=CASES)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_damaged_entry_is_refused_with_its_line_and_the_rest_is_read(
    log: str, expected: list[str], lines: list[int], end: str
) -> None:
    data = log.replace("\n", end).encode()
    events, bytes_left = read(data)
    assert (jobs(events), [line for line, _ in refused_lines(events)], bytes_left) == (expected, lines, 0)
    for new_readers in (False, True):
        assert in_pieces(data, list(range(len(data))), new_readers) == events


@pytest.mark.parametrize("form", ["classic", "json", "xml"])
def test_an_incomplete_entry_at_the_end_is_left_for_the_next_read(form: str) -> None:
    ad = {"EventTypeNumber": 9, "EventTime": "2026-11-20T12:00:00", "Cluster": 1, "Proc": 0, "Reason": "why"}
    content = {"classic": entry(9, text="Job was aborted.\n\twhy"), "json": as_json(ad), "xml": as_xml(ad)}[
        form
    ].encode()
    first = read(content)[0]
    assert len(first) == 1
    for size in range(len(content)):
        events, bytes_left = read(content + content[:size])
        assert events == first
        assert bytes_left == size


def test_a_marker_of_removed_lines_is_a_gap_between_its_neighbours() -> None:
    for marker in ("## trimmed here: 60043 bytes", "...... trimmed"):
        log = entry(0, when="2026-11-20 12:00:00") + marker + "\n" + entry(9, when="2026-11-20 13:00:00")
        events = read(log.encode())[0]
        (gap,) = (logged for logged in events if isinstance(logged, e.SourceGap))
        assert (gap.line, gap.since, gap.until) == (3, NOON, NOON + HOUR)
        assert events.index(gap) == 1
        assert refused_lines(events) == []
        assert in_pieces(log.encode(), list(range(len(log))), True) == events


def test_an_entry_cut_by_a_marker_is_refused() -> None:
    log = entry(0) + entry(9)[:45] + "\n## trimmed here: 5 bytes\n" + entry(9, "2.0")
    events = read(log.encode())[0]
    assert jobs(events) == ["000 1.0", "009 2.0"]
    assert refused_lines(events) == [(3, "the entry was torn: something else starts before its end")]


def test_a_marker_within_an_entry_removes_both_halves() -> None:
    text = "Job terminated.\n\t(1) Normal termination (return value 0)"
    log = entry(0) + entry(5, text=text)[:-4] + "## trimmed here: 5 bytes\n\tof another entry\n...\n" + entry(9, "2.0")
    events = read((entry(0) * 3 + log).encode())[0]
    assert jobs(events) == ["000 1.0"] * 4 + ["009 2.0"]
    assert len([event for event in events if isinstance(event, e.SourceGap)]) == 1


def test_invalid_bytes_stay_readable() -> None:
    events = read(entry(9, text="Job was aborted.\n\tgr").encode()[:-5] + b"\xfc\xdfe\xff\n...\n")[0]
    assert facts(9, entries(events)[0].text)["reason"] == r"gr\xfc\xdfe\xff"


def test_a_claims_secret_is_removed_from_a_text() -> None:
    claim = "<127.0.0.1:9618?addrs=127.0.0.1-9618>#1795215158#12#SECRETSECRET"
    ad = {"EventTypeNumber": 9, "EventTime": "2026-11-20T12:00:00", "Cluster": 1, "Proc": 0, "Reason": claim}
    log = entry(9, text=f"Job was aborted.\n\t{claim}") * 2 + as_json(ad) + as_xml(ad) + f"rubbish {claim}\n...\n"
    events = read(log.encode())[0]
    assert len(events) == 5
    assert "SECRET" not in str(events)
    assert str(events).count("#1795215158#12#...") == 5


def test_an_entry_without_end_for_four_megabytes_is_refused_and_the_next_one_read() -> None:
    for begin in (entry(9)[:-4], "{\n", "<c>\n", "rubbish"):
        data = begin.encode() + b"x" * (LONGEST + 10) + b"\n...\n" + entry(9, "2.0").encode()
        events, bytes_left = read(data)
        assert jobs(events) == ["009 2.0"]
        assert bytes_left == 0
        assert 1 <= len(refused_lines(events)) <= 2
        assert in_pieces(data, list(range(0, len(data), 1 << 20)), True) == events


MIXED_LOG = st.lists(
    st.sampled_from([case[0] for case in CASES.values()] + ["## trimmed here\n", "12/31", "\r\n"])
    | st.text(max_size=30)
    | st.text("0123456789 (.)-:/\n{}<c>\t", max_size=60),
    max_size=8,
).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=300) | MIXED_LOG, st.lists(st.integers(0, 400), max_size=6), st.booleans())
@example(b"\x00\n...\n<\n...\n", [6], False)
@example(b"(\n...\n...\n009 (001.000.000) 2026-11-20 22:33:44 Job was aborted.\n...\n", [10], False)
def test_cuts_and_rubbish_do_not_change_the_entries(data: bytes, cuts: list[int], new_readers: bool) -> None:
    assert in_pieces(data, [min(position, len(data)) for position in cuts], new_readers) == read(data)[0]


@given(st.binary(max_size=300) | MIXED_LOG)
def test_entries_after_rubbish_are_read(data: bytes) -> None:
    log = data + b"\n...\n" + (entry(1, "7.7") + entry(5, "7.7")).encode()
    events, bytes_left = read(log)
    assert jobs(events)[-2:] == ["001 7.7", "005 7.7"]
    assert bytes_left == 0
    line = log.count(b"\n", 0, log.rindex(b"005 (007.007")) + 1
    assert entries(events)[-1].stimulus == f"3:{line}"

"""Golden: what is read of real job event logs is what stands there, and what HTCondor's own reader makes of them.
Property: no cut and no rubbish changes what is read of the rest. Job event logs, in each of their forms."""

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
    """All that is read of a log, and how many bytes are left."""
    found, taken = JobEventLogReader(source(zone, modified), None, 0).read(data)
    return singled(found), len(data) - taken


def in_pieces(data: bytes, cuts: list[int], anew: bool) -> list[e.Event]:
    """What is read in pieces, by one reader or by a new one each time."""
    reader = JobEventLogReader(source(), None, 0)
    events: list[e.Event] = []
    rest, before = b"", 0
    for cut in [*sorted(cuts), len(data)]:
        rest, before = rest + data[before:cut], cut
        if anew:
            reader = JobEventLogReader(source(), json.loads(json.dumps(reader.state())), reader.line)
        found, taken = reader.read(rest)
        events, rest = events + found, rest[taken:]
    return singled(events)


def singled(events: list[e.Event]) -> list[e.Event]:
    """The events, each entry by itself."""
    return [event for _, event in single_entries(enumerate(events))]


def entries(events: list[e.Event]) -> list[e.JobLogged]:
    return [event for event in events if isinstance(event, e.JobLogged)]


def jobs(events: list[e.Event]) -> list[str]:
    return [f"{x.number:03d} {x.cluster}.{x.proc}" for x in entries(events)]


def refused(events: list[e.Event]) -> list[tuple[int, str]]:
    return [(event.line, event.words) for event in events if isinstance(event, e.SourceRefused)]


def entry(number: int = 9, job: str = "1.0", when: str = "2026-11-20 22:33:44", text: str = "Job was aborted.") -> str:
    cluster, _, proc = job.partition(".")
    return f"{number:03d} ({int(cluster):03d}.{int(proc):03d}.000) {when} {text}\n...\n"


def reference(path: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """The events of a log as HTCondor reads it."""
    plain = tmp_path / "log"
    # Its reader stops at a marker of a cut.
    plain.write_bytes(re.sub(rb"(?m)^(## trimmed here|\.{6} trimmed).*\n", b"", content(path)))
    return [dict(event) for event in htcondor2.JobEventLog(str(plain)).events(0)]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.name}")
class TestOfRealLogs:
    def test_each_entry_is_read_and_none_is_refused(self, path: Path) -> None:
        events, left = read(content(path))
        counted = Counter(re.findall(rb"(?m)^(\d{3}) \((?!-01\.-01)", content(path)))
        assert Counter(f"{x.number:03d}".encode() for x in entries(events)) == counted
        assert refused(events) == []
        assert left == 0

    def test_lines_texts_and_jobs_are_those_of_the_file(self, path: Path) -> None:
        lines = content(path).decode().split("\n")
        for x in entries(read(content(path))[0]):
            line = int(x.stimulus.partition(":")[2]) - 1
            assert lines[line].startswith(
                f"{x.number:03d} ({x.cluster:03d}.{x.proc:03d}.000) ".replace("(-1.", "(-01.")
            )
            body = x.text.split("\n")
            assert lines[line].endswith(body[0])
            assert lines[line + 1 : line + len(body)] == body[1:]
            assert lines[line + len(body)] == "..."

    def test_facts_are_what_htcondor_reads(self, path: Path, tmp_path: Path) -> None:
        theirs = [x for x in reference(path, tmp_path) if x.get("Cluster", -1) >= 0]
        ours = entries(read(content(path))[0])
        assert len(theirs) == len(ours)
        for x, ad in zip(ours, theirs, strict=True):
            assert (x.number, x.cluster, x.proc) == (ad["EventTypeNumber"], ad["Cluster"], ad.get("Proc", -1))
            assert x.at == int(datetime.fromisoformat(ad["EventTime"]).replace(tzinfo=UTC).timestamp()) * 1_000_000
            assert compared(x.number, facts(x.number, x.text)) == of_htcondor(ad)

    def test_facts_do_not_depend_on_which_white_space_indents_the_lines(self, path: Path) -> None:
        longest = {x.number: x for x in sorted(entries(read(content(path))[0]), key=lambda x: len(x.text))}
        for x in longest.values():
            for indented in (" ", " " * 4, " " * 8, "\t ", "\t" * 3):
                text = re.sub(r"\n(?:\t| {4})", lambda _, by=indented: "\n" + by, x.text)  # type: ignore[misc]
                assert facts(x.number, text + "  \t") == facts(x.number, x.text)

    def test_it_reads_the_same_as_json_as_xml_and_with_dos_line_ends(self, path: Path, tmp_path: Path) -> None:
        ads = reference(path, tmp_path)
        plain = [plainly(x) for x in entries(read(content(path))[0])]
        for form in (as_json, as_xml):
            data = "".join(form(ad) for ad in ads).encode()
            events, left = read(data)
            assert (refused(events), left) == ([], 0)
            found = [plainly(x) for x in entries(events)]
            for was, now in zip(plain, found, strict=True):
                assert now == was
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


def of_htcondor(ad: dict[str, Any]) -> dict[str, str]:
    """The facts in what HTCondor's reader gives, of those types that say more than words."""
    number = ad["EventTypeNumber"]
    found: dict[str, str] = {}
    for name, value in ad.items():
        if name == "ExecuteHost" and number == 21:
            found["slot"] = value
        elif name in USAGE:
            times = re.findall(r"(\d+) (\d\d):(\d\d):(\d\d)", value)
            for kind, (days, hours, minutes, seconds) in zip(("user", "system"), times, strict=True):
                whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
                found[f"{USAGE[name]}{kind}_cpu"] = str(whole * 1_000_000)
        elif name in FACTS_OF_ADS and (name != "MemoryUsage" or number == 6):
            found[FACTS_OF_ADS[name]] = str(int(value) if isinstance(value, float) else value)
        elif resource := resource_of(number, name):
            found[resource] = number_of(value)
        elif name == "ExecuteProps":
            found |= {part: json.dumps(value[part]) for part in value}
        elif name in ("Checkpointed", "TerminatedAndRequeued"):
            found[{"Checkpointed": "checkpointed"}.get(name, "requeued")] = str(value).lower()
    return found


def resource_of(number: int, name: str) -> str:
    found = re.fullmatch(r"(Request)?(Cpus|Disk|GPUs|Memory|TimeExecute|TimeSlotBusy)(Usage)?", name)
    if number not in (4, 5) or found is None:
        return ""
    return f"{found[2].lower()}_{'requested' if found[1] else 'used' if found[3] else 'allocated'}"


def number_of(value: Any) -> str:
    return f"{float(value):g}"


RESOURCES = "_(used|requested|allocated)$"


def compared(number: int, found: dict[str, str]) -> dict[str, str]:
    """Our facts, less what HTCondor's reader does not give: it has no resources of an eviction, nor warnings."""
    if number in (33, 36):
        return {}
    left = {"words", "severity", "warnings"} | {name for name in found if number == 4 and re.search(RESOURCES, name)}
    if found.get("reason_subcode") == "0":
        left.add("reason_subcode")
    return {
        name: number_of(value) if re.search(RESOURCES, name) else value
        for name, value in found.items()
        if name not in left
    }


def plainly(x: e.JobLogged) -> object:
    """An entry by what it says, less what an ad does not hold."""
    return x.at, x.cluster, x.proc, x.number, compared(x.number, facts(x.number, x.text))


def as_json(ad: dict[str, Any]) -> str:
    """An entry as HTCondor writes it with the JSON form."""
    return str(classad2.ClassAd(ad).printJson()) + "\n"


def as_xml(ad: dict[str, Any], indent: str = "") -> str:
    """An entry as HTCondor writes it with the XML form."""
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
    events, left = read((entry(0, when=when) + entry(9, when=when)).encode(), zone)
    assert [x.at for x in entries(events)] == [at, at]
    assert left == 0


GLOBAL = "Global JobLog: ctime={} id=0.5.1.2.1.3 sequence={} size=0 events=0 offset=0 event_off=0 max_rotation=1"


def test_the_year_of_an_old_date_is_the_headers_and_then_the_next_after_december() -> None:
    begin = int(datetime(2019, 12, 31, 23, tzinfo=UTC).timestamp())
    log = f"008 (-01.-01.-01) 12/31 23:00:00 {GLOBAL.format(begin, 1)}   \n...\n"
    log += entry(when="12/31 23:59:59") + entry(when="01/01 00:00:01") + entry(when="01/02 00:00:01")
    events = read(log.encode())[0]
    assert [datetime.fromtimestamp(x.at / 1e6, UTC).year for x in entries(events)] == [2019, 2020, 2020]


def test_without_a_header_the_year_is_such_that_the_first_entry_is_before_the_files_modification() -> None:
    log = "".join(entry(when=when) for when in ("12/30 10:00:00", "12/31 10:00:00", "01/02 10:00:00"))
    modified = datetime(2026, 1, 3, tzinfo=UTC).timestamp()
    events = read(log.encode(), modified=modified)[0]
    assert [datetime.fromtimestamp(x.at / 1e6, UTC).year for x in entries(events)] == [2025, 2025, 2026]


def test_an_entry_that_another_writer_wrote_late_over_new_year_is_of_the_old_year() -> None:
    log = "".join(entry(when=when) for when in ("12/31 23:59:58", "01/01 00:00:01", "12/31 23:59:59", "01/01 00:00:02"))
    modified = datetime(2027, 6, 1, tzinfo=UTC).timestamp()
    events = read(log.encode(), modified=modified)[0]
    assert [datetime.fromtimestamp(x.at / 1e6, UTC).year for x in entries(events)] == [2026, 2027, 2026, 2027]


def test_the_repeated_hour_of_a_zone_is_told_apart_by_the_time_before() -> None:
    log = "".join(entry(when=f"2026-10-25 0{when}") for when in ("1:59:00", "2:30:00", "2:59:00", "2:30:00", "3:00:00"))
    found = [x.at for x in entries(read(log.encode(), BERLIN)[0])]
    assert [(at - found[0]) // 60_000_000 for at in found] == [0, 31, 60, 91, 121]


def test_the_headers_of_an_eventlog_are_no_events_but_remembered() -> None:
    log = f"008 (-01.-01.-01) 2026-11-20 12:00:00 {GLOBAL.format(1795176000, 7)}\n...\n" + entry(when="11/20 12:00:01")
    reader = JobEventLogReader(source(), None, 0)
    events, _ = reader.read(log.encode())
    assert jobs(singled(events)) == ["009 1.0"]
    assert reader.state()["header"] == {"ctime": 1795176000, "id": "0.5.1.2.1.3", "sequence": 7}


CASES: dict[str, tuple[str, list[str], list[int]]] = {
    # what stands there, the entries, the lines of those that are refused
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
    "rubbish with dots of its own": ("rubbish\n...\n" + entry(9), ["009 1.0"], [1]),
    "dots alone": ("...\n...\n" + entry(9), ["009 1.0"], []),
    "no such time": (entry(0, when="2026-13-20 12:00:00") + entry(9), ["009 1.0"], [1]),
    "no time": ("000 (001.000.000) yesterday Job submitted\n...\n" + entry(9), ["009 1.0"], [1]),
    "a number of no known type": (entry(98) + entry(9), ["098 1.0", "009 1.0"], []),
    "a remark of nobody's": ("008 (-01.-01.-01) 2026-11-20 12:00:00 hello\n...\n", ["008 -1.-1"], []),
    "a json entry between": (entry(0) + '{"EventTypeNumber": 9, "EventTime": "2026-11-20T12:00:00", "Cluster": 5, '
        '"Proc": 1, "Subproc": 0}\n' + entry(9), ["000 1.0", "009 5.1", "009 1.0"], []),
    "a torn json entry": ('{\n  "EventTypeNumber": 9,\n' + '{\n  "EventTypeNumber": 9,\n "Cluster": 1, "Proc": 0,\n '
        '"EventTime": "2026-11-20T12:00:00"\n}\n', ["009 1.0"], [1]),
    "json that is no entry": ('{"a": 1}\n{"a"\n' + entry(9), ["009 1.0"], [1, 2]),
    "a torn xml entry": ('<?xml version="1.0"?>\n<c>\n    <a n="Proc"><i>5</i>\n<c>\n  <a n="EventTypeNumber"><i>9</i>'
        '</a>\n <a n="EventTime"><s>2026-11-20T12:00:00</s></a><a n="Cluster"><i>1</i></a><a n="Proc"><i>0</i></a>\n'
        "</c>\n", ["009 1.0"], [2]),
    "xml that is no entry": ("<c>\n<b>\n</c>\n<d>\n" + entry(9), ["009 1.0"], [1, 4]),
    "a torn classic entry before a json one": (entry(0)[:-5] + '\n{"EventTypeNumber": 9, "EventTime": '
        '"2026-11-20T12:00:00", "Cluster": 5, "Proc": 1}\n', ["009 5.1"], [1]),
}  # fmt: skip


@pytest.mark.parametrize("log, found, lines", CASES.values(), ids=CASES)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_torn_is_refused_with_its_line_and_the_rest_is_read(
    log: str, found: list[str], lines: list[int], end: str
) -> None:
    data = log.replace("\n", end).encode()
    events, left = read(data)
    assert (jobs(events), [line for line, _ in refused(events)], left) == (found, lines, 0)
    for anew in (False, True):
        assert in_pieces(data, list(range(len(data))), anew) == events


@pytest.mark.parametrize("form", ["classic", "json", "xml"])
def test_a_torn_entry_at_the_end_is_left_for_the_next_time(form: str) -> None:
    ad = {"EventTypeNumber": 9, "EventTime": "2026-11-20T12:00:00", "Cluster": 1, "Proc": 0, "Reason": "why"}
    whole = {"classic": entry(9, text="Job was aborted.\n\twhy"), "json": as_json(ad), "xml": as_xml(ad)}[form].encode()
    first = read(whole)[0]
    assert len(first) == 1
    for cut in range(len(whole)):
        events, left = read(whole + whole[:cut])
        assert events == first
        assert left == cut


def test_a_marker_that_lines_were_taken_out_is_a_gap_between_the_entries_around_it() -> None:
    for marker in ("## trimmed here: 60043 bytes", "...... trimmed"):
        log = entry(0, when="2026-11-20 12:00:00") + marker + "\n" + entry(9, when="2026-11-20 13:00:00")
        events = read(log.encode())[0]
        (gap,) = (x for x in events if isinstance(x, e.SourceGap))
        assert (gap.line, gap.since, gap.until) == (3, NOON, NOON + HOUR)
        assert events.index(gap) == 1
        assert refused(events) == []
        assert in_pieces(log.encode(), list(range(len(log))), True) == events


def test_an_entry_that_was_torn_by_a_marker_is_refused() -> None:
    log = entry(0) + entry(9)[:45] + "\n## trimmed here: 5 bytes\n" + entry(9, "2.0")
    events = read(log.encode())[0]
    assert jobs(events) == ["000 1.0", "009 2.0"]
    assert refused(events) == [(3, "the entry was torn: something else begins before its end")]


def test_a_marker_within_an_entry_leaves_neither_half_of_it() -> None:
    text = "Job terminated.\n\t(1) Normal termination (return value 0)"
    log = entry(0) + entry(5, text=text)[:-4] + "## trimmed here: 5 bytes\n\tof another entry\n...\n" + entry(9, "2.0")
    events = read((entry(0) * 3 + log).encode())[0]
    assert jobs(events) == ["000 1.0"] * 4 + ["009 2.0"]
    assert len([event for event in events if isinstance(event, e.SourceGap)]) == 1


def test_bytes_that_are_no_text_survive_readably() -> None:
    events = read(entry(9, text="Job was aborted.\n\tgr").encode()[:-5] + b"\xfc\xdfe\xff\n...\n")[0]
    assert facts(9, entries(events)[0].text)["reason"] == r"gr\xfc\xdfe\xff"


def test_a_claims_secret_is_cut_from_a_text() -> None:
    claim = "<127.0.0.1:9618?addrs=127.0.0.1-9618>#1795215158#12#SECRETSECRET"
    ad = {"EventTypeNumber": 9, "EventTime": "2026-11-20T12:00:00", "Cluster": 1, "Proc": 0, "Reason": claim}
    log = entry(9, text=f"Job was aborted.\n\t{claim}") * 2 + as_json(ad) + as_xml(ad) + f"rubbish {claim}\n...\n"
    events = read(log.encode())[0]
    assert len(events) == 5
    assert "SECRET" not in str(events)
    assert str(events).count("#1795215158#12#...") == 5


def test_what_has_no_end_for_four_megabytes_is_refused_and_the_next_entry_is_read() -> None:
    for begin in (entry(9)[:-4], "{\n", "<c>\n", "rubbish"):
        data = begin.encode() + b"x" * (LONGEST + 10) + b"\n...\n" + entry(9, "2.0").encode()
        events, left = read(data)
        assert jobs(events) == ["009 2.0"]
        assert left == 0
        assert 1 <= len(refused(events)) <= 2
        assert in_pieces(data, list(range(0, len(data), 1 << 20)), True) == events


MIX = st.lists(
    st.sampled_from([case[0] for case in CASES.values()] + ["## trimmed here\n", "12/31", "\r\n"])
    | st.text(max_size=30)
    | st.text("0123456789 (.)-:/\n{}<c>\t", max_size=60),
    max_size=8,
).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=300) | MIX, st.lists(st.integers(0, 400), max_size=6), st.booleans())
@example(b"\x00\n...\n<\n...\n", [6], False)
@example(b"(\n...\n...\n009 (001.000.000) 2026-11-20 22:33:44 Job was aborted.\n...\n", [10], False)
def test_no_cut_and_no_rubbish_changes_what_is_read(data: bytes, cuts: list[int], anew: bool) -> None:
    assert in_pieces(data, [min(cut, len(data)) for cut in cuts], anew) == read(data)[0]


@given(st.binary(max_size=300) | MIX)
def test_entries_behind_rubbish_are_read(data: bytes) -> None:
    log = data + b"\n...\n" + (entry(1, "7.7") + entry(5, "7.7")).encode()
    events, left = read(log)
    assert jobs(events)[-2:] == ["001 7.7", "005 7.7"]
    assert left == 0
    line = log.count(b"\n", 0, log.rindex(b"005 (007.007")) + 1
    assert entries(events)[-1].stimulus == f"3:{line}"

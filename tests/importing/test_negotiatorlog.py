"""Golden and property: cycles, matches, rejections and shares of NegotiatorLog and MatchLog."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.condor_files.negotiatorlog import MatchLogReader, NegotiatorLogReader
from poolbook.domain.events import (
    CycleReported,
    DaemonReported,
    Event,
    JobReported,
    SourceGap,
    SourceRefused,
    SubmitterReported,
)

from ..together import together
from .feeding import REPORTS, content, read, read_in_pieces, trace_files

TIME = "11/20/26 12:00:00 "
AT = "<10.0.0.1:9618?sock=schedd_1>"
STARTD = "<10.0.0.2:9618?sock=startd_1>"


def log(*messages: str) -> bytes:
    return "".join(f"{TIME}{message}\n" for message in messages).encode()


def summary_of(event: Event) -> tuple[str, str, dict[str, str]]:
    """Return the subject, the kind and the facts of an event."""
    if isinstance(event, JobReported):
        return f"{event.cluster}.{event.proc}", event.said, event.facts
    if isinstance(event, SubmitterReported):
        return event.submitter, event.said, event.facts
    assert isinstance(event, CycleReported | DaemonReported)
    return "", event.said, event.facts


def reports_of(*messages: str) -> list[tuple[str, str, dict[str, str]]]:
    return [summary_of(event) for event in read(NegotiatorLogReader, "negotiatorlog", log(*messages))[0]]


MATCHES = [
    (
        f"      Matched 1.0 alice@localhost {AT} preempting none {STARTD} slot1@localhost",
        ("1.0", "matched", {"slot": "slot1@localhost", "user": "alice@localhost", "preempting": "none"}),
    ),
    (
        f"Matched 12.345 g.bob@h {AT} preempting a@h (AccountingGroup=x) {STARTD} slot1_2@node-7.h (offline)",
        (
            "12.345",
            "matched",
            {
                "slot": "slot1_2@node-7.h",
                "user": "g.bob@h",
                "preempting": "a@h (AccountingGroup=x)",
                "words": "offline",
            },
        ),
    ),
    (
        f"      Rejected 3.1 alice@localhost {AT}: concurrency limit large.x, xsw reached",
        ("3.1", "rejected", {"user": "alice@localhost", "words": "concurrency limit large.x, xsw reached"}),
    ),
]


@pytest.mark.parametrize(("message", "expected"), MATCHES)
@pytest.mark.parametrize(("reader", "kind"), [(MatchLogReader, "matchlog"), (NegotiatorLogReader, "negotiatorlog")])
def test_matches_and_rejections_are_read_from_both_logs(
    reader: type[MatchLogReader], kind: str, message: str, expected: tuple[str, str, dict[str, str]]
) -> None:
    ((job, report, facts),) = [summary_of(event) for event in read(reader, kind, log(message))[0]]
    assert facts.pop("source") == AT
    assert facts.pop("startd", STARTD) == STARTD
    assert (job, report, facts) == expected


ANNOUNCED = (f"  Negotiating with bob@h at {AT}", "    Request 00002.00003: autocluster 1 (request count 1 of 20)")
SUCCESS = "      Successfully matched with slot1@h"
WITHOUT_MATCHES = [
    (SUCCESS, {}),
    ("      Successfully matched with slot1@h (offline)", {"words": "offline"}),
]


@pytest.mark.parametrize(("message", "expected"), WITHOUT_MATCHES)
def test_a_match_is_derived_when_matches_are_not_logged(message: str, expected: dict[str, str]) -> None:
    facts = {"slot": "slot1@h", "user": "bob@h", "source": AT} | expected
    assert reports_of(*ANNOUNCED, message) == [("2.3", "matched", facts)]


def test_the_match_on_a_slot_names_the_preempted_user() -> None:
    preempting = "      Preempting alice@h (user prio=61289.60, startd rank=0.00) on {} for bob@h (user prio=0.50, ...)"
    assert reports_of(*ANNOUNCED, preempting.format("slot1@h"), SUCCESS)[0][2]["preempting"] == "alice@h"
    assert "preempting" not in reports_of(*ANNOUNCED, preempting.format("slot2@h"), SUCCESS)[0][2]


def test_a_logged_match_is_reported_once() -> None:
    matched = f"      Matched 2.3 bob@h {AT} preempting none {STARTD} slot1@h"
    assert [report for _, report, _ in reports_of(*ANNOUNCED, matched, SUCCESS, *ANNOUNCED, SUCCESS)] == [
        "matched",
        "matched",
    ]


def test_the_submitter_is_unknown_after_a_gap() -> None:
    data = log(*ANNOUNCED) + b"...... trimmed ......\n" + log(SUCCESS, "    submitterShare      = 1.0", "else")
    assert [type(event) for event in read(NegotiatorLogReader, "negotiatorlog", data)[0]] == [SourceGap]


def test_a_cycle_has_its_numbers() -> None:
    start_line = "---------- Started Negotiation Cycle ----------"
    ads = "Public ads include 1 submitter, 3 startd"
    rejected = f"Rejected 3.1 a@h {AT}: no match found"
    end_line = "---------- Finished Negotiation Cycle ----------"
    numbers = {"began": "1795176000000000", "matches": "1", "rejections": "2"}
    assert reports_of(start_line, ads, *ANNOUNCED, SUCCESS, rejected, rejected, end_line)[-1] == (
        "",
        "ended",
        numbers | {"slots": "3", "submitters": "1"},
    )
    assert reports_of(start_line, "Aborting negotiation cycle")[-1] == (
        "",
        "ended",
        {"began": "1795176000000000", "matches": "0", "rejections": "0", "words": "aborted"},
    )


PIE = {
    "numSlots": "30",
    "after trimming": "28",
    "slotWeightTotal": "20.000000",
    "minSlotWeight": "1.000000",
    "pieLeft": "20.000",
    "NormalFactor": "1.000000",
    "MaxPrioValue": "500.000000",
    "NumSubmitterAds": "1",
}
SLICE = {
    "SubmitterPrio": "7.824520",
    "SubmitterPrioFactor": "10.000000",
    "submitterShare": "1.000000",
    "submitterAbsShare": "1.000000",
    "submitterLimit": "-3.000000",
    "starved": "2.500000",
    "submitterCeiling remaining": "2147483647",
    "submitterUsage": "3.000000",
}


def lines_of(numbers: dict[str, str]) -> list[str]:
    lines = [
        f"    {name}      = {value}" for name, value in numbers.items() if name not in ("after trimming", "starved")
    ]
    return [
        line.replace("= 30", "= 30 (after trimming=28)").replace("= -3.000000", "= -3.000000 (starved 2.500000)")
        for line in lines
    ]


def test_the_pie_and_slices_keep_the_negotiators_names() -> None:
    assert reports_of(*lines_of(PIE)) == [("", "pie", PIE)]
    assert reports_of(ANNOUNCED[0], *lines_of(SLICE)) == [("bob@h", "slice", SLICE)]


def test_incomplete_numbers_are_reported_at_the_next_line() -> None:
    incomplete = {name: value for name, value in SLICE.items() if name != "submitterUsage"}
    assert reports_of(ANNOUNCED[0], *lines_of(incomplete)) == []
    assert reports_of(ANNOUNCED[0], *lines_of(incomplete), "Using resource request list from cache.") == [
        ("bob@h", "slice", incomplete)
    ]


SETTINGS = [
    ("Setting the priority factor of alice@h to 99999.999986", "alice@h", "priority factor", "99999.999986"),
    ("Setting the priority of a.b@h to 5.000000", "a.b@h", "priority", "5.000000"),
    ("Setting the ceiling of alice@h to 12", "alice@h", "ceiling", "12"),
    ("Setting the last usage time of alice@h to 1795176000", "alice@h", "last usage time", "1795176000"),
    ("Resetting the usage of alice@h", "alice@h", "usage", "0"),
    ("Resetting the usage of all users", "*", "usage", "0"),
    ("Deleting accounting record of alice@h", "alice@h", "record", "deleted"),
]


@together(("message", "submitter", "report", "value"), SETTINGS)
def test_an_administrators_settings_are_read(message: str, submitter: str, report: str, value: str) -> None:
    assert reports_of(message) == [(submitter, "set", {"what": report, "value": value})]


def test_a_negotiators_start_reconfiguration_and_end_are_read() -> None:
    reports = reports_of(
        "** condor_negotiator (CONDOR_NEGOTIATOR) STARTING UP",
        "** /usr/sbin/condor_negotiator",
        "** $CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $",
        "** PID = 4711 RealUID = 0",
        "Got SIGHUP.  Re-reading config files.",
        "Got SIGTERM. Performing graceful shutdown.",
        "**** condor_negotiator (condor_NEGOTIATOR) pid 4711 EXITING WITH STATUS 0",
    )
    assert reports == [
        ("", "began", {"version": "25.14.1", "pid": "4711"}),
        ("", "reconfigured", {}),
        ("", "ended", {"how": "graceful", "status": "0", "pid": "4711"}),
    ]


COUNTED = {
    "rejected": rb" Rejected \d",
    "began": rb"Started Negotiation Cycle|STARTING UP",
    "ended": rb"Finished Negotiation Cycle|Aborting negotiation cycle|EXITING WITH STATUS",
    "reconfigured": rb"Got SIGHUP",
    "pie": rb"    numSlots =",
    "set": rb"Setting the ",
}
# Matches and slices after a gap, whose submitter is not known.
WITHOUT_SUBMITTER = {("05-prio-preempt", "slice"): 2, ("11-concurrency", "matched"): 1}


@together("path", trace_files("NegotiatorLog"))
def test_every_line_of_a_negotiators_log_is_an_event(path: Path) -> None:
    data = content(path)
    events, bytes_left = read(NegotiatorLogReader, "negotiatorlog", data)
    counts = Counter(getattr(event, "said", "") for event in events)
    matched = max(len(re.findall(pattern, data)) for pattern in (rb" Matched \d", rb"Successfully matched"))
    expected = {report: len(re.findall(pattern, data)) for report, pattern in COUNTED.items()}
    expected |= {"matched": matched, "slice": len(re.findall(rb"    submitterShare  ", data))}
    for (name, report), number in WITHOUT_SUBMITTER.items():
        expected[report] -= number if name == path.parent.name else 0
    assert bytes_left == 0
    assert not [event for event in events if isinstance(event, SourceRefused)]
    assert {report: counts[report] for report in expected} == expected
    assert counts[""] == len(re.findall(rb"^(?:\.+|##) trimmed", data, re.MULTILINE))


@together("path", trace_files("MatchLog"))
def test_every_line_of_a_match_log_is_an_event(path: Path) -> None:
    data = content(path)
    events, bytes_left = read(MatchLogReader, "matchlog", data)
    counts = Counter(getattr(event, "said", "gap") for event in events)
    expected = {"matched": rb" Matched \d", "rejected": rb" Rejected \d", "gap": rb"(?m)^## trimmed"}
    line_counts = {report: len(re.findall(pattern, data)) for report, pattern in expected.items()}
    assert bytes_left == 0
    assert counts == {report: number for report, number in line_counts.items() if number}


def test_only_reports_of_the_closed_lists_are_made() -> None:
    lists = {JobReported: REPORTS["jobs"], SubmitterReported: REPORTS["submitters"], CycleReported: REPORTS["cycles"]}
    for path in trace_files("NegotiatorLog"):
        for event in read(NegotiatorLogReader, "negotiatorlog", content(path))[0]:
            if isinstance(event, JobReported | SubmitterReported | CycleReported):
                assert event.said in lists[type(event)]


@settings(max_examples=15)
@given(
    st.sampled_from(["01-plain", "05-prio-preempt", "20c-kill-for-better-match"]),
    st.lists(st.integers(0, 10**7), max_size=3),
)
def test_where_the_pieces_are_cut_does_not_matter(run: str, cuts: list[int]) -> None:
    (path,) = (path for path in trace_files("NegotiatorLog") if path.parent.name == run)
    data = content(path)[-30_000:]
    assert read_in_pieces(NegotiatorLogReader, "negotiatorlog", data, cuts) == read(
        NegotiatorLogReader, "negotiatorlog", data
    )


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 20_000), st.binary(max_size=80)), max_size=5))
def test_no_bytes_within_a_log_raise(noise: list[tuple[int, bytes]]) -> None:
    data = content(trace_files("NegotiatorLog")[0])[-20_000:]
    expected_count = len(read(NegotiatorLogReader, "negotiatorlog", data)[0])
    for place, rubbish in noise:
        data = data[:place] + rubbish + data[place:]
    assert len(read(NegotiatorLogReader, "negotiatorlog", data)[0]) >= expected_count - 10 * len(noise)

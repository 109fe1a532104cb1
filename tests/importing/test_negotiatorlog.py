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
from .feeding import REPORTS, content, read, read_in_pieces, traced

TIME = "11/20/26 12:00:00 "
AT = "<10.0.0.1:9618?sock=schedd_1>"
STARTD = "<10.0.0.2:9618?sock=startd_1>"


def log(*messages: str) -> bytes:
    return "".join(f"{TIME}{message}\n" for message in messages).encode()


def told(event: Event) -> tuple[str, str, dict[str, str]]:
    """Of what, what, and the facts."""
    if isinstance(event, JobReported):
        return f"{event.cluster}.{event.proc}", event.said, event.facts
    if isinstance(event, SubmitterReported):
        return event.submitter, event.said, event.facts
    assert isinstance(event, CycleReported | DaemonReported)
    return "", event.said, event.facts


def said(*messages: str) -> list[tuple[str, str, dict[str, str]]]:
    return [told(event) for event in read(NegotiatorLogReader, "negotiatorlog", log(*messages))[0]]


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
    ((job, what, facts),) = [told(event) for event in read(reader, kind, log(message))[0]]
    assert facts.pop("source") == AT
    assert facts.pop("startd", STARTD) == STARTD
    assert (job, what, facts) == expected


ANNOUNCED = (f"  Negotiating with bob@h at {AT}", "    Request 00002.00003: autocluster 1 (request count 1 of 20)")
SUCCESS = "      Successfully matched with slot1@h"
WITHOUT_MATCHES = [
    (SUCCESS, {}),
    ("      Successfully matched with slot1@h (offline)", {"words": "offline"}),
]


@pytest.mark.parametrize(("message", "more"), WITHOUT_MATCHES)
def test_a_match_is_known_where_matches_are_not_logged(message: str, more: dict[str, str]) -> None:
    facts = {"slot": "slot1@h", "user": "bob@h", "source": AT} | more
    assert said(*ANNOUNCED, message) == [("2.3", "matched", facts)]


def test_who_was_preempted_is_told_with_the_match_on_that_slot() -> None:
    preempting = "      Preempting alice@h (user prio=61289.60, startd rank=0.00) on {} for bob@h (user prio=0.50, ...)"
    assert said(*ANNOUNCED, preempting.format("slot1@h"), SUCCESS)[0][2]["preempting"] == "alice@h"
    assert "preempting" not in said(*ANNOUNCED, preempting.format("slot2@h"), SUCCESS)[0][2]


def test_a_match_that_was_logged_is_told_once() -> None:
    matched = f"      Matched 2.3 bob@h {AT} preempting none {STARTD} slot1@h"
    assert [what for _, what, _ in said(*ANNOUNCED, matched, SUCCESS, *ANNOUNCED, SUCCESS)] == ["matched", "matched"]


def test_behind_a_gap_nobody_is_taken_for_who_was_negotiated_with_before() -> None:
    data = log(*ANNOUNCED) + b"...... trimmed ......\n" + log(SUCCESS, "    submitterShare      = 1.0", "else")
    assert [type(event) for event in read(NegotiatorLogReader, "negotiatorlog", data)[0]] == [SourceGap]


def test_a_cycle_has_its_numbers() -> None:
    began = "---------- Started Negotiation Cycle ----------"
    ads = "Public ads include 1 submitter, 3 startd"
    rejected = f"Rejected 3.1 a@h {AT}: no match found"
    ended = "---------- Finished Negotiation Cycle ----------"
    numbers = {"began": "1795176000000000", "matches": "1", "rejections": "2"}
    assert said(began, ads, *ANNOUNCED, SUCCESS, rejected, rejected, ended)[-1] == (
        "",
        "ended",
        numbers | {"slots": "3", "submitters": "1"},
    )
    assert said(began, "Aborting negotiation cycle")[-1] == (
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


def test_the_pie_and_its_slices_keep_the_negotiators_names() -> None:
    assert said(*lines_of(PIE)) == [("", "pie", PIE)]
    assert said(ANNOUNCED[0], *lines_of(SLICE)) == [("bob@h", "slice", SLICE)]


def test_numbers_of_which_the_last_is_missing_are_told_when_something_else_comes() -> None:
    less = {name: value for name, value in SLICE.items() if name != "submitterUsage"}
    assert said(ANNOUNCED[0], *lines_of(less)) == []
    assert said(ANNOUNCED[0], *lines_of(less), "Using resource request list from cache.") == [("bob@h", "slice", less)]


SETTINGS = [
    ("Setting the priority factor of alice@h to 99999.999986", "alice@h", "priority factor", "99999.999986"),
    ("Setting the priority of a.b@h to 5.000000", "a.b@h", "priority", "5.000000"),
    ("Setting the ceiling of alice@h to 12", "alice@h", "ceiling", "12"),
    ("Setting the last usage time of alice@h to 1795176000", "alice@h", "last usage time", "1795176000"),
    ("Resetting the usage of alice@h", "alice@h", "usage", "0"),
    ("Resetting the usage of all users", "*", "usage", "0"),
    ("Deleting accounting record of alice@h", "alice@h", "record", "deleted"),
]


@together(("message", "submitter", "what", "value"), SETTINGS)
def test_what_an_administrator_set(message: str, submitter: str, what: str, value: str) -> None:
    assert said(message) == [(submitter, "set", {"what": what, "value": value})]


def test_a_negotiator_begins_reads_its_configuration_and_ends() -> None:
    found = said(
        "** condor_negotiator (CONDOR_NEGOTIATOR) STARTING UP",
        "** /usr/sbin/condor_negotiator",
        "** $CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $",
        "** PID = 4711 RealUID = 0",
        "Got SIGHUP.  Re-reading config files.",
        "Got SIGTERM. Performing graceful shutdown.",
        "**** condor_negotiator (condor_NEGOTIATOR) pid 4711 EXITING WITH STATUS 0",
    )
    assert found == [
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
# Matches and slices behind a gap of which is not known whose they are.
NOBODYS = {("05-prio-preempt", "slice"): 2, ("11-concurrency", "matched"): 1}


@together("path", traced("NegotiatorLog"))
def test_every_line_of_a_negotiators_log_is_an_event(path: Path) -> None:
    data = content(path)
    events, left = read(NegotiatorLogReader, "negotiatorlog", data)
    counts = Counter(getattr(event, "said", "") for event in events)
    matched = max(len(re.findall(pattern, data)) for pattern in (rb" Matched \d", rb"Successfully matched"))
    expected = {what: len(re.findall(pattern, data)) for what, pattern in COUNTED.items()}
    expected |= {"matched": matched, "slice": len(re.findall(rb"    submitterShare  ", data))}
    for (name, what), number in NOBODYS.items():
        expected[what] -= number if name == path.parent.name else 0
    assert left == 0
    assert not [event for event in events if isinstance(event, SourceRefused)]
    assert {what: counts[what] for what in expected} == expected
    assert counts[""] == len(re.findall(rb"^(?:\.+|##) trimmed", data, re.MULTILINE))


@together("path", traced("MatchLog"))
def test_every_line_of_a_match_log_is_an_event(path: Path) -> None:
    data = content(path)
    events, left = read(MatchLogReader, "matchlog", data)
    counts = Counter(getattr(event, "said", "gap") for event in events)
    expected = {"matched": rb" Matched \d", "rejected": rb" Rejected \d", "gap": rb"(?m)^## trimmed"}
    found = {what: len(re.findall(pattern, data)) for what, pattern in expected.items()}
    assert left == 0
    assert counts == {what: number for what, number in found.items() if number}


def test_only_words_of_the_closed_lists_are_said() -> None:
    lists = {JobReported: REPORTS["jobs"], SubmitterReported: REPORTS["submitters"], CycleReported: REPORTS["cycles"]}
    for path in traced("NegotiatorLog"):
        for event in read(NegotiatorLogReader, "negotiatorlog", content(path))[0]:
            if isinstance(event, JobReported | SubmitterReported | CycleReported):
                assert event.said in lists[type(event)]


@settings(max_examples=15)
@given(
    st.sampled_from(["01-plain", "05-prio-preempt", "20c-kill-for-better-match"]),
    st.lists(st.integers(0, 10**7), max_size=3),
)
def test_where_the_pieces_are_cut_does_not_matter(run: str, cuts: list[int]) -> None:
    (path,) = (path for path in traced("NegotiatorLog") if path.parent.name == run)
    data = content(path)[-30_000:]
    assert read_in_pieces(NegotiatorLogReader, "negotiatorlog", data, cuts) == read(
        NegotiatorLogReader, "negotiatorlog", data
    )


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 20_000), st.binary(max_size=80)), max_size=5))
def test_no_bytes_within_a_log_raise(noise: list[tuple[int, bytes]]) -> None:
    data = content(traced("NegotiatorLog")[0])[-20_000:]
    honest = len(read(NegotiatorLogReader, "negotiatorlog", data)[0])
    for place, rubbish in noise:
        data = data[:place] + rubbish + data[place:]
    assert len(read(NegotiatorLogReader, "negotiatorlog", data)[0]) >= honest - 10 * len(noise)

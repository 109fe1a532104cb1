"""Golden and property: shadows, claims and the schedd's own life, in SchedLog."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.condor_files.job_daemon_logs import SchedLogReader
from poolbook.domain.events import DaemonReported, Event, JobReported, SlotReported, SourceGap, SourceRefused

from ..together import together
from .feeding import DATA, REPORTS, content, read, read_in_pieces, trace_files

AT = "<10.0.0.2:9618?addrs=10.0.0.2-9618&sock=startd_1>"
CLAIM = f"{AT}#1795176000#7"
LOGS = [*trace_files("SchedLog"), DATA / "queue" / "SchedLog.gz"]


def log(*messages: str) -> bytes:
    return "".join(f"11/20/26 12:00:00 (pid:4711) {message}\n" for message in messages).encode()


def summary_of(event: Event) -> tuple[str, str, dict[str, str]]:
    if isinstance(event, JobReported):
        return f"{event.cluster}.{event.proc}", event.said, event.facts
    if isinstance(event, SlotReported):
        return event.slot, event.said, event.facts
    assert isinstance(event, DaemonReported)
    return event.daemon, event.said, event.facts


def reports_of(*messages: str) -> list[tuple[str, str, dict[str, str]]]:
    return [summary_of(event) for event in read(SchedLogReader, "schedlog", log(*messages))[0]]


BEGINNING = f"Started shadow for job 1.0 on slot1_1@h {AT} for g.alice, (shadow pid = 84343)"
MESSAGES = [
    (BEGINNING, ("1.0", "shadow_began", {"slot": "slot1_1@h", "user": "g.alice", "shadow": "84343"})),
    (
        f"Started shadow for job 1.0 on slot1_1@h {CLAIM}#... for alice, (shadow pid = 3)",
        ("1.0", "shadow_began", {"slot": "slot1_1@h", "user": "alice", "claim": CLAIM, "shadow": "3"}),
    ),
    (
        f"Started shadow for job 1.0 on {AT} for alice, (shadow pid = 3)",
        ("1.0", "shadow_began", {"user": "alice", "shadow": "3"}),
    ),
    ("Shadow pid 3 for job 10.12 exited with status 115", ("10.12", "shadow_gone", {"shadow": "3", "status": "115"})),
    ("Shadow pid 3 for job 1.0 reports job exit reason 100.", ("1.0", "shadow_gone", {"shadow": "3", "reason": "100"})),
    (
        f"Match record (slot1@h {AT} for alice, 1.0) deleted",
        ("1.0", "match_gone", {"slot": "slot1@h", "user": "alice"}),
    ),
    (f"Match record (slot1@h {AT} for alice, 1.-1) deleted", ("slot1@h", "released", {"user": "alice"})),
    (f"Match record (slot1@h {AT} for alice, -1.-1) deleted", ("slot1@h", "released", {"user": "alice"})),
    (f"Completed RELEASE_CLAIM to startd slot1@h {AT} for alice", ("slot1@h", "released", {"user": "alice"})),
    ("Got SIGHUP.  Re-reading config files.", ("schedd", "reconfigured", {})),
    (
        "**** condor_schedd (condor_SCHEDD) pid 7 EXITING WITH STATUS 4",
        ("schedd", "ended", {"how": "status 4", "status": "4", "pid": "7"}),
    ),
    (
        "**** condor_schedd (condor_SCHEDD) pid 7 EXITING WITH STATUS -1",
        ("schedd", "ended", {"how": "status -1", "status": "-1", "pid": "7"}),
    ),
    ("**** condor_schedd EXITING WITH STATUS 99", ("schedd", "ended", {"how": "status 99", "status": "99"})),
]
IGNORED_MESSAGES = [
    "Shadow pid 3 died with signal 9 (Killed)",  # about a shadow whose beginning is missing
    f"Match record ({AT} for alice, 1.-1) deleted",  # about a slot whose name the schedd does not know
    "Completed RELEASE_CLAIM to startd at <10.0.0.2:9618>",
    "Sent signal 9 to shadow [pid 3] for job 1.0",
    "Negotiating for Submitter: alice@h with (name=h, host=10.0.0.1)",
]


@together(("message", "expected"), MESSAGES)
def test_each_message_gives_its_report(message: str, expected: tuple[str, str, dict[str, str]]) -> None:
    assert reports_of(message) == [expected]


@pytest.mark.parametrize("message", IGNORED_MESSAGES)
def test_messages_about_unknown_things_are_skipped(message: str) -> None:
    assert reports_of(message) == []


def test_a_reused_shadow_keeps_its_claim() -> None:
    facts = {"slot": "slot1_1@h", "user": "g.alice", "shadow": "84343"}
    switching = f"match (slot1_1@h {AT} for g.alice) switching to job 2.0"
    switch_line = "Shadow pid 84343 switching to job 2.0."
    assert reports_of(BEGINNING, switch_line)[1] == ("2.0", "shadow_began", facts | {"before": "1.0"})
    assert reports_of(switching, switch_line) == [("2.0", "shadow_began", facts)]
    assert reports_of(switch_line) == [("2.0", "shadow_began", {"shadow": "84343"})]


@pytest.mark.parametrize(
    "failed", ["expand job ad when switching shadow {} to new job 2.0", "get ok when switching shadow {} to a new job."]
)
def test_a_shadow_that_fails_to_switch_does_not_get_the_next_job(failed: str) -> None:
    failure_line = "Failed to " + failed.format(84343)
    shadow_facts = {"shadow": "84343", "reason": "it did not switch"}
    assert reports_of(BEGINNING, "Shadow pid 84343 switching to job 2.0.", failure_line)[2:] == [
        ("2.0", "shadow_gone", shadow_facts)
    ]


def test_a_killed_shadow_ends_its_last_job() -> None:
    death_line = "Shadow pid 84343 died with signal 9 (Killed)"
    shadow_facts = {"shadow": "84343", "reason": "signal 9 (Killed)"}
    assert reports_of(BEGINNING, death_line)[1:] == [("1.0", "shadow_gone", shadow_facts)]
    assert reports_of(BEGINNING, "Shadow pid 84343 switching to job 2.0.", death_line)[2:] == [
        ("2.0", "shadow_gone", shadow_facts)
    ]


def test_a_claim_that_outlives_its_schedd_gives_the_slot() -> None:
    reports = reports_of(
        f"Started shadow for job 1.0 on slot1_1@h {CLAIM}#... for alice, (shadow pid = 3)",
        "** condor_schedd (CONDOR_SCHEDD) STARTING UP",
        f"Started shadow for job 1.0 on {CLAIM}#... for alice, (shadow pid = 5)",
        f"Match record ({CLAIM}#... for alice, 1.-1) deleted",
        f"Started shadow for job 1.0 on {CLAIM}#... for alice, (shadow pid = 6)",
    )
    assert [(report, facts.get("slot", thing)) for thing, report, facts in reports] == [
        ("shadow_began", "slot1_1@h"),
        ("shadow_began", "slot1_1@h"),
        ("released", "slot1_1@h"),
        ("shadow_began", "1.0"),
    ]


def test_a_shadows_job_is_unknown_after_a_gap() -> None:
    data = (
        log(BEGINNING)
        + b"...... trimmed: 9 bytes in all ......\n"
        + log("Shadow pid 84343 died with signal 9 (Killed)")
    )
    assert [type(event) for event in read(SchedLogReader, "schedlog", data)[0]] == [JobReported, SourceGap]


COUNTED = {
    "shadow_began": rb"Started shadow for job|Shadow pid \d+ switching to",
    "shadow_gone": rb"Shadow pid \d+ for job",
    "match_gone": rb"Match record \(.*, \d+\.\d+\)",
    "released": rb"Match record \(slot.*-1\)|Completed RELEASE_CLAIM to startd slot",
    "began": rb"STARTING UP",
    "ended": rb"EXITING WITH STATUS",
    "reconfigured": rb"Got SIGHUP",
}
# Reports of claims whose slots are known only from earlier lines with their ids.
KNOWN_BY_ID = {("queue", "released"): 2}


@together("path", LOGS)
def test_every_line_is_an_event(path: Path) -> None:
    data = content(path)
    events, bytes_left = read(SchedLogReader, "schedlog", data)
    counts = Counter(getattr(event, "said", "") for event in events)
    expected = {report: len(re.findall(pattern, data)) for report, pattern in COUNTED.items()}
    for (name, report), number in KNOWN_BY_ID.items():
        expected[report] += number if name == path.parent.name else 0
    assert bytes_left == 0
    assert not [event for event in events if isinstance(event, SourceRefused)]
    assert {report: counts[report] for report in expected} == expected
    assert counts[""] == len(re.findall(rb"^(?:\.+|##) trimmed", data, re.MULTILINE))
    for event in events:
        if isinstance(event, JobReported | SlotReported):
            assert event.said in REPORTS["jobs" if isinstance(event, JobReported) else "slots"]


@settings(max_examples=15)
@given(st.sampled_from(LOGS), st.lists(st.integers(0, 10**7), max_size=3))
def test_where_the_pieces_are_cut_does_not_matter(path: Path, cuts: list[int]) -> None:
    data = content(path)[-60_000:]
    assert read_in_pieces(SchedLogReader, "schedlog", data, cuts) == read(SchedLogReader, "schedlog", data)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 20_000), st.binary(max_size=80)), max_size=5))
def test_no_bytes_within_a_log_raise(noise: list[tuple[int, bytes]]) -> None:
    data = content(LOGS[0])[:20_000]
    expected_count = len(read(SchedLogReader, "schedlog", data)[0])
    for place, rubbish in noise:
        data = data[:place] + rubbish + data[place:]
    assert len(read(SchedLogReader, "schedlog", data)[0]) >= expected_count - 10 * len(noise)

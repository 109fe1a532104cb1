"""Golden: the StartLogs of real pools break no rule, and each planted fault is found at its line. Property: missing
lines are never a fault."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.events import SourceGap, SourceRefused
from poolbook.domain.state_machines import MANUAL
from poolbook.replay.audit_result import AuditFinding, UnaccountedTime
from poolbook.replay.forensics.audit.expected_lines import ANNOUNCEMENTS
from poolbook.replay.forensics.audit.startd_log_rules import STORY

from ..sampling import thorough
from ..together import together
from .rules_page import RULES_OF
from .startlogs import NOON, TRACES, audit_logs, audit_slots, imported, log_of, read_in_turns, rotated, start_logs

LOGS = start_logs()
SLOT = "slot1@node7"
S = 1_000_000
HALF_ROWS = {"35a": "35", "35b": "1"}
MOVE = re.compile(rb"\S+ \S+ \S+: (?:Changing|Slot \S+ no longer)")
BEGUN = (
    "** condor_startd (CONDOR_STARTD) STARTING UP",
    "slot1: New Slot of type 1 allocated",
    "slot1: State change: IS_OWNER is false",
    "slot1: Changing state: Owner -> Unclaimed",
)
RUNNING = (
    *BEGUN,
    "slot1: Changing state: Unclaimed -> Claimed",
    "slot1: Remote job ID is 1.0",
    "slot1: State change: claim-activation protocol successful, Starter 51",
    "slot1: Changing activity: Idle -> Busy",
)
ENDED = ("**** condor_startd (condor_STARTD) pid 1 EXITING WITH STATUS 0",)


def expected_counts(run: str) -> tuple[Counter[str], Counter[str]]:
    """Return the counts of a run: by the manual's number (or the dialect's row), and the rows that only the dialect
    allows."""
    numbers: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    manual = {(r.number, *step) for r in MANUAL.slot_rows for step in r.steps}
    for line in (TRACES / "transitions.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        row, source, target, _, by_run = line.split("\t")
        count_by_run = dict(entry.split(":") for entry in by_run.split()).get(run)
        if count_by_run is not None:
            numbers[HALF_ROWS.get(row, row)] += int(count_by_run)
            if (row, source, target) not in manual:
                alone[row] += int(count_by_run)
    return numbers, alone


def broken_rules(*messages: str) -> list[tuple[str, int]]:
    """Return the rules that a log breaks, and the lines that break them."""
    return [(finding.rule, finding.line) for finding in audit_logs(log_of(*messages)).violations]


@together("run", LOGS)
def test_a_real_log_breaks_no_rule_and_its_transitions_are_counted(run: str) -> None:
    audit = audit_logs(LOGS[run])
    numbers, dialect_only = expected_counts(run)
    assert audit.violations == []
    assert audit.unaccounted == []
    assert {number: times for number, times in audit.transitions.items() if times} == numbers
    assert audit.beyond == dialect_only
    assert audit.undocumented == {row: times for row, times in dialect_only.items() if row not in NUMBERED_ROWS}
    assert {row.number for row in MANUAL.slot_rows} <= audit.transitions.keys()
    assert sum(audit.transitions.values()) == len(MOVE.findall(LOGS[run]))


BACKFILL_STARTED = (
    *BEGUN,
    "slot1: State change: START_BACKFILL is TRUE",
    "slot1: Changing state: Unclaimed -> Backfill",
    "slot1: Changing activity: Idle -> Busy",
)
BACKFILL_LEFT = (
    "slot1: Changing activity: Busy -> Killing",
    "slot1: State change: starter exited : ResState.cpp(1253)",
)


@together(
    ("messages", "rows"),
    [
        (("slot1: State change: Backfill starter exited", "slot1: Changing activity: Busy -> Idle"), ["27"]),
        (
            (
                "slot1: State change: EVICT_BACKFILL is TRUE", *BACKFILL_LEFT,
                "slot1: Changing state and activity: Backfill/Killing -> Owner/Idle",
            ),
            ["28", "29a"],
        ),
        (
            (
                "slot1: State change: match notification protocol successful", *BACKFILL_LEFT,
                "slot1: Changing state and activity: Backfill/Killing -> Matched/Idle",
            ),
            ["28", "29c"],
        ),
    ],
)  # fmt: skip
def test_transitions_of_backfill_follow_the_startds_source(messages: tuple[str, ...], rows: list[str]) -> None:
    audit = audit_logs(log_of(*BACKFILL_STARTED, *messages))
    assert audit.violations == []
    assert {row: times for row, times in audit.transitions.items() if times and row != "1"} == dict.fromkeys(
        ("7", "26", *rows), 1
    )


def test_the_reason_for_leaving_backfill_applies_only_to_backfill() -> None:
    moved = "slot1: Changing state: Unclaimed -> Owner"
    assert broken_rules(*BEGUN, "slot1: State change: EVICT_BACKFILL is TRUE", moved) == [("said", len(BEGUN) + 2)]


@pytest.mark.parametrize(
    ("name", "transitions", "gaps", "alone"),
    [
        # a slot whose end is also logged as a transition ends once: 927 lines less 4
        ("evictions", 927 - 4, 0,
         {"2a": 49, "5a": 66, "5b": 17, "12": 67, "12a": 59, "12c": 8, "13a": 31, "13b": 28}),
        ("matches", 477, 2,
         {"2a": 31, "5": 2, "5a": 29, "12": 33, "12a": 30, "12b": 3, "12c": 5, "13a": 1, "13b": 15}),
    ],
)  # fmt: skip
def test_a_rotated_log_with_lost_parts_and_a_killed_startd_breaks_no_rule(
    name: str, transitions: int, gaps: int, alone: dict[str, int]
) -> None:
    events = imported(*rotated(name))
    assert sum(isinstance(event, SourceGap) for event in events) == gaps
    assert not [event for event in events if isinstance(event, SourceRefused)]
    audit = audit_slots(events)
    assert audit.violations == []
    assert sum(audit.transitions.values()) == transitions
    assert audit.beyond == alone
    killed = {time.slot for time in audit.unaccounted if time.words == "the startd ended without logging it"}
    assert killed


NUMBERED_ROWS = {"12", "12a", *HALF_ROWS}
"""Rows of the dialect that have a number in the diagram of HTCondor 25's manual, or are halves of such."""
UNDETECTED_REMOVALS = {("02", 189): "Changing activity: Benchmarking -> Idle"}
"""Undetected removals: the last transition of a slot, which no message announces."""


@pytest.mark.parametrize("most", thorough(6))
@pytest.mark.parametrize("run", LOGS)
def test_a_removed_line_is_detected(run: str, most: int) -> None:
    lines = LOGS[run].split(b"\n")
    places = [number for number, line in enumerate(lines) if MOVE.match(line)]
    for place in random.Random(7).sample(places, min(len(places), most, 40)):
        audit = audit_logs(b"\n".join(lines[:place] + lines[place + 1 :]))
        name = lines[place].split()[2].rstrip(b":").decode() + "@localhost"
        if b"no longer needed" in lines[place]:  # another kind of absence: a slot without further records
            is_detected = audit.violations or audit.unaccounted or b"EXITING" in b"".join(lines[place:])
            assert is_detected, lines[place]
        elif (run, place + 1) in UNDETECTED_REMOVALS:
            assert audit.violations == []
        else:
            first = audit.violations[0]
            assert (first.thing, first.file) == (name, "StartLog.1"), lines[place]
            assert first.rule in ("chain", "said", "activation")
            assert 1 <= len(first.story) <= STORY + 1
            assert first.story[-1].endswith(f"[StartLog.1:{first.line}]")


@pytest.mark.parametrize("most", thorough(4))
@pytest.mark.parametrize("run", LOGS)
def test_a_changed_transition_is_detected(run: str, most: int) -> None:
    lines, generator = LOGS[run].split(b"\n"), random.Random(7)
    names_of = {
        b"state": [b"Owner", b"Unclaimed", b"Matched", b"Claimed", b"Preempting", b"Drained"],
        b"activity": [b"Idle", b"Busy", b"Retiring", b"Vacating", b"Suspended", b"Killing", b"Cleaning"],
    }
    places = [number for number, line in enumerate(lines) if b": Changing " in line]
    for place in generator.sample(places, min(len(places), most, 15)):
        line = lines[place]
        pattern = generator.choice([rb": (\w+)(?:/\w+)? -> ", rb" -> (\w+)"])
        old = re.search(pattern, line)
        assert old is not None
        kind = b"activity" if b"Changing activity" in line else b"state"
        new = generator.choice([word for word in names_of[kind] if word != old[1]])
        changed = line[: old.start(1)] + new + line[old.end(1) :]
        audit = audit_logs(b"\n".join([*lines[:place], changed, *lines[place + 1 :]]))
        assert audit.violations, changed
        assert audit.violations[0].line >= place + 1


@together(
    ("messages", "broken"),
    [
        ((*BEGUN, "slot1: Changing state: Unclaimed -> Preempting"), [("row", 5)]),
        ((*BEGUN, "slot1: Changing activity: Idle -> Busy"), [("chain", 5)]),
        ((*BEGUN, "slot1: Changing activity: Idle -> Retired"), [("row", 5)]),
        ((*BEGUN, "slot1: Changing state: Claimed -> Owner"), [("chain", 5)]),
        ((*BEGUN, "slot1: Slot slot1 no longer needed, deleting", *BEGUN[1:]), []),
        ((*BEGUN, BEGUN[1], BEGUN[2], BEGUN[3]), [("birth", 5)]),
        ((*BEGUN, "slot2: Changing state: Owner -> Unclaimed", "slot2: Changing state: Unclaimed -> Claimed"),
         [("unborn", 5)]),
        ((*BEGUN, "slot1: State change: match timed out", "slot1: Changing state: Unclaimed -> Claimed"),
         [("said", 6)]),
        ((*BEGUN[:3], *ENDED), [("said", 3)]),
        ((*BEGUN[:3], 'ERROR "no more memory" at line 7 in file x.cpp'), []),
        ((*RUNNING, "slot1: State change: starter exited : x.cpp(1) Claimed/Cleaning",
          "slot1: Changing activity: Busy -> Idle"), [("said", 10)]),
        (RUNNING, []),
        ((*RUNNING, *RUNNING[-3:-1]), [("activation", 10)]),
        ((*RUNNING, "slot1: Remote job ID is 2.0", RUNNING[-2]), [("activation", 10)]),
        ((*RUNNING, "slot1[2.0]: Received final job ClassAd update from starter."), [("activation", 9)]),
    ],
)  # fmt: skip
def test_a_broken_rule_is_reported_with_its_line(messages: tuple[str, ...], broken: list[tuple[str, int]]) -> None:
    assert broken_rules(*messages) == broken
    assert {rule for rule, _ in broken} <= RULES_OF["slots"].keys()


def test_a_finding_has_its_file_its_line_and_the_slots_earlier_messages() -> None:
    (violation,) = audit_logs(
        log_of(*RUNNING, "slot1: Changing state and activity: Claimed/Idle -> Preempting/Killing")
    ).violations
    assert violation == AuditFinding(
        SLOT,
        "chain",
        "it was in Claimed/Busy, but this starts from Claimed/Idle: a line was removed or changed",
        (NOON + 8) * S,
        "StartLog.1",
        9,
        (
            "2026-11-20 12:00:01  it begins  [StartLog.1:2]",
            "2026-11-20 12:00:03  Owner/Idle -> Unclaimed/Idle (1): IS_OWNER is false  [StartLog.1:4]",
            "2026-11-20 12:00:04  Unclaimed/Idle -> Claimed/Idle (5)  [StartLog.1:5]",
            "2026-11-20 12:00:06  activated: job 1.0, starter 51  [StartLog.1:7]",
            "2026-11-20 12:00:07  Claimed/Idle -> Claimed/Busy (11): "
            "claim-activation protocol successful, Starter 51  [StartLog.1:8]",
            "2026-11-20 12:00:08  Claimed/Idle -> Preempting/Killing (10)  [StartLog.1:9]",
        ),
    )


def test_only_times_that_run_back_by_more_than_a_day_are_detected() -> None:
    late_line = b"slot1: Changing state: Unclaimed -> Claimed\n"
    for stamp, broken in [(b"11/19/26 11:00:00 ", ["backwards"]), (b"11/19/26 13:00:00 ", [])]:
        violations = audit_logs(log_of(*BEGUN) + stamp + late_line).violations
        assert [finding.rule for finding in violations] == broken


def test_a_single_earlier_line_is_detected_and_a_clock_set_back_is_not() -> None:
    start, later_lines = log_of(*BEGUN), log_of(*[""] * 70, "slot1: Changing state: Claimed -> Owner")
    late_line = b"11/20/26 %s slot1: Changing state: Unclaimed -> Claimed\n"
    back = log_of(*[""] * 10, "slot1: Changing state: Claimed -> Owner").replace(b" 12:", b" 11:")
    for stamp, after, broken in [
        (b"11:40:00", later_lines, [("backwards", 5)]),
        (b"11:40:00", back, []),
        (b"11:40:00", b"", []),
        (b"12:00:00", later_lines, []),
        (b"12:30:00", later_lines, []),  # the clock may have been set back after it
    ]:
        violations = audit_logs(start + late_line % stamp + after).violations
        assert [(finding.rule, finding.line) for finding in violations] == broken, stamp


def cycle(job: int) -> tuple[str, ...]:
    """Return a startd's messages about one claim with one job."""
    return (
        "slot1: Received ClaimId from schedd (<10.0.0.1:9618>#1#1#...)",
        "slot1: Request accepted.",
        "slot1: Remote owner is alice@pool",
        "slot1: Changing state: Unclaimed -> Claimed",
        "slot1: Got activate_claim request from shadow (10.0.0.1)",
        f"slot1: Remote job ID is {job}.0",
        f"slot1: State change: claim-activation protocol successful, Starter {50 + job}",
        "slot1: Changing activity: Idle -> Busy",
        f"slot1[{job}.0]: Received final job ClassAd update from starter.",
        "slot1: Changing activity: Busy -> Cleaning",
        f"Starter pid {50 + job} exited with status 0",
        "slot1: State change: starter exited: Claimed/Cleaning",
        "slot1: Changing activity: Cleaning -> Idle",
        "slot1: State change: received RELEASE_CLAIM command",
        "slot1: Changing state and activity: Claimed/Idle -> Preempting/Killing",
        "slot1: State change: No preempting claim, returning to owner",
        "slot1: Changing state and activity: Preempting/Killing -> Owner/Idle",
        "slot1: State change: IS_OWNER is false",
        "slot1: Changing state: Owner -> Unclaimed",
    )


CYCLES = [*BEGUN, *(line for job in range(1, 6) for line in cycle(job))]
THIRD_CYCLE = len(BEGUN) + 2 * len(cycle(1))
# A line of a claim that is not a transition -> the line of its transition in the claim.
ANNOUNCING_LINES = {0: 3, 1: 3, 2: 3, 4: 7, 5: 7, 6: 7, 8: 9, 10: 12, 11: 12, 17: 18}


@together("line", ANNOUNCING_LINES)
def test_a_line_missing_before_only_one_transition_is_detected(line: int) -> None:
    assert broken_rules(*CYCLES) == []
    edited = [*CYCLES[: THIRD_CYCLE + line], "", *CYCLES[THIRD_CYCLE + line + 1 :]]
    place = THIRD_CYCLE + ANNOUNCING_LINES[line]  # of the remaining lines, from 1
    assert ("unsaid", place) in broken_rules(*edited)
    finding = next(violation for violation in audit_logs(log_of(*edited)).violations if violation.rule == "unsaid")
    assert finding.thing == SLOT
    assert finding.story[-1].endswith(f"[StartLog.1:{finding.line}]")


def test_few_occasions_two_exceptions_or_another_configuration_are_not_faults() -> None:
    place = THIRD_CYCLE + 1
    missing = [*CYCLES[:place], *CYCLES[place + 1 :]]
    assert broken_rules(*missing) == [("unsaid", place + 2)]
    ends = len(BEGUN) + 3 * len(cycle(1)) - 1
    assert broken_rules(*missing[:ends]) == []
    next_place = place + len(cycle(1))
    assert broken_rules(*missing[: next_place - 1], *missing[next_place:]) == []
    quieter = [line for line in CYCLES if "accepted" not in line]
    reconfiguration = "Got SIGHUP.  Re-reading config files."
    assert broken_rules(*CYCLES[:THIRD_CYCLE], reconfiguration, *quieter[THIRD_CYCLE - 2 :]) == []


def test_slots_active_after_their_startds_end_lack_the_next_startds_beginning() -> None:
    assert broken_rules(*RUNNING, *ENDED, *BEGUN) == []
    assert broken_rules(*RUNNING, *ENDED, *BEGUN[1:]) == [("restart", len(RUNNING) + 2)]


def test_a_slot_without_a_beginning_is_found_when_another_one_has_one() -> None:
    beginning = ("slot1: State change: IS_OWNER is false", "slot1: Changing state: Owner -> Unclaimed")
    assert broken_rules(BEGUN[0], *beginning) == []
    assert broken_rules(BEGUN[0], *beginning, "slot1_1: New dSlot of type 1 allocated", "slot1_1: \tCpus: 1.0") == [
        ("unborn", 3)
    ]


def test_a_part_that_grows_after_its_successor_was_read_accuses_no_slot() -> None:
    content = log_of(*CYCLES, *ENDED)
    cuts = [content.index(b"\n", len(content) * part // 4) + 1 for part in (1, 2, 3)]
    old, tail, new, remainder = (
        content[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True)
    )
    assert {finding.rule for finding in audit_logs(old, new).violations} != set()
    for parts in ([(1, old), (2, new), (1, tail)], [(1, old), (2, new), (1, tail), (2, remainder)]):
        assert audit_slots(read_in_turns(parts)).violations == []


def test_a_killed_startd_leaves_unaccounted_time_and_no_fault() -> None:
    audit = audit_logs(log_of(*RUNNING, "", "", *BEGUN))
    assert audit.violations == []
    assert audit.unaccounted == [
        UnaccountedTime(SLOT, (NOON + 7) * S, (NOON + 10) * S, "the startd ended without logging it"),
    ]


def test_slots_are_adopted_after_a_gap_and_the_gap_is_reported() -> None:
    rest = ["slot1: Changing activity: Cleaning -> Idle", "slot2: Changing state: Owner -> Unclaimed"]
    audit = audit_logs(log_of(*RUNNING) + b"...... trimmed ......\n" + log_of(*[""] * 20, *rest))
    assert audit.violations == []
    reason = "lines were taken out of the file"
    assert audit.unaccounted == [
        UnaccountedTime(SLOT, (NOON + 7) * S, (NOON + 20) * S, reason),
        UnaccountedTime("slot2@node7", (NOON + 7) * S, (NOON + 21) * S, reason),
    ]


def test_a_slot_without_records_after_a_gap_is_unaccounted_up_to_the_end() -> None:
    audit = audit_logs(log_of(*RUNNING) + b"...... trimmed ......\n" + log_of(*[""] * 20, "no slot's"))
    assert [(time.slot, time.until) for time in audit.unaccounted] == [(SLOT, (NOON + 20) * S)]


def test_an_unclaimed_dynamic_slot_that_does_not_end_is_reported() -> None:
    born = "slot1_1: New dSlot of type 1 allocated"
    kept = audit_logs(log_of(*BEGUN, born, *[""] * 100, *ENDED)).unaccounted
    assert [(time.slot, time.until - time.since) for time in kept] == [("slot1_1@node7", 101 * S)]
    assert audit_logs(log_of(*BEGUN, born, "slot1_1: Slot slot1_1 no longer needed, deleting", *[""] * 100, *ENDED)) \
        .unaccounted == []  # fmt: skip


def test_an_unreadable_line_may_be_the_missing_one() -> None:
    assert (
        broken_rules(*RUNNING, "slot1: Changing activity: Busy ->", "slot1: Changing activity: Cleaning -> Idle") == []
    )


def test_rotated_files_are_one_log_and_two_machines_of_one_name_are_two() -> None:
    content = LOGS["07"]
    half = content.index(b"\n", len(content) // 2) + 1
    in_parts, at_once = audit_logs(content[:half], content[half:]), audit_logs(content)
    assert (in_parts.transitions, in_parts.violations, in_parts.unaccounted) == (at_once.transitions, [], [])
    two_logs = audit_logs(LOGS["01"], LOGS["05"], follow=False)
    assert two_logs.violations == []
    assert sum(two_logs.transitions.values()) == 42 + 243


@given(st.sampled_from(sorted(LOGS)), st.data())
def test_a_log_without_its_beginning_or_end_is_not_accused(run: str, data: st.DataObject) -> None:
    lines = LOGS[run].splitlines(keepends=True)
    first, last = sorted(data.draw(st.tuples(st.integers(0, len(lines)), st.integers(0, len(lines)))))
    assert audit_logs(b"".join(lines[first:last])).violations == []


@given(st.sampled_from(sorted(LOGS)), st.data())
def test_lines_trimmed_with_a_marker_are_not_a_fault(run: str, data: st.DataObject) -> None:
    lines = LOGS[run].splitlines(keepends=True)
    first, last = sorted(data.draw(st.tuples(st.integers(0, len(lines)), st.integers(0, len(lines)))))
    assert audit_logs(b"".join([*lines[:first], b"...... trimmed ......\n", *lines[last:]])).violations == []


@given(st.sampled_from(sorted(LOGS)), st.data())
def test_a_startd_killed_at_any_line_and_restarted_is_not_accused(run: str, data: st.DataObject) -> None:
    lines = LOGS[run].splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines)))
    assert audit_logs(b"".join([*lines[:at], *lines])).violations == []


def test_a_delayed_message_is_not_an_entry_of_another_time() -> None:
    """The startd is killed after "WANT_HOLD is FALSE", and the next one starts: only then is that explained."""
    lines = LOGS["03"].splitlines(keepends=True)
    assert audit_logs(b"".join([*lines[:584], *lines])).violations == []


def test_each_message_that_announces_a_transition_was_recorded_except_backfills() -> None:
    text = b"\n".join(LOGS.values()).decode("utf-8", "replace")
    missing = [
        announcement.message for announcement in ANNOUNCEMENTS if f"State change: {announcement.message}" not in text
    ]
    assert missing == ["START_BACKFILL is TRUE", "Backfill starter exited"], "no recorded startd has backfill"

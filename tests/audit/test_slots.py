"""Golden: the StartLogs of real pools break no rule, and each fault that is planted in them is found where it stands.
Property: what is merely missing is never a fault."""

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
from .startlogs import NOON, TRACES, audited, imported, judged, log, read_in_turns, rotated, start_logs

LOGS = start_logs()
SLOT = "slot1@node7"
S = 1_000_000
HALVES = {"35a": "35", "35b": "1"}
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


def counted(run: str) -> tuple[Counter[str], Counter[str]]:
    """What was counted of a run: by the manual's number (or the dialect's row), and what only the dialect allows."""
    numbers: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    manual = {(r.number, *step) for r in MANUAL.slot_rows for step in r.steps}
    for line in (TRACES / "transitions.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        row, source, target, _, by_run = line.split("\t")
        times = dict(entry.split(":") for entry in by_run.split()).get(run)
        if times is not None:
            numbers[HALVES.get(row, row)] += int(times)
            if (row, source, target) not in manual:
                alone[row] += int(times)
    return numbers, alone


def rules(*messages: str) -> list[tuple[str, int]]:
    """The rules that a log breaks, and its lines that break them."""
    return [(finding.rule, finding.line) for finding in audited(log(*messages)).violations]


@together("run", LOGS)
def test_a_real_log_breaks_no_rule_and_each_transition_counts_as_was_counted(run: str) -> None:
    audit = audited(LOGS[run])
    numbers, alone = counted(run)
    assert audit.violations == []
    assert audit.unaccounted == []
    assert {number: times for number, times in audit.transitions.items() if times} == numbers
    assert audit.beyond == alone
    assert audit.undocumented == {row: times for row, times in alone.items() if row not in NUMBERED}
    assert {row.number for row in MANUAL.slot_rows} <= audit.transitions.keys()
    assert sum(audit.transitions.values()) == len(MOVE.findall(LOGS[run]))


FILLED = (
    *BEGUN,
    "slot1: State change: START_BACKFILL is TRUE",
    "slot1: Changing state: Unclaimed -> Backfill",
    "slot1: Changing activity: Idle -> Busy",
)
LEFT = ("slot1: Changing activity: Busy -> Killing", "slot1: State change: starter exited : ResState.cpp(1253)")


@together(
    ("more", "rows"),
    [
        (("slot1: State change: Backfill starter exited", "slot1: Changing activity: Busy -> Idle"), ["27"]),
        (
            (
                "slot1: State change: EVICT_BACKFILL is TRUE", *LEFT,
                "slot1: Changing state and activity: Backfill/Killing -> Owner/Idle",
            ),
            ["28", "29a"],
        ),
        (
            (
                "slot1: State change: match notification protocol successful", *LEFT,
                "slot1: Changing state and activity: Backfill/Killing -> Matched/Idle",
            ),
            ["28", "29c"],
        ),
    ],
)  # fmt: skip
def test_a_startd_with_backfill_is_believed_as_its_source_has_it(more: tuple[str, ...], rows: list[str]) -> None:
    audit = audited(log(*FILLED, *more))
    assert audit.violations == []
    assert {row: times for row, times in audit.transitions.items() if times and row != "1"} == dict.fromkeys(
        ("7", "26", *rows), 1
    )


def test_the_reason_of_an_eviction_from_backfill_belongs_to_backfill_alone() -> None:
    moved = "slot1: Changing state: Unclaimed -> Owner"
    assert rules(*BEGUN, "slot1: State change: EVICT_BACKFILL is TRUE", moved) == [("said", len(BEGUN) + 2)]


@pytest.mark.parametrize(
    ("name", "transitions", "gaps", "alone"),
    [
        # a slot whose end is told as a transition, too, ends once: 927 lines less 4
        ("evictions", 927 - 4, 0,
         {"2a": 49, "5a": 66, "5b": 17, "12": 67, "12a": 59, "12c": 8, "13a": 31, "13b": 28}),
        ("matches", 477, 2,
         {"2a": 31, "5": 2, "5a": 29, "12": 33, "12a": 30, "12b": 3, "12c": 5, "13a": 1, "13b": 15}),
    ],
)  # fmt: skip
def test_a_rotated_log_with_a_startd_that_was_killed_and_parts_that_are_lost_breaks_no_rule(
    name: str, transitions: int, gaps: int, alone: dict[str, int]
) -> None:
    events = imported(*rotated(name))
    assert sum(isinstance(event, SourceGap) for event in events) == gaps
    assert not [event for event in events if isinstance(event, SourceRefused)]
    audit = judged(events)
    assert audit.violations == []
    assert sum(audit.transitions.values()) == transitions
    assert audit.beyond == alone
    killed = {time.slot for time in audit.unaccounted if time.words == "the startd ended without logging it"}
    assert killed


NUMBERED = {"12", "12a", *HALVES}
"""Rows of the dialect that have a number in the diagram of HTCondor 25's manual, or are halves of such."""
LAST = {("02", 189): "Changing activity: Benchmarking -> Idle"}
"""Removals that nothing gives away: the last transition of a slot, that no words announce."""


@pytest.mark.parametrize("most", thorough(6))
@pytest.mark.parametrize("run", LOGS)
def test_a_line_that_is_removed_is_found(run: str, most: int) -> None:
    lines = LOGS[run].split(b"\n")
    places = [number for number, line in enumerate(lines) if MOVE.match(line)]
    for place in random.Random(7).sample(places, min(len(places), most, 40)):
        audit = audited(b"\n".join(lines[:place] + lines[place + 1 :]))
        name = lines[place].split()[2].rstrip(b":").decode() + "@localhost"
        if b"no longer needed" in lines[place]:  # its own kind of absence: a slot that is not heard of again
            found = audit.violations or audit.unaccounted or b"EXITING" in b"".join(lines[place:])
            assert found, lines[place]
        elif (run, place + 1) in LAST:
            assert audit.violations == []
        else:
            first = audit.violations[0]
            assert (first.thing, first.file) == (name, "StartLog.1"), lines[place]
            assert first.rule in ("chain", "said", "activation")
            assert 1 <= len(first.story) <= STORY + 1
            assert first.story[-1].endswith(f"[StartLog.1:{first.line}]")


@pytest.mark.parametrize("most", thorough(4))
@pytest.mark.parametrize("run", LOGS)
def test_a_transition_that_is_changed_is_found(run: str, most: int) -> None:
    lines, chosen = LOGS[run].split(b"\n"), random.Random(7)
    words = {
        b"state": [b"Owner", b"Unclaimed", b"Matched", b"Claimed", b"Preempting", b"Drained"],
        b"activity": [b"Idle", b"Busy", b"Retiring", b"Vacating", b"Suspended", b"Killing", b"Cleaning"],
    }
    places = [number for number, line in enumerate(lines) if b": Changing " in line]
    for place in chosen.sample(places, min(len(places), most, 15)):
        line = lines[place]
        side = chosen.choice([rb": (\w+)(?:/\w+)? -> ", rb" -> (\w+)"])
        old = re.search(side, line)
        assert old is not None
        kind = b"activity" if b"Changing activity" in line else b"state"
        new = chosen.choice([word for word in words[kind] if word != old[1]])
        changed = line[: old.start(1)] + new + line[old.end(1) :]
        audit = audited(b"\n".join([*lines[:place], changed, *lines[place + 1 :]]))
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
def test_a_rule_that_is_broken_is_named_with_the_line_that_breaks_it(
    messages: tuple[str, ...], broken: list[tuple[str, int]]
) -> None:
    assert rules(*messages) == broken
    assert {rule for rule, _ in broken} <= RULES_OF["slots"].keys()


def test_a_finding_has_its_file_its_line_and_what_was_told_of_the_slot_before() -> None:
    (found,) = audited(
        log(*RUNNING, "slot1: Changing state and activity: Claimed/Idle -> Preempting/Killing")
    ).violations
    assert found == AuditFinding(
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


def test_times_that_run_back_by_more_than_a_day_are_found_and_less_is_a_clock_that_was_set() -> None:
    late = b"slot1: Changing state: Unclaimed -> Claimed\n"
    for stamp, broken in [(b"11/19/26 11:00:00 ", ["backwards"]), (b"11/19/26 13:00:00 ", [])]:
        found = audited(log(*BEGUN) + stamp + late).violations
        assert [finding.rule for finding in found] == broken


def test_one_line_that_lies_before_the_one_above_it_is_found_and_a_clock_that_was_set_is_not() -> None:
    begun, more = log(*BEGUN), log(*[""] * 70, "slot1: Changing state: Claimed -> Owner")
    late = b"11/20/26 %s slot1: Changing state: Unclaimed -> Claimed\n"
    back = log(*[""] * 10, "slot1: Changing state: Claimed -> Owner").replace(b" 12:", b" 11:")
    for stamp, after, broken in [
        (b"11:40:00", more, [("backwards", 5)]),
        (b"11:40:00", back, []),
        (b"11:40:00", b"", []),
        (b"12:00:00", more, []),
        (b"12:30:00", more, []),  # the clock may have been set back behind it
    ]:
        found = audited(begun + late % stamp + after).violations
        assert [(finding.rule, finding.line) for finding in found] == broken, stamp


def cycle(job: int) -> tuple[str, ...]:
    """What a startd says of one claim with one job."""
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
THIRD = len(BEGUN) + 2 * len(cycle(1))
# A line of a claim that is no transition -> the line of the transition that it belongs to, in the claim.
SAID_BEFORE = {0: 3, 1: 3, 2: 3, 4: 7, 5: 7, 6: 7, 8: 9, 10: 12, 11: 12, 17: 18}


@together("line", SAID_BEFORE)
def test_a_line_that_is_missing_before_one_transition_and_was_there_before_all_others_is_found(line: int) -> None:
    assert rules(*CYCLES) == []
    without = [*CYCLES[: THIRD + line], "", *CYCLES[THIRD + line + 1 :]]
    place = THIRD + SAID_BEFORE[line]  # of the lines that are left, from 1
    assert ("unsaid", place) in rules(*without)
    finding = next(f for f in audited(log(*without)).violations if f.rule == "unsaid")
    assert finding.thing == SLOT
    assert finding.story[-1].endswith(f"[StartLog.1:{finding.line}]")


def test_what_few_occasions_or_two_exceptions_or_another_configuration_show_is_no_fault() -> None:
    place = THIRD + 1
    missing = [*CYCLES[:place], *CYCLES[place + 1 :]]
    assert rules(*missing) == [("unsaid", place + 2)]
    ends = len(BEGUN) + 3 * len(cycle(1)) - 1
    assert rules(*missing[:ends]) == []
    again = place + len(cycle(1))
    assert rules(*missing[: again - 1], *missing[again:]) == []
    quieter = [line for line in CYCLES if "accepted" not in line]
    between = "Got SIGHUP.  Re-reading config files."
    assert rules(*CYCLES[:THIRD], between, *quieter[THIRD - 2 :]) == []


def test_slots_that_act_when_the_startd_has_ended_lack_the_next_ones_beginning() -> None:
    assert rules(*RUNNING, *ENDED, *BEGUN) == []
    assert rules(*RUNNING, *ENDED, *BEGUN[1:]) == [("restart", len(RUNNING) + 2)]


def test_a_slot_without_a_beginning_is_found_when_another_one_has_one() -> None:
    act = ("slot1: State change: IS_OWNER is false", "slot1: Changing state: Owner -> Unclaimed")
    assert rules(BEGUN[0], *act) == []
    assert rules(BEGUN[0], *act, "slot1_1: New dSlot of type 1 allocated", "slot1_1: \tCpus: 1.0") == [("unborn", 3)]


def test_a_part_that_goes_on_when_its_successor_was_read_already_gives_nobody_away() -> None:
    whole = log(*CYCLES, *ENDED)
    cuts = [whole.index(b"\n", len(whole) * part // 4) + 1 for part in (1, 2, 3)]
    old, tail, new, rest = (whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True))
    assert {finding.rule for finding in audited(old, new).violations} != set()
    for parts in ([(1, old), (2, new), (1, tail)], [(1, old), (2, new), (1, tail), (2, rest)]):
        assert judged(read_in_turns(parts)).violations == []


def test_a_startd_that_was_killed_leaves_time_that_nobody_accounts_for_and_no_fault() -> None:
    audit = audited(log(*RUNNING, "", "", *BEGUN))
    assert audit.violations == []
    assert audit.unaccounted == [
        UnaccountedTime(SLOT, (NOON + 7) * S, (NOON + 10) * S, "the startd ended without logging it"),
    ]


def test_behind_a_gap_slots_are_adopted_and_the_time_between_is_told() -> None:
    rest = ["slot1: Changing activity: Cleaning -> Idle", "slot2: Changing state: Owner -> Unclaimed"]
    audit = audited(log(*RUNNING) + b"...... trimmed ......\n" + log(*[""] * 20, *rest))
    assert audit.violations == []
    words = "lines were taken out of the file"
    assert audit.unaccounted == [
        UnaccountedTime(SLOT, (NOON + 7) * S, (NOON + 20) * S, words),
        UnaccountedTime("slot2@node7", (NOON + 7) * S, (NOON + 21) * S, words),
    ]


def test_a_slot_that_is_not_heard_of_behind_a_gap_is_told_of_up_to_the_end() -> None:
    audit = audited(log(*RUNNING) + b"...... trimmed ......\n" + log(*[""] * 20, "no slot's"))
    assert [(time.slot, time.until) for time in audit.unaccounted] == [(SLOT, (NOON + 20) * S)]


def test_a_dynamic_slot_without_a_claim_that_does_not_end_is_told() -> None:
    born = "slot1_1: New dSlot of type 1 allocated"
    kept = audited(log(*BEGUN, born, *[""] * 100, *ENDED)).unaccounted
    assert [(time.slot, time.until - time.since) for time in kept] == [("slot1_1@node7", 101 * S)]
    assert audited(log(*BEGUN, born, "slot1_1: Slot slot1_1 no longer needed, deleting", *[""] * 100, *ENDED)) \
        .unaccounted == []  # fmt: skip


def test_a_line_that_could_not_be_read_may_have_been_what_is_missing() -> None:
    assert rules(*RUNNING, "slot1: Changing activity: Busy ->", "slot1: Changing activity: Cleaning -> Idle") == []


def test_rotated_files_are_one_log_and_two_machines_of_one_name_are_two() -> None:
    whole = LOGS["07"]
    half = whole.index(b"\n", len(whole) // 2) + 1
    chain, one = audited(whole[:half], whole[half:]), audited(whole)
    assert (chain.transitions, chain.violations, chain.unaccounted) == (one.transitions, [], [])
    two = audited(LOGS["01"], LOGS["05"], follow=False)
    assert two.violations == []
    assert sum(two.transitions.values()) == 42 + 243


@given(st.sampled_from(sorted(LOGS)), st.data())
def test_a_log_whose_beginning_or_end_is_missing_is_not_accused(run: str, data: st.DataObject) -> None:
    lines = LOGS[run].splitlines(keepends=True)
    first, last = sorted(data.draw(st.tuples(st.integers(0, len(lines)), st.integers(0, len(lines)))))
    assert audited(b"".join(lines[first:last])).violations == []


@given(st.sampled_from(sorted(LOGS)), st.data())
def test_lines_that_are_trimmed_with_a_marker_are_not_a_fault(run: str, data: st.DataObject) -> None:
    lines = LOGS[run].splitlines(keepends=True)
    first, last = sorted(data.draw(st.tuples(st.integers(0, len(lines)), st.integers(0, len(lines)))))
    assert audited(b"".join([*lines[:first], b"...... trimmed ......\n", *lines[last:]])).violations == []


@given(st.sampled_from(sorted(LOGS)), st.data())
def test_a_startd_that_is_killed_at_any_line_and_begins_anew_is_not_accused(run: str, data: st.DataObject) -> None:
    lines = LOGS[run].splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines)))
    assert audited(b"".join([*lines[:at], *lines])).violations == []


def test_words_that_are_told_late_are_not_taken_for_a_record_from_another_time() -> None:
    """The startd is killed behind "WANT_HOLD is FALSE", and the next one begins: only then is that told."""
    lines = LOGS["03"].splitlines(keepends=True)
    assert audited(b"".join([*lines[:584], *lines])).violations == []


def test_each_word_that_announces_a_transition_was_seen_but_those_of_backfill() -> None:
    text = b"\n".join(LOGS.values()).decode("utf-8", "replace")
    unseen = [said.words for said in ANNOUNCEMENTS if f"State change: {said.words}" not in text]
    assert unseen == ["START_BACKFILL is TRUE", "Backfill starter exited"], "no recorded startd has backfill"

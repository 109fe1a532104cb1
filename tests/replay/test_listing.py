"""Golden: the log as people read it, line by line, and the selections that they can request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from pathlib import Path

import pytest

from poolbook.domain import events as e
from poolbook.domain.state_machines import DIALECTS
from poolbook.replay.listing.event_lines import LETTERS
from poolbook.replay.listing.members import (
    StreamFilter,
    as_dict,
    entries,
    line,
    member_of,
    members,
    members_between,
    parse_filter,
)
from poolbook.replay.listing.time_texts import since
from poolbook.replay.narration.sentence_tables import CAUSES

from ..domain.event_examples import EXAMPLES
from ..together import together
from .virtual_pool import Pool

NOW = round(datetime(2027, 1, 15, 8, tzinfo=UTC).timestamp()) * 1_000_000
WHY = (NOW, "user_hold", "hold-1")
HELD = e.JobsTransitioned(
    *WHY, 3, ((0, 1), (5, 5)), "hold", "Idle", "Held", {"HoldReason": '"no \\"more\\""', "HoldReasonCode": "1"}
)


def test_each_member_of_a_set_event_has_its_own_line_and_position() -> None:
    event_members = list(members(31, HELD))
    assert [(member.number, member.thing, member.what) for member in event_members] == [
        ("31.0", "3.0", "hold"),
        ("31.1", "3.1", "hold"),
        ("31.2", "3.5", "hold"),
    ]
    assert line(event_members[2]) == (
        "    31.2  2027-01-15 08:00:00  3.5              hold         Idle -> Held"
        '                             a user asked for it to be held (no "more", code 1) [hold-1]'
    )


def test_the_members_of_a_cluster_of_any_size_are_available_immediately() -> None:
    count = 10**12
    cluster = e.ClusterSubmitted(NOW, "submitted", "s", 1, "alice@example.org", {}, count, (), "Idle")
    assert [member.thing for member in islice(members(1, cluster), 2)] == ["1.0", "1.1"]
    last_member = member_of(1, cluster, count - 1)
    assert last_member is not None
    assert (last_member.number, last_member.source, last_member.target) == (f"1.{count - 1}", "Unsubmitted", "Idle")


def test_a_submission_names_its_user_and_its_accounting_group() -> None:
    descriptions = []
    for submitter in ("bob@h", "ishmael@h"):
        (member,) = members(
            7, e.ClusterSubmitted(NOW, "submitted", "s", 3, submitter, {"User": '"bob@h"'}, 1, (), "Idle")
        )
        descriptions.append(member.details)
    assert descriptions == ["by bob@h", "by bob@h, for ishmael@h"]


def test_the_member_of_one_process_equals_that_in_the_members() -> None:
    members_by_proc = {int(member.thing.partition(".")[2]): member for member in members(31, HELD)}
    assert {proc: member_of(31, HELD, proc) for proc in range(7)} == {
        proc: members_by_proc.get(proc) for proc in range(7)
    }


@together(
    ("event", "text"),
    [
        (e.SlotTransitioned(*WHY, "slot1@h", "10", "Claimed/Idle", "Preempting/Vacating"),
         "slot1@h          10         H Claimed/Idle -> Preempting/Vacating      a user asked for it to be held"),
        (e.SlotTransitioned(NOW, "preempt", "hold-1", "slot1@h", "13", "Claimed/Busy", "Claimed/Retiring", evidence=6),
         "slot1@h          13           Claimed/Busy -> Claimed/Retiring         PREEMPT became true (evidence 6)"),
        (e.EvaluationRecorded(
            NOW, "evaluated", "hold-1", "PREEMPT", "KeyboardIdle < 60", "true", {"MY.KeyboardIdle": "7"}
         ),
         "evidence         noted                                                 an expression in the owner's policy "
         "was evaluated (PREEMPT = KeyboardIdle < 60 is true)"),
        (e.MachineConfigured(NOW, "reconfigured", "hold-1", "h", {"POLLING_INTERVAL": "10", "MATCH_TIMEOUT": ""}),
         "h                configured                                            the machine's configuration was read "
         "again (POLLING_INTERVAL = 10, MATCH_TIMEOUT = its default)"),
        (e.DrainBegan(NOW, "drain_command", "hold-1", "h", 3, "Quick", "new disks", "resume", "JobPrio > 1"),
         "h                start        Open -> Quick                            a user asked for the machine to be "
         "drained (drain 3, new disks, then resume, START = JobPrio > 1)"),
        (e.DrainTransitioned(NOW, "drained", "hold-1", "h", 3, "complete", "Quick", "Complete"),
         "h                complete     Quick -> Complete                        every slot of the machine was "
         "drained (drain 3)"),
        (e.DrainBadputAdded(NOW, "draining", "hold-1", "h", "slot1@h", 7200),
         "slot1@h          badput                                                the machine was being drained "
         "(7,200 core-seconds)"),
        (e.ClaimMade(NOW, "claimed", "hold-1", "slot1@h", "c1", "bob@h", 2000, 0.0, "ap.h", "7.0", {}, 1800),
         "slot1@h          claimed                                               the access point claimed the slot "
         "it was matched with (by bob@h, weight 2, of ap.h, for job 7.0, lease 30 min)"),
        (e.ClaimQueued(NOW, "better_match", "hold-1", "slot1@h", "c1", "bob@h", 2.5, "ap.h", "7.0", {}),
         "slot1@h          waited for                                            a preempting claim for the slot "
         "arrived (by bob@h, of ap.h, for job 7.0, rank 2.5)"),
        (e.ClaimFlagged(NOW, "evaluated", "hold-1", "slot1@h", "c1", ("irrevocable", "preempted"), "too loud", 21, 3),
         "slot1@h          marked                                                an expression in the owner's policy "
         "was evaluated (irrevocable, preempted: too loud (code 21, subcode 3))"),
        (e.ClaimHolderSilent(NOW, "lease_over", "hold-1", "slot1@h", "c1", NOW + 60_000_000),
         "slot1@h          unheard                                               " + CAUSES["lease_over"]
         + " (the lease ends at 2027-01-15 08:01:00 UTC)"),
        (e.ClaimHolderSilent(NOW, "claimed", "hold-1", "slot1@h", "c1", 0),
         "slot1@h          heard                                                 " + CAUSES["claimed"]
         + " (the holder, again)"),
        (e.SlotTransitioned(*WHY, "slot1@h", "11", "Claimed/Idle", "Claimed/Busy"),
         "slot1@h          11           Claimed/Idle -> Claimed/Busy             a user asked for it to be held"),
        (e.JobExited(NOW, "exited", "hold-1", 1, 0, "slot1@h", "7", "exited", "complete", "Completed", {},
                     code=3, user_cpu=1_500_000, system_cpu=500_000),
         "1.0              complete     -> Completed                             its program exited "
         "(exited, code 3, on slot1@h, CPU 2 s)"),
        (e.JobExited(NOW, "exited", "hold-1", 1, 0, "slot1@h", "7", "exited", "complete", "Completed", {}, None, 9),
         "1.0              complete     -> Completed                             its program exited "
         "(exited, signal 9, on slot1@h)"),
        (e.PrioritiesUpdated(NOW, "accounted", "hold-1", {"alice@h": 0.5, "bob@h": 12.345678912}),
         "accountant       updated                                               the priorities were updated "
         "(alice@h 0.5, bob@h 12.3457)"),
        (e.QuotasAssigned(NOW, "negotiated", "hold-1", 30, (e.GroupQuota("<none>", 0, 30), e.GroupQuota("a", 1.5, 2))),
         "negotiator       quotas                                                a negotiation cycle took place "
         "(30 cores: <none> 0, a 1.5)"),
        (e.SubmitterSet(NOW, "granted", "hold-1", "bob@h", "root", "ceiling", -1.0),
         "bob@h            set                                                   an administrator set it "
         "(ceiling -1, by root)"),
        (e.SubmitterSet(NOW, "granted", "hold-1", "bob@h", "root", "factor", 2.5, NOW + 60_000_000),
         "bob@h            lent                                                  an administrator set it "
         "(factor 2.5 until 2027-01-15 08:01:00 UTC, by root)"),
        (e.SlotAdChanged(*WHY, "slot1@h", {"Cpus": "1", "Gone": ""}),
         "slot1@h          changed                                               a user asked for it to be held "
         "(Cpus = 1, Gone gone)"),
        (e.MachineLeft(NOW, "an unknown cause", "hold-1", "h"),
         "h                left                                                  an unknown cause"),
    ],
)  # fmt: skip
def test_a_line_has_the_time_the_change_its_row_and_its_reason(event: e.Event, text: str) -> None:
    assert [line(member) for member in members(7, event)] == [f"       7  2027-01-15 08:00:00  {text} [hold-1]"]


def test_a_line_shows_the_time_in_the_requested_zone() -> None:
    (member,) = members(7, e.MachineLeft(NOW + 500_000, "left", "x", "h"))
    assert line(member, timezone(timedelta(hours=-5))).split()[1:3] == ["2027-01-15", "03:00:00.500"]
    assert as_dict(member)["at"] == "2027-01-15T08:00:00.500000Z"


def test_an_instant_outside_the_calendar_is_shown_as_a_number() -> None:
    (member,) = members(7, e.MachineLeft(10**30, "left", "x", "h"))
    assert f"{10**30} us" in line(member)
    assert as_dict(member)["at"] == str(10**30)


def test_a_number_has_one_letter_in_all_dialects() -> None:
    for rows in (dialect.slot_rows for dialect in DIALECTS.values()):
        assert {row.number: row.letter.strip("-") for row in rows}.items() <= LETTERS.items()


@together(
    ("text", "expected"),
    [
        ("3.1", StreamFilter("cluster/3", 1)),
        ("3", StreamFilter("cluster/3")),
        ("003", StreamFilter("cluster/3")),
        ("cluster/3", StreamFilter("cluster/3")),
        ("cluster/3.1", StreamFilter("cluster/3", 1)),
        ("slot1@h", StreamFilter("slot/slot1@h")),
        ("slot/slot1_2@h", StreamFilter("slot/slot1_2@h")),
        ("machine/h", StreamFilter("machine/h")),
        ("pool", StreamFilter("pool")),
        ("negotiator", StreamFilter("negotiator")),
        ("accountant", StreamFilter("accountant")),
        ("submitter/physics.bob@h", StreamFilter("submitter/physics.bob@h")),
        ("manager", StreamFilter("peer/manager")),
        ("manager/cm2", StreamFilter("peer/manager/cm2")),
        ("execution-point/ep", StreamFilter("peer/execution-point/ep")),
    ],
)
def test_a_selection_accepts_the_usual_names_of_streams(text: str, expected: StreamFilter) -> None:
    assert parse_filter(text) == expected


def test_a_selection_accepts_each_stream_that_an_event_names() -> None:
    kinds = [kind for kind in vars(e).values() if isinstance(kind, type) and isinstance(vars(kind).get("stream"), str)]
    streams = {vars(kind)["stream"] for kind in kinds}
    assert {parse_filter(stream).stream for stream in streams} == streams >= {"pool", "had", "daemons"}


@together("text", ["", "alice", "3.1.2", "3.", "-1", "cluster/", "slot/", "\u0663"])
def test_an_unknown_name_of_a_stream_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not the name of a stream: give a job \(3.1\)"):
        parse_filter(text)


@together(
    ("text", "expected"),
    [
        ("90 s", NOW - 90 * 10**6),
        ("10 min", NOW - 600 * 10**6),
        ("10m", NOW - 600 * 10**6),
        ("1.5 hours ago", NOW - 5400 * 10**6),
        ("2 days", NOW - 172_800 * 10**6),
        ("1 week", NOW - 604_800 * 10**6),
        ("2027-01-15T08:00:00+01:00", NOW - 3600 * 10**6),
        ("2027-01-15 08:00", NOW - 7200 * 10**6),
        ("2027-01-15", NOW - 36_000 * 10**6),
        ("-2h", NOW - 7200 * 10**6),
        ("today", NOW - 36_000 * 10**6),
        ("yesterday", NOW - 122_400 * 10**6),
        ("9:30", NOW - 1800 * 10**6),
        ("10:00:00", NOW),
        ("10:00:01", NOW - 86_399 * 10**6),
    ],
)
def test_since_accepts_a_local_time_or_an_age(text: str, expected: int) -> None:
    assert since(text, NOW, timezone(timedelta(hours=2))) == expected


@pytest.mark.parametrize(("text", "expected"), [("10:00", 0), ("10:30", 1800), ("9:59", 86_340)])
def test_a_time_of_day_after_an_instant_is_the_next_one(text: str, expected: int) -> None:
    zone = timezone(timedelta(hours=2))
    assert since(text, NOW + 10**15, zone, NOW) == NOW + expected * 10**6


@together("text", ["", "tomorrow", "25:00", "10", "10 moons", "2027-13-01"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time: give a date and time"):
        since(text, NOW)


@pytest.fixture(scope="module")
def pool() -> Pool:
    pool = Pool()
    for command in ("machine h", "submit alice 3 seconds=30", "run 10 s", "hold alice 1.1", "run 1 min"):
        pool.say(command)
    return pool


def test_a_whole_log_reads_like_the_example(pool: Pool) -> None:
    text = (Path(__file__).parent / "log.txt").read_text(encoding="utf-8")
    assert "".join(f"{line(member)}\n" for member in entries(pool.log)) == text


def test_the_log_of_one_thing_has_exactly_its_lines(pool: Pool) -> None:
    all_entries = list(entries(pool.log))
    for text in ("1", "1.1", "slot1@h", "slot1_1@h", "machine/h", "requests", "negotiator", "evidence", "pool"):
        selection = parse_filter(text)
        expected = [
            entry
            for entry in all_entries
            if entry.stream == selection.stream and (selection.proc is None or entry.thing == text)
        ]
        assert list(entries(pool.log, selection)) == expected
        assert expected


def test_the_log_since_an_instant_has_the_later_lines(pool: Pool) -> None:
    begin = NOW + 10_000_000
    all_entries = list(entries(pool.log))
    assert list(entries(pool.log, begin=begin)) == [member for member in all_entries if member.at >= begin]
    assert list(entries(pool.log, parse_filter("1.1"), begin)) == [
        entry for entry in all_entries if entry.at >= begin and entry.thing == "1.1"
    ]


def test_a_cycle_has_a_member_for_each_match_and_each_rejection() -> None:
    cycle = e.CycleHeld(
        NOW, "negotiated", "c", (e.Match("1.0", "slot1@h", 2.5),), (e.Unmatched("2.0", 3, 2, (e.Clause("x", 1, 1),)),)
    )
    assert [(member.number, member.thing, member.what, member.details) for member in members(9, cycle)] == [
        ("9.0", "1.0", "match", "with slot1@h, rank 2.5"),
        ("9.1", "2.0", "no match", "3 jobs like it, 1 of 2 slots meet its Requirements"),
    ]


def test_every_kind_of_event_has_a_line() -> None:
    assert {type(event) for event in EXAMPLES} == set(e.TOPICS.values())
    assert [member.what for member in members_between(enumerate(EXAMPLES, 1))] == [
        "founded",
        "asked",
        "noted",
        "match",
        "no match",
        "joined",
        "born",
        "13",
        "changed",
        "deleted",
        "claimed",
        "claim over",
        "submit",
        "submit",
        "submit",
        "hold",
        "hold",
        "created",
        "factory",
        "deferred",
        "activate",
        "due",
        "transfer",
        "transfer",
        "executing",
        "cooled down",
        "reserved",
        "reservation over",
        "cleanup",
        "mail due",
        "mailed",
        "signalled",
        "complete",
        "rejected",
        "writer",
        "published",
        "configured",
        "polled",
        "updated",
        "quotas",
        "set",
        "reset",
        "deleted",
        "left",
        "configured",
        "benchmarks",
        "busy",
        "start",
        "complete",
        "jobs gone",
        "badput",
        "backfill",
        "backfill runs",
        "leaves for",
        "backfill kill",
        "backfill over",
        "off",
        "waited for",
        "withdrawn",
        "marked",
        "job begins",
        "job edited",
        "job gone",
        "signalled",
        "run reports",
        "unheard",
        "match void",
        "match over",
        "expired",
        "matched offline",
        "absent",
        "elect",
        "silent",
        "conflict",
        "withheld",
        "off",
        "requested",
        "granted",
        "rejected",
        "notified",
        "commanded",
        "commanded",
        "disconnected",
        "reconnected",
        "flocking",
        "sent",
        "followed",
        "rejected",
        "edited",
        "edited",
        "transformed",
        "transformed",
        "refused",
        "measured",
        "found",
        "read",
        "refused",
        "gap",
        "startd began",
        "owner",
        "JOB_EVICTED",
        "matched",
        "slice",
        "began",
        "kept",
        "written",
    ]

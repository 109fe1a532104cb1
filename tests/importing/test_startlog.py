"""Golden: the StartLogs of real pools, read line by line. Property: cuts change nothing, and no bytes raise."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.events import (
    DaemonReported,
    Event,
    SlotCreated,
    SlotDestroyed,
    SlotReported,
    SlotTransitioned,
    SourceGap,
    SourceRefused,
)

from ..together import together
from .reading import NOON, slot_events, source, start_logs

LOGS = start_logs()
S = 1_000_000
SLOT = "slot1@node7"
BANNER = [
    "** condor_startd (CONDOR_STARTD) STARTING UP",
    "** $CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1 $",
    "** PID = 4711 RealUID = 0",
    "DaemonCore: command socket at <10.0.0.7:9618?addrs=10.0.0.7-9618&alias=exec-7.example.org&noUDP&sock=startd_1>",
]
NEW = ["slot1: New Slot of type 1 allocated", "slot1: \tCpus: 1.50, Memory: 8035, Swap: 822, Disk: 25404293, GPUs: 0"]


def log(*messages: str) -> bytes:
    """Return a log of these messages, all at noon."""
    return "".join(f"11/20/26 12:00:00 {message}\n" for message in messages).encode()


def moves(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(event.source, event.target, event.row) for event in events if isinstance(event, SlotTransitioned)]


def reports_in(events: list[Event]) -> list[tuple[str, str, dict[str, str]]]:
    return [(event.slot, event.said, event.facts) for event in events if isinstance(event, SlotReported)]


@together("run", LOGS)
def test_each_transition_line_is_one_event_with_its_row(run: str) -> None:
    lines = [
        (number, line)
        for number, line in enumerate(LOGS[run].decode().split("\n"), start=1)
        if re.search(r" \S+: (?:Changing |Slot \S+ no longer)", line)
    ]
    events = slot_events(LOGS[run])
    transitions = [event for event in events if isinstance(event, SlotTransitioned)]
    assert [event.stimulus for event in transitions] == [f"1:{number}" for number, _ in lines]
    for event, (_, line) in zip(transitions, lines, strict=True):
        assert event.row
        assert event.slot == line.split()[2].rstrip(":") + "@localhost"
        old_new = re.search(r": (\S+) -> (\S+)$", line)
        if old_new is not None:
            assert old_new[1] in (event.source, *event.source.split("/"))
            assert old_new[2] in (event.target, *event.target.split("/"))
        else:
            assert event.target == "Deleted"
    assert not [event for event in events if isinstance(event, SourceRefused | SourceGap)]


@together("run", LOGS)
def test_the_other_events_are_as_many_as_their_lines(run: str) -> None:
    text = LOGS[run].decode()
    event_counts = Counter(type(event).__name__ + getattr(event, "said", "") for event in slot_events(LOGS[run]))
    for name, pattern in {
        "SlotCreated": r": New [pd]?Slot (?:of type|allocated)",
        "SlotDestroyed": "no longer needed, deleting",
        "SlotReportedactivated": "claim-activation protocol successful",
        "SlotReportedjob_over": "Received final job ClassAd update",
        "SlotReportedstarter_gone": r" Starter pid \d+ (?:exited|died)",
        "SlotReportedowner": "Remote owner is ",
        "SlotReportedaccepted": "(?:Request accepted|New claim has sufficient rank)",
        "SlotReportedrequested": "Received ClaimId from schedd",
        "DaemonReportedbegan": "STARTING UP",
        "DaemonReportedended": "EXITING WITH STATUS",
        "DaemonReportedreconfigured": "Re-reading config files",
    }.items():
        assert (name, event_counts[name]) == (name, len(re.findall(pattern, text)))


def test_a_startds_start_has_its_version_and_name_and_its_end_the_command() -> None:
    events = slot_events(log(*BANNER, *NEW, "Got SIGTERM. Performing graceful shutdown.",
                             "**** condor_startd (condor_STARTD) pid 4711 EXITING WITH STATUS 0"))  # fmt: skip
    facts = {"version": "25.14.1", "pid": "4711"}
    end_facts = {"how": "graceful", "status": "0", "pid": "4711"}
    machine = "exec-7.example.org"
    ad = {
        "Name": f'"slot1@{machine}"', "Machine": f'"{machine}"', "SlotType": '"Static"', "Cpus": "1.5",
        "Memory": "8035", "VirtualMemory": "822", "Disk": "25404293", "GPUs": "0",
    }  # fmt: skip
    assert events == [
        DaemonReported(NOON * S, "reported", "1:1", machine, "startd", "began", facts),
        SlotCreated(NOON * S, "reported", "1:5", f"slot1@{machine}", machine, "static", "", ad),
        DaemonReported(NOON * S, "reported", "1:8", machine, "startd", "ended", end_facts),
    ]


@together(
    ("line", "kind", "parent"),
    [
        ("slot1: New Slot of type 1 allocated", "static", ""),
        ("slot1: New pSlot of type 1 allocated", "partitionable", ""),
        ("slot1_12: New dSlot of type 1 allocated", "dynamic", "slot1@node7"),
        ("slot1_12: New broken dSlot allocated", "dynamic", "slot1@node7"),
        ("slot2: New backfill pSlot of type 2 allocated", "partitionable", ""),
        ("slot1: New machine resource of type -1 allocated", "static", ""),
        ("gpu_3_1@node7: New dSlot of type 1 allocated", "dynamic", "gpu_3@node7"),
    ],
)
def test_slots_are_created_by_kind(line: str, kind: str, parent: str) -> None:
    (created,) = slot_events(log(line, "slot9: Request accepted."))[:1]
    assert isinstance(created, SlotCreated)
    assert (created.kind, created.parent) == (kind, parent)


@together(
    ("message", "move"),
    [
        ("slot1: Changing state: Owner -> Unclaimed", ("Owner/Idle", "Unclaimed/Idle", "1")),
        ("slot1: Changing state: Drained -> Owner", ("Drained/Idle", "Owner/Idle", "34")),
        ("slot1[1.0]: Changing activity: Busy -> Cleaning", ("Claimed/Busy", "Claimed/Cleaning", "12")),
        ("slot1: Changing activity: Retiring -> Idle", ("Drained/Retiring", "Drained/Idle", "33")),
        ("slot1: Changing activity: Vacating -> Killing", ("Preempting/Vacating", "Preempting/Killing", "21")),
        ("slot1: Changing activity: Idle -> Benchmarking", ("Unclaimed/Idle", "Unclaimed/Benchmarking", "3")),
        ("slot1: Reverting state: Claimed -> Unclaimed", ("Claimed/Idle", "Unclaimed/Idle", "5b")),
        ("slot1: Changing state and activity: Claimed/Idle -> Preempting/Killing",
         ("Claimed/Idle", "Preempting/Killing", "10")),
        ("slot1: Changing state: Owner -> Preempting", ("Owner/Idle", "Preempting/Idle", "")),
        ("slot1: Slot slot1 no longer needed, deleting", ("Unclaimed/Idle", "Deleted", "2a")),
    ],
)  # fmt: skip
def test_a_log_without_a_beginning_uses_the_only_transitions_that_the_table_allows(
    message: str, move: tuple[str, str, str]
) -> None:
    assert moves(slot_events(log(message))) == [move]


def test_a_line_is_believed_even_if_it_contradicts_the_previous_line() -> None:
    events = slot_events(log(*BANNER, *NEW, "slot1: Changing state: Claimed -> Preempting",
                             "slot1: Changing activity: Busy -> Cleaning"))  # fmt: skip
    assert moves(events) == [
        ("Claimed/Idle", "Preempting/Idle", ""), ("Claimed/Busy", "Claimed/Cleaning", "12"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "slot1: Changing state: Owner",
        "slot1: Changing state and activity: Owner -> Unclaimed",
        "slot1: Changing activity: Claimed/Idle -> Claimed/Busy",
        "slot1: Changing state: Owner -> Un claimed",
        "slot1_2[3.1]: Changing state: -> Owner",
    ],
)
def test_a_transition_without_source_and_target_is_refused(line: str) -> None:
    (event,) = slot_events(log(line))
    assert isinstance(event, SourceRefused)
    assert (event.line, event.at) == (1, NOON * S)
    assert event.text.startswith("slot1")


def test_the_message_before_a_transition_is_its_reason() -> None:
    events = slot_events(
        log(
            "slot1: Called deactivate_claim_job_done()",
            "slot2: State change: SUSPEND is TRUE.",
            "slot1: State change: starter exited : ./src/condor_startd.V6/Resource.cpp(1112) Claimed/Cleaning",
            "slot1: Changing activity: Cleaning -> Idle",
            "slot1: Changing activity: Idle -> Busy",
            "shutdown fast",
            "slot1: Changing state and activity: Claimed/Busy -> Preempting/Killing",
        )
    )
    reasons = ["Called deactivate_claim_job_done() / starter exited: Claimed/Cleaning", "", "shutdown fast"]
    assert [event.reason for event in events if isinstance(event, SlotTransitioned)] == reasons


def test_an_unused_reason_is_reported_at_its_line_when_the_startd_ends() -> None:
    events = slot_events(
        log("slot1: State change: IS_OWNER is false", "x", "**** condor_startd EXITING WITH STATUS 99")
    )
    assert events[0] == SlotReported(NOON * S, "reported", "1:1", SLOT, "told", {"words": "IS_OWNER is false"})
    assert isinstance(events[1], DaemonReported)
    assert events[1].facts == {"how": "status 99", "status": "99"}


def test_the_steps_of_a_claim_are_reported_without_its_secret() -> None:
    claim = "<10.0.0.7:9618?addrs=10.0.0.7-9618>#1795214646#3"
    events = slot_events(
        log(
            "slot1: Schedd addr = <10.0.0.1:9618>",
            f"slot1: Received ClaimId from schedd ({claim}#0123456789abcdef)",
            "slot1: Request accepted.",
            "slot1: Remote owner is alice@example.org",
            "slot1: Got activate_claim request from shadow (10.0.0.1)",
            "slot1: Remote job ID is 12.7",
            "slot1: State change: claim-activation protocol successful, Starter 4711",
            "slot1[12.7]: Received final job ClassAd update from starter. 0 unread bytes",
            "Starter pid 4711 died on signal 9 (signal 9 (Killed))",
            "Starter pid 4712 exited with status 0",
            f"slot1: Refusing claim {claim}#0123456789abcdef: it refuses",
        )
    )
    assert reports_in(events) == [
        (SLOT, "requested", {"claim": claim, "schedd": "<10.0.0.1:9618>"}),
        (SLOT, "accepted", {}),
        (SLOT, "owner", {"user": "alice@example.org"}),
        (SLOT, "activated", {"job": "12.7", "starter": "4711"}),
        (SLOT, "job_over", {"job": "12.7"}),
        (SLOT, "starter_gone", {"starter": "4711", "status": "signal 9", "job": "12.7"}),
        (SLOT, "refused", {"words": f"Refusing claim {claim}#... it refuses"}),
    ]


def test_a_deleted_dynamic_slot_moves_to_its_end() -> None:
    events = slot_events(log(*BANNER, "slot1_1: New dSlot of type 1 allocated", "slot1_1: \tCpus: 1.00",
                             "slot1_1: Slot slot1_1 no longer needed, deleting"))  # fmt: skip
    assert moves(events) == [("Owner/Idle", "Deleted", "2a")]
    assert isinstance(events[-1], SlotDestroyed)


def test_a_slot_whose_end_is_logged_twice_ends_once() -> None:
    events = slot_events(log("slot1_1: Changing state: Owner -> Delete",
                             "slot1_1: Slot slot1_1 no longer needed, deleting"))  # fmt: skip
    assert [type(event) for event in events] == [SlotTransitioned, SlotDestroyed]
    assert moves(events) == [("Owner/Idle", "Deleted", "2a")]


def test_slots_take_the_state_of_their_lines_after_a_gap_or_a_killed_startd() -> None:
    gap = log("slot1: Changing activity: Idle -> Busy") + b"...... trimmed ......\n"
    events = slot_events(gap + log("slot1: Changing state: Preempting -> Owner"))
    assert moves(events) == [("Claimed/Idle", "Claimed/Busy", "11"), ("Preempting/Vacating", "Owner/Vacating", "")]
    killed = log("slot1: Changing activity: Idle -> Busy", *BANNER, *NEW, "slot1: Changing state: Owner -> Unclaimed")
    assert moves(slot_events(killed))[1] == ("Owner/Idle", "Unclaimed/Idle", "1")


@given(st.sampled_from(["01", "07", "16", "20b"]), st.data())
def test_wherever_a_log_is_cut_its_events_are_the_same(run: str, data: st.DataObject) -> None:
    text = LOGS[run]
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=3))
    assert slot_events(text, cuts=tuple(cuts)) == slot_events(text)


@given(st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=40)), max_size=8), st.data())
def test_no_bytes_in_a_log_raise(noise: list[tuple[int, bytes]], data: st.DataObject) -> None:
    text = LOGS["01"]
    for _, rubbish in noise:
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + rubbish + text[at:]
    assert len(moves(slot_events(text))) >= 42 - 2 * len(noise)


def test_names_are_kept_unchanged_and_other_lines_are_ignored() -> None:
    events = slot_events(
        log(
            "gpu-box.2_10@node-7.example: Changing state: Owner -> Claimed",
            "slot1: eval_policy state should be: Unclaimed/Idle 1 IS_OWNER is false",
            "CronJob: Changing period: 5 -> 6",
            "Changing period of timer 13 (eval_and_update_all) from 5 to 5",
            "ShutdownOk: Idle",
        ),
        source(number=4),
    )
    assert [event.stream for event in events] == ["slot/gpu-box.2_10@node-7.example"]
    assert events[0].stimulus == "4:1"

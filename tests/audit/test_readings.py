"""Small cases of a job's records: those of an honest pool that seem to contradict each other, and those that do
contradict each other, or themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from .honest import FILES, File, examine_files
from .test_contradictions import contradicted_facts
from .truth import BEGIN


def _entries(*entries: tuple[int, int, str], kind: str = "userlog") -> File:
    """Return a job event log of job 7.0: number, instant, text."""
    text = "".join(
        f"{number:03} (007.000.000) {datetime.fromtimestamp(BEGIN + at, UTC):%Y-%m-%d %H:%M:%S} {words}\n...\n"
        for number, at, words in entries
    )
    return File(FILES[kind][0], kind, text.encode())


def _executing(slot: str) -> str:
    return f"Job executing on host: <10.0.0.7:9618>\n\tSlotName: {slot}@node"


_SUBMITTED = (0, 0, "Job submitted from host: <10.0.0.1:9618>")
_DONE = "Job terminated.\n\t(1) Normal termination (return value 0)"
_REQUEUED = "Job was evicted.\n\t(0) Job terminated and was requeued"


def _three_quick_runs(slots: str, kind: str = "userlog") -> File:
    """Return the log of a job that is retried immediately until it succeeds: three runs in two seconds."""
    runs = [
        entry
        for number, slot in enumerate(slots)
        for entry in (
            (1, 10 + number // 2, _executing(f"slot{slot}")),
            (5 if number == 2 else 4, 10 + (number + 1) // 2, _DONE if number == 2 else _REQUEUED),
        )
    ]
    return _entries(_SUBMITTED, *runs, kind=kind)


def _ad(changes: Mapping[str, object], kind: str = "history") -> File:
    """Return the ad of a job that had one run, with `changes`; None removes an attribute."""
    ad: dict[str, object] = {
        "ClusterId": 7,
        "ProcId": 0,
        "QDate": BEGIN,
        "GlobalJobId": f'"submit#7.0#{BEGIN}"',
        "User": '"alice@pool"',
        "Owner": '"alice"',
        "JobUniverse": 5,
        "JobStatus": 4,
        "LastJobStatus": 2,
        "NumJobStarts": 1,
        "NumShadowStarts": 1,
        "JobCurrentStartDate": BEGIN + 10,
        "JobCurrentStartExecutingDate": BEGIN + 11,
        "CompletionDate": BEGIN + 30,
        "EnteredCurrentStatus": BEGIN + 30,
        "RemoteWallClockTime": 20.0,
        "LastRemoteWallClockTime": 20.0,
        "CumulativeSlotTime": 40.0,
        "MachineAttrSlotWeight0": 2,
        "CommittedTime": 20,
        "ActivationDuration": 19,
        "RemoteUserCpu": 5.0,
        "CumulativeRemoteUserCpu": 5.0,
    } | dict(changes)
    text = "".join(f"{name} = {value}\n" for name, value in ad.items() if value is not None)
    return File(FILES[kind][0], kind, f"{text}\n".encode())


_ENDED_AT_11: dict[str, object] = {
    "CompletionDate": BEGIN + 11,
    "EnteredCurrentStatus": BEGIN + 11,
    "NumShadowStarts": 3,
    **dict.fromkeys(("RemoteWallClockTime", "LastRemoteWallClockTime", "ActivationDuration", "CommittedTime")),
}

_ENDED_AT_90: dict[str, object] = {
    "NumJobStarts": 0,
    "NumShadowStarts": None,
    "JobCurrentStartDate": None,
    "CompletionDate": BEGIN + 90,
    "EnteredCurrentStatus": BEGIN + 90,
}
_LOGGED = _entries(_SUBMITTED, (1, 11, _executing("slot1")), (5, 30, _DONE))


def test_runs_within_a_second_are_distinguished_by_order() -> None:
    last = _ad({"NumJobStarts": 3, "JobCurrentStartDate": BEGIN + 11, "LastRemoteHost": '"slot3@node"'} | _ENDED_AT_11)
    assert (
        contradicted_facts(examine_files([_three_quick_runs("123"), _three_quick_runs("123", "eventlog"), last])) == []
    )
    assert contradicted_facts(examine_files([_three_quick_runs("123"), _three_quick_runs("143", "eventlog")])) == [
        ("7.0", "slot")
    ]


def test_an_entry_that_differs_between_two_logs_is_detected() -> None:
    held = "Job was held.\n\tby alice\n\tCode 1 Subcode "
    release = "Job was released.\n\tby alice"
    entries = [_SUBMITTED, (12, 40, f"{held}0"), (13, 50, release), (12, 60, f"{held}0"), (13, 70, release)]
    user_log = _entries(*entries)
    assert contradicted_facts(examine_files([user_log, _entries(*entries, kind="eventlog")])) == []
    for number, lie in (
        (1, (12, 40, f"{held}7")),
        (2, (13, 50, release.replace("alice", "bob"))),
        (1, (12, 45, f"{held}0")),
    ):
        other = _entries(*entries[:number], lie, *entries[number + 1 :], kind="eventlog")
        examined = examine_files([user_log, other])
        assert contradicted_facts(examined) == [("7.0", "entry")]
        assert [(statement.kind, statement.line) for statement in examined.audit.contradictions[0].stated] == [
            ("userlog", 3 if number == 1 else 7),
            ("eventlog", 3 if number == 1 else 7),
        ]
    other_log = _entries(*entries[:3], kind="eventlog")  # its continuation elsewhere is not a contradiction
    assert contradicted_facts(examine_files([user_log, other_log])) == []


@pytest.mark.parametrize("count", [0, 999_999_999_999, 4_611_686_018_427, 2**53 - 1])
def test_bytes_are_compared_exactly(count: int) -> None:
    completion = f"{_DONE}\n\t{count}  -  Total Bytes Sent By Job"
    log = _entries(_SUBMITTED, (1, 11, _executing("slot1")), (5, 30, completion))
    assert contradicted_facts(examine_files([log, _ad({"BytesSent": float(count)})])) == []
    assert contradicted_facts(examine_files([log, _ad({"BytesSent": float(count + 1)})])) == [("7.0", "sent")]


def test_a_lost_shadows_counts_are_not_compared() -> None:
    wrong_counts = {"NumJobStarts": 0, "RemoteWallClockTime": 3.0}
    lost_connection = (22, 15, "Job disconnected, attempting to reconnect"), (23, 16, "Job reconnected to slot1@node")
    log = _entries(_SUBMITTED, (1, 11, _executing("slot1")), *lost_connection, (5, 30, _DONE))
    assert contradicted_facts(examine_files([log, _ad(wrong_counts)])) == []
    assert contradicted_facts(examine_files([_LOGGED, _ad(wrong_counts | {"NumJobReconnects": 1})])) == []
    assert ("7.0", "starts") in contradicted_facts(examine_files([_LOGGED, _ad(wrong_counts)]))


def test_a_job_removed_while_running_keeps_its_slot() -> None:
    removed_ad = {
        "JobStatus": 3,
        "CompletionDate": None,
        "RemoteHost": '"slot1@node"',
        "LastRemoteHost": '"slot9@node"',
    }
    epoch = _ad({"EpochAdType": '"EPOCH"', "EpochWriteDate": BEGIN + 30, "RemoteHost": '"slot1@node"'}, "epochs")
    assert contradicted_facts(examine_files([epoch, _ad(removed_ad)])) == []
    assert contradicted_facts(examine_files([epoch, _ad(removed_ad | {"RemoteHost": '"slot2@node"'})])) == [
        ("7.0", "slot")
    ]


def test_the_number_of_holds_counted_by_a_shadow_is_an_upper_bound() -> None:
    held = (12, 40, "Job was held.\n\tThe job attribute PeriodicHold\n\tCode 3 Subcode 0")
    log = _entries(*[_SUBMITTED, held, held], (5, 90, _DONE))
    asked = _entries(_SUBMITTED, (12, 40, "Job was held.\n\tby alice\n\tCode 1 Subcode 0"), (5, 90, _DONE))

    def holds(count: int, reason: str) -> File:
        return _ad({"NumHolds": count, "NumHoldsByReason": f"[ {reason} = {count} ]", **_ENDED_AT_90})

    assert contradicted_facts(examine_files([log, holds(4, "JobPolicy")])) == []
    assert (
        contradicted_facts(examine_files([log, holds(1, "JobPolicy")])) == []
    )  # both a schedd and a shadow wrote the entry
    assert contradicted_facts(examine_files([asked, holds(4, "UserRequest")])) == [("7.0", "holds")]


def test_a_shadow_started_after_a_killed_one_is_another_run() -> None:
    killed = {"JobCurrentStartDate": BEGIN + 10, "CompletionDate": BEGIN + 33, "JobDuration": 20.5}
    epoch_ad = {"EpochAdType": '"EPOCH"', "JobCurrentStartDate": BEGIN + 30, "EpochWriteDate": BEGIN + 30}
    absent = dict.fromkeys(("RemoteWallClockTime", "ActivationDuration"))
    assert (
        contradicted_facts(examine_files([_ad(killed | absent, "startd_history"), _ad(epoch_ad | absent, "epochs")]))
        == []
    )


@pytest.mark.parametrize(("number", "facts"), [(1, ["placed"]), (2, [])])
def test_a_shadow_that_follows_a_killed_one_within_a_second_is_another_run(number: int, facts: list[str]) -> None:
    """The starter outlives its shadow, so its run overlaps the next shadow's; only their numbers differ."""
    killed = {"JobCurrentStartDate": BEGIN + 10, "CompletionDate": BEGIN + 20, "JobDuration": 9.5}
    epoch_ad = {"EpochAdType": '"EPOCH"', "JobCurrentStartDate": BEGIN + 12, "EpochWriteDate": BEGIN + 19}
    absent = dict.fromkeys(("RemoteWallClockTime", "ActivationDuration", "JobCurrentStartExecutingDate"))
    epoch = _ad(epoch_ad | absent | {"NumShadowStarts": number}, "epochs")
    contradictions = contradicted_facts(examine_files([_ad(killed | absent, "startd_history"), epoch]))
    assert [fact for _, fact in contradictions] == facts


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        (1006, {"holds"}),  # the startd evicted the job: nothing hides a hold
        (1, set()),  # it was held, and released before its shadow had exited: the schedd logs no hold then
    ],
)
def test_a_hold_released_before_the_shadow_exited_is_in_no_log(code: int, facts: set[str]) -> None:
    eviction, released = (4, 40, f"Job was evicted. Code {code} Subcode 0"), (13, 41, "Job was released.")
    log = _entries(
        _SUBMITTED, (1, 11, _executing("slot1")), eviction, released, (1, 60, _executing("slot1")), (5, 90, _DONE)
    )
    held = {"NumHolds": 1, "NumHoldsByReason": "[ UserRequest = 1 ]", **_ENDED_AT_90, "NumJobStarts": 2}
    absent = dict.fromkeys(("RemoteWallClockTime", "LastRemoteWallClockTime", "CommittedTime", "ActivationDuration"))
    examined = examine_files([log, _ad(held | absent)])
    assert {contradiction.fact for contradiction in examined.audit.contradictions} == facts


@pytest.mark.parametrize(("count", "facts"), [(1, set()), (2, set()), (3, {"holds"})])
def test_a_hold_of_a_running_job_may_be_counted_twice(count: int, facts: set[str]) -> None:
    """A shadow that was evicting the job already exits with 107, and the schedd holds the job again for its code."""
    eviction, held = (
        (4, 40, "Job was evicted. Code 1 Subcode 0"),
        (12, 40, "Job was held.\n\tby alice\n\tCode 1 Subcode 0"),
    )
    execution, released = (1, 11, _executing("slot1")), (13, 41, "Job was released.")
    log = _entries(_SUBMITTED, execution, eviction, held, released, (1, 60, _executing("slot1")), (5, 90, _DONE))
    hold_counts = {
        "NumHolds": count,
        "NumHoldsByReason": f"[ UserRequest = {count} ]",
        **_ENDED_AT_90,
        "NumJobStarts": 2,
    }
    absent = dict.fromkeys(("RemoteWallClockTime", "LastRemoteWallClockTime", "CommittedTime", "ActivationDuration"))
    examined = examine_files([log, _ad(hold_counts | absent)])
    assert {contradiction.fact for contradiction in examined.audit.contradictions} == facts


# Changes to the ad of a job of one run, and the facts that the ad then contradicts.
CONTRADICTORY: tuple[tuple[dict[str, object], set[str]], ...] = (
    ({"RemoteWallClockTime": 3620.0}, {"wall_runs"}),
    ({"LastRemoteWallClockTime": 3620.0}, {"wall_runs", "run_wall"}),
    ({"CumulativeSlotTime": 3640.0}, {"wall_runs"}),
    ({"MachineAttrSlotWeight0": 1}, {"wall_runs"}),
    ({"CommittedTime": 797}, {"run_wall", "wall_runs"}),
    ({"ActivationDuration": 796}, {"run_wall", "busy"}),
    ({"RemoteUserCpu": 782.0}, {"user_cpu", "run_user_cpu"}),
    ({"CumulativeRemoteUserCpu": 782.0}, {"user_cpu"}),
    ({"Owner": '"bob"'}, {"user"}),
    ({"GlobalJobId": f'"submit#8.0#{BEGIN}"'}, {"number"}),
    ({"JobStatus": 3}, {"became"}),
)


@pytest.mark.parametrize(("change", "facts"), CONTRADICTORY, ids=[next(iter(change)) for change, _ in CONTRADICTORY])
def test_an_ad_that_contradicts_itself_is_detected(change: dict[str, object], facts: set[str]) -> None:
    epoch = _ad({"EpochAdType": '"EPOCH"', "EpochWriteDate": BEGIN + 30, "RemoteWallClockTime": 0.0}, "epochs")
    assert contradicted_facts(examine_files([epoch, _ad({})])) == []
    examined = examine_files([epoch, _ad(change)])
    assert {fact for _, fact in contradicted_facts(examined)} == facts
    own_statements = [stated for stated in examined.audit.contradictions[0].stated if stated.kind == "history"]
    assert len({(stated.file, stated.line) for stated in own_statements}) == 1
    assert len({stated.value for stated in own_statements}) > 1


@pytest.mark.parametrize(("status", "outcome"), [(1, "idle"), (2, "running"), (3, "removed"), (5, "held")])
def test_a_history_that_contradicts_its_jobs_log_is_detected(status: int, outcome: str) -> None:
    examined = examine_files([_LOGGED, _ad({"JobStatus": status})])
    assert set(contradicted_facts(examined)) == {("7.0", "became")}
    assert {stated.value for stated in examined.audit.contradictions[0].stated} == {"completed", outcome}
    later_ad = {"JobStatus": 3, "LastJobStatus": 4, "EnteredCurrentStatus": BEGIN + 99}
    assert contradicted_facts(examine_files([_LOGGED, _ad(later_ad)])) == []

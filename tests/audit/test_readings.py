"""Small cases of what a job's records say: those of an honest pool that look as if they contradicted each other; those
that do contradict each other, or themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from .honest import FILES, File, examine
from .test_contradictions import accused
from .truth import BEGIN


def _entries(*told: tuple[int, int, str], kind: str = "userlog") -> File:
    """A job event log of job 7.0: number, instant, text."""
    text = "".join(
        f"{number:03} (007.000.000) {datetime.fromtimestamp(BEGIN + at, UTC):%Y-%m-%d %H:%M:%S} {words}\n...\n"
        for number, at, words in told
    )
    return File(FILES[kind][0], kind, text.encode())


def _on(slot: str) -> str:
    return f"Job executing on host: <10.0.0.7:9618>\n\tSlotName: {slot}@node"


_SUBMITTED = (0, 0, "Job submitted from host: <10.0.0.1:9618>")
_DONE = "Job terminated.\n\t(1) Normal termination (return value 0)"
_REQUEUED = "Job was evicted.\n\t(0) Job terminated and was requeued"


def _quick(slots: str, kind: str = "userlog") -> File:
    """A job that is tried again at once until it does well: three runs in two seconds."""
    runs = [
        entry
        for number, slot in enumerate(slots)
        for entry in (
            (1, 10 + number // 2, _on(f"slot{slot}")),
            (5 if number == 2 else 4, 10 + (number + 1) // 2, _DONE if number == 2 else _REQUEUED),
        )
    ]
    return _entries(_SUBMITTED, *runs, kind=kind)


def _ad(changes: Mapping[str, object], kind: str = "history") -> File:
    """The ad of a job that had one run, with `changes`; None takes an attribute away."""
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
_LOGGED = _entries(_SUBMITTED, (1, 11, _on("slot1")), (5, 30, _DONE))


def test_runs_within_a_second_are_told_apart_by_their_order() -> None:
    last = _ad({"NumJobStarts": 3, "JobCurrentStartDate": BEGIN + 11, "LastRemoteHost": '"slot3@node"'} | _ENDED_AT_11)
    assert accused(examine([_quick("123"), _quick("123", "eventlog"), last])) == []
    assert accused(examine([_quick("123"), _quick("143", "eventlog")])) == [("7.0", "slot")]


def test_an_entry_that_two_logs_tell_differently_is_found() -> None:
    held = "Job was held.\n\tby alice\n\tCode 1 Subcode "
    free = "Job was released.\n\tby alice"
    told = [_SUBMITTED, (12, 40, f"{held}0"), (13, 50, free), (12, 60, f"{held}0"), (13, 70, free)]
    one = _entries(*told)
    assert accused(examine([one, _entries(*told, kind="eventlog")])) == []
    for number, lie in (
        (1, (12, 40, f"{held}7")),
        (2, (13, 50, free.replace("alice", "bob"))),
        (1, (12, 45, f"{held}0")),
    ):
        other = _entries(*told[:number], lie, *told[number + 1 :], kind="eventlog")
        found = examine([one, other])
        assert accused(found) == [("7.0", "entry")]
        assert [(s.kind, s.line) for s in found.audit.contradictions[0].stated] == [
            ("userlog", 3 if number == 1 else 7),
            ("eventlog", 3 if number == 1 else 7),
        ]
    later = _entries(*told[:3], kind="eventlog")  # that it goes on elsewhere is no contradiction
    assert accused(examine([one, later])) == []


@pytest.mark.parametrize("count", [0, 999_999_999_999, 4_611_686_018_427, 2**53 - 1])
def test_bytes_are_compared_to_the_last_one(count: int) -> None:
    done = f"{_DONE}\n\t{count}  -  Total Bytes Sent By Job"
    log = _entries(_SUBMITTED, (1, 11, _on("slot1")), (5, 30, done))
    assert accused(examine([log, _ad({"BytesSent": float(count)})])) == []
    assert accused(examine([log, _ad({"BytesSent": float(count + 1)})])) == [("7.0", "sent")]


def test_what_a_lost_shadow_counted_is_compared_with_nothing() -> None:
    wrong = {"NumJobStarts": 0, "RemoteWallClockTime": 3.0}
    lost = (22, 15, "Job disconnected, attempting to reconnect"), (23, 16, "Job reconnected to slot1@node")
    log = _entries(_SUBMITTED, (1, 11, _on("slot1")), *lost, (5, 30, _DONE))
    assert accused(examine([log, _ad(wrong)])) == []
    assert accused(examine([_LOGGED, _ad(wrong | {"NumJobReconnects": 1})])) == []
    assert ("7.0", "starts") in accused(examine([_LOGGED, _ad(wrong)]))


def test_a_job_that_was_removed_while_it_ran_has_its_slot_still() -> None:
    removed = {"JobStatus": 3, "CompletionDate": None, "RemoteHost": '"slot1@node"', "LastRemoteHost": '"slot9@node"'}
    epoch = _ad({"EpochAdType": '"EPOCH"', "EpochWriteDate": BEGIN + 30, "RemoteHost": '"slot1@node"'}, "epochs")
    assert accused(examine([epoch, _ad(removed)])) == []
    assert accused(examine([epoch, _ad(removed | {"RemoteHost": '"slot2@node"'})])) == [("7.0", "slot")]


def test_holds_that_a_shadow_counts_at_each_evaluation_are_at_most_so_many() -> None:
    held = (12, 40, "Job was held.\n\tThe job attribute PeriodicHold\n\tCode 3 Subcode 0")
    log = _entries(*[_SUBMITTED, held, held], (5, 90, _DONE))
    asked = _entries(_SUBMITTED, (12, 40, "Job was held.\n\tby alice\n\tCode 1 Subcode 0"), (5, 90, _DONE))

    def holds(count: int, reason: str) -> File:
        return _ad({"NumHolds": count, "NumHoldsByReason": f"[ {reason} = {count} ]", **_ENDED_AT_90})

    assert accused(examine([log, holds(4, "JobPolicy")])) == []
    assert accused(examine([log, holds(1, "JobPolicy")])) == []  # both a schedd and a shadow wrote the entry
    assert accused(examine([asked, holds(4, "UserRequest")])) == [("7.0", "holds")]


def test_a_shadow_that_was_started_after_one_was_killed_is_another_run() -> None:
    killed = {"JobCurrentStartDate": BEGIN + 10, "CompletionDate": BEGIN + 33, "JobDuration": 20.5}
    began = {"EpochAdType": '"EPOCH"', "JobCurrentStartDate": BEGIN + 30, "EpochWriteDate": BEGIN + 30}
    nothing = dict.fromkeys(("RemoteWallClockTime", "ActivationDuration"))
    assert accused(examine([_ad(killed | nothing, "startd_history"), _ad(began | nothing, "epochs")])) == []


@pytest.mark.parametrize(("number", "facts"), [(1, ["placed"]), (2, [])])
def test_a_shadow_that_follows_a_killed_one_within_a_second_is_another_run(number: int, facts: list[str]) -> None:
    """The starter outlives its shadow, so that its run overlaps the next shadow's; only their numbers differ."""
    killed = {"JobCurrentStartDate": BEGIN + 10, "CompletionDate": BEGIN + 20, "JobDuration": 9.5}
    began = {"EpochAdType": '"EPOCH"', "JobCurrentStartDate": BEGIN + 12, "EpochWriteDate": BEGIN + 19}
    nothing = dict.fromkeys(("RemoteWallClockTime", "ActivationDuration", "JobCurrentStartExecutingDate"))
    epoch = _ad(began | nothing | {"NumShadowStarts": number}, "epochs")
    found = accused(examine([_ad(killed | nothing, "startd_history"), epoch]))
    assert [fact for _, fact in found] == facts


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        (1006, {"holds"}),  # the startd evicted the job: nothing hides a hold
        (1, set()),  # it was held, and released before its shadow had exited: the schedd logs no hold then
    ],
)
def test_a_hold_that_was_released_before_the_shadow_exited_is_in_no_log(code: int, facts: set[str]) -> None:
    evicted, released = (4, 40, f"Job was evicted. Code {code} Subcode 0"), (13, 41, "Job was released.")
    log = _entries(_SUBMITTED, (1, 11, _on("slot1")), evicted, released, (1, 60, _on("slot1")), (5, 90, _DONE))
    held = {"NumHolds": 1, "NumHoldsByReason": "[ UserRequest = 1 ]", **_ENDED_AT_90, "NumJobStarts": 2}
    nothing = dict.fromkeys(("RemoteWallClockTime", "LastRemoteWallClockTime", "CommittedTime", "ActivationDuration"))
    found = examine([log, _ad(held | nothing)])
    assert {one.fact for one in found.audit.contradictions} == facts


@pytest.mark.parametrize(("count", "facts"), [(1, set()), (2, set()), (3, {"holds"})])
def test_a_hold_of_a_running_job_may_be_counted_twice(count: int, facts: set[str]) -> None:
    """A shadow that was evicting the job already exits with 107, and the schedd holds the job again for its code."""
    evicted, held = (
        (4, 40, "Job was evicted. Code 1 Subcode 0"),
        (12, 40, "Job was held.\n\tby alice\n\tCode 1 Subcode 0"),
    )
    ran, released = (1, 11, _on("slot1")), (13, 41, "Job was released.")
    log = _entries(_SUBMITTED, ran, evicted, held, released, (1, 60, _on("slot1")), (5, 90, _DONE))
    counted = {"NumHolds": count, "NumHoldsByReason": f"[ UserRequest = {count} ]", **_ENDED_AT_90, "NumJobStarts": 2}
    nothing = dict.fromkeys(("RemoteWallClockTime", "LastRemoteWallClockTime", "CommittedTime", "ActivationDuration"))
    found = examine([log, _ad(counted | nothing)])
    assert {one.fact for one in found.audit.contradictions} == facts


# What stands in the ad of a job of one run instead, and the facts which it can no longer tell in one way.
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
def test_an_ad_that_contradicts_itself_is_found(change: dict[str, object], facts: set[str]) -> None:
    epoch = _ad({"EpochAdType": '"EPOCH"', "EpochWriteDate": BEGIN + 30, "RemoteWallClockTime": 0.0}, "epochs")
    assert accused(examine([epoch, _ad({})])) == []
    found = examine([epoch, _ad(change)])
    assert {fact for _, fact in accused(found)} == facts
    own = [stated for stated in found.audit.contradictions[0].stated if stated.kind == "history"]
    assert len({(stated.file, stated.line) for stated in own}) == 1
    assert len({stated.value for stated in own}) > 1


@pytest.mark.parametrize(("status", "word"), [(1, "idle"), (2, "running"), (3, "removed"), (5, "held")])
def test_a_history_whose_job_did_not_end_as_its_log_says_is_found(status: int, word: str) -> None:
    found = examine([_LOGGED, _ad({"JobStatus": status})])
    assert set(accused(found)) == {("7.0", "became")}
    assert {stated.value for stated in found.audit.contradictions[0].stated} == {"completed", word}
    later = {"JobStatus": 3, "LastJobStatus": 4, "EnteredCurrentStatus": BEGIN + 99}
    assert accused(examine([_LOGGED, _ad(later)])) == []

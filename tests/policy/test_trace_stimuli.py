"""What a golden trace takes from a StartLog: what happened to the startd, but no decision of its policy."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from poolbook.domain.ports import stimuli as s

from ..conformance.trace_files import SECOND, TraceFiles
from ..conformance.trace_runs import startd_runs
from ..conformance.trace_steps import PublishedReadings
from ..sampling import some
from ..together import together

DATA = Path(__file__).resolve().parent.parent / "data"
FOLDERS = sorted(
    path.parent for group in ("traces", "points", "recordings") for path in (DATA / group).glob("*/StartLog.gz")
)


_DECIDED = re.compile(
    rb"^[^\n]* \S+: (?:"
    rb"Changing (?!activity: (?:Idle -> Benchmarking|Benchmarking -> Idle))[^\n]*|Slot \S+ no longer[^\n]*|"
    rb"State change: (?!match notification|match timed|claiming protocol failed|claim lease|claim-activation|received|"
    rb"starter exited)[^\n]*)\n",
    re.MULTILINE,
)
"""The log lines about the startd's own decisions: its transitions, and their reasons."""


@pytest.mark.parametrize("folder", some(FOLDERS, 7))
def test_the_stimuli_are_the_same_without_the_policys_transitions_and_reasons(folder: Path) -> None:
    files = TraceFiles(folder)
    data = files.data("StartLog")
    assert data is not None
    blind = _DECIDED.sub(lambda match: _emptied(match[0]), data)
    assert blind != data
    with_all, without = (startd_runs(text, files.jobs, files.owner_told) for text in (data, blind))
    assert [line.steps for line in without] == [line.steps for line in with_all]


def _emptied(line: bytes) -> bytes:
    """Return only the line's time, so that the other lines keep their numbers."""
    return line[: len("11/20/26 22:44:07 ")] + b"\n"


HEAD = [
    "** condor_startd (CONDOR_STARTD) STARTING UP",
    "DaemonCore: command socket at <10.0.0.7:9618?addrs=10.0.0.7-9618&alias=node7&noUDP&sock=startd_1>",
    "slot1: New Slot of type 1 allocated",
    "slot1: \tCpus: 1.00, Memory: 8035, Swap: 822, Disk: 25404293, GPUs: 0",
]
CHANGE = "slot1: State change:"
REPORT = "slot1[7.1]: Received final job ClassAd update from starter. 0 unread bytes"
GONE = f"{CHANGE} starter exited : ./Resource.cpp(1112) Preempting/Vacating"
REQUEST = ["slot1: Request accepted.", "slot1: Remote owner is alice@node7"]
ACTIVE = [
    *REQUEST,
    "slot1: Remote job ID is 7.1",
    "slot1: State change: claim-activation protocol successful, Starter 12",
]
BETTER = [*ACTIVE, "slot1: New claim has sufficient rank, preempting current claim."]
NOON = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()) * SECOND


def stimuli_by_kind(*lines: str) -> list[str]:
    """Return the stimuli of a log with these lines, by their kinds, without policy rounds."""
    return [type(stimulus).__name__ for stimulus in stimuli(*lines)]


def stimuli(*lines: str) -> list[object]:
    text = "".join(f"11/20/26 12:00:{second:02} {line}\n" for second, line in enumerate([*HEAD, *lines]))
    (run,) = startd_runs(text.encode(), {}, [])
    return [step.what for step in run.steps if not isinstance(step.what, s.EvaluatePolicies)]


@together(
    ("lines", "expected"),
    [
        (REQUEST, ["RequestClaim"]),
        (["slot1: Request accepted.", "slot1: State change: claiming protocol failed"], ["FailClaim"]),
        (ACTIVE, ["RequestClaim", "ActivateClaim"]),
        (["slot1: match_info called", "slot1: State change: match notification protocol successful"], ["NotifyMatch"]),
        (["slot1: State change: match notification protocol successful"], ["NotifyMatch"]),
        (["slot1: State change: match timed out"], ["FireTimers"]),
        ([*ACTIVE, REPORT], [..., "StarterReported"]),
        # the report of a starter that is being reaped comes too late
        ([*ACTIVE, "Starter pid 12 exited with status 0", REPORT],
         [...]),
        ([*ACTIVE, GONE], [..., "StarterGone"]),
        # the holder's report that its job is done: ignored while the starter exists
        ([*ACTIVE, "slot1: Called deactivate_claim_job_done()"], [...]),
        ([*REQUEST, "slot1: Called deactivate_claim_job_done()"], ["RequestClaim", "DeactivateClaim"]),
        ([*ACTIVE, "slot1: Called deactivate_claim()"], [..., "DeactivateClaim"]),
        ([*ACTIVE, "slot1: Got DEACTIVATE_CLAIM_JOB_DONE while in Preempting state, ignoring."], [...]),
        (["slot1: State change: received RELEASE_CLAIM command"], ["ReleaseClaim"]),
        (["slot1: Got RELEASE_CLAIM while in Preempting state, ignoring."], ["ReleaseClaim"]),
        (["slot1: State change: received VACATE_CLAIM command"], ["VacateSlot"]),
        (["slot1: Got VACATE_CLAIM_FAST while in Unclaimed state, ignoring."], ["VacateSlot"]),
        (["slot1: State change: received SUSPEND_CLAIM command"], ["SuspendClaim"]),
        (["slot1: State change: received CONTINUE_CLAIM command"], ["ContinueClaim"]),
        (["State change: received VACATE_ALL_CLAIMS command"], ["VacateSlot"]),
        (["slot1: State change: claim lease expired (condor_schedd gone?), evicting claim"],
         ["HolderSilent", "FireTimers"]),
        (BETTER, [..., "RequestClaim"]),
        ([*BETTER, "slot1: State change: received RELEASE_CLAIM command from preempting claim"],
         [..., "RequestClaim", "WithdrawClaim"]),
        ([*BETTER, "slot1: Request claim socket closed prematurely for claim x."],
         [..., "RequestClaim", "WithdrawClaim"]),
        # a preempting claim that cannot be claimed in the end was gone before the slot was free
        ([*BETTER, GONE,
          "slot1: State change: claiming protocol failed"], [..., "RequestClaim", "WithdrawClaim", "StarterGone"]),
        # a preempting claim that takes over made its request before
        ([*BETTER, GONE, "slot1: Remote owner is bob@node7"],
         [..., "RequestClaim", "StarterGone"]),
        (["Processing drain request from <10.0.0.7:22007>"], ["Drain"]),
        (["Processing cancel drain request from <10.0.0.7:22007>"], ["CancelDrain"]),
        (["shutdown fast"], ["ShutDown"]),
        (["beginning reconfig_resources"], ["Reconfigured"]),
        # decisions of the policy are not stimuli
        (["slot1: State change: IS_OWNER is TRUE.", "slot1: Changing state: Unclaimed -> Owner"], []),
        (["slot1: State change: PREEMPT is TRUE.", "slot1: Changing activity: Busy -> Retiring"], []),
        (["slot1: State change: idle claim shutting down due to CLAIM_WORKLIFE."], []),
        (["slot1: State change: slot is no longer draining.", "slot1: State change: draining is complete."], []),
    ],
)  # fmt: skip
def test_a_line_becomes_its_stimuli(lines: list[str], expected: list[object]) -> None:
    if expected[:1] == [...]:
        expected = ["RequestClaim", "ActivateClaim", *expected[1:]]
    assert stimuli_by_kind(*lines) == expected


def test_a_request_has_its_user_and_job_even_if_later_lines_name_them() -> None:
    requests, *_, better_match, _ = stimuli(*BETTER, GONE,
                                   "slot1: Remote owner is bob@node7", "slot1: Remote job ID is 8.0")  # fmt: skip
    assert isinstance(requests, s.RequestClaim)
    assert isinstance(better_match, s.RequestClaim)
    assert (requests.slot, requests.submitter, requests.job) == ("slot1@node7", "alice@node7", "7.1")
    assert (better_match.slot, better_match.submitter, better_match.job, better_match.ad["Owner"]) == (
        "slot1@node7", "bob@node7", "8.0", '"bob"'
    )  # fmt: skip


def test_a_request_for_a_part_of_a_partitionable_slot_has_the_dynamic_slots_name() -> None:
    trace = stimuli(
        "slot1: Job 3.0 requesting resources: Cpus=1.000000, Memory=128, Disk=1048576 ,GPUs=0.000000",
        "slot1_1: New dSlot of type 1 allocated", "slot1_1: \tCpus: 1.00, Memory: 128, Swap: 0, Disk: 1048576, GPUs: 0",
        "slot1: Request accepted.", "slot1_1: Remote owner is alice@node7",
    )  # fmt: skip
    (requests,) = trace
    assert isinstance(requests, s.RequestClaim)
    assert (requests.slot, requests.job) == ("slot1_1@node7", "3.0")
    assert {name: requests.ad[name] for name in ("RequestCpus", "RequestMemory", "RequestDisk")} == {
        "RequestCpus": "1", "RequestMemory": "128", "RequestDisk": "1048576"
    }  # fmt: skip


PART = [
    "slot1: Job 3.0 requesting resources: Cpus=1.000000, Memory=128, Disk=1048576 ,GPUs=0.000000",
    "slot1_1: New dSlot of type 1 allocated", "slot1_1: \tCpus: 1.00, Memory: 128, Swap: 0, Disk: 1048576, GPUs: 0",
    "slot1: Request accepted.", "slot1_1: Remote owner is alice@node7",
]  # fmt: skip
KILLED = "slot1_2: Canceled ClaimLease timer (43)"


@together(
    ("lines", "expected_slots"),
    [
        (["slot1: Schedd sending 1 preempting claims.", KILLED], ("slot1_2@node7",)),
        # a claim that fails takes nothing: slots that are killed after it are preempted for another reason
        (["slot1: Schedd sending 1 preempting claims.", "slot1: State change: claiming protocol failed", KILLED], ()),
    ],
)
def test_a_claim_of_a_part_names_the_slots_that_were_killed_for_it(
    lines: list[str], expected_slots: tuple[str, ...]
) -> None:
    requested = stimuli(*lines, *PART)[-1]
    assert isinstance(requested, s.RequestClaim)
    assert requested.preempts == expected_slots


def _decided(slot: str, pair: str) -> str:
    return f"{slot}: eval_policy state should be: {pair} 7 because of the policy"


WALKED = "No direct attach schedd configured"


@together(
    ("lines", "rounds"),
    [
        ([_decided("slot1", "Claimed/Suspended"), _decided("slot2", "Claimed/Suspended")], 1),
        # a slot that is evaluated again
        ([_decided("slot1", "Claimed/Suspended"), _decided("slot1", "Claimed/Busy")], 2),
        ([_decided("slot1", "Claimed/Suspended"), _decided("slot2", "Claimed/Suspended"),
          _decided("slot1", "Claimed/Busy"), _decided("slot2", "Claimed/Busy")], 2),
        # a slot that becomes idle or retires is evaluated again within the same round, before the next slot
        ([_decided("slot1", "Claimed/Retiring"), _decided("slot1", "Preempting/Retiring"),
          _decided("slot2", "Claimed/Suspended")], 1),
        ([_decided("slot1", "Drained/Retiring"), _decided("slot1", "Drained/Idle"), WALKED], 1),
        ([_decided("slot1", "Claimed/Retiring"), _decided("slot2", "Claimed/Suspended"),
          _decided("slot1", "Preempting/Retiring")], 2),
        # the end of a round that sends updates
        ([_decided("slot1", "Claimed/Suspended"), WALKED], 1),
        ([WALKED, _decided("slot1", "Claimed/Suspended")], 2),
        ([WALKED, WALKED], 2),
        ([_decided("slot1", "Claimed/Suspended"), WALKED, _decided("slot2", "Claimed/Suspended"), WALKED], 2),
        # something that happens in between
        ([_decided("slot1", "Claimed/Suspended"), "slot3: match_info called",
          _decided("slot2", "Claimed/Suspended")], 2),
    ],
)  # fmt: skip
def test_several_policy_rounds_in_one_second_are_several(lines: list[str], rounds: int) -> None:
    text = "".join(f"11/20/26 12:00:00 {line}\n" for line in HEAD) + "".join(
        f"11/20/26 12:00:05 {line}\n" for line in lines
    )
    (run,) = startd_runs(text.encode(), {}, [])
    assert sum(isinstance(step.what, s.EvaluatePolicies) for step in run.steps) == rounds


def test_a_drain_has_the_arguments_of_its_request() -> None:
    text = "".join(f"11/20/26 12:00:00 {line}\n" for line in HEAD) + (
        '11/20/26 12:00:01 Processing drain request from <10.0.0.7:22007>\nCheckExpr = true\nDrainReason = "by root"\n'
        "HowFast = 10\nResumeOnCompletion = 4\nStartExpr = TARGET.Short\n11/20/26 12:00:01 Initiating quick draining.\n"
    )
    (run,) = startd_runs(text.encode(), {}, [])
    (step,) = run.steps
    assert step.what == s.Drain("drain-5", "root", "node7", "Quick", "by root", "reconfig", "true", "TARGET.Short")


@pytest.mark.parametrize(
    ("lines", "published"),
    [
        # by the log: the sensor's next run that started after the second of the writing
        (["12:00:05 STARTD_CRON job OWNER started. pid=1", "12:00:05 CronJob: 'OWNER' (pid 1) exit_status=0",
          "12:00:06 STARTD_CRON job OWNER started. pid=2", "12:00:06 CronJob: 'OWNER' (pid 2) exit_status=0"], 6),
        # unless the policy decided something in between, perhaps by a value that the run of that second read
        (["12:00:05 STARTD_CRON job OWNER started. pid=1", "12:00:05 CronJob: 'OWNER' (pid 1) exit_status=0",
          "12:00:05 slot1: eval_policy state should be: Owner/Idle 15 IS_OWNER is TRUE"], 5),
        # a log that does not show when the sensor was done: immediately
        (["12:00:05 STARTD_CRON job OWNER started. pid=1", "12:00:06 STARTD_CRON job OWNER started. pid=2",
          "12:00:08 slot1: match_info called"], 8),
        # without the sensor's lines: within a second
        (["12:00:05 slot1: match_info called", "12:00:07 slot1: match_info called"], 7),
    ],
)  # fmt: skip
def test_the_owners_sensor_publishes_the_input_of_five_at_its_next_run(lines: list[str], published: int) -> None:
    text = "".join(f"11/20/26 12:00:00 {line}\n" for line in HEAD) + "".join(f"11/20/26 {line}\n" for line in lines)
    (run,) = startd_runs(text.encode(), {}, [(NOON + 5 * SECOND, {"OwnerAtKeyboard": "True"})])
    readings = [step.at for step in run.steps if not isinstance(step.what, s.Stimulus)]
    assert readings == [NOON + published * SECOND]


RUN = "STARTD_CRON job OWNER started. pid=1", "CronJob: 'OWNER' (pid 1) exit_status=0"
OTHER = "STARTD_CRON job OTHER started. pid=2", "CronJob: 'OTHER' (pid 2) exit_status=0"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # the owner is there at 5.200 and gone at 5.600 -> what is published by then
        ([("5.100", RUN[0]), ("5.300", RUN[1])], ""),
        ([("5.400", RUN[0]), ("5.500", RUN[1])], "True"),
        ([("5.400", RUN[0]), ("5.700", RUN[1])], "True"),
        ([("5.650", RUN[0]), ("5.700", RUN[1])], "False"),
        ([("5.400", RUN[0]), ("5.500", RUN[1]), ("5.650", RUN[0]), ("5.700", RUN[1])], "False"),
        # two sensors that run at the same time: each has the input of its start
        ([("5.100", OTHER[0]), ("5.400", RUN[0]), ("5.700", OTHER[1])], ""),
        ([("5.400", OTHER[0]), ("5.650", RUN[0]), ("5.700", OTHER[1])], "True"),
        ([("5.400", OTHER[0]), ("5.650", RUN[0]), ("5.700", OTHER[1]), ("5.800", RUN[1])], "False"),
    ],
)
def test_fractions_of_a_second_decide_which_reading_a_sensor_found(lines: list[tuple[str, str]], expected: str) -> None:
    text = "".join(f"11/20/26 12:00:00.000 {line}\n" for line in HEAD)
    text += "".join(f"11/20/26 12:00:0{at} {line}\n" for at, line in lines)
    owner = [(NOON + at, {"OwnerHere": value}) for at, value in ((5_200_000, "True"), (5_600_000, "False"))]
    (run,) = startd_runs(text.encode(), {}, owner)
    owner_is_here = [
        step.what.attributes["OwnerHere"] for step in run.steps if isinstance(step.what, PublishedReadings)
    ]
    assert "".join(owner_is_here[-1:]) == expected


def test_a_slots_decision_after_its_starter_exited_is_not_a_round_of_its_machine() -> None:
    decided = "slot1: eval_policy state should be: Preempting/Idle 2 claim retirement ended/expired"
    for before, rounds in (([GONE], 0), (["slot1: match_info called"], 1)):
        lines = [*HEAD, *(f"later {line}" for line in [*before, decided])]
        text = "".join(
            f"11/20/26 12:00:{'05' if line.startswith('later ') else '00'} {line.removeprefix('later ')}\n"
            for line in lines
        )
        (run,) = startd_runs(text.encode(), {}, [])
        assert sum(isinstance(step.what, s.EvaluatePolicies) for step in run.steps) == rounds

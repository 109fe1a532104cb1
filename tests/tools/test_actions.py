"""Golden: `poolbook rm`, `hold`, `release`, `vacate` and `prio` answer as HTCondor's tools do."""

import json

import pytest

from poolbook.adapters.cli import job_actions, prio
from poolbook.adapters.cli.common import CommandOutput
from poolbook.adapters.cli.job_actions import Result, message
from poolbook.adapters.condor_tools.action_results import (
    ALREADY_DONE,
    BAD_STATUS,
    DENIED,
    ERROR,
    NOT_FOUND,
    SUCCESS,
    result_of,
)
from poolbook.adapters.condor_tools.job_selection import ClusterOrJob, JobSelector
from poolbook.adapters.condor_tools.options import UsageError
from poolbook.domain.classad import ClassAd, Context

from ..together import together
from .captures import capture

# The results for the single jobs and for the jobs of the selection, with the number of jobs in the queue.
Outcome = tuple[list[int], dict[int, int] | None, int]
NOTHING: dict[int, int] = {}
ONE_DONE = {SUCCESS: 1}

ANSWERS: dict[str, Outcome] = {
    "rm_again": ([NOT_FOUND], None, 5),
    "rm_all": ([], ONE_DONE, 5),
    "rm_cluster": ([], ONE_DONE, 5),
    "rm_constraint": ([], ONE_DONE, 5),
    "rm_constraint_none": ([], NOTHING, 5),
    "rm_forcex": ([], {BAD_STATUS: 1}, 5),
    "rm_job": ([SUCCESS], None, 5),
    "rm_long": ([NOT_FOUND], None, 5),
    "rm_multi": ([NOT_FOUND], NOTHING, 5),
    "rm_other_user": ([], NOTHING, 5),
    "rm_reason": ([], ONE_DONE, 5),
    "rm_totals": ([], ONE_DONE, 5),
    "rm_unknown": ([], NOTHING, 5),
    "rm_unknown_proc": ([NOT_FOUND], None, 5),
    "rm_user": ([], ONE_DONE, 5),
    "hold": ([SUCCESS], None, 5),
    "hold_again": ([ALREADY_DONE], None, 5),
    "hold_cluster": ([], {ALREADY_DONE: 2}, 5),
    "hold_constraint": ([], ONE_DONE, 5),
    "hold_reason": ([SUCCESS], None, 5),
    "hold_unknown": ([], NOTHING, 5),
    "hold_unknown_proc": ([NOT_FOUND], None, 5),
    "release": ([SUCCESS], None, 5),
    "release_again": ([BAD_STATUS], None, 5),
    "release_all": ([], ONE_DONE, 5),
    "release_cluster": ([], ONE_DONE, 5),
    "release_constraint": ([], ONE_DONE, 5),
    "release_one": ([SUCCESS], None, 5),
    "vacate_job": ([SUCCESS], None, 5),
    "vacate_job_cluster": ([], ONE_DONE, 5),
    "vacate_job_fast": ([SUCCESS], None, 5),
    "vacate_job_unknown": ([NOT_FOUND], None, 5),
}


def check_answer(command: str, argv: list[str], outcome: Outcome) -> CommandOutput:
    request = job_actions.parse_arguments(command, argv)
    single_results, selected, queued = outcome
    return job_actions.answer(request, list(map(Result, request.ids, single_results)), selected, queued)


@together("name", ANSWERS)
def test_a_command_answers_as_htcondors(name: str) -> None:
    expected = capture(name)
    answer = check_answer(name.split("_")[0], expected.argv, ANSWERS[name])
    assert answer == (expected.out, expected.err, expected.exit_code)


# Captures of two commands in one line: the second one's output, only on standard error.
SECOND = {
    "rm_rm_forcex": ("rm", ["-forcex", "67.0"], [NOT_FOUND]),
    "rm_forcex_unremoved": ("rm", ["-forcex", "66.0"], [BAD_STATUS]),
    "vacate_job_held": ("vacate", ["65.0"], [BAD_STATUS]),
}


@pytest.mark.parametrize("name", SECOND)
def test_the_second_of_two_commands_answers_as_htcondors(name: str) -> None:
    command, argv, single_results = SECOND[name]
    assert check_answer(command, argv, (single_results, None, 5)) == ("", capture(name).err, 1)


@together(
    ("kind", "outcome", "result"),
    [
        ("Hold", "Held", ALREADY_DONE),
        ("Hold", "Removed", DENIED),
        ("Hold", "Completed", DENIED),
        ("Remove", "Removed", ALREADY_DONE),
        ("RemoveNow", "Completed", BAD_STATUS),
        ("Release", "Held", BAD_STATUS),  # while its input is being spooled
        ("Release", "Completed", BAD_STATUS),
        ("Vacate", "Suspended", BAD_STATUS),
        ("Continue", "Running", BAD_STATUS),
    ],
)
def test_an_action_in_an_unsuitable_status_has_the_result_of_htcondors_schedd(
    kind: str, outcome: str, result: int
) -> None:
    assert result_of(kind, outcome) == result


@pytest.mark.parametrize(("name", "command"), [("rm_noargs", "rm"), ("hold_noargs", "hold")])
def test_a_command_without_a_job_is_wrong_usage(name: str, command: str) -> None:
    expected = capture(name)
    assert (expected.exit_code, expected.argv) == (1, [])
    with pytest.raises(UsageError, match="no job is specified"):
        job_actions.parse_arguments(command, expected.argv)


@together(
    ("argv", "ids", "selection", "whose"),
    [
        (["12.3"], [(12, 3)], None, ""),
        (["12"], [], "in", " in cluster 12"),
        (["alice"], [], "in", ' of user "alice"'),
        (["12", "alice"], [], "in", ' matching constraint (ClusterId == 12 || Owner == "alice")'),
        (["12.3", "13"], [(12, 3)], "in", " in cluster 13"),
        (["-all"], [], "in", ""),
        (["-constraint", "A > 1"], [], "in", " matching constraint (A > 1)"),
        (["-constraint", "A > 1", "12"], [], "in", " matching constraint ((A > 1) && (ClusterId == 12))"),
        (["-held", "12.3"], [], "in", " matching constraint ((ClusterId == 12 && ProcId == 3))"),
    ],
)
def test_arguments_become_single_jobs_or_one_request(
    argv: list[str], ids: list[tuple[int, int]], selection: str | None, whose: str
) -> None:
    request = job_actions.parse_arguments("rm", argv)
    assert [tuple(job) for job in request.ids] == ids
    assert (request.selection is not None) == (selection is not None)
    assert request.whose == whose


def test_the_selection_of_a_request_finds_its_jobs() -> None:
    request = job_actions.parse_arguments("release", ["12", "bob", "-constraint", "JobPrio > 0"])
    assert request.selection is not None
    queue = [
        ClassAd({"ClusterId": 12, "ProcId": 0, "Owner": "alice", "JobPrio": 1}),
        ClassAd({"ClusterId": 12, "ProcId": 1, "Owner": "alice", "JobPrio": 0}),
        ClassAd({"ClusterId": 13, "ProcId": 0, "Owner": "bob", "JobPrio": 1}),
        ClassAd({"ClusterId": 14, "ProcId": 0, "Owner": "alice", "JobPrio": 1}),
    ]
    selected = [ad.eval("ClusterId") for ad in queue if request.selection.has(ad, Context(now=0))]
    assert selected == [12, 13]


@together(
    ("command", "argv", "message"),
    [
        ("rm", ["-all", "12"], "-all selects every job"),
        ("rm", ["12.x"], "is not a job"),
        ("rm", ["0"], "clusters are numbered from 1"),
        ("rm", ["-transfer", "12"], "-transfer is not supported"),
        ("hold", ["-forcex", "12"], "unknown option -forcex"),
        ("hold", ["-subcode", "x", "12"], "-subcode takes a whole number"),
        ("hold", ["12", "-reason"], "-reason needs <text>"),
        ("release", ["-constraint", "=="], "-constraint: not a valid expression"),
    ],
)
def test_meaningless_arguments_are_wrong_usage(command: str, argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        job_actions.parse_arguments(command, argv)


def test_the_request_includes_reason_and_code() -> None:
    request = job_actions.parse_arguments("hold", capture("hold_reason").argv)
    assert (request.reason, request.subcode) == ("my reason", 42)
    assert job_actions.parse_arguments("hold", ["1"]).reason == "via poolbook hold"
    assert job_actions.parse_arguments("rm", ["-f", "1"]).reason == "via poolbook rm -forcex"


MESSAGES = {
    ("rm", SUCCESS): "Job 1.0 marked for removal",
    ("rm", ALREADY_DONE): "Job 1.0 already marked for removal",
    ("rm", DENIED): "Permission denied to remove job 1.0",
    ("rm", ERROR): "No result found for job 1.0",
    ("rm", BAD_STATUS): "Invalid result for job 1.0",
    ("rm -forcex", SUCCESS): "Job 1.0 removed locally (remote state unknown)",
    ("rm -forcex", DENIED): "Permission denied to force removal of job 1.0",
    ("hold", DENIED): "Permission denied to hold job 1.0",
    ("release", ALREADY_DONE): "Invalid result for job 1.0",
    ("vacate -fast", BAD_STATUS): "Job 1.0 not running to be fast-vacated",
}


@together(("action", "result"), MESSAGES)
def test_a_result_has_its_message(action: str, result: int) -> None:
    assert message(job_actions.ACTIONS[action], Result(ClusterOrJob(1, 0), result)) == MESSAGES[action, result]


def test_a_slot_is_vacated_by_name() -> None:
    request = job_actions.parse_arguments("vacate", ["slot1@here", "12.0"])
    assert (request.slots, request.ids) == (("slot1@here",), (ClusterOrJob(12, 0),))
    results = [Result(ClusterOrJob(12, 0), SUCCESS), Result("slot1@here", NOT_FOUND)]
    assert job_actions.answer(request, results) == ("Job 12.0 vacated\n", "Slot slot1@here not found\n", 0)


def test_one_success_among_single_jobs_is_enough() -> None:
    answer = check_answer("rm", ["1.0", "1.1"], ([SUCCESS, NOT_FOUND], None, 5))
    assert answer == ("Job 1.0 marked for removal\n", "Job 1.1 not found\n", 0)


def test_an_empty_queue_is_no_failure() -> None:
    assert check_answer("rm", ["-all"], ([], NOTHING, 0)) == ("", "There are no jobs in the queue\n", 0)


def test_messages_call_held_jobs_held() -> None:
    assert check_answer("rm", ["alice", "-held"], ([], ONE_DONE, 1)).out == (
        'All held jobs of user "alice" have been marked for removal\n'
    )


def test_results_as_json() -> None:
    answer = check_answer("rm", ["1.0", "2", "--json"], ([NOT_FOUND], {SUCCESS: 3}, 5))
    assert json.loads(answer.out) == [
        {"ClusterId": 1, "ProcId": 0, "Result": "NotFound", "Message": "Job 1.0 not found"},
        {"Jobs": 3, "Result": "Succeeded"},
    ]
    assert check_answer("rm", ["1.0", "--json"], ([NOT_FOUND], None, 5)).exit_code == 1


def test_the_long_answer_has_the_totals_in_the_ad() -> None:
    ad = ClassAd.from_old(check_answer("rm", ["2", "-long"], ([], {SUCCESS: 3}, 5)).out)
    assert ad.eval("result_total_1") == 3
    assert ad.eval("ActionResult") == 1


# -- prio -------------------------------------------------------------------------------------------------------------

PRIORITIES = {
    "prio_plus": (3, 8),
    "prio_set": (3, 10),
    "prio_user": (9, 3),
}


@pytest.mark.parametrize("name", PRIORITIES)
def test_a_priority_is_set_or_changed_without_output(name: str) -> None:
    expected = capture(name)
    old, new = PRIORITIES[name]
    request = prio.parse_arguments(expected.argv)
    assert (old + request.step if request.priority is None else request.priority) == new
    assert prio.prio_output(request, [(ClusterOrJob(65, 0), new)]) == (expected.out, expected.err, expected.exit_code)


def test_a_missing_job_is_named_and_the_command_fails() -> None:
    expected = capture("prio_unknown")
    assert expected.exit_code == 0
    assert prio.prio_output(prio.parse_arguments(expected.argv), []) == ("", expected.err, 1)


def test_prio_without_a_priority_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="specify the priority"):
        prio.parse_arguments(capture("prio_usage").argv)


@together(
    ("argv", "old", "new"),
    [
        (["+5", "1"], 2, 7),
        (["-5", "1"], 2, -3),
        (["-p", "-5", "1"], 2, -5),
        (["-p", "4", "+5", "1"], 2, 4),
        (["1.0", "-p", "4"], 2, 4),
        (["-a", "+1"], 2, 3),
    ],
)
def test_a_priority_is_written_in_several_ways(argv: list[str], old: int, new: int) -> None:
    request = prio.parse_arguments(argv)
    assert (old + request.step if request.priority is None else request.priority) == new
    assert (request.selection == JobSelector()) == ("-a" in argv)


@pytest.mark.parametrize("argv", [["-p", "5"], ["-p", "x", "1"], ["+5", "0"], ["-p"], ["+5", "1", "-n"]])
def test_a_priority_without_number_or_job_is_wrong_usage(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        prio.parse_arguments(argv)


def test_new_priorities_as_json() -> None:
    answer = prio.prio_output(prio.parse_arguments(["+5", "1", "--json"]), [(ClusterOrJob(1, 0), 7)])
    assert json.loads(answer.out) == [{"ClusterId": 1, "ProcId": 0, "JobPrio": 7}]

"""``poolbook rm, hold, release, vacate, suspend, continue``, condor_now: send requests about jobs and slots.

The answers are HTCondor's. Each job named by cluster and proc has its own result and answer. All other jobs are one
request with one line as the answer; it has failed only if no job was changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ..condor_tools.action_results import (
    ALREADY_DONE,
    BAD_STATUS,
    DENIED,
    ERROR,
    LIMIT_EXCEEDED,
    NOT_FOUND,
    RESULT_NAMES,
    SUCCESS,
    counts_by_result,
    result_of,
)
from ..condor_tools.job_selection import ClusterOrJob, JobSelector, read_job_id, select
from ..condor_tools.options import Arguments, UsageError, command_table, parse, sections
from ..condor_tools.tool_options import ToolEnded, tool
from ..condor_tools.tool_options import parse_tool_arguments as read_words
from ..runtime.pool_client import ask, change_jobs
from ..runtime.requests import NOT_FOUND as NO_SUCH_SLOT
from ..runtime.requests import RequestRefused
from .common import CommandOutput, called_tool, pool_log, selected_log

_TOTALS_TEXTS = {
    SUCCESS: "Succeeded", ERROR: "Failed", NOT_FOUND: "Not Found", BAD_STATUS: "Bad Status",
    ALREADY_DONE: "Already Done", DENIED: "Permission Denied",
}  # fmt: skip
"""The results in the order and with the texts of -totals."""


class Result(NamedTuple):
    """The result for one job or slot; for a slot, ``job`` is the slot's name."""

    job: ClusterOrJob | str
    result: int


class Action(NamedTuple):
    """A row of ``commands/actions.txt``: the texts and rules of a command."""

    command: str
    kind: str  #: the class of the request about jobs
    does: str  #: its verb; ``done`` is the participle
    done: str
    denied: str  #: the verb in the message for a denied request
    number: str  #: HTCondor's number of the action, for -long
    unfit: str
    already: str
    reason: str


_ROWS = (("" if cell == "-" else cell for cell in row.split("  ")) for row in sections("actions")["actions:"])
ACTIONS = {action.command: action for action in (Action(*row) for row in _ROWS)}

MODES = {"forcex": "rm", "fast": "vacate"}
"""The options that make a command perform another action, and their command."""

COMMANDS = {name: command_table(name) for name in ("rm", "hold", "release", "suspend", "continue", "vacate")}


class JobActionRequest(NamedTuple):
    action: Action
    ids: tuple[ClusterOrJob, ...]  #: single jobs, each with its own result and answer
    slots: tuple[str, ...]  #: names of slots and machines (``vacate``, ``suspend`` and ``continue`` only), likewise
    selection: JobSelector | None  #: all other jobs, as one request, or None for no other jobs
    whose: str  #: the text that describes the selection in an answer: `` in cluster 12``
    held: bool  #: whether to select only held jobs
    reason: str
    subcode: int | None  #: HoldReasonSubCode, or None if not given
    arguments: Arguments


def parse_arguments(command: str, argv: Sequence[str], caller: str = "poolbook ") -> JobActionRequest:
    """Parse a command line.

    :param command: the name of a command in ``COMMANDS``
    :param caller: the prefix of the command in the default reason: ``poolbook`` with a blank, or ``condor_``
    :raises UsageError: no jobs are named, or the options are invalid
    """
    table = COMMANDS[command]
    arguments = parse(table, argv)
    constraints = arguments.values("constraint")
    has_all, only_held = arguments.has("all"), arguments.has("held", "hold")
    if has_all and (arguments.words or constraints):
        raise UsageError(f"poolbook {command}: -all selects every job: use either -all or job names")
    machines = arguments.values("machine")
    if not (has_all or only_held or arguments.words or constraints or machines):
        raise UsageError(f"poolbook {command}: no job is specified; specify jobs (12.3), clusters (12), users, or -all")
    acts_on_slots = any(option.name == "machine" for option in table.options)
    slot_words = [word for word in arguments.words if acts_on_slots and "@" in word]
    job_words = [word for word in arguments.words if word not in slot_words]
    # With -held, single jobs are also selected by a condition.
    ids, owner_words = ((), job_words) if only_held else _split_single_jobs(job_words)
    is_selection = bool(owner_words or constraints or has_all or only_held)
    mode = next((f" -{name}" for name, tool in MODES.items() if tool == command and arguments.has(name)), "")
    action = ACTIONS[command + mode]
    return JobActionRequest(
        action,
        ids,
        (*slot_words, *machines),
        select(owner_words, constraints) if is_selection else None,
        _selection_text(owner_words, constraints),
        only_held,
        arguments.value("reason", f"via {caller}{action.reason}" if action.reason else ""),
        _subcode(arguments),
        arguments,
    )


def _split_single_jobs(words: Iterable[str]) -> tuple[tuple[ClusterOrJob, ...], list[str]]:
    jobs_by_word = [(word, read_job_id(word)) for word in words]
    single_jobs = tuple(job for _, job in jobs_by_word if job is not None and job.proc is not None)
    return single_jobs, [word for word, job in jobs_by_word if job is None or job.proc is None]


def _subcode(arguments: Arguments) -> int | None:
    value = arguments.value("subcode")
    try:
        return int(value) if arguments.has("subcode") else None
    except ValueError:
        raise UsageError(f"-subcode takes a whole number, not {value!r}") from None


def _selection_text(words: Sequence[str], constraints: Sequence[str]) -> str:
    """Return the text that describes the jobs in an answer: their one cluster or user, else the constraint."""
    owner_conditions = [_as_condition(word) for word in words]
    if not constraints and len(words) == 1:
        job = read_job_id(words[0])
        if job is None:
            return f' of user "{words[0]}"'
        if job.proc is None:
            return f" in cluster {words[0]}"
    conditions = [*constraints, *([" || ".join(owner_conditions)] if owner_conditions else [])]
    if not conditions:
        return ""
    combined = conditions[0] if len(conditions) == 1 else " && ".join(f"({condition})" for condition in conditions)
    return f" matching constraint ({combined})"


def _as_condition(word: str) -> str:
    job = read_job_id(word)
    if job is None:
        return f'Owner == "{word}"'
    if job.proc is None:
        return f"ClusterId == {job.cluster}"
    return f"(ClusterId == {job.cluster} && ProcId == {job.proc})"


def message(action: Action, result: Result) -> str:
    kind = "slot" if isinstance(result.job, str) else "job"
    name = f"{kind.capitalize()} {result.job}"
    message_texts = {
        SUCCESS: f"{name} {action.done}",
        NOT_FOUND: f"{name} not found",
        DENIED: f"Permission denied to {action.denied} {kind} {result.job}",
        BAD_STATUS: f"{name} {action.unfit}" if action.unfit else "",
        ALREADY_DONE: f"{name} {action.already}" if action.already else "",
        LIMIT_EXCEEDED: f"{name} cannot be released again, has reached SYSTEM_PERIODIC_RELEASES limit",
        ERROR: f"No result found for {kind} {result.job}",
    }
    return message_texts[result.result] or f"Invalid result for {kind} {result.job}"


def answer(
    request: JobActionRequest,
    single_results: Sequence[Result],
    selected_counts: Mapping[int, int] | None = None,
    queued_jobs: int = 1,
) -> CommandOutput:
    """Return the answer to an executed request.

    :param single_results: the results of ``request.ids`` and ``request.slots``, in their order
    :param selected_counts: the number of jobs in ``request.selection`` for each result (``SUCCESS`` etc.)
    :param queued_jobs: the number of jobs in the queue, because an empty queue has its own message
    """
    if request.arguments.has("json"):
        return _as_json(request, single_results, selected_counts)
    out, err = "", ""
    has_failed = False
    if single_results:
        counts = Counter(result.result for result in single_results)
        changed_count = counts[SUCCESS]
        out += _long_or_totals_text(request, counts, changed_count > 0, queued_jobs, single_results)
        has_failed = changed_count == 0
        err += "\n" if has_failed else ""  # where HTCondor's tools print connection errors
        lines = [(result.result, message(request.action, result) + "\n") for result in single_results]
        out += "".join(line for result, line in lines if result == SUCCESS)
        err += "".join(line for result, line in lines if result != SUCCESS)
    if request.selection is not None:
        counts = Counter(selected_counts or {})
        changed_count = counts[SUCCESS]
        out += _long_or_totals_text(request, counts, changed_count > 0, queued_jobs)
        which_jobs = ("held jobs" if request.held else "jobs") + request.whose
        if changed_count:
            out += f"All {which_jobs} have been {request.action.done}\n"
        elif queued_jobs:
            err += f"\nCouldn't find/{request.action.does} all {which_jobs}\n"
            has_failed = True
        else:
            err += "There are no jobs in the queue\n"
    return CommandOutput(out, err, int(has_failed))


def _long_or_totals_text(
    request: JobActionRequest,
    counts: Mapping[int, int],
    has_changed: bool,
    queued_jobs: int,
    single_results: Sequence[Result] = (),
) -> str:
    if request.arguments.has("long"):
        ad: dict[str, object] = {
            "ActionResult": int(has_changed),
            "ActionResultType": 1 if single_results else 2,
            "IsQueueSuperUser": "false",
            "JobAction": request.action.number,
            "TotalJobAds": queued_jobs,
        }
        if single_results:
            ad |= {f"job_{str(result.job).replace('.', '_')}": result.result for result in single_results}
        else:
            ad |= {f"result_total_{result}": counts[result] for result in range(len(RESULT_NAMES))}
        return "".join(f"{name} = {value}\n" for name, value in ad.items()) + "\n"
    if request.arguments.has("totals"):
        return ", ".join(f"{counts[result]} {name}" for result, name in _TOTALS_TEXTS.items()) + "\n"
    return ""


def _as_json(
    request: JobActionRequest, single_results: Sequence[Result], selected_counts: Mapping[int, int] | None
) -> CommandOutput:
    from json import dumps

    rows: list[dict[str, object]] = [
        {**_names_for_json(done.job), "Result": RESULT_NAMES[done.result], "Message": message(request.action, done)}
        for done in single_results
    ]
    counts = sorted((selected_counts or {}).items())
    rows += [{"Jobs": count, "Result": RESULT_NAMES[result]} for result, count in counts if count]
    is_changed = any(row["Result"] == RESULT_NAMES[SUCCESS] for row in rows)
    return CommandOutput(dumps(rows, indent=2) + "\n", "", 0 if is_changed else 1)


def _names_for_json(job: ClusterOrJob | str) -> dict[str, object]:
    return {"Name": job} if isinstance(job, str) else {"ClusterId": job.cluster, "ProcId": job.proc}


_SLOT_REQUESTS = {
    "Vacate": ("VacateSlot", "vacated"),
    "Suspend": ("SuspendClaim", "suspended"),
    "Continue": ("ContinueClaim", "continued"),
}
"""The request about a slot that corresponds to each request about jobs, and the answer's key for affected slots."""


def _change_jobs(command: str, argv: Sequence[str]) -> int:
    request = parse_arguments(command, argv, *(["condor_"] if called_tool() else []))
    kind, url = request.action.kind, selected_log(request.arguments, "name", "pool", "addr")
    options = {"fast": True} if request.arguments.has("fast") else {}
    subcode = {"subcode": request.subcode} if request.subcode else {}
    body = {"kind": kind, "reason": request.reason, **options, **subcode}
    single_results: list[Result] = []
    if request.ids:
        request_jobs = {"jobs": [(job.cluster, job.proc) for job in request.ids]}
        outcomes = change_jobs(url, {**body, "selection": request_jobs})
        results = {(outcome.cluster, proc): outcome.result for outcome in outcomes for proc in outcome.jobs()}
        single_results += [Result(job, result_of(kind, results[job.cluster, job.proc or 0])) for job in request.ids]
    single_results += [Result(slot, _change_slot(url, kind, slot, options)) for slot in request.slots]
    selected_counts = None
    if request.selection is not None:
        held = ["JobStatus == 5"] if request.held else []
        selected_counts = counts_by_result(
            kind, change_jobs(url, {**body, "selection": request.selection.as_request(*held)})
        )
    return answer(request, single_results, selected_counts).print_all()


remove = partial(_change_jobs, "rm")
hold = partial(_change_jobs, "hold")
release = partial(_change_jobs, "release")
vacate = partial(_change_jobs, "vacate")
suspend = partial(_change_jobs, "suspend")
go_on = partial(_change_jobs, "continue")


def _change_slot(url: str, kind: str, slot: str, options: Mapping[str, bool]) -> int:
    subject_text, done_text = _SLOT_REQUESTS[kind]
    try:
        answer = ask(url, {"kind": subject_text, "slot": slot, **options})
    except RequestRefused as error:
        return NOT_FOUND if error.code == NO_SUCH_SLOT else DENIED
    return SUCCESS if answer[done_text] else BAD_STATUS


def now(argv: Sequence[str]) -> int:
    """Run condor_now and return its exit code. As in HTCondor, the job starts after the other jobs have ended."""
    syntax = tool("now")
    arguments = read_words(syntax, argv)
    matches = [re.match(r"(-?\d+)(?:$|\.(\d*))", word, re.ASCII) for word in arguments.words]
    jobs = [(int(match[1]), int(match[2] or 0)) for match in matches if match is not None]
    if len(jobs) < max(2, len(matches)):
        raise syntax.usage_error("{usage}")
    if arguments.has("flags"):  # the flags make HTCondor's schedd test itself
        raise ToolEnded(1, "Do not use the --flags option.\n")
    url = pool_log(arguments, "Unable to locate schedd '{name}' in local pool, aborting.\n")
    try:
        ask(url, {"kind": "RunNow", "job": jobs[0], "victims": jobs[1:]})
    except RequestRefused as error:
        raise ToolEnded(1, f"Unable to reassign slot: {error.tool or error}.\n") from None
    return 0

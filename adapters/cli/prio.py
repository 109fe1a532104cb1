"""``poolbook prio``: set job priorities with -p, or change them with + and -. Prints nothing on success."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ..condor_tools.job_selection import ClusterOrJob, JobSelector, select
from ..condor_tools.options import Arguments, UsageError, command_table, find_option, last_number, parse
from ..runtime.pool_client import change_jobs
from .common import CommandOutput, selected_log

COMMAND = command_table("prio")

_STEP_PATTERN = re.compile(r"[-+]\d+", re.ASCII)


class PrioRequest(NamedTuple):
    priority: int | None  #: the new priority, or None if ``step`` changes it
    step: int  #: the number to add to the priority
    selection: JobSelector
    arguments: Arguments


def parse_arguments(argv: Sequence[str]) -> PrioRequest:
    """Parse a command line. Raise `UsageError` if no priority or no job is given."""
    steps: list[str] = []
    other_words: list[str] = []
    for at, word in enumerate(argv):
        is_step = _STEP_PATTERN.fullmatch(word) and not _is_option_value(argv, at)
        (steps if is_step else other_words).append(word)
    arguments = parse(COMMAND, other_words)
    if not arguments.has("p") and not steps:
        raise UsageError(f"poolbook prio: specify the priority (-p 10) or its change (+5, -5): {COMMAND.usage}")
    if not arguments.words and not arguments.has("a"):
        raise UsageError(f"poolbook prio: no job is specified: {COMMAND.usage}")
    ids = () if arguments.has("a") else arguments.words
    priority = last_number(COMMAND, arguments, "p", least=-(2**31))
    return PrioRequest(priority, int(steps[-1]) if steps else 0, select(ids, ()), arguments)


def _is_option_value(argv: Sequence[str], at: int) -> bool:
    """Check whether the word is the value of the preceding option, like -5 in ``-p -5``."""
    previous_word = argv[at - 1] if at else ""
    if not previous_word.startswith("-") or _STEP_PATTERN.fullmatch(previous_word):
        return False
    option, _ = find_option(COMMAND, previous_word)
    return option.arity == 1


def prio_output(request: PrioRequest, changed_jobs: Sequence[tuple[ClusterOrJob, int]]) -> CommandOutput:
    """Return the answer: a line for each named job or cluster that does not exist; nothing for changed jobs.

    Unlike condor_prio, which exits with 0, the command fails if a named job does not exist.

    :param changed_jobs: the jobs and their new priorities
    """
    changed_ids = {job for job, _ in changed_jobs} | {ClusterOrJob(job.cluster) for job, _ in changed_jobs}
    missing = [given for given in request.selection.ids if given not in changed_ids]
    out_text = ""
    if request.arguments.has("json"):
        from json import dumps

        rows = [{"ClusterId": job.cluster, "ProcId": job.proc, "JobPrio": priority} for job, priority in changed_jobs]
        out_text = dumps(rows, indent=2) + "\n"
    err = "".join(f"Couldn't retrieve current priority for {given}.\n" for given in missing)
    return CommandOutput(out_text, err, int(bool(missing)))


def prio(argv: Sequence[str]) -> int:
    request = parse_arguments(argv)
    is_absolute = request.priority is not None
    body = {
        "kind": "Edit",
        "selection": request.selection.as_request(),
        "changes": {"JobPrio": str(request.priority if is_absolute else request.step)},
        "add": not is_absolute,
    }
    outcomes = change_jobs(selected_log(request.arguments, "name", "pool"), body)
    changed_jobs = [
        (ClusterOrJob(outcome.cluster, proc), int(outcome.changes["JobPrio"]))
        for outcome in outcomes
        if outcome.result == "done"
        for proc in outcome.jobs()
    ]
    exit_code = prio_output(request, changed_jobs).print_all()
    denied = [outcome.cluster for outcome in outcomes if outcome.result == "permission denied"]
    for cluster in denied:
        print(f"Permission denied to change the priority of cluster {cluster}", file=sys.stderr)
    return exit_code or int(bool(denied))

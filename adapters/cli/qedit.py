"""``poolbook qedit`` and condor_qedit: edit attributes of jobs, and report the result with condor_qedit's messages.

The first word that is not an option names jobs or a user, unless an option does; the next words that start with a digit
name more jobs. The remaining words are attributes and values. Source: HTCondor's qedit.cpp, and its recorded output.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...domain.ports.action_results import ActionResult
from ..bounded_text import read_input, read_text
from ..condor_tools.job_selection import ClusterOrJob, read_job_id
from ..condor_tools.options import Arguments, GivenOption, Help, UsageError, command_table, find_option, parse
from ..condor_tools.tool_options import ToolEnded, htcondor_message, usage_of
from ..runtime.pool_client import change_jobs
from ..runtime.requests import IMMUTABLE, SECURE, RequestRefused
from .common import CommandOutput, selected_log

COMMAND = command_table("qedit")
_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
NOTHING_SET = "Transaction failed.  No attributes were set.\n"


class EditRequest(NamedTuple):
    ids: tuple[ClusterOrJob, ...]
    constraints: tuple[str, ...]  #: as given, or created from the names of owners
    changes: Mapping[str, str]  #: attribute -> its new value, an expression
    only_own: bool  #: whether jobs of other users are skipped
    dry: bool
    arguments: Arguments

    @property
    def edit(self) -> dict[str, Any]:
        """Return the request without its id and user."""
        jobs = [(job.cluster, job.proc) for job in self.ids if job.proc is not None]
        return {
            "kind": "Edit",
            "selection": {
                "clusters": [job.cluster for job in self.ids if job.proc is None],
                "jobs": jobs,
                "everything": not self.ids,
                "constraint": " && ".join(f"({condition})" for condition in self.constraints),
            },
            "changes": dict(self.changes),
            "own": self.only_own,
            "together": True,
            "dry": self.dry,
        }


class EditError(Exception):
    """An edit that condor_qedit rejects before sending it; the text is its whole output."""


def parse_arguments(argv: Sequence[str]) -> EditRequest:
    """Parse a command line. Raise `UsageError`, or `EditError` if the edit itself is invalid."""
    other_words, options, changes = _split_arguments(argv)
    option_names = {option.name for option in options}
    if not (other_words or option_names & {"constraint", "owner", "jobids"}):
        raise UsageError(f"poolbook qedit: no jobs are specified: {COMMAND.usage}", tool_message="")
    if not changes:
        message = "condor_qedit : Error - no attributes specifed.\n"
        raise UsageError(f"poolbook qedit: no attributes are specified: {COMMAND.usage}", tool_message=message)
    ids: list[ClusterOrJob] = []
    constraints: list[str] = []
    for option in options:
        if option.name == "constraint":
            _canonical_expression(option.values[0], f"condor_qedit: invalid constraint: {option.values[0]}\n")
            constraints.append(option.values[0])
        elif option.name == "owner":
            constraints.append(f'Owner=="{option.values[0]}"')
        elif option.name == "jobids":
            ids += [_job_of_word(word) for word in option.values[0].replace(",", " ").split()]
    for word in other_words:
        job = read_job_id(word)
        if job is None:
            constraints.append(f'Owner=="{word}"')
        else:
            ids.append(job)
    only_own = not (other_words or option_names & {"owner", "jobids"})
    sorted_changes = {name: changes[name] for name in sorted(changes)}
    arguments = Arguments(tuple(options), ())
    is_dry_run = "dry-run" in option_names
    return EditRequest(tuple(dict.fromkeys(ids)), tuple(constraints), sorted_changes, only_own, is_dry_run, arguments)


def _job_of_word(word: str) -> ClusterOrJob:
    job = read_job_id(word)
    if job is None:
        raise UsageError(f"poolbook qedit: {word!r} is not a job id: use cluster.proc (12.3) or a cluster (12)")
    return job


def _split_arguments(argv: Sequence[str]) -> tuple[list[str], list[GivenOption], dict[str, str]]:
    other_words: list[str] = []
    options: list[GivenOption] = []
    changes: dict[str, str] = {}
    may_name_jobs = True
    remaining = deque(argv)
    while remaining:
        word = remaining.popleft()
        if word.startswith("-") and word != "-":
            option, _ = find_option(COMMAND, word)
            values = [remaining.popleft() for _ in range(min(option.arity, len(remaining)))]
            parsed_arguments = parse(COMMAND, [word, *values])
            options += parsed_arguments.options
            if option.name == "help":
                raise Help(COMMAND)
            if option.name == "edits":
                changes |= _attributes_in_file(parsed_arguments.options[-1])
            may_name_jobs &= option.name not in ("constraint", "owner", "jobids")
        elif may_name_jobs:
            may_name_jobs = False
            other_words.append(word)
            while word[:1].isdigit() and remaining and remaining[0][:1].isdigit():
                other_words.append(remaining.popleft())
        else:
            changes |= _name_and_value(word, remaining)
    return other_words, options, changes


def _name_and_value(word: str, remaining: deque[str]) -> dict[str, str]:
    name, equals, value = word.partition("=")
    name = name.strip()
    if not equals and not remaining:
        text = f"expression required after attribute {word}"
        raise UsageError(f"poolbook qedit: {text}", tool_message=f"condor_qedit : {text}\n")
    if not equals:
        value = remaining.popleft()
    if not _ATTRIBUTE.fullmatch(name):
        text = f'Update aborted, illegal attribute-name specified for attribute "{name}".\n'
        raise EditError(f"{text}{NOTHING_SET}")
    return {name: _canonical_expression(value, f"Update aborted, illegal value for : {name}\n{NOTHING_SET}")}


def _canonical_expression(text: str, message: str) -> str:
    """Return the canonical text of an expression. Raise `EditError` with this message if it is invalid."""
    from ...domain.classad import ClassAdSyntaxError
    from ...domain.classad.old_form import expression_text

    try:
        return expression_text(text.strip())
    except ClassAdSyntaxError:
        raise EditError(message) from None


def _attributes_in_file(option: GivenOption) -> dict[str, str]:
    from ...domain.classad import ClassAd, ClassAdSyntaxError
    from ...domain.classad.old_form import ad_text
    from ..condor_tools.history import form_of

    path = option.values[0]
    try:
        text = read_input() if path == "-" else read_text(path)
    except OSError:
        raise EditError(f"Can't open file of edits: {path}\n") from None
    form = option.qualifier or "auto"
    if form == "auto":
        form = form_of(text)
    readers = {"long": lambda: ClassAd.from_old(text, strict=True), "json": lambda: ClassAd.from_json(text.strip()),
               "new": lambda: ClassAd.from_new(text), "xml": lambda: ClassAd.from_xml(text)}  # fmt: skip
    if form not in readers:
        raise UsageError(f"poolbook qedit: -edits:{form} is not a valid format; use auto, {', '.join(readers)}")
    try:
        ad = readers[form]() if text.strip() else ClassAd()
    except ClassAdSyntaxError:
        ad = ClassAd()
    if not len(ad):
        raise EditError(f"Unable to read file of edits: {path}\n")
    return {name: ad_text(meaning) for name, meaning in ad.items()}


def qedit(argv: Sequence[str]) -> int:
    try:
        request = parse_arguments(argv)
    except EditError as error:
        return CommandOutput("", str(error), 1).print_all()
    try:
        outcomes = change_jobs(selected_log(request.arguments, "name", "pool"), request.edit)
    except RequestRefused as refused:
        if refused.code in (IMMUTABLE, SECURE):
            return CommandOutput("", f"{refused}\n{NOTHING_SET}", 1).print_all()
        return failure_output(request, reason=f"{refused}\n").print_all()
    return edit_output(request, outcomes).print_all()


def edit_output(request: EditRequest, outcomes: Sequence[ActionResult]) -> CommandOutput:
    done_outcomes = [outcome for outcome in outcomes if outcome.result == "done"]
    count = sum(last - first + 1 for outcome in done_outcomes for first, last in outcome.procs)
    if not count or len(done_outcomes) < len(outcomes):
        return failure_output(request, outcomes)
    can_text = "Can " if request.dry else ""
    text = "".join(f'{can_text}Set attribute "{name}" for {count} matching jobs.\n' for name in request.changes)
    return CommandOutput(text, "", 0)


def failure_output(request: EditRequest, outcomes: Sequence[ActionResult] = (), reason: str = "") -> CommandOutput:
    """Return condor_qedit's output if nothing was set, preceded by ``reason``."""
    name = next(iter(request.changes))
    failed_outcomes = [item for item in outcomes if item.result != "done"]
    if request.ids and not request.constraints and all(item.proc is not None for item in request.ids):
        ((proc, _), *_) = failed_outcomes[0].procs if failed_outcomes else ((request.ids[0].proc, 0),)
        cluster = failed_outcomes[0].cluster if failed_outcomes else request.ids[0].cluster
        text = f'Failed to set attribute "{name}" for job {cluster}.{proc}.\n'
    elif request.dry and not outcomes:
        text = f"No jobs match the constraint: {_selection_constraint(request)}\n"
    else:
        text = f'Failed to set attribute "{name}" by constraint: {_selection_constraint(request)}\n'
    return CommandOutput("", f"{reason}{text}Queue {NOTHING_SET[0].lower()}{NOTHING_SET[1:]}", 1)


def _selection_constraint(request: EditRequest) -> str:
    conditions = list(request.constraints)
    if request.ids:
        conditions.append("|| ".join(_of_id(job) for job in request.ids))
    return f"( {' && '.join(f'({condition})' for condition in conditions)} )"


def _of_id(job: ClusterOrJob) -> str:
    cluster = f"ClusterId == {job.cluster} "
    return cluster if job.proc is None else f"( {cluster}&& ProcId == {job.proc} )"


# condor_qedit


def condor_qedit(argv: Sequence[str]) -> int:
    usage = usage_of("qedit")
    try:
        return qedit(argv)
    except Help:
        raise ToolEnded(0, out=usage) from None
    except UsageError as error:
        if error.lacks_value and (text := htcondor_message(error)):
            raise ToolEnded(1, f"{text}\n") from None
        message = f"condor_qedit: {error.option} is not a valid option\n" if error.option else error.tool_message
        raise ToolEnded(1, f"{error}\n" if message is None else message + usage) from None

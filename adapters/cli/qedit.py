"""``poolbook qedit`` and condor_qedit: edit attributes of jobs, and say in condor_qedit's words what became of it.

The first word that is no option names jobs or a user, unless options do; words with a digit first go on with it. The
others are attributes and values. Source: qedit.cpp of the reference, and what it printed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...domain.ports.action_results import ActionResult
from ..bounded_text import read_input, read_text
from ..condor_tools.job_selection import ClusterOrJob, read_job_id
from ..condor_tools.options import Arguments, Given, Help, UsageError, command_table, find, parse
from ..condor_tools.tool_options import ToolEnded, htcondor_message, usage_of
from ..runtime.pool_client import change_jobs
from ..runtime.requests import IMMUTABLE, SECURE, RequestRefused
from .common import CommandOutput, log_of

COMMAND = command_table("qedit")
_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
NOTHING_SET = "Transaction failed.  No attributes were set.\n"


class EditRequest(NamedTuple):
    """A parsed command line."""

    ids: tuple[ClusterOrJob, ...]
    constraints: tuple[str, ...]  #: as they were given; those of owners are made of their names
    changes: Mapping[str, str]  #: attribute -> the text of an ad's expression
    only_own: bool  #: whether others' jobs are passed over
    dry: bool
    arguments: Arguments

    @property
    def edit(self) -> dict[str, Any]:
        """Return the request without its id and user."""
        jobs = [(one.cluster, one.proc) for one in self.ids if one.proc is not None]
        return {
            "kind": "Edit",
            "selection": {
                "clusters": [one.cluster for one in self.ids if one.proc is None],
                "jobs": jobs,
                "everything": not self.ids,
                "constraint": " && ".join(f"({one})" for one in self.constraints),
            },
            "changes": dict(self.changes),
            "own": self.only_own,
            "together": True,
            "dry": self.dry,
        }


class EditError(Exception):
    """An edit that condor_qedit does not even try; the text is all that it prints."""


def read(argv: Sequence[str]) -> EditRequest:
    """Parse a command line. Raise `UsageError`, or `EditError` for what is wrong with the edit itself."""
    words, given, changes = _parsed(argv)
    named = {one.name for one in given}
    if not (words or named & {"constraint", "owner", "jobids"}):
        raise UsageError(f"poolbook qedit: no jobs are named: {COMMAND.usage}", told="")
    if not changes:
        told = "condor_qedit : Error - no attributes specifed.\n"
        raise UsageError(f"poolbook qedit: no attributes are named: {COMMAND.usage}", told=told)
    ids: list[ClusterOrJob] = []
    constraints: list[str] = []
    for one in given:
        if one.name == "constraint":
            _expression(one.values[0], f"condor_qedit: invalid constraint: {one.values[0]}\n")
            constraints.append(one.values[0])
        elif one.name == "owner":
            constraints.append(f'Owner=="{one.values[0]}"')
        elif one.name == "jobids":
            ids += [_id(word) for word in one.values[0].replace(",", " ").split()]
    for word in words:
        found = read_job_id(word)
        if found is None:
            constraints.append(f'Owner=="{word}"')
        else:
            ids.append(found)
    only_own = not (words or named & {"owner", "jobids"})
    ordered = {name: changes[name] for name in sorted(changes)}
    arguments = Arguments(tuple(given), ())
    return EditRequest(tuple(dict.fromkeys(ids)), tuple(constraints), ordered, only_own, "dry-run" in named, arguments)


def _id(word: str) -> ClusterOrJob:
    found = read_job_id(word)
    if found is None:
        raise UsageError(f"poolbook qedit: {word!r} is no job: a job is cluster.proc (12.3), a cluster a number (12)")
    return found


def _parsed(argv: Sequence[str]) -> tuple[list[str], list[Given], dict[str, str]]:
    """Return the words that name jobs, the options, and what is to be set."""
    words: list[str] = []
    given: list[Given] = []
    changes: dict[str, str] = {}
    names_jobs = True
    rest = deque(argv)
    while rest:
        word = rest.popleft()
        if word.startswith("-") and word != "-":
            option, _ = find(COMMAND, word)
            values = [rest.popleft() for _ in range(min(option.arity, len(rest)))]
            found = parse(COMMAND, [word, *values])
            given += found.given
            if option.name == "help":
                raise Help(COMMAND)
            if option.name == "edits":
                changes |= _of_file(found.given[-1])
            names_jobs &= option.name not in ("constraint", "owner", "jobids")
        elif names_jobs:
            names_jobs = False
            words.append(word)
            while word[:1].isdigit() and rest and rest[0][:1].isdigit():
                words.append(rest.popleft())
        else:
            changes |= _pair(word, rest)
    return words, given, changes


def _pair(word: str, rest: deque[str]) -> dict[str, str]:
    name, equals, value = word.partition("=")
    name = name.strip()
    if not equals and not rest:
        words = f"expression required after attribute {word}"
        raise UsageError(f"poolbook qedit: {words}", told=f"condor_qedit : {words}\n")
    if not equals:
        value = rest.popleft()
    if not _ATTRIBUTE.fullmatch(name):
        words = f'Update aborted, illegal attribute-name specified for attribute "{name}".\n'
        raise EditError(f"{words}{NOTHING_SET}")
    return {name: _expression(value, f"Update aborted, illegal value for : {name}\n{NOTHING_SET}")}


def _expression(text: str, words: str) -> str:
    """Return an ad's text of an expression. Raise `EditError` with these words if it is none."""
    from ...domain.classad import ClassAdSyntaxError
    from ...domain.classad.old_form import expression_text

    try:
        return expression_text(text.strip())
    except ClassAdSyntaxError:
        raise EditError(words) from None


def _of_file(option: Given) -> dict[str, str]:
    """Return the attributes of an ad in a file."""
    from ...domain.classad import ClassAd, ClassAdSyntaxError
    from ...domain.classad.old_form import text_of

    path = option.values[0]
    try:
        text = read_input() if path == "-" else read_text(path)
    except OSError:
        raise EditError(f"Can't open file of edits: {path}\n") from None
    form = option.qualifier or "auto"
    if form == "auto":
        form = {"{": "json", "[": "new"}.get(text.lstrip()[:1], "long")
    readers = {"long": lambda: ClassAd.from_old(text, strict=True), "json": lambda: ClassAd.from_json(text.strip()),
               "new": lambda: ClassAd.from_new(text)}  # fmt: skip
    if form not in readers:
        raise UsageError(f"poolbook qedit: -edits:{form} is not read; there are auto, {', '.join(readers)}")
    try:
        ad = readers[form]() if text.strip() else ClassAd()
    except ClassAdSyntaxError:
        ad = ClassAd()
    if not len(ad):
        raise EditError(f"Unable to read file of edits: {path}\n")
    return {name: text_of(meaning) for name, meaning in ad.items()}


def qedit(argv: Sequence[str]) -> int:
    try:
        request = read(argv)
    except EditError as error:
        return CommandOutput("", str(error), 1).printed()
    try:
        outcomes = change_jobs(log_of(request.arguments, "name", "pool"), request.edit)
    except RequestRefused as refused:
        if refused.code in (IMMUTABLE, SECURE):
            return CommandOutput("", f"{refused}\n{NOTHING_SET}", 1).printed()
        return failed(request, why=f"{refused}\n").printed()
    return answer(request, outcomes).printed()


# What is printed


def answer(request: EditRequest, outcomes: Sequence[ActionResult]) -> CommandOutput:
    """Return what condor_qedit prints."""
    done = [one for one in outcomes if one.result == "done"]
    count = sum(last - first + 1 for one in done for first, last in one.procs)
    if not count or len(done) < len(outcomes):
        return failed(request, outcomes)
    can = "Can " if request.dry else ""
    text = "".join(f'{can}Set attribute "{name}" for {count} matching jobs.\n' for name in request.changes)
    return CommandOutput(text, "", 0)


def failed(request: EditRequest, outcomes: Sequence[ActionResult] = (), why: str = "") -> CommandOutput:
    """Return what condor_qedit prints if nothing was set; ``why`` comes before it."""
    name = next(iter(request.changes))
    wrong = [one for one in outcomes if one.result != "done"]
    if request.ids and not request.constraints and all(one.proc is not None for one in request.ids):
        ((proc, _), *_) = wrong[0].procs if wrong else ((request.ids[0].proc, 0),)
        cluster = wrong[0].cluster if wrong else request.ids[0].cluster
        words = f'Failed to set attribute "{name}" for job {cluster}.{proc}.\n'
    elif request.dry and not outcomes:
        words = f"No jobs match the constraint: {_constraint(request)}\n"
    else:
        words = f'Failed to set attribute "{name}" by constraint: {_constraint(request)}\n'
    return CommandOutput("", f"{why}{words}Queue {NOTHING_SET[0].lower()}{NOTHING_SET[1:]}", 1)


def _constraint(request: EditRequest) -> str:
    """Return the jobs that are meant as condor_qedit writes them."""
    parts = list(request.constraints)
    if request.ids:
        parts.append("|| ".join(_of_id(one) for one in request.ids))
    return f"( {' && '.join(f'({part})' for part in parts)} )"


def _of_id(one: ClusterOrJob) -> str:
    cluster = f"ClusterId == {one.cluster} "
    return cluster if one.proc is None else f"( {cluster}&& ProcId == {one.proc} )"


# condor_qedit


def condor_qedit(argv: Sequence[str]) -> int:
    usage = usage_of("qedit")
    try:
        return qedit(argv)
    except Help:
        raise ToolEnded(0, out=usage) from None
    except UsageError as wrong:
        if wrong.lacks and (words := htcondor_message(wrong)):
            raise ToolEnded(1, f"{words}\n") from None
        told = f"condor_qedit: {wrong.option} is not a valid option\n" if wrong.option else wrong.told
        raise ToolEnded(1, f"{wrong}\n" if told is None else told + usage) from None

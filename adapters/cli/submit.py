"""``poolbook submit`` and condor_submit: queue the jobs of a submit file or of standard input.

Source of the tool's words: submit.cpp of the reference, and captures of what it prints.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from typing import Final

from ...domain.errors import PoolbookError
from ..bounded_text import read_input, read_text
from ..condor_tools.options import Arguments, Help, NotHere, ToolError, UsageError, command_table, last_number, parse
from ..runtime import commands
from ..runtime.commands import is_served
from ..runtime.requests import NO_JOBS, POLICY, RequestRefused, SubmitDescription, Submitted, new_id
from .common import log_of, log_option

OF_POOL = ("name", "pool", "remote", "address")
"""Options that name a schedd or a pool, which must be this one."""
SUBMIT = command_table("submit")
STANDARD_INPUT: Final = "-"
_NAME = re.compile(r"[\w./]+", re.ASCII)
_QUEUE = re.compile(r"\s*(?:queue|itera?t?e?)(?=\s|$)", re.IGNORECASE)


def submit(argv: Sequence[str]) -> int:
    arguments = parse(SUBMIT, argv)
    try:
        if asks(arguments):
            return answered(arguments)
        done, told = queued(arguments)
    except (PoolbookError, RequestRefused) as error:
        if error.code == NO_JOBS:
            print_warnings([f"WARNING: {error}"])
            return 0
        if isinstance(error, PoolbookError) or error.code != POLICY:
            raise
        print_warnings([*error.warnings, f"ERROR: {error.tool}"])
        return 1
    print_warnings([*done.warnings, *warned_by_policy(done.warning)])
    print(told, end="", flush=True)
    return ended(arguments, done)


def asks(arguments: Arguments) -> bool:
    """Tell whether the command line asks for something else than to queue jobs."""
    return arguments.has("capabilities", "dry-run", "dump")


def answered(arguments: Arguments) -> int:
    """Print what the command line asks for, and return the exit code."""
    log_of(arguments, *OF_POOL)
    if arguments.has("capabilities"):
        from ..machine.host import host_name

        print(f"Schedd {host_name()}\n Has Late Materialization enabled")
        return 0
    from .submit_dry_run import dry_run

    return dry_run(arguments)


def queued(arguments: Arguments) -> tuple[Submitted, str]:
    """Queue the jobs, and return the message about them. Raise as ``commands.submit``, and `UsageError` or `ToolError`
    if the command line is wrong."""
    log_of(arguments, *OF_POOL)
    if arguments.has("interactive") and not is_served(log_of(arguments)):
        way_out = f"`poolbook serve{log_option(log_of(arguments))}` begins to run its jobs"
        raise ToolError(f"ERROR: -interactive waits for its job to run, and nobody serves the log: {way_out}")
    description = description_of(arguments)
    verbose = _is_verbose(arguments, description)
    done = commands.submit(log_of(arguments), description, keep=verbose)
    if description.spool:
        from .transfer_data import spool

        spool(log_of(arguments), done.cluster, done.jobs)
    return done, announced(arguments, done, description.file, verbose)


def ended(arguments: Arguments, done: Submitted) -> int:
    """Do what comes behind a submission, and return the exit code: an interactive job gets its user; else it is said on
    standard error how the jobs come to run, if nobody serves the log."""
    if arguments.has("interactive"):
        from .ssh_to_job import attended

        return attended(log_of(arguments), done.cluster)
    if not is_served(log_of(arguments)):
        ending = log_option(log_of(arguments))
        ways = f"`poolbook resume{ending}` runs the jobs and ends, `poolbook serve{ending}` goes on running"
        print(f"The pool is not running: {ways}.", file=sys.stderr)
    return 0


def _is_verbose(arguments: Arguments, description: SubmitDescription) -> bool:
    """Tell whether the jobs' ads are printed: with -verbose, and for a file that - names, unless -terse is said."""
    if arguments.has("json"):
        return False
    return arguments.chosen("verbose", "terse") == "verbose" or (
        not arguments.has("terse") and STANDARD_INPUT in (*arguments.words, *arguments.values("file"))
    )


def warned_by_policy(warning: str) -> list[str]:
    """Return what condor_submit says of one that the schedd takes with a warning: the heading, then the words."""
    return [f"WARNING: {line}" for line in warning.split("\n", 1) if line]


def announced(arguments: Arguments, done: Submitted, file: str, verbose: bool) -> str:
    """Return the message about the submitted jobs of a file: with ``verbose`` their ads."""
    cluster, count = done.cluster, done.jobs
    if arguments.has("json"):
        import json

        return json.dumps([{"ClusterId": cluster, "FirstProcId": 0, "LastProcId": count - 1}], indent=2) + "\n"
    if arguments.chosen("verbose", "terse") == "terse":
        return f"{cluster}.0 - {cluster}.{count - 1}\n"
    if verbose:
        from ...domain.submit import dry_run

        ads = "" if done.factory else "".join(dry_run(done.parsed, verbose=True))
        return f"{ads}\n" if file == STANDARD_INPUT else f"Submitting job(s){ads}\n\n"
    dots = "" if done.factory else "." * min(count, 20)  # a dot for each job that is sent
    return f"Submitting job(s){dots}\n{count} job(s) submitted to cluster {cluster}.\n"


# -- the submit file -------------------------------------------------------------------------------------------------


def description_of(arguments: Arguments) -> SubmitDescription:
    """Return the submit file that the command line names, with the command line's additions. Raise `UsageError` if no
    file is named, or it cannot be read."""
    macros = {"max_materialize": "0"} if arguments.has("factory") else {}
    files = arguments.values("file")
    for word in arguments.words:
        name, equals, value = word.partition("=")
        if equals and name and "/" not in name:
            if not _NAME.fullmatch(name.strip()):
                told = f"condor_submit: invalid attribute name '{name}' for attrib=value assigment\n"
                raise UsageError(f"{word}: '{name}' cannot be a name; for an attribute write MY.{name}", told=told)
            macros[name.strip()] = value
        else:
            files.append(word)
    if len(files) > 1:
        raise UsageError(f"one submit file at a time, not {' and '.join(files)}")
    queue = _queue_of(arguments)
    interactive = arguments.has("interactive")
    if interactive and arguments.has("factory"):
        raise UsageError("-interactive is for one job, which a -factory does not make at once", told=_NOT_LATE)
    if interactive and not files:
        from .ssh_to_job import DESCRIPTION

        name, text, queue = "", DESCRIPTION, queue or "1"
    elif files and files[0] != STANDARD_INPUT:
        name, text = files[0], _text_of(files[0])
    elif not files and queue is not None and (macros or arguments.has("append")):
        name, text = "", ""  # all is said on the command line
    elif not files and sys.stdin.isatty():
        raise UsageError("no submit file is named: poolbook submit FILE, or - for standard input")
    else:
        name, text = STANDARD_INPUT, read_input()
    return SubmitDescription(
        id=new_id(),
        text=text,
        file=name,
        folder=os.getcwd(),
        macros=macros,
        append=[
            *(line for line in arguments.values("append") if not _QUEUE.match(line)),
            *_named(arguments),
            *(_interactive(text) if interactive else ()),
        ],
        queue=queue,
        environment=dict(os.environ),
        most_jobs=last_number(SUBMIT, arguments, "maxjobs", least=-1) or 0,
        toggle_unused=len(list(arguments.every("unused"))) % 2 == 1,
        crlf_scripts=arguments.has("allow-crlf-script"),
        spool=arguments.has("spool", "remote"),
    )


_NOT_LATE = "\nERROR: Interactive jobs cannot be materialized late\n"


def _interactive(text: str) -> Iterator[str]:
    from .ssh_to_job import lines_of

    return lines_of(text)


def _text_of(name: str) -> str:
    try:
        return read_text(name)
    except OSError as error:
        told = f"\nERROR: Failed to open command file ({name}) ({error.strerror})\n"
        raise UsageError(f"submit file {name}: {error.strerror}", told=told) from None


def _queue_of(arguments: Arguments) -> str | None:
    """Return the queue statement that the command line gives, if there is one."""
    given = list(arguments.every("queue", "iterate", "table", "append"))
    given = [one for one in given if one.name != "append" or _QUEUE.match(one.values[0])]
    if len(given) > 1:
        told = "condor_submit: only one -queue command allowed\n"
        raise UsageError("only one of -queue, -iterate, -table and -append 'queue ...', and once", told=told)
    if not given:
        return None
    return " ".join([*(["from table"] if given[0].name == "table" else []), *given[0].values])


def _named(arguments: Arguments) -> Iterator[str]:
    """Yield the lines that name the batch: they win over the file's own."""
    for option, attribute in (("batch-name", "JobBatchName"), ("batch-id", "JobBatchId")):
        if arguments.has(option):
            name = arguments.value(option)
            yield f"MY.{attribute} = " + (name if name.startswith('"') else f'"{name}"')


def print_warnings(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


HEADINGS: Final[dict[bool | None, str]] = {True: "Dry-Run job(s)", False: "Storing job ClassAd(s)"}
"""What comes before the dots of a dry run (True) and of a dump (False)."""


def heading(arguments: Arguments) -> str:
    """Return what condor_submit prints before it reads the submit file."""
    option = arguments.last("dry-run", "dump")
    dumps = option is not None and option.name == "dump" and option.values[0] == STANDARD_INPUT
    quiet = dumps or arguments.has("terse", "json") or STANDARD_INPUT in arguments.words
    return "" if quiet else HEADINGS.get(option and option.name == "dry-run", "Submitting job(s)")


# -- condor_submit ---------------------------------------------------------------------------------------------------

_PLACE = re.compile(r"( was unused by condor_submit)(?:, line \d+)?\. Is it a typo\?.*")
"""Where in a submit file something stands that nothing reads, and what may have been meant."""


def condor_submit(argv: Sequence[str]) -> int:
    from ..condor_tools.tool_options import ToolEnded, in_the_tools_words, no_number, usage_of

    usage = usage_of("submit")
    try:
        arguments = parse(SUBMIT, argv)
    except Help:
        raise ToolEnded(0, usage) from None
    except UsageError as wrong:
        told = str(wrong).removeprefix("poolbook submit: ")
        if wrong.lacks:
            told = in_the_tools_words(wrong) or f"-{wrong.lacks} requires another argument"
        raise ToolEnded(1, usage if wrong.option else f"condor_submit: {told}\n") from None
    try:
        if asks(arguments):
            return answered(arguments)
        return _submit_as_tool(arguments)
    except UsageError as wrong:
        words = f"{no_number(wrong, 'argument ')}\n" if wrong.number else wrong.told
        raise ToolEnded(1, words or f"\nERROR: {wrong}\n") from None
    except NotHere:
        raise
    except ToolError as refusal:
        raise ToolEnded(1, f"\n{refusal}\n") from None
    except (PoolbookError, RequestRefused) as error:
        begun = heading(arguments)
        if error.code != NO_JOBS:
            words = f"ERROR: {error.tool}" if error.tool else f"\nERROR: {error}"
            lines = [*map(_placeless, getattr(error, "warnings", ())), words]
            raise ToolEnded(1, "".join(f"{line}\n" for line in lines), begun) from None
        quiet = arguments.has("terse")
        raise ToolEnded(0, "" if quiet else f"\nWARNING: {error}\n", f"{begun}\n" if begun else "") from None


def _submit_as_tool(arguments: Arguments) -> int:
    done, told = queued(arguments)
    print(told, end="", flush=True)
    if not arguments.has("terse", "json", "interactive") and told.endswith(f" to cluster {done.cluster}.\n"):
        print(f"To monitor your job(s), run: condor_watch_q -clusters {done.cluster}", file=sys.stderr)
    print_warnings(map(_placeless, (*done.warnings, *warned_by_policy(done.warning))))
    return ended(arguments, done)


def _placeless(line: str) -> str:
    """A warning without the place in the submit file, and without near names: condor_submit does not say them."""
    return _PLACE.sub(r"\1. Is it a typo?", line)


def submitted_by_tool(path: str) -> str:
    """Submit a file for another tool, as ``condor_submit -terse`` does, and return the cluster's number; empty if it is
    refused, which condor_submit has explained by then."""
    from .main import main

    out = io.StringIO()
    with redirect_stdout(out):
        code = main(["condor_submit", "-terse", path])
    found = re.match(r"(\d+)\.\d+ -", out.getvalue(), re.ASCII)
    return "" if code or found is None else found[1]

"""``poolbook submit`` and condor_submit: queue the jobs of a submit file or of standard input.

Source of the tool's words: submit.cpp of the reference, and captures of what it prints.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from ...domain.errors import PoolbookError
from ..condor_tools.options import Arguments, Help, NotHere, ToolError, UsageError, parse
from ..runtime import commands
from ..runtime.commands import is_served
from ..runtime.requests import RequestRefused, SubmitDescription, Submitted
from .common import log_of, log_option
from .submit_description import STANDARD_INPUT, SUBMIT, description_of, heading, print_warnings

OF_POOL = ("name", "pool", "remote", "address")
"""Options that name a schedd or a pool, which must be this one."""
NOTHING_QUEUED = "no jobs queued"
"""How the error ends that no queue statement has an item, which is a warning here."""
BY_POLICY = ("Failed to commit job submission", "Failed to create proc", "MAX_JOBS_SUBMITTED exceeded")
"""How refusals begin that the schedd's policy gives, which are told in condor_submit's words."""


def submit(argv: Sequence[str]) -> int:
    arguments = parse(SUBMIT, argv)
    try:
        if asks(arguments):
            return answered(arguments)
        done, told = queued(arguments)
    except (PoolbookError, RequestRefused) as error:
        if str(error).endswith(NOTHING_QUEUED):
            print_warnings([f"WARNING: {error}"])
            return 0
        if isinstance(error, PoolbookError) or not str(error).startswith(BY_POLICY):
            raise
        print_warnings([*error.warnings, refused_by_policy(str(error))])
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


def refused_by_policy(refusal: str) -> str:
    """Return what condor_submit says of a submission that the schedd refuses."""
    return f"ERROR: {refusal.rstrip()}"


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


_FAILURES = (
    (r"((?:Can't access executable|Executable) file .*)", r"\nERROR: \1"),
    (r"(?:line \d+: )?(\S+) = (.*?): this must (eval to an? \w+).*", r"ERROR: \1=\2 is invalid, must \3."),
    (r"(?:line \d+: )?(No 'executable' parameter was provided).*", r"ERROR: \1"),
    (r"(No such directory: .*)", r"ERROR: \1"),
    (
        r"(?:line \d+: )?universe = (.*?): .*; there is no such universe",
        r"ERROR: I don't know about the '\1' universe.",
    ),
    (r"((?s:.*))", r"\nERROR: \1"),
)
"""What is said of a submission that fails, by the pool's own words; the first that fits."""
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
        if not str(error).endswith(NOTHING_QUEUED):
            raise ToolEnded(1, _failed(error), begun) from None
        quiet = arguments.has("terse")
        raise ToolEnded(0, "" if quiet else f"\nWARNING: {error}\n", f"{begun}\n" if begun else "") from None


def _submit_as_tool(arguments: Arguments) -> int:
    done, told = queued(arguments)
    print(told, end="", flush=True)
    if not arguments.has("terse", "json", "interactive") and told.endswith(f" to cluster {done.cluster}.\n"):
        print(f"To monitor your job(s), run: condor_watch_q -clusters {done.cluster}", file=sys.stderr)
    print_warnings(map(_placeless, (*done.warnings, *warned_by_policy(done.warning))))
    return ended(arguments, done)


def _failed(error: PoolbookError | RequestRefused) -> str:
    """Return what is written on standard error of a submission that failed."""
    said = str(error)
    if said.startswith(BY_POLICY):
        words = refused_by_policy(said)
    else:
        found = ((re.fullmatch(pattern, said), form) for pattern, form in _FAILURES)
        words = next(fits.expand(form) for fits, form in found if fits)
    return "".join(f"{line}\n" for line in (*map(_placeless, getattr(error, "warnings", ())), words))


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

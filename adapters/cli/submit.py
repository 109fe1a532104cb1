"""``poolbook submit``: queue the jobs of a submit file or of standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ...domain.errors import PoolbookError
from ..condor_tools.options import Arguments, Refusal, parse
from ..runtime import commands
from ..runtime.commands import is_served
from ..runtime.requests import Refused, SubmitDescription, Submitted
from .common import log_of, log_option
from .submit_description import STANDARD_INPUT, SUBMIT, description_of, print_warnings

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
    except PoolbookError as error:
        if not str(error).endswith(NOTHING_QUEUED):
            raise
        print_warnings([f"WARNING: {error}"])
        return 0
    except Refused as refused:
        if str(refused).endswith(NOTHING_QUEUED):
            print_warnings([f"WARNING: {refused}"])
            return 0
        if not str(refused).startswith(BY_POLICY):
            raise
        print_warnings([*refused.warnings, refused_by_policy(str(refused))])
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
        return _capabilities()
    from .submit_dry_run import dry_run

    return dry_run(arguments)


def queued(arguments: Arguments) -> tuple[Submitted, str]:
    """Queue the jobs, and return the message about them. Raise as ``commands.submit``, and `UsageError` or `Refusal` if
    the command line is wrong."""
    log_of(arguments, *OF_POOL)
    if arguments.has("interactive") and not is_served(log_of(arguments)):
        way_out = f"`poolbook serve{log_option(log_of(arguments))}` begins to run its jobs"
        raise Refusal(f"ERROR: -interactive waits for its job to run, and nobody serves the log: {way_out}")
    description = description_of(arguments)
    verbose = _is_verbose(arguments, description)
    done = commands.submit(log_of(arguments), description, keep=verbose)
    if description.spool:
        from .spooling import spool

        spool(log_of(arguments), done.cluster, done.jobs)
    return done, announced(arguments, done, description.file, verbose)


def ended(arguments: Arguments, done: Submitted) -> int:
    """Do what comes behind a submission, and return the exit code: an interactive job gets its user; else it is said on
    standard error how the jobs come to run, if nobody serves the log."""
    if arguments.has("interactive"):
        from .by_name.interactive import attended

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


def _capabilities() -> int:
    """Print what this schedd can do, as condor_submit prints it."""
    from ..machine.host import host_name

    print(f"Schedd {host_name()}\n Has Late Materialization enabled")
    return 0


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

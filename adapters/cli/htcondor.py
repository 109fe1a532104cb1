"""htcondor: ``htcondor job`` and ``htcondor jobset``, with the HTCondor tool's messages.

Source: htcondor_cli in HTCondor, and recordings of its output. Messages go to standard error.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ...domain.errors import PoolbookError
from ..bounded_text import read_text
from ..condor_tools.options import parse
from ..condor_tools.tool_options import ToolEnded, usage_of, version
from ..runtime.requests import RequestRefused
from . import htcondor_jobset
from .common import default_log

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

NOUNS: Final = ("dag", "job", "jobset", "eventlog", "credential", "server", "ap", "ep", "cm", "ocu", "snake", "annex")
_POOL: Final = "`poolbook status -any` shows the pool"
_ALTERNATIVES: Final = {
    "dag": "Poolbook runs no DAGs",
    "eventlog": "`condor_watch_q -files LOG` and `poolbook why JOB` show what a job event log shows",
    "credential": "there are no credentials here: users who may write the log's file may use the pool",
    **dict.fromkeys(("server", "ap", "ep", "cm"), _POOL),
    "ocu": "there are no opportunistic claims",
    "snake": "`poolbook run` runs the jobs of a submit file",
    "annex": "there are no annexes",
}
_ID: Final[tuple[tuple[str, ...], dict[str, Any]]] = (("job_id",), {"help": "Job ID"})


def _history_verb(option_of: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    return ("--skip-history",), {"action": "store_true", "help": f"Skip checking history for {option_of}"}


VERBS: Final[dict[str, tuple[tuple[tuple[str, ...], dict[str, Any]], ...]]] = {
    "submit": (
        (("submit_file",), {"help": "Submit file"}),
        (("--resource",), {"help": "Resource to run this job. Supports Slurm and EC2"}),
        (("--runtime",), {"type": int, "help": "Runtime for the given resource (seconds)"}),
        (("--email",), {"help": "Email address to receive notifications"}),
        (("--annex-name",), {"help": "Annex name that this job must run on"}),
    ),
    "status": (_ID, _history_verb("completed or removed jobs")),
    "out": (_ID, _history_verb("stdout")),
    "err": (_ID, _history_verb("stderr")),
    "log": (_ID, _history_verb("log file")),
    "resources": (_ID, (("--resource",), {"help": "Resource used by job. Required for Slurm jobs."})),
}
"""The arguments of the verbs of ``htcondor job``."""


class _CommandFailed(Exception):
    """A command failed; the text is the reason."""


class _HelpParser(argparse.ArgumentParser):
    """A parser that reads its help from a file, because argparse's line breaks depend on the Python version."""

    file = ""

    def format_help(self) -> str:
        return usage_of(self.file) if self.file else super().format_help()

    def format_usage(self) -> str:
        return self.format_help().partition("\n\n")[0] + "\n"

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise ToolEnded(status, message or "")

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized"):
            raise ToolEnded(2, f"{self.format_usage()}{self.prog}: error: {message}\n")
        message_end = re.sub(r"^argument (noun|verb): ", "", message)
        parser = self if message_end != message else _parser()
        raise ToolEnded(2, f"{parser.format_help()}\n{message_end}\n")


def _parser() -> _HelpParser:
    base = _HelpParser(prog="htcondor")
    base.file = "htcondor"
    base.add_argument("-v", "--verbose", action="count", default=0)
    base.add_argument("-V", "--version", action="store_true")
    base.add_argument("-q", "--quiet", action="count", default=0)
    nouns = base.add_subparsers(dest="noun")
    for noun in NOUNS:
        if noun not in ("job", "jobset"):
            nouns.add_parser(noun, add_help=False).add_argument("words", nargs=argparse.REMAINDER)
            continue
        noun_parser = nouns.add_parser(noun)
        noun_parser.file = f"htcondor_{noun}"
        verbs = noun_parser.add_subparsers(dest="verb")
        for verb, arguments in (VERBS if noun == "job" else htcondor_jobset.VERBS).items():
            parser = verbs.add_parser(verb)
            for names, settings in arguments:
                parser.add_argument(*names, **settings)
        if noun == "job":
            verbs.add_parser("template", add_help=False).add_argument("words", nargs=argparse.REMAINDER)
    return base


def htcondor(argv: Sequence[str]) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.version:
        print(version().partition("\n")[0])
        return 0
    if arguments.noun is None:
        raise ToolEnded(2, usage_of("htcondor"))
    if arguments.noun in _ALTERNATIVES:
        raise ToolEnded(1, f"htcondor {arguments.noun} is not supported: {_ALTERNATIVES[arguments.noun]}\n")
    if arguments.verb is None:
        raise ToolEnded(2, usage_of(f"htcondor_{arguments.noun}"))
    actions = _ACTIONS if arguments.noun == "job" else htcondor_jobset.ACTIONS
    if arguments.verb not in actions:
        raise ToolEnded(1, "htcondor job template is not supported: SUBMIT_TEMPLATE_NAMES names the templates\n")
    level = arguments.quiet - arguments.verbose
    say: Callable[[str], object] = (lambda line: print(line, file=sys.stderr)) if level < 1 else (lambda line: None)
    try:
        actions[arguments.verb](arguments, say)
    except BrokenPipeError:
        raise
    except (_CommandFailed, OSError, ValueError, PoolbookError, RequestRefused) as error:
        message = "" if level > 2 else f"Error while trying to run {arguments.noun} {arguments.verb}:\n{error}\n"
        raise ToolEnded(1, message) from None
    return 0


def _submit(arguments: argparse.Namespace, print_line: Callable[[str], object]) -> None:
    from ..runtime import pool_client
    from .submit import SUBMIT, description_of

    file = arguments.submit_file
    if not os.path.exists(file):
        raise _CommandFailed(f"Could not find file: {file}")
    if (arguments.resource or "htcondor").casefold() != "htcondor":
        raise _CommandFailed(f"--resource {arguments.resource} is not supported: jobs run on this pool's machines")
    if arguments.annex_name is not None:
        raise _CommandFailed("HPC Annex functionality has not been enabled by your HTCondor administrator.")
    queue_statements = re.findall(r"^[ \t]*queue\b[ \t]*(.*?)[ \t]*$", read_text(file), re.MULTILINE | re.IGNORECASE)
    if queue_statements[-1:] not in ([], [""], ["1"]):
        raise _CommandFailed("Can only submit one job at a time")
    try:
        submitted = pool_client.submit(default_log(), description_of(parse(SUBMIT, [file])))
    except (PoolbookError, RequestRefused) as error:
        raise _CommandFailed(f"Error submitting job:\n{error}") from None
    print_line(f"Job {submitted.cluster} was submitted.")


def _queued_or_completed_job(arguments: argparse.Namespace, print_line: Callable[[str], object]) -> ClassAd:
    from ..condor_tools.job_selection import ClusterOrJob, JobSelector
    from ..runtime.queries import Queries

    cluster, proc = (*map(int, arguments.job_id.split(".")[:2]), 0)[:2]
    with Queries(default_log()) as queries:
        ad = queries.job(cluster, proc)
        if ad is None and not arguments.skip_history:
            print_line(f"Job {arguments.job_id} was not found in the active queue, checking history...")
            print_line("(This may take a while, Ctrl-C to cancel.)")
            ad = next(iter(queries.history(JobSelector((ClusterOrJob(cluster, proc),)), None, False)), None)
    if ad is None:
        is_status = arguments.verb == "status"
        raise _CommandFailed(f"No job found for ID {arguments.job_id}." if is_status else "list index out of range")
    return ad


def _status(arguments: argparse.Namespace, print_line: Callable[[str], object]) -> None:
    for line in status_lines(_queued_or_completed_job(arguments, print_line), arguments.job_id, time.time()):
        print_line(line)


def _job_file_printer(name: str) -> Callable[[argparse.Namespace, Callable[[str], object]], None]:
    def print_file(arguments: argparse.Namespace, print_line: Callable[[str], object]) -> None:
        ad = _queued_or_completed_job(arguments, print_line)
        path = os.path.join(str(ad.eval("Iwd")), str(ad.eval(name)) if name in ad else "")
        print(read_text(path, "replace"))

    return print_file


def _resources(arguments: argparse.Namespace, print_line: Callable[[str], object]) -> None:
    from ..runtime.queries import Queries

    if (arguments.resource or "htcondor").casefold() != "htcondor":
        raise _CommandFailed(f"--resource {arguments.resource} is not supported: jobs run on this pool's machines")
    with Queries(default_log()) as queries:
        ads = [ad for ad in queries.queue().ads if ad.eval("ClusterId") == int(arguments.job_id)]
    if not ads:
        raise _CommandFailed(f"No jobs found for ID {arguments.job_id}.")
    if "RemoteHost" not in ads[0]:
        raise _CommandFailed(f"Job {arguments.job_id} is not running yet.")
    print_line(f"Job is using resource {ads[0].eval('RemoteHost')}")


_ACTIONS: Final[dict[str, Callable[[argparse.Namespace, Callable[[str], object]], None]]] = {
    "submit": _submit,
    "status": _status,
    "out": _job_file_printer("Out"),
    "err": _job_file_printer("Err"),
    "log": _job_file_printer("UserLog"),
    "resources": _resources,
}

_STATES: Final = {
    1: ("is currently idle.", "", ""),
    2: ("is currently running.", "It started running {} ago.", "JobStartDate"),
    3: ("was removed.", "It was removed {} ago.", "EnteredCurrentStatus"),
    4: ("has completed.", "It completed {} ago.", "CompletionDate"),
    5: ("is currently held.", "It has been held for {}.", "EnteredCurrentStatus"),
    6: (
        "is currently transferring output.",
        "It started transferring output {} ago.",
        "JobCurrentStartTransferOutputDate",
    ),
    7: ("is currently suspended.", "It has been suspended for {}.", "EnteredCurrentStatus"),
}
"""The sentence for each JobStatus, the sentence about how long it has lasted, and the attribute with its start."""
_IDLE, _RUNNING, _COMPLETED, _HELD, _TRANSFERS, _SUSPENDED = 1, 2, 4, 5, 6, 7


def status_lines(ad: ClassAd, job: str, now: float) -> Iterator[str]:
    """Yield the lines of ``htcondor job status`` for a job."""

    def value(name: str) -> float:
        number = ad.eval(name) if name in ad else 0
        return number if isinstance(number, int | float) else 0

    status = int(value("JobStatus"))
    if status not in _STATES:
        yield f"Job {job} is in an unknown state (JobStatus = {status})."
        return
    head, text, since = _STATES[status]
    yield f"Job {job} {head}"
    if text:
        yield text.format(readable_time(round(now - value(since), 6)))
    if status == _HELD:
        yield f'It was held because "{ad.eval("HoldReason")}".'
    if status == _SUSPENDED:
        yield _count_text("It has been suspended", value("TotalSuspensions"))
    if status == _HELD:
        yield _count_text("It has been held", value("NumHolds"))
    if status != _TRANSFERS:
        yield f"It was submitted {readable_time(round(now - value('QDate'), 6))} ago."
    yield from _resource_amounts(ad, status, value)
    if status == _RUNNING and value("TotalSuspensions") > 0:
        yield _count_text("It has been suspended", value("TotalSuspensions"))
    if status in (_IDLE, _RUNNING) and value("NumHolds") > 0:
        yield _count_text("It has been held", value("NumHolds"))
    if status in (_IDLE, _RUNNING, _HELD) and value("NumShadowStarts") > (status == _RUNNING):
        yield _count_text("HTCondor has attempted to start the job", value("NumShadowStarts"))
        yield _count_text("The job has started", value("NumJobStarts"))
    wall = value("RemoteWallClockTime")
    good_share = value("CommittedTime") / wall if wall > 0 else 0.0
    verb = "had" if status == _COMPLETED else "has"
    yield f"Job {verb} {good_share * 100:.1f}% goodput for {readable_time(wall)} of wall clock time."


def _resource_amounts(ad: ClassAd, status: int, value: Callable[[str], float]) -> Iterator[str]:
    if status == _IDLE:
        yield f"It requested {readable_size(value('RequestMemory') * 2**20)} of memory."
        yield f"It requested {readable_size(value('RequestDisk') * 2**10)} of disk space."
        return
    if status == _HELD and value("NumJobStarts") < 1:
        return
    which_run = "current" if status == _RUNNING else "last"
    verb = "is" if status == _RUNNING else "was"
    for label, name, unit in (("memory", "Memory", 2**20), ("disk", "Disk", 2**10)):
        if f"{name}Usage" in ad:
            used, requested = (readable_size(value(key) * unit) for key in (f"{name}Usage", f"Request{name}"))
            yield f"Its {which_run} {label} usage {verb} {used} out of {requested} requested."


def _count_text(label: str, count: float) -> str:
    return f"{label} {int(count)} time{'s' if count != 1 else ''}."


def readable_time(seconds: float) -> str:
    """Return a duration in its largest unit; days also with hours."""
    for limit, unit, size in ((60, "second", 1), (3600, "minute", 60), (86400, "hour", 3600)):
        if seconds < limit:
            number = seconds if unit == "second" else round(seconds / size)
            return f"{number} {unit}{'s' if number > 1 else ''}"
    days, hours = round(seconds / 86400), round(seconds % 86400 / 3600)
    return f"{days} day{'s' if days > 1 else ''} {hours} hour{'s' if hours > 1 else ''}"


def readable_size(size: float) -> str:
    """Return a size with a unit, such as 1.456 MB."""
    if size < 1024:
        return f"{size} B"
    for exponent, unit in ((1, "KB"), (2, "MB"), (3, "GB")):
        if size < 1024 ** (exponent + 1):
            return f"{size / 1024**exponent:.3f} {unit}"
    return f"{size / 1024**4:.3f} TB"

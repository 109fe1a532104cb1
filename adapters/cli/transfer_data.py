"""condor_transfer_data and condor_evicted_files: access jobs' files in the spool.

condor_transfer_data fetches the output of jobs that were submitted with -spool. The output of all other jobs is already
where the submit file requested it. -all, users and clusters select completed jobs. condor_evicted_files lists the files
that evicted or checkpointed jobs need for their next run. It reads the spool next to the log, so the pool need not be
running. For a single job, its exit code is the errno; for several jobs it prints what it can.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...domain.ports.log import LogMissing
from ..condor_tools.job_selection import JobSelector, chosen_jobs, select
from ..condor_tools.options import Arguments, UsageError
from ..condor_tools.tool_options import ToolEnded, parse_tool_arguments, tool, usage_of
from ..runtime.elsewhere import is_elsewhere
from ..runtime.pool_client import ask, change_jobs
from ..runtime.requests import RequestRefused
from ..runtime.spooled_files import fetch_outputs
from .common import default_log, display_context, job_id, pool_log

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

COMPLETED = 4  #: JobStatus

TOOL = tool("transfer_data")


def transfer_data(argv: Sequence[str]) -> int:
    arguments = parse_tool_arguments(TOOL, argv)
    has_all = arguments.has("all")
    if has_all and arguments.words:
        raise TOOL.usage_error("{usage}")
    if not (has_all or arguments.words or arguments.has("constraint")):
        raise TOOL.usage_error("You did not specify any jobs\n{usage}")
    url = pool_log(arguments, "condor_transfer_data: unknown host {name}\n")
    if not has_all and not _count_selections(arguments):
        raise ToolEnded(1, "Unable to create a job constraint!\n")
    print("Fetching data files...", flush=True)
    fetch_files = partial(_fetch_elsewhere, url) if is_elsewhere(url) else partial(fetch_outputs, _folder(url))
    move_job_files(url, _spooled_jobs(url, arguments), fetch_files)
    return 0


def _spooled_jobs(url: str, arguments: Arguments) -> dict[tuple[int, int], ClassAd]:
    names = [word for word in arguments.words if word[:1].isalnum() and not (word[:1].isdigit() and not job_id(word))]
    try:
        selection = select(names, arguments.values("constraint"))
        ads = chosen_jobs(selection, _ads(url, JobSelector(), "StageInFinish isnt undefined"), display_context())
    except (LogMissing, UsageError):  # an invalid constraint selects no job
        return {}
    spooled_jobs = {(int(ad.eval("ClusterId")), int(ad.eval("ProcId"))): ad for ad in ads if "StageInFinish" in ad}
    named_jobs = {(id.cluster, id.proc) for id in selection.ids}
    return {job: ad for job, ad in spooled_jobs.items() if job in named_jobs or ad.eval("JobStatus") == COMPLETED}


def _ads(url: str, selection: JobSelector, constraint: str) -> list[ClassAd]:
    """Return the ads of the selected jobs in the queue; of a pool on another machine, the ads that satisfy the
    constraint."""
    if is_elsewhere(url):
        from .elsewhere import queue_elsewhere

        return queue_elsewhere(url, constraint)
    from ..runtime.queries import Queries

    with Queries(url) as queries:
        return list(queries.queue(selection).ads)


def _count_selections(arguments: Arguments) -> int:
    """Return the number of words and options that select jobs, and warn about words that do not."""
    count = len(arguments.values("constraint"))
    for word in arguments.words:
        if word[:1].isdigit() and (job_id(word) is None or job_id(word) == (0, 0)):
            sys.stderr.write(f'Warning: unrecognized "{word}" skipped.\n')
        elif not word[:1].isalnum():
            sys.stderr.write(f'Warning: unrecognized "{word}" skipped\n')
        else:
            count += 1
    return count


def _folder(url: str) -> Path:
    from ..stores.log_paths import log_paths

    return log_paths(url).folder


def _fetch_elsewhere(url: str, job: tuple[int, int], ad: dict[str, str]) -> dict[str, str]:
    """Fetch a job's outputs from the spool of an access point on another machine. Return the changes to its ad."""
    from ..https.remote_pool import remote_pool
    from ..runtime.spooled_files import receive_outputs

    offer = ask(url, {"kind": "OfferFiles", "job": job, "part": "outputs"})
    access_point = remote_pool(url).access_point(offer["activation"], offer["key"])
    changes = receive_outputs(ad, access_point, offer["names"])
    ask(url, {"kind": "TakeFiles", "job": job, "part": "outputs"})
    return changes


def _send_elsewhere(url: str, job: tuple[int, int], ad: dict[str, str]) -> dict[str, str]:
    """Send a job's files to the spool of an access point on another machine. Return the changes to its ad."""
    from ..https.remote_pool import remote_pool
    from ..runtime.spooled_files import send_to_spool

    offer = ask(url, {"kind": "OfferFiles", "job": job, "part": "inputs"})
    send_to_spool(ad, remote_pool(url).access_point(offer["activation"], offer["key"]))
    return dict(ask(url, {"kind": "TakeFiles", "job": job, "part": "inputs"}))


Move = Callable[[tuple[int, int], dict[str, str]], dict[str, str]]


def spool_submission(url: str, cluster: int) -> None:
    """Copy a submission's files into the spool and release its jobs. Raise `ToolEnded` on failure; the jobs stay
    held."""
    from ..runtime.spooled_files import copy_to_spool

    ads = _ads(url, select([str(cluster)], ()), f"ClusterId == {cluster}")
    jobs = {(cluster, int(ad.eval("ProcId"))): ad for ad in ads}
    send_files = partial(_send_elsewhere, url) if is_elsewhere(url) else partial(copy_to_spool, _folder(url))
    move_job_files(url, jobs, send_files)
    change_jobs(url, {"kind": "ReleaseSpooled", "reason": "Data files spooled", "selection": {"clusters": [cluster]}})


def move_job_files(url: str, jobs: Mapping[tuple[int, int], ClassAd], move_files: Move) -> None:
    """Move the files of jobs, and update their ads. Raise `ToolEnded` on failure."""
    from ...domain.schedd.submitted_job import attribute_text
    from ..runtime.spooled_files import SpoolError

    for job, ad in jobs.items():
        texts_by_name = {name: attribute_text(ad, name) for name in ad}
        try:
            _edit_job(url, job, move_files(job, texts_by_name))
        except (SpoolError, RequestRefused) as error:
            text = f"Job {job[0]}.{job[1]}: {error}\nERROR: Failed to spool job files.\n"
            raise ToolEnded(1, text) from None


def _edit_job(url: str, job: tuple[int, int], changes: Mapping[str, str]) -> None:
    for outcome in change_jobs(url, {"kind": "Edit", "selection": {"jobs": [job]}, "changes": changes}):
        if outcome.result != "done":
            raise RequestRefused(outcome.result)


_USAGE_ERROR_CODE: Final = 255  #: the exit code of invalid usage
_NO_FILES: Final = "No directory; job was never evicted.\n"


def evicted_files(argv: Sequence[str]) -> int:
    from ..machine.spool import Spool
    from ..stores.log_paths import log_paths

    arguments = list(argv)
    if not arguments:
        raise ToolEnded(_USAGE_ERROR_CODE, out=usage_of("evicted_files"))
    command = "dir" if arguments[0][:1].isdigit() else arguments.pop(0).lower()
    if command not in _COMMANDS:
        raise ToolEnded(_USAGE_ERROR_CODE, out=f"Unknown command '{argv[0]}', aborting.\n")
    jobs = [_job_of_word(word) for word in arguments]
    spool = Spool(log_paths(default_log()).folder)
    worst = 0
    for job in jobs:
        name = f"{job[0]}.{job[1]}"
        place = os.path.realpath(spool.path(*job))
        prefix = f"{name} " if len(jobs) > 1 else ""
        text, code = _COMMANDS[command](name, place) if os.path.isdir(place) else (_NO_FILES, errno.ENOENT)
        sys.stdout.write(prefix + text)
        worst = worst or code
    return worst if len(jobs) == 1 else 0


def _job_of_word(word: str) -> tuple[int, int]:
    match = re.match(r"(\d{1,10})\.(\d{1,10})", word, re.ASCII)
    if match is None:
        raise ToolEnded(_USAGE_ERROR_CODE, f"'{word}' is not a job ID, aborting.\n")
    return int(match[1]), int(match[2])


def _list_files(_: str, place: str) -> tuple[str, int]:
    names = [entry for entry in sorted(os.listdir(place)) if not entry.startswith(".poolbook-")]
    return "".join(f"\t{name}\n" for name in names) or "\n", 0


def _copy_file(name: str, place: str) -> tuple[str, int]:
    """Copy into a new directory named after the job; symbolic links are copied as links."""
    if os.path.lexists(name):
        return f"Destination directory '{name}' exists, not modifying.\n", errno.EEXIST
    try:
        shutil.copytree(place, name, symlinks=True, ignore=shutil.ignore_patterns(".poolbook-*"))
    except (OSError, shutil.Error) as error:
        return f"Copy failed: {error}.\n", 1
    return f"Copied to '{name}'.\n", 0


_COMMANDS: Final[dict[str, Callable[[str, str], tuple[str, int]]]] = {
    **dict.fromkeys(("dir", "find"), lambda _, place: (f"{place}\n", 0)),
    **dict.fromkeys(("ls", "list"), _list_files),
    **dict.fromkeys(("get", "fetch"), _copy_file),
}

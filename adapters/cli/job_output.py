"""``poolbook cat``: print a job's output, wherever it is."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ..condor_tools.cells import number, text
from ..condor_tools.options import ToolError, UsageError, command_table, parse
from ..runtime.job_output import STREAM_ATTRIBUTES, output_files
from .common import job_id, selected_log

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..runtime.queries import RunningProcess

CAT = command_table("cat")
_PAUSE: Final = 0.5  #: seconds between two reads of a file that is followed
_IDLE, _RUNNING, _COMPLETED = 1, 2, 4


class _Job(NamedTuple):
    """A job in the queue or the history, and its process if it runs."""

    ad: ClassAd
    run: RunningProcess | None

    @property
    def may_write(self) -> bool:
        return self.run is not None or number(self.ad, "JobStatus") in (_IDLE, _RUNNING)


def cat(argv: Sequence[str]) -> int:
    arguments = parse(CAT, argv)
    job = job_id(arguments.words[0]) if len(arguments.words) == 1 else None
    if job is None:
        raise UsageError("poolbook cat: specify one job: poolbook cat 12.3")
    url = selected_log(arguments)
    stream = "stderr" if arguments.has("err") else "stdout"
    is_following, printed = arguments.has("follow"), 0
    while True:
        state = _read_job(url, job)
        path = next(filter(os.path.isfile, output_files(url, job, state.ad, state.run, stream)), None)
        if path is not None:
            printed = _print_from(path, printed)
        if not (is_following and state.may_write):
            break
        time.sleep(_PAUSE)
    if path is None:
        reason = _missing_reason(job, state, stream)
        raise ToolError(f"poolbook cat: {reason}")
    return 0


def _read_job(url: str, job: tuple[int, int]) -> _Job:
    from ..runtime.queries import Queries

    with Queries(url) as queries:
        if queries.imported:
            raise ToolError("poolbook cat: the log was imported; see the output on the machines of that pool")
        ad = queries.any_job(*job)
        run = None if ad is None or number(ad, "JobStatus") == _COMPLETED else queries.run(*job)
    if ad is None:
        name = f"{job[0]}.{job[1]}"
        raise ToolError(f"poolbook cat: the pool has no job {name}; `poolbook q -all` and `poolbook history` list jobs")
    return _Job(ad, run)


def _print_from(path: Path, printed: int) -> int:
    """Print a file from this offset on, or from its start if it is shorter: a new run began. Return its size."""
    try:
        with open(path, "rb") as file:
            file.seek(printed if printed <= os.fstat(file.fileno()).st_size else 0)
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.flush()
            return file.tell()
    except OSError as error:
        raise ToolError(f"poolbook cat: {path} cannot be read: {error.strerror}") from None


def _missing_reason(job: tuple[int, int], of_job: _Job, stream: str) -> str:
    command, name = {"stdout": "output", "stderr": "error"}[stream], f"{job[0]}.{job[1]}"
    file = text(of_job.ad, STREAM_ATTRIBUTES[stream]) or os.devnull
    if file == os.devnull:
        return f"job {name} discards this output: its submit file has no `{command} = FILE`"
    if of_job.run is not None:
        return f"job {name} runs, but its {command} cannot be read from here; {file} has it when the job has ended"
    if number(of_job.ad, "JobStatus") == _IDLE:
        return f"job {name} waits, and has no {command} yet; `poolbook why {name}` shows why, -follow waits for it"
    return f"the {command} of job {name} is no longer in {text(of_job.ad, 'Iwd')}/{file}"

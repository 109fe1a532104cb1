"""condor_ssh_to_job: a shell in the directory and the environment of a job at work.

Jobs run on this machine, so the shell is started here, and neither ssh nor a key is needed. ``submit -interactive``
queues a job that waits for its user, who gets such a shell as soon as it runs. Source: condor_submit in the manual, and
the defaults of INTERACTIVE_SUBMIT_FILE, _CMD_OVERRIDE and _ARGS_OVERRIDE.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final

from ..condor_tools.tool_options import Tool, ToolEnded, read
from .common import job_id, looked_up, pool_log

if TYPE_CHECKING:
    from ..runtime.queries import RunningProcess

TOOL = Tool(
    "ssh_to_job",
    lacking="{option} requires an argument",
    unknown="Unrecognized argument: {option}\n",
    wrong=2,
    words_end_it=True,
)
_FIRST_PAUSE: Final = 0.1  #: seconds until the second look with -auto-retry; each further pause is twice as long
_PAUSE: Final = 5.0  #: and this at most, as condor_ssh_to_job takes it
SESSION: Final = ".condor_ssh_to_job_1"  #: what is in a job's directory for as long as its user is there
_HELD: Final = 5  #: the JobStatus of a job that is held


def ssh_to_job(argv: Sequence[str]) -> int:
    arguments = read(TOOL, argv)
    if not arguments.words:
        raise TOOL.ended("ERROR: You must specify a job!\n\n")
    word, *command = arguments.words
    job = job_id(word)
    if job is None:
        raise TOOL.ended("Invalid job id: {word}\n", word=word)
    url = pool_log(arguments, "No such schedd named {name} in local pool\n")
    run, attended = _running(url, job)
    if run is None and arguments.has("auto-retry"):
        print("Waiting for job to start...", file=sys.stderr)
        pause = _FIRST_PAUSE
        while run is None:
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE)
            run, attended = _running(url, job)
    if run is None:
        raise ToolEnded(1, "(Use -auto-retry to keep trying periodically.)\n")
    environment = {**_environment(run), "TERM": os.environ.get("TERM", "dumb")}
    shell = _shell(arguments.value("shells", os.environ.get("SHELL", "")))
    if not command:
        print(f"Welcome to {run.slot}!\nYour condor job is running with pid(s) {run.pid}.", flush=True)
    words = [shell, "-c", " ".join(command)] if command else [shell, "-i"]
    removes = arguments.has("remove-on-interrupt")
    with _session(run.scratch) if attended else nullcontext():
        return _ended(subprocess.Popen(words, cwd=run.scratch, env=environment), word if removes else "")


@contextmanager
def _session(scratch: str) -> Iterator[None]:
    """Let the job wait for as long as its user is there."""
    folder = os.path.join(scratch, SESSION)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # the job has ended, and its directory with it
            os.rmdir(folder)


def _running(url: str, job: tuple[int, int]) -> tuple[RunningProcess | None, bool]:
    """Return the run of a job (None: it does not run yet), and whether it waits for its user. Raise ``ToolEnded`` if it
    is not in the queue, or held."""
    ad, run = looked_up(url, job)
    if ad is None:
        raise ToolEnded(1, "Unable to fetch job ad; is it still in the queue?\n")
    if ad.eval("JobStatus") == _HELD:
        raise ToolEnded(1, f'The job is on hold: "{ad.eval("HoldReason")}".\n')
    running = run is not None and bool(run.pid and run.scratch)
    return run if running else None, ad.eval("InteractiveJob") is True


def _environment(run: RunningProcess) -> dict[str, str]:
    """Return the environment with which the job's process was started."""
    try:
        with open(f"/proc/{run.pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except PermissionError:
        raise ToolEnded(1, f"condor_ssh_to_job: process {run.pid} of the job is another user's\n") from None
    except OSError:
        raise ToolEnded(1, "Rejecting request, because the job is finished.\n") from None
    pairs = (os.fsdecode(variable).partition("=") for variable in variables if variable)
    return {name: value for name, _, value in pairs}


def _shell(wanted: str) -> str:
    """Return the first shell of a list that there is."""
    found = (shutil.which(word) for word in [*wanted.split(","), "bash", "sh"] if word)
    return next((shell for shell in found if shell), "/bin/sh")


def _ended(shell: subprocess.Popen[bytes], removed: str) -> int:
    """Wait for the shell, which has the terminal, and return its exit code. An interrupt removes the job, if any."""
    if not removed:
        with_interrupts_ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            code = shell.wait()
        finally:
            signal.signal(signal.SIGINT, with_interrupts_ignored)
        return code if code >= 0 else 1
    try:
        code = shell.wait()
        return code if code >= 0 else 1
    except KeyboardInterrupt:
        from .job_actions import remove

        print(f"Interrupted by signal 2 (SIGINT), removing job {removed}...", file=sys.stderr)
        remove([removed])
        return 1


# submit -interactive

_WAITS: Final = f"sleep 180 && while test -d ${{_CONDOR_SCRATCH_DIR}}/{SESSION}; do /bin/sleep 3; done"
DESCRIPTION: Final = "environment = TMOUT=7200\nnotification = never\npriority = 1000\nrequest_memory = 512m\n"
"""The job of somebody who names no submit file."""
_DESCRIBED: Final = re.compile(r"^\s*(description|(\+|MY\.)JobDescription)\s*=", re.MULTILINE | re.IGNORECASE)


def lines_of(description: str) -> Iterator[str]:
    """Yield the lines that make a submit file's job one that waits for its user. The program that the file names is
    not run, and stays where it is. INTERACTIVE_SUBMIT_* are not followed."""
    yield "MY.InteractiveJob = true"
    yield "transfer_executable = false"
    yield "executable = /bin/sh"
    yield f"arguments = \"-c '{_WAITS}'\""
    if not _DESCRIBED.search(description):
        yield "description = interactive job"


def attended(log: str, cluster: int) -> int:
    """Give the user a shell in the job, as soon as it runs; return the shell's exit code."""
    os.environ["POOLBOOK_LOG"] = log
    return ssh_to_job(["-auto-retry", "-remove-on-interrupt", f"{cluster}.0"])

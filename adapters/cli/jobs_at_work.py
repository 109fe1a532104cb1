"""condor_who, condor_tail, condor_ssh_to_job: list the jobs on this machine, print their output, open a shell.

Jobs run on this machine, so the shell starts here, without ssh or keys. ``submit -interactive`` queues a job that waits
for its user, who gets such a shell as soon as the job runs. Source: condor_submit in the manual, and the defaults of
INTERACTIVE_SUBMIT_FILE, _CMD_OVERRIDE and _ARGS_OVERRIDE.
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
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..condor_tools.cells import duration, number, text
from ..condor_tools.formats import custom_layout, long_text
from ..condor_tools.layout import Column, Layout, lay_out, layout_lines
from ..condor_tools.options import Arguments, UsageError
from ..condor_tools.tool_options import ToolEnded, parse_tool_arguments, tool
from ..machine.execution.supervisor.sandbox import STREAMS
from .common import default_log, display_context, job_and_process, job_id, pool_log

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..runtime.queries import Queries, RunningProcess

_WHO_TOOL = tool("who")
_HEADS = ("OWNER", "CLIENT", "SLOT", "JOB", "  RUNTIME", "PID", "JOB_DIR")


def who(argv: Sequence[str]) -> int:
    arguments = parse_tool_arguments(_WHO_TOOL, argv)
    if arguments.words:
        raise _WHO_TOOL.usage_error("Error: {word} is not a valid argument\n", word=arguments.words[0])
    try:
        layout = custom_layout(arguments)
    except UsageError as error:
        raise ToolEnded(1, f"Error: {error}\n") from None
    from ..runtime.queries import Queries

    display = display_context()
    with Queries(default_log()) as queries:
        ads = [ad for ad in queries.slots(display.now, display.timezone) if "JobId" in ad]
        if not ads:
            return 0
        if arguments.has("long"):
            sys.stdout.writelines(f"{long_text(ad)}\n" for ad in ads)
            return 0
        has_headings = layout is None or layout.headed
        machine = (text(ads[0], "Name") or "").rpartition("@")[2]
        if has_headings:
            print(f"\n--Startd : {machine} has {len(ads)} job(s) running:")
        if layout is None:
            widths = Layout(tuple(Column("", "", None) for _ in _HEADS), headed=False)
            sys.stdout.writelines(lay_out(widths, [_HEADS, *(_row(ad, queries) for ad in ads)]))
        else:
            sys.stdout.writelines(layout_lines(layout, ads, display))
        if has_headings:
            print()
    return 0


def _row(ad: ClassAd, queries: Queries) -> tuple[str, ...]:
    id = text(ad, "JobId") or ""
    job = job_id(id)
    run = None if job is None else queries.run(*job)
    slots = [number(ad, "SlotID"), *([number(ad, "DSlotId")] if "DSlotId" in ad else [])]
    return (
        text(ad, "RemoteOwner") or "",
        text(ad, "ClientMachine") or "",
        "_".join(map(str, slots)),
        id,
        f"{duration(number(ad, 'TotalJobRunTime') or 0):>12}",
        str(run.pid) if run is not None and run.pid else "?",
        "" if run is None else _working_directory(run.pid) or run.scratch,
    )


def _working_directory(pid: int) -> str:
    """Return the working directory of a process, or an empty string if it cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


_TAIL_TOOL = tool("tail")
_BYTES: Final = 1024  #: total for all files, unless -maxbytes is given
_TAIL_PAUSE: Final = 2.0  #: seconds between two reads, as in condor_tail
_STREAMS: Final = {"Out": STREAMS["stdout"], "Err": STREAMS["stderr"]}
"""The attributes that name a job's output streams, and the corresponding files in its scratch directory."""


def tail(argv: Sequence[str]) -> int:
    arguments = parse_tool_arguments(_TAIL_TOOL, argv)
    byte_limit, is_following = _byte_limit(arguments), arguments.has("f", "follow")
    streams = ["Err"] if arguments.has("stderr") else [] if arguments.has("no-stdout") else ["Out"]
    if not (streams or arguments.words[1:]):
        raise _TAIL_TOOL.usage_error("No file transfer specified.\n\n{usage}")
    if not arguments.words:
        raise _TAIL_TOOL.usage_error("Job ID not specified.\n{usage}")
    job = job_id(arguments.words[0])
    if job is None:
        raise _TAIL_TOOL.usage_error("Invalid Job ID: {word}\n{usage}", word=arguments.words[0])
    url = pool_log(arguments, "No such schedd named {name} in local pool\n")
    files, shown_sizes = dict[str, Path](), dict[str, int]()
    while True:
        ad, run = job_and_process(url, job)
        if files and run is None:  # the job ended while it was followed
            _print_ends_of_files({name: path for name, path in files.items() if path.exists()}, shown_sizes, byte_limit)
            return 0
        if ad is None:
            raise ToolEnded(1, f"No such job: {job[0]}.{job[1]}\n")
        if run is not None and run.scratch:
            try:
                files = dict(_requested_files(ad, run, streams, arguments.words[1:]))
                _print_ends_of_files(files, shown_sizes, byte_limit)
            except OSError as error:  # the scratch directory belongs to another user, or is being removed
                _print_unreadable(f"Cannot open file {error.filename or run.scratch} ({error.strerror})")
            if not is_following:
                return 0
        time.sleep(_TAIL_PAUSE)  # with or without -auto-retry, condor_tail waits for a job that is not running yet


def _byte_limit(arguments: Arguments) -> int:
    value = arguments.value("maxbytes", str(_BYTES))
    if value.startswith("-"):
        raise _TAIL_TOOL.usage_error("-maxbytes requires an argument.\n\n{usage}")
    try:
        return int(value)
    except ValueError:
        raise _TAIL_TOOL.usage_error("Error: maxbytes ({value}) is not valid\n\n{usage}", value=value) from None


def _requested_files(
    ad: ClassAd, run: RunningProcess, streams: Sequence[str], names: Sequence[str]
) -> Iterator[tuple[str, Path]]:
    scratch = Path(run.scratch)
    listed_names = str(ad.eval("TransferOutput") or "").replace(",", " ").split() if "TransferOutput" in ad else []
    stream_attributes = {str(ad.eval(name)): name for name in _STREAMS if name in ad}
    for name in [*streams, *names]:
        stream = name if name in streams else stream_attributes.get(name, "")
        if not stream and name not in listed_names:
            _print_unreadable(f"File {name} requested but not authorized to be sent.")
        path = scratch / (_STREAMS[stream] if stream else name)
        if not path.exists():
            path = Path(str(ad.eval("Iwd") or "")) / (str(ad.eval(stream)) if stream else name)
        if not path.is_file() and (stream or not path.resolve().is_relative_to(scratch.resolve())):
            _print_unreadable(f"Invalid symlink or filename ({path}) outside sandbox ({scratch})")
        yield name, path


def _print_unreadable(reason: str) -> None:
    raise ToolEnded(1, f"Failed to peek at file from starter: {reason}\n")


def _print_ends_of_files(files: dict[str, Path], shown_sizes: dict[str, int], byte_limit: int) -> None:
    """Write the end of each file, or the part after its ``shown_sizes``: at most ``byte_limit`` bytes in total."""
    remaining = byte_limit
    for name, path in files.items():
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = max(shown_sizes.get(name, 0), size - remaining)
            file.seek(begin)
            data = file.read(max(0, size - begin))
        remaining -= len(data)
        shown_sizes[name] = begin + len(data)
        sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


_SSH_TOOL = tool("ssh_to_job")
_FIRST_PAUSE: Final = 0.1  #: seconds before the first retry with -auto-retry; each further pause is twice as long
_PAUSE: Final = 5.0  #: maximum pause in seconds, as in condor_ssh_to_job
SESSION: Final = ".condor_ssh_to_job_1"  #: this file is in the job's directory while its user is logged in
_HELD: Final = 5  #: the JobStatus of a held job


def ssh_to_job(argv: Sequence[str]) -> int:
    arguments = parse_tool_arguments(_SSH_TOOL, argv)
    if not arguments.words:
        raise _SSH_TOOL.usage_error("ERROR: You must specify a job!\n\n")
    word, *command = arguments.words
    job = job_id(word)
    if job is None:
        raise _SSH_TOOL.usage_error("Invalid job id: {word}\n", word=word)
    url = pool_log(arguments, "No such schedd named {name} in local pool\n")
    run, is_attended = _running_process(url, job)
    if run is None and not arguments.has("auto-retry"):
        raise ToolEnded(1, "(Use -auto-retry to keep trying periodically.)\n")
    if run is None:
        print("Waiting for job to start...", file=sys.stderr)
    pause = _FIRST_PAUSE
    while run is None:
        time.sleep(pause)
        pause = min(2 * pause, _PAUSE)
        run, is_attended = _running_process(url, job)
    environment = {**_process_environment(run), "TERM": os.environ.get("TERM", "dumb")}
    shell = _first_existing_shell(arguments.value("shells", os.environ.get("SHELL", "")))
    if not command:
        print(f"Welcome to {run.slot}!\nYour condor job is running with pid(s) {run.pid}.", flush=True)
    argv = [shell, "-c", " ".join(command)] if command else [shell, "-i"]
    removes_job = arguments.has("remove-on-interrupt")
    with _keep_job_waiting(run.scratch) if is_attended else nullcontext():
        return _exit_code_of_shell(
            subprocess.Popen(argv, cwd=run.scratch, env=environment), word if removes_job else ""
        )


@contextmanager
def _keep_job_waiting(scratch: str) -> Iterator[None]:
    folder = os.path.join(scratch, SESSION)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # the job has ended and its directory was removed
            os.rmdir(folder)


def _running_process(url: str, job: tuple[int, int]) -> tuple[RunningProcess | None, bool]:
    """Return the running process of a job (None: not running yet), and whether the job waits for its user. Raise
    ``ToolEnded`` if the job is held or not in the queue."""
    ad, run = job_and_process(url, job)
    if ad is None:
        raise ToolEnded(1, "Unable to fetch job ad; is it still in the queue?\n")
    if ad.eval("JobStatus") == _HELD:
        raise ToolEnded(1, f'The job is on hold: "{ad.eval("HoldReason")}".\n')
    is_running = run is not None and bool(run.pid and run.scratch)
    return run if is_running else None, ad.eval("InteractiveJob") is True


def _process_environment(run: RunningProcess) -> dict[str, str]:
    try:
        with open(f"/proc/{run.pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except PermissionError:
        raise ToolEnded(1, f"condor_ssh_to_job: process {run.pid} of the job is another user's\n") from None
    except OSError:
        raise ToolEnded(1, "Rejecting request, because the job is finished.\n") from None
    pairs = (os.fsdecode(variable).partition("=") for variable in variables if variable)
    return {name: value for name, _, value in pairs}


def _first_existing_shell(names: str) -> str:
    shells = (shutil.which(word) for word in [*names.split(","), "bash", "sh"] if word)
    return next((shell for shell in shells if shell), "/bin/sh")


def _exit_code_of_shell(shell: subprocess.Popen[bytes], removal_text: str) -> int:
    """Wait for the shell, which controls the terminal; return its exit code. An interrupt removes the job, if any."""
    old_handler = None if removal_text else signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = shell.wait()
        return code if code >= 0 else 1
    except KeyboardInterrupt:
        from .job_actions import remove

        print(f"Interrupted by signal 2 (SIGINT), removing job {removal_text}...", file=sys.stderr)
        remove([removal_text])
        return 1
    finally:
        if not removal_text:
            signal.signal(signal.SIGINT, old_handler)


# submit -interactive

_WAIT_ARGUMENT: Final = f"sleep 180 && while test -d ${{_CONDOR_SCRATCH_DIR}}/{SESSION}; do /bin/sleep 3; done"
DESCRIPTION: Final = "environment = TMOUT=7200\nnotification = never\npriority = 1000\nrequest_memory = 512m\n"
"""The submit description of an interactive job without a submit file."""
_DESCRIBED: Final = re.compile(r"^\s*(description|(\+|MY\.)JobDescription)\s*=", re.MULTILINE | re.IGNORECASE)


def interactive_lines(description: str) -> Iterator[str]:
    """Yield the lines that make the job of a submit file wait for its user. The file's executable is neither run nor
    transferred. INTERACTIVE_SUBMIT_* have no effect."""
    yield "MY.InteractiveJob = true"
    yield "transfer_executable = false"
    yield "executable = /bin/sh"
    yield f"arguments = \"-c '{_WAIT_ARGUMENT}'\""
    if not _DESCRIBED.search(description):
        yield "description = interactive job"


def run_interactive_job(log: str, cluster: int) -> int:
    """Open a shell in the job as soon as it runs; return the shell's exit code."""
    os.environ["POOLBOOK_LOG"] = log
    return ssh_to_job(["-auto-retry", "-remove-on-interrupt", f"{cluster}.0"])

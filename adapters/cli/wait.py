"""``poolbook wait``, condor_wait, condor_run, condor_check_userlogs: wait for jobs, and check job event logs.

A log is consistent if each job was submitted once and ended once. Source: wait.cpp, condor_check_userlogs.cpp and
check_events.cpp in HTCondor.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Final, NoReturn

from ..bounded_text import read_text
from ..condor_tools.job_log_entries import (
    ABORTED,
    EXECUTING,
    SUBMITTED,
    TERMINATED,
    LogEntry,
    UnreadableEntry,
    poll_entries,
    take_entries,
)
from ..condor_tools.options import Arguments, Help, ToolError, UsageError, command_table, last_number, parse
from ..condor_tools.tool_options import ToolEnded, htcondor_message, usage_of, version
from .common import called_tool

COMMAND = command_table("wait")
_PAUSE: Final = 0.1  #: seconds between two reads of the log
_CHUNK: Final = 1 << 22  #: bytes per read


def wait(argv: Sequence[str]) -> int:
    arguments = parse(COMMAND, argv)
    if not called_tool():
        from .wait_for_jobs import names_jobs, wait_for_jobs

        if names_jobs(arguments):
            return wait_for_jobs(COMMAND, arguments)
    path, only_job = _log_and_jobs(arguments)
    jobs, until_end = last_number(COMMAND, arguments, "num", least=1), arguments.has("allevents")
    if jobs is not None and until_end:
        message = "-allevents cannot be used with -num"
        raise UsageError(message, tool_message=f"{message}\n")
    seconds = last_number(COMMAND, arguments, "wait", least=0)
    may_wait = seconds != 0 and not (until_end and seconds is None)
    deadline = time.monotonic() + seconds if seconds else None
    awaited = _awaited_jobs(arguments, only_job, sys.maxsize if until_end else jobs)
    try:
        log = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise ToolError(f"Couldn't open {path}: {error.strerror}") from None
    try:
        return _follow_log(log, awaited, arguments, may_wait, deadline)
    except UnreadableEntry as problem:
        raise ToolError(f"poolbook wait: {path} is not a valid job event log: {problem}") from None
    finally:
        os.close(log)


def _log_and_jobs(arguments: Arguments) -> tuple[str, tuple[int, ...]]:
    operands = [*arguments.values("log")[-1:], *arguments.words]
    if not operands:
        raise UsageError("poolbook wait: specify jobs or a job event log: poolbook wait 12.3", tool_message="")
    if len(operands) > 2:
        raise UsageError(f"Extra argument: {operands[2]}", tool_message=f"Extra argument: {operands[2]}\n\n")
    if len(operands) == 1 or operands[1] == "-1":
        return operands[0], ()
    number = re.match(r"\d+(?:\.\d+){0,2}", operands[1], re.ASCII)
    if number is None:
        raise ToolError(f"Couldn't understand job number: {operands[1]}")
    return operands[0], tuple(map(int, number[0].split(".")))


def _awaited_jobs(arguments: Arguments, only_job: tuple[int, ...], jobs: int | None) -> AwaitedJobs:
    event = arguments.last("event-id")
    if event is None:
        return AwaitedJobs(only_job, jobs)
    try:
        return AwaitedJobs(only_job, jobs, int(event.values[0]), int(event.qualifier or 1))
    except ValueError:
        raise UsageError(f"{event.spelling} {event.values[0]}: give an event number, such as 12") from None


def _follow_log(log: int, awaited: AwaitedJobs, arguments: Arguments, may_wait: bool, deadline: float | None) -> int:
    shows_status = arguments.has("status", "debug")
    is_at_end = False
    for entries in poll_entries(lambda: os.read(log, _CHUNK)):
        for entry in entries:
            line = awaited.process_entry(entry)
            if line is None:
                continue
            if arguments.has("echo"):
                sys.stdout.write(entry.text)
            if line and shows_status:
                print(line)
            if exit_text := awaited.end_message(is_at_end):
                return _report_end(exit_text)
        is_at_end = is_at_end or os.fstat(log).st_size == os.lseek(log, 0, os.SEEK_CUR)
        if exit_text := awaited.end_message(is_at_end):
            return _report_end(exit_text)
        if entries or not is_at_end:
            continue
        if not may_wait:
            return 0
        sys.stdout.flush()
        if deadline is not None and time.monotonic() > deadline:
            return _report_end("Time expired.", 1)
        time.sleep(_PAUSE)
    return 1


def _report_end(line: str, code: int = 0) -> int:
    print(line)
    return code


_HOST: Final = re.compile(r"Job executing on host: (.*)")


class AwaitedJobs:
    """The state of the jobs to wait for.

    :param only_job: cluster, proc and subproc of the jobs, as far as they are given
    :param jobs: the number of jobs that must end, or None for all submitted jobs
    :param event: the number of an event to wait for instead, until it has occurred `times` times
    """

    def __init__(
        self, only_job: tuple[int, ...] = (), jobs: int | None = None, event: int | None = None, times: int = 1
    ) -> None:
        self._only, self._jobs, self._event, self._times = only_job, jobs, event, times
        self._remaining: set[str] = set()
        self.submitted = self._ended = self._seen = 0

    def process_entry(self, entry: LogEntry) -> str | None:
        """Process an entry. Return the text for ``-status``, which may be empty; None for an entry of another job."""
        if entry.job[: len(self._only)] != self._only:
            return None
        if entry.number == SUBMITTED:
            self._remaining.add(entry.key)
            self.submitted += 1
            return f"{entry.key} submitted"
        if entry.number in (TERMINATED, ABORTED):
            self._remaining.discard(entry.key)
            self._ended += 1
            return f"{entry.key} {'completed' if entry.number == TERMINATED else 'aborted'}"
        if entry.number == EXECUTING:
            host = _HOST.search(entry.text)
            return f"{entry.key} executing on host {host[1] if host else ''}"
        if entry.number == self._event:
            self._seen += 1
            return f"{entry.key} event {self._event} found"
        return ""

    def end_message(self, at_end: bool) -> str:
        """Return the message with which the waiting ends, or an empty string if it continues.

        :param at_end: whether the content that the log had at first was read
        """
        if self._jobs is not None and self._ended >= self._jobs:
            return f"Specifed number of jobs ({self._jobs}) done."  # the misspelling is HTCondor's
        if self._event is not None:
            return f"Got {self._seen} events of id {self._event}" if self._seen >= self._times else ""
        return "All jobs done." if at_end and self._jobs is None and not self._remaining else ""


def condor_wait(argv: Sequence[str]) -> int:
    if "-version" in argv:
        raise ToolEnded(1, out=version())
    usage = usage_of("wait")
    try:
        return wait(argv)
    except Help:
        raise ToolEnded(0, usage) from None
    except UsageError as error:
        text = "-num must be greater than zero" if error.number == "num" else htcondor_message(error)
        message = error.tool_message if text is None else f"{text}\n"
        if message is None and not error.option:
            raise ToolEnded(1, f"{error}\n") from None
        raise ToolEnded(1, (message or "") + usage) from None


_ERROR, _HELD = 2, 12
_END_EVENTS: Final = (_ERROR, TERMINATED, ABORTED)
_MIN_FAULT_TEXT: Final = 1024  #: minimum length of the final list of faults, in characters


def check_userlogs(argv: Sequence[str]) -> int:
    from ...domain.imported.job_event_log import ENTRIES

    if not argv or argv[0] == "-usage":
        raise ToolEnded(0, out=usage_of("check_userlogs"))
    entries = list(_complete_entries(argv))
    submit_counts, ended = defaultdict[str, int](int), defaultdict[str, int](int)
    faults = 0
    for entry in entries:
        job = "({}.{}.{})".format(*entry.job)
        submit_counts[job] += entry.number == SUBMITTED
        ended[job] += entry.number in _END_EVENTS
        print(f"Log event: ULOG_{ENTRIES[entry.number].name} {job}{_status_text(entry)}")
        if entry.number in (SUBMITTED, *_END_EVENTS):
            total = sum(submit_counts.values())
            print(f" Total submitted: {total}; net submitted: {total - sum(ended.values())}\n")
        for fault in _order_faults(entry.number, submit_counts[job], ended[job]):
            faults += 1
            print(f"BAD EVENT: job {job} {fault}", file=sys.stderr)
    print("Log outcome: ULOG_NO_EVENT ")
    errors = [
        f"BAD EVENT: job {job} ended, {label} count != 1 ({count})"
        for job in submit_counts
        for label, count in (("submit", submit_counts[job]), ("total end", ended[job]))
        if count != 1
    ]
    if errors:
        print(_cut_errors(errors), "CheckAllJobs() result: EVENT_ERROR", sep="\n", file=sys.stderr)
    print("Log(s) have error(s)" if errors or faults else "Log(s) are okay")
    return 1 if errors or faults else 0


def _complete_entries(paths: Sequence[str]) -> Iterator[LogEntry]:
    """Yield the complete entries of the logs; none for a missing or unreadable log."""
    for path in paths:
        try:
            yield from take_entries(read_text(path).encode("utf-8", "surrogateescape"))[0]
        except FileNotFoundError:
            continue
        except (OSError, UnreadableEntry) as problem:
            raise ToolEnded(1, f"Error monitoring log file {path}: {problem}\n") from None


def _status_text(entry: LogEntry) -> str:
    if entry.number == SUBMITTED:
        notes = re.search(r"^    (?!\[)(.*)", entry.text, re.MULTILINE)
        return f' ("{notes[1] if notes else ""}")'
    if entry.number == _HELD and (code := re.search(r"Code (\d+) Subcode (\d+)", entry.text)):
        return f" (code={code[1]} subcode={code[2]})"
    return ""


def _order_faults(number: int, submit_count: int, ended: int) -> Iterator[str]:
    """Yield the faults of an event, given how often its job was submitted and ended up to and including this event."""
    if number == SUBMITTED:
        if submit_count != 1:
            yield f"submitted, submit count != 1 ({submit_count})"
        if ended:
            yield f"submitted, total end count != 0 ({ended})"
    elif number == EXECUTING:
        if submit_count < 1:
            yield f"executing, submit count < 1 ({submit_count})"
        if ended:
            yield f"executing, total end count != 0 ({ended})"
    elif number in _END_EVENTS:
        if submit_count < 1:
            yield f"ended, submit count < 1 ({submit_count})"
        if ended != 1:
            yield f"ended, total end count != 1 ({ended})"


def _cut_errors(errors: Sequence[str]) -> str:
    text = errors[0]
    for error_text in errors[1:]:
        if len(text) > _MIN_FAULT_TEXT:
            return f"{text} ..."
        text += f"; {error_text}"
    return text


_FILES: Final = ("run", "submit", "log", "out", "error")


def condor_run(argv: Sequence[str]) -> int:
    universe, submit_lines, getenv, command = _parse_condor_run(argv)
    names = {name: Path(f".condor_{name}.{os.getpid()}") for name in _FILES}
    with _remove_at_end(names.values()):
        names["run"].write_text(
            f"#!{os.environ.get('SHELL', '/bin/sh')}\n{' '.join(command)} \n", errors="surrogateescape"
        )
        names["run"].chmod(0o700)
        lines = [
            f"universe = {universe}",
            f"executable = {names['run']}",
            f"initialdir = {os.getcwd()}",
            "notification = NEVER",
            *(f"{key} = {names[name]}" for key, name in (("log", "log"), ("output", "out"), ("error", "error"))),
            *(["getenv = True"] if getenv else []),
            *_environment_requirements(),
            *submit_lines,
            "queue",
        ]
        names["submit"].write_text("\n".join(lines) + "\n", errors="surrogateescape")
        import shutil  # slow to import

        from .submit import submitted_by_tool

        cluster = submitted_by_tool(str(names["submit"]))
        if not cluster:
            raise ToolEnded(2, "Failed to submit Condor job.\n")
        try:
            code = _wait_for_exit_code(names["log"])
        except KeyboardInterrupt:
            _raise_abandoned(cluster)
        for name, stream in (("out", sys.stdout), ("error", sys.stderr)):
            with open(names[name], errors="surrogateescape") as file:
                shutil.copyfileobj(file, stream)
        return code


def _parse_condor_run(argv: Sequence[str]) -> tuple[str, list[str], bool, list[str]]:
    """Return the universe, the lines to append, whether the job inherits this environment, and the command's words."""
    universe, submit_lines, getenv, command = "vanilla", list[str](), False, list[str]()
    arguments = iter(argv)
    for word in arguments:
        if word.startswith("-h"):
            raise ToolEnded(1, out=usage_of("run"))
        if word.startswith("-u"):
            universe = word[2:] or next(arguments, "")
        elif word.startswith("-a"):
            submit_lines.append(next(arguments, ""))
        elif word.startswith("-getenv"):
            getenv = True
        else:
            command.append(word)
    if not command:
        raise ToolEnded(1, out=usage_of("run"))
    return universe, submit_lines, getenv, command


def _environment_requirements() -> list[str]:
    own = os.environ.get("CONDOR_REQUIREMENTS")
    variables = ((name, os.environ.get(f"CONDOR_{name.upper()}")) for name in ("Arch", "OpSys"))
    terms = [*([own] if own is not None else []), *(f'{name} == "{value}"' for name, value in variables if value)]
    return [f"requirements = {' && '.join(terms)}"] if terms else []


@contextmanager
def _remove_at_end(paths: Iterable[Path]) -> Iterator[None]:
    try:
        yield
    finally:
        for path in paths:
            with suppress(OSError):
                path.unlink()


def _wait_for_exit_code(path: Path) -> int:
    """Wait until the log records the end of the job, and return the job's exit code, or 0 if a signal ended it."""
    with open(path, "rb", buffering=0) as log:
        for entries in poll_entries(lambda: log.read(1 << 16)):
            for entry in entries:
                if entry.number in (TERMINATED, ABORTED):
                    return _exit_code(entry)
            if not entries:
                time.sleep(_PAUSE)
    raise AssertionError("unreachable: a log is followed until the job has ended")


def _exit_code(entry: LogEntry) -> int:
    if entry.number == ABORTED:
        sys.stderr.write("The job was aborted")
        return 0
    if match := re.search(r"termination \(signal (\d+)\)", entry.text):
        print(f"Condor job killed by signal {match[1]}.", file=sys.stderr)
    match = re.search(r"termination \(return value (\d+)\)", entry.text)
    return int(match[1]) if match else 0


def _raise_abandoned(cluster: str) -> NoReturn:
    from .main import main

    with redirect_stdout(io.StringIO()):
        main(["condor_rm", cluster])
    raise ToolEnded(130, "Killed by SIGINT.\n")

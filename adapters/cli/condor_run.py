"""condor_run: submit a shell's command, wait for it, and print what it wrote, as if it had run here."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Final, NoReturn

from ..condor_tools.job_log_entries import ABORTED, TERMINATED, LogEntry, follow
from ..condor_tools.tool_options import ToolEnded, usage_of
from .submit import submitted_by_tool

_PAUSE: Final = 0.1  #: seconds between two looks at the job's log (condor_run's are 5 apart)
_FILES: Final = ("run", "submit", "log", "out", "error")


def condor_run(argv: Sequence[str]) -> int:
    universe, appended, getenv, command = _read(argv)
    names = {name: Path(f".condor_{name}.{os.getpid()}") for name in _FILES}
    with _removed(names.values()):
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
            *_requirements(),
            *appended,
            "queue",
        ]
        names["submit"].write_text("\n".join(lines) + "\n", errors="surrogateescape")
        cluster = submitted_by_tool(str(names["submit"]))
        if not cluster:
            raise ToolEnded(2, "Failed to submit Condor job.\n")
        try:
            code = _waited(names["log"])
        except KeyboardInterrupt:
            _abandoned(cluster)
        for name, stream in (("out", sys.stdout), ("error", sys.stderr)):
            with open(names[name], errors="surrogateescape") as file:
                shutil.copyfileobj(file, stream)
        return code


def _read(argv: Sequence[str]) -> tuple[str, list[str], bool, list[str]]:
    """Return the universe, the lines to append, whether the job gets this environment, and the command's words."""
    universe, appended, getenv, command = "vanilla", list[str](), False, list[str]()
    words = iter(argv)
    for word in words:
        if word.startswith("-h"):
            raise ToolEnded(1, out=usage_of("run"))
        if word.startswith("-u"):
            universe = word[2:] or next(words, "")
        elif word.startswith("-a"):
            appended.append(next(words, ""))
        elif word.startswith("-getenv"):
            getenv = True
        else:
            command.append(word)
    if not command:
        raise ToolEnded(1, out=usage_of("run"))
    return universe, appended, getenv, command


def _requirements() -> list[str]:
    """Return the command that the environment asks for: CONDOR_REQUIREMENTS, CONDOR_ARCH, CONDOR_OPSYS."""
    own = os.environ.get("CONDOR_REQUIREMENTS")
    named = ((name, os.environ.get(f"CONDOR_{name.upper()}")) for name in ("Arch", "OpSys"))
    terms = [*([own] if own is not None else []), *(f'{name} == "{value}"' for name, value in named if value)]
    return [f"requirements = {' && '.join(terms)}"] if terms else []


@contextmanager
def _removed(paths: Iterable[Path]) -> Iterator[None]:
    try:
        yield
    finally:
        for path in paths:
            with suppress(OSError):
                path.unlink()


def _waited(path: Path) -> int:
    """Return the exit code of the job, when its log says that it has ended; 0 if a signal ended it."""
    with open(path, "rb", buffering=0) as log:
        for entries in follow(lambda: log.read(1 << 16)):
            for entry in entries:
                if entry.number in (TERMINATED, ABORTED):
                    return _code(entry)
            if not entries:
                time.sleep(_PAUSE)
    raise AssertionError("unreachable: a log is followed until the job has ended")


def _code(entry: LogEntry) -> int:
    if entry.number == ABORTED:
        sys.stderr.write("The job was aborted")
        return 0
    if found := re.search(r"termination \(signal (\d+)\)", entry.text):
        print(f"Condor job killed by signal {found[1]}.", file=sys.stderr)
    found = re.search(r"termination \(return value (\d+)\)", entry.text)
    return int(found[1]) if found else 0


def _abandoned(cluster: str) -> NoReturn:
    from .main import main

    with redirect_stdout(io.StringIO()):
        main(["condor_rm", cluster])
    raise ToolEnded(130, "Killed by SIGINT.\n")

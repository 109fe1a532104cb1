"""condor_evicted_files: what the pool keeps of jobs that were evicted or took a checkpoint, for their next run.

It reads the spool beside the log; the pool need not be served. Wherever it asks for one job alone, it ends with the
number of what went wrong; of several it tells what it can.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Final

from ..condor_tools.tool_options import ToolEnded, usage_of
from .common import default_log

_WRONG: Final = 255  #: the exit code of wrong usage
_NONE: Final = "No directory; job was never evicted.\n"


def evicted_files(argv: Sequence[str]) -> int:
    from ..machine.spool import Spool
    from ..stores.log_paths import log_paths

    words = list(argv)
    if not words:
        raise ToolEnded(_WRONG, out=usage_of("evicted_files"))
    command = "dir" if words[0][:1].isdigit() else words.pop(0).lower()
    if command not in _COMMANDS:
        raise ToolEnded(_WRONG, out=f"Unknown command '{argv[0]}', aborting.\n")
    jobs = [_job(word) for word in words]
    spool = Spool(log_paths(default_log()).folder)
    worst = 0
    for job in jobs:
        name = f"{job[0]}.{job[1]}"
        place = os.path.realpath(spool.path(*job))
        prefix = f"{name} " if len(jobs) > 1 else ""
        said, code = _COMMANDS[command](name, place) if os.path.isdir(place) else (_NONE, errno.ENOENT)
        sys.stdout.write(prefix + said)
        worst = worst or code
    return worst if len(jobs) == 1 else 0


def _job(word: str) -> tuple[int, int]:
    found = re.match(r"(\d{1,10})\.(\d{1,10})", word, re.ASCII)
    if found is None:
        raise ToolEnded(_WRONG, f"'{word}' is not a job ID, aborting.\n")
    return int(found[1]), int(found[2])


def _directory(_: str, place: str) -> tuple[str, int]:
    return f"{place}\n", 0


def _listed(_: str, place: str) -> tuple[str, int]:
    names = [entry for entry in sorted(os.listdir(place)) if not entry.startswith(".poolbook-")]
    return "".join(f"\t{name}\n" for name in names) or "\n", 0


def _copied(name: str, place: str) -> tuple[str, int]:
    """Copy into a new directory, named as the job; links are copied as links."""
    if os.path.lexists(name):
        return f"Destination directory '{name}' exists, not modifying.\n", errno.EEXIST
    try:
        shutil.copytree(place, name, symlinks=True, ignore=shutil.ignore_patterns(".poolbook-*"))
    except (OSError, shutil.Error) as error:
        return f"Copy failed: {error}.\n", 1
    return f"Copied to '{name}'.\n", 0


_COMMANDS: Final[dict[str, Callable[[str, str], tuple[str, int]]]] = {
    "dir": _directory,
    "find": _directory,
    "ls": _listed,
    "list": _listed,
    "get": _copied,
    "fetch": _copied,
}

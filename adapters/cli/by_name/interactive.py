"""``submit -interactive``: a job that waits for its user, who gets a shell in its directory as soon as it runs.

Source: condor_submit in the manual, and the defaults of INTERACTIVE_SUBMIT_FILE, _CMD_OVERRIDE and _ARGS_OVERRIDE.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from .ssh_to_job import SESSION, ssh_to_job

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

"""condor_evicted_files: what the pool keeps of evicted jobs (ON_EXIT_OR_EVICT) for their next run.

Jobs have no spool here yet, so nothing is kept of any: the tool says of each what HTCondor's says of one that has none.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Sequence
from typing import Final

from ...condor_tools.tool_options import ToolEnded, usage_of

_COMMANDS: Final = {"dir", "find", "ls", "list", "get", "fetch"}
_WRONG: Final = 255  #: the exit code of wrong usage
_NONE: Final = "No directory; job was never evicted.\n"


def evicted_files(argv: Sequence[str]) -> int:
    if not argv:
        raise ToolEnded(_WRONG, out=usage_of("evicted_files"))
    words = list(argv)
    if not words[0][:1].isdigit() and words.pop(0).lower() not in _COMMANDS:
        raise ToolEnded(_WRONG, out=f"Unknown command '{argv[0]}', aborting.\n")
    for word in words:
        if re.match(r"\d+\.\d+", word, re.ASCII) is None:
            raise ToolEnded(_WRONG, f"'{word}' is not a job ID, aborting.\n")
    if len(words) == 1:
        raise ToolEnded(errno.ENOENT, out=_NONE)
    sys.stdout.writelines(f"{word} {_NONE}" for word in words)
    return 0

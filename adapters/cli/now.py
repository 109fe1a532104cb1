"""condor_now: run an idle job at once in place of running ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..condor_tools.tool_options import Tool, ToolEnded, read
from ..runtime.pool_client import ask
from ..runtime.requests import RequestRefused
from .common import pool_log

_USAGE: Final = "{usage}"
TOOL = Tool(
    "now",
    lacking=_USAGE,
    helped=1,
    words_end_it=True,
)


def now(argv: Sequence[str]) -> int:
    """As with HTCondor's, the end is that of the request: the job begins when the others are gone."""
    arguments = read(TOOL, argv)
    found = [re.match(r"(-?\d+)(?:$|\.(\d*))", word, re.ASCII) for word in arguments.words]
    jobs = [(int(one[1]), int(one[2] or 0)) for one in found if one is not None]
    if len(jobs) < max(2, len(found)):
        raise TOOL.ended(_USAGE)
    if arguments.has("flags"):  # they make HTCondor's schedd test itself
        raise ToolEnded(1, "Do not use the --flags option.\n")
    url = pool_log(arguments, "Unable to locate schedd '{name}' in local pool, aborting.\n")
    try:
        ask(url, {"kind": "RunNow", "job": jobs[0], "victims": jobs[1:]})
    except RequestRefused as refused:
        raise ToolEnded(1, f"Unable to reassign slot: {refused.tool or refused}.\n") from None
    return 0

"""condor_transfer_data: fetch the output of jobs that were submitted with their files.

Jobs here have their output written where their submit file says, and nothing is left to fetch when this is called: of
jobs that are selected it prints what HTCondor's prints, and no file moves.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ...condor_tools.options import Arguments
from ...condor_tools.tool_options import Form, Tool, ToolEnded, read
from .jobs import POOL, job_id, pool_log

TOOL = Tool(
    "transfer_data",
    {
        "help": Form(1),
        "version": Form(1),
        **POOL,
        "constraint": Form(1, 1),
        "addr": Form(2, 1, instead="a log is one pool, which POOLBOOK_LOG names"),
        "all": Form(1),
    },
    lacking="condor_transfer_data: {option} requires another argument\n",
    unknown="Unrecognized option: {option}\n{usage}",
)


def transfer_data(argv: Sequence[str]) -> int:
    arguments = read(TOOL, argv)
    everything = arguments.has("all")
    if everything and arguments.words:
        raise TOOL.ended("{usage}")
    if not (everything or arguments.words or arguments.has("constraint")):
        raise TOOL.ended("You did not specify any jobs\n{usage}")
    pool_log(arguments, "condor_transfer_data: unknown host {name}\n")
    if not everything and not _selected(arguments):
        raise ToolEnded(1, "Unable to create a job constraint!\n")
    print("Fetching data files...")
    return 0


def _selected(arguments: Arguments) -> int:
    """Return how many words or options select jobs; say which words do not."""
    count = len(arguments.values("constraint"))
    for word in arguments.words:
        if word[:1].isdigit() and (job_id(word) is None or job_id(word) == (0, 0)):
            sys.stderr.write(f'Warning: unrecognized "{word}" skipped.\n')
        elif not word[:1].isalnum():
            sys.stderr.write(f'Warning: unrecognized "{word}" skipped\n')
        else:
            count += 1
    return count

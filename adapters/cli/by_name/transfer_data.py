"""condor_transfer_data: fetch what jobs have made that were submitted with -spool.

Of all other jobs the output is where their submit file says: of these no file moves. With -all, and of users and
clusters, those jobs are meant that have ended.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....domain.ports.log import LogMissing
from ...condor_tools.job_selection import chosen_jobs, select
from ...condor_tools.options import Arguments, UsageError
from ...condor_tools.tool_options import POOL, Form, Tool, ToolEnded, read
from ...runtime.spooled_files import fetch
from ..common import job_id, pool_log, setting
from ..spooling import moved

if TYPE_CHECKING:
    from ....domain.classad import ClassAd

COMPLETED = 4  #: JobStatus

TOOL = Tool(
    "transfer_data",
    {
        "help": Form(1),
        "version": Form(1),
        **POOL,
        "constraint": Form(1, 1),
        "addr": Form(2, 1),
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
    url = pool_log(arguments, "condor_transfer_data: unknown host {name}\n")
    if not everything and not _selected(arguments):
        raise ToolEnded(1, "Unable to create a job constraint!\n")
    print("Fetching data files...", flush=True)
    moved(url, _spooled(url, arguments), fetch, "ERROR: Failed to spool job files.\n")
    return 0


def _spooled(url: str, arguments: Arguments) -> dict[tuple[int, int], ClassAd]:
    """Return the jobs that are meant, of those whose files are in the spool."""
    from ...runtime.queries import Queries

    words = [word for word in arguments.words if word[:1].isalnum() and not (word[:1].isdigit() and not job_id(word))]
    try:
        selection = select(words, arguments.values("constraint"))
        with Queries(url) as queries:
            ads = chosen_jobs(selection, queries.queue().ads, setting())
    except (LogMissing, UsageError):  # a constraint that is no expression means no job
        return {}
    found = {(int(ad.eval("ClusterId")), int(ad.eval("ProcId"))): ad for ad in ads if "StageInFinish" in ad}
    named = {(one.cluster, one.proc) for one in selection.ids}
    return {job: ad for job, ad in found.items() if job in named or ad.eval("JobStatus") == COMPLETED}


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

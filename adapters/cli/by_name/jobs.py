"""Shared by the tools that are about one job: which pool is meant, and the job's ad and run."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ...condor_tools.options import Arguments
from ...condor_tools.tool_options import Form, ToolEnded
from ..common import ADDRESS, DEFAULT_LOG, NO_ADDRESS, called_tool, is_this_pool

if TYPE_CHECKING:
    from ....domain.classad import ClassAd
    from ...runtime.job_runs import Run

POOL = {
    "pool": Form(1, 1),
    "name": Form(1, 1),
    "debug": Form(1, colon=True),
}
"""The options of every tool that asks a schedd."""


def pool_log(arguments: Arguments, unknown: str = "", no_pool: str = "", code: int = 1) -> str:
    """Return the log of the pool that is meant. Raise ``ToolEnded`` if -name or -pool names another one: ``unknown``,
    of a pool ``no_pool``, in which ``{name}`` is that name; or if -addr is no address."""
    for given in arguments.every("addr"):
        if not ADDRESS.fullmatch(given.values[0]):
            told = NO_ADDRESS.format(tool=called_tool(), name=given.values[0], form="ip.address.here:port")
            raise ToolEnded(1, f"{told}\n")
    for given in arguments.every("name", "pool"):
        if not is_this_pool(given.values[0]):
            no_such = no_pool if no_pool and given.name == "pool" else unknown
            raise ToolEnded(code, no_such.format(name=given.values[0]))
    return os.environ.get("POOLBOOK_LOG") or DEFAULT_LOG


def job_id(word: str) -> tuple[int, int] | None:
    """Return the cluster and the process of an id such as 12.3, or 12, which means 12.0; None for any other word."""
    found = re.fullmatch(r"([0-9]+)(?:\.([0-9]+))?", word)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def looked_up(url: str, job: tuple[int, int]) -> tuple[ClassAd | None, Run | None]:
    """Return the ad of a job in the queue, and its run; None for what there is not."""
    from ...runtime.queries import Queries

    with Queries(url) as queries:
        ad = queries.job(*job)
        return ad, None if ad is None else queries.run(*job)

"""condor_now: give the slot of a running job to another job, at once.

It is refused, in HTCondor's words as far as these go: a claim here is activated for the next job in the order of the
queue, and for no other yet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NoReturn

from ...condor_tools.tool_options import Form, Tool, ToolEnded, read
from .jobs import POOL, looked_up, pool_log

_USAGE: Final = "{usage}"
TOOL = Tool(
    "now",
    {
        "help": Form(4),
        **{name: form._replace(least=len(name)) for name, form in POOL.items()},
        "flags": Form(5, 1, instead="do not use the --flags option"),
    },
    lacking=_USAGE,
    unknown=_USAGE,
    helped=1,
)
_IDLE, _RUNNING = 1, 2  #: JobStatus


def now(argv: Sequence[str]) -> int:
    arguments = read(TOOL, argv)
    jobs = [re.match(r"(-?\d+)(?:$|\.(\d*))", word, re.ASCII) for word in arguments.words]
    if len(jobs) < 2 or None in jobs:
        raise TOOL.ended(_USAGE)
    url = pool_log(arguments, "Unable to locate schedd '{name}' in local pool, aborting.\n")
    beneficiary, *victims = [(int(found[1]), int(found[2] or 0)) for found in jobs if found is not None]
    ad, _ = looked_up(url, beneficiary)
    if ad is None:
        _refused("no such job (now-job)")
    if ad.eval("JobStatus") != _IDLE:
        _refused("the now-job must be idle")
    for victim in victims:
        ad, _ = looked_up(url, victim)
        if ad is None:
            _refused("no such job (vacate-job)")
        if ad.eval("JobStatus") != _RUNNING:
            _refused("vacate-job must be running")
    _refused("a claim goes to the next job in the order of the queue: condor_prio says which that is, and "
             "condor_vacate_job makes room for it")  # fmt: skip


def _refused(why: str) -> NoReturn:
    raise ToolEnded(1, f"Unable to reassign slot: {why}.\n")

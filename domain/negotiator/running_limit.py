"""How many jobs run at one time at most: MAX_JOBS_RUNNING, as the schedd asks for no more.

Jobs count that run on slots or have been given one; those of the local universe do not. Lowering the limit ends no job:
claims are given up as their jobs end. Source: canSpawnShadow (schedd.cpp) of the reference.
"""

from __future__ import annotations

from math import inf

from ..state.schedd_settings import JOBS_RUNNING, limit
from ..state.state import State


def room(state: State) -> float:
    """How many further jobs may begin; negative: there are more than may be."""
    most = limit(state.settings, JOBS_RUNNING)
    if most is None:
        return inf
    clusters = state.clusters
    running = {job for job in state.by_job if job[0] in clusters and not clusters[job[0]].local}
    return most - len(running | state.reserved.keys())

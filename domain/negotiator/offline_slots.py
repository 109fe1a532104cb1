"""Which jobs a cycle would have matched with offline machines, if these were awake.

HTCondor ranks offline slots last by default (NEGOTIATOR_POST_JOB_RANK), matches a job with one as if it was online, and
then tells only the collector. Here the jobs that a cycle leaves idle are matched with the offline ads after it, unless
a limit stopped them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..classad import symmetric_match
from ..state.caches import ad_from_attributes
from .share_limits import SHARE
from .spins import NegotiationCycle


def match_offline(cycle: NegotiationCycle) -> Iterator[tuple[str, str]]:
    """Yield the offline slots that match, each with the id of the first job of its autocluster."""
    offline, stopped = cycle.state.offline.items(), cycle.reasons.stopped
    free = {slot: ad_from_attributes(each.ad) for slot, each in offline if cycle.now < each.until}
    for submitter, queue in sorted(cycle.requests.queues.by_submitter.items()) if free else ():
        for autocluster, (cluster, proc, count) in cycle.requests.tally(queue).items():
            if stopped.get((submitter, autocluster), stopped.get((submitter, -1), "")) not in ("", SHARE):
                continue
            job = ad_from_attributes(cluster.attributes(proc))
            matching = [slot for slot, ad in free.items() if symmetric_match(job, ad, cycle.context)]
            for slot in matching[:count]:
                del free[slot]
                yield slot, f"{cluster.id}.{proc}"

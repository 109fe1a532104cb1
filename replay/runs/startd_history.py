"""Build the ads of a startd's history (condor_history -startd): each job's ad at the end of a run on its slots.

The runs of the pool's own queue have epoch ads. The runs of access points elsewhere are in the log as claims: the job's
ad is in `ClaimActivated`, and the end of its processes in a `RunReported`. Source: HTCondor's starter, which sends the
ad to the startd when all processes have exited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from operator import itemgetter

from ...domain import events as e
from ...domain.ports import stimuli as s
from ...domain.ports.run_reports import decode_report
from ...domain.state.job_ad import STATUS_NUMBERS, quoted, seconds
from .epochs import STARTD_EPOCHS, ads_with_positions


def startd_history(read: Callable[[], Iterable[tuple[int, e.Event]]]) -> Iterator[e.Ad]:
    """Yield the ads of the runs that have ended on the machines of a log, in the order of their ends.

    :param read: returns the events of the log from its beginning
    """
    sources = ads_with_positions(read(), STARTD_EPOCHS), _external_runs(read())
    return (ad for _, ad in merge(*sources, key=itemgetter(0)))


def _external_runs(events: Iterable[tuple[int, e.Event]]) -> Iterator[tuple[int, e.Ad]]:
    """Yield the ads of runs for access points elsewhere, each with the position of the event that ended it."""
    running: dict[str, e.Ad] = {}
    for position, event in events:
        if isinstance(event, e.ClaimActivated):
            started = {"RemoteHost": quoted(event.slot), "JobCurrentStartDate": seconds(event.at)}
            running[event.slot] = {**event.ad, **started}
        elif isinstance(event, e.ClaimJobEdited) and event.slot in running:
            running[event.slot] |= event.changes
        elif isinstance(event, e.RunReported) and event.slot in running:
            report = decode_report(event)
            if isinstance(report, s.ActivationEnded):
                running[event.slot] |= _exit_attributes(report)
        elif isinstance(event, e.ClaimDeactivated) and event.slot in running:
            yield position, _ended_ad(running.pop(event.slot), event.at)


def _exit_attributes(report: s.ActivationEnded) -> e.Ad:
    if report.signal is not None:
        return {"ExitBySignal": "true", "ExitSignal": str(report.signal)}
    return {} if report.code is None else {"ExitBySignal": "false", "ExitCode": str(report.code)}


def _ended_ad(ad: e.Ad, at: int) -> e.Ad:
    wall_time = f"{int(seconds(at)) - int(ad['JobCurrentStartDate'])}.0"
    ended = {"CompletionDate": seconds(at), "RemoteWallClockTime": wall_time, "JobState": quoted("Exited")}
    return {**ad, **ended, "JobStatus": str(STATUS_NUMBERS["Completed"])}

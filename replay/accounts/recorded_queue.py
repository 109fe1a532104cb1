"""The queue of an imported pool at an instant for which no job_queue.log has it, from the records of its jobs.

The history and the job event logs show when a job was submitted, held, released and left; the runs show when it ran.
A job that none of these records shows is missing. An ad has the attributes that a job keeps, and others derived from
its status.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...domain import events as e
from ...domain.imported import packed_ads
from ...domain.ports.log import EventStore
from ...domain.state.job_ad import STATUS_NUMBERS, quoted, seconds
from ...domain.units import SECOND
from ..forensics.daemon_tables import NOTHING, NotKnown, QueueSnapshot, queue
from ..runs.job_run import RUNNING, JobRun
from .demand import LEFT, Demand, Job
from .intervals import slot_times

_KEPT: Final = (
    "Owner", "User", "QDate", "JobUniverse", "Cmd", "Args", "Arguments", "Iwd", "In", "Out", "Err", "UserLog",
    "AcctGroup", "AcctGroupUser", "AccountingGroup", "NiceUser", "JobPrio", "JobBatchName", "DAGManJobId",
    "DAGNodeName", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", "Requirements", "Rank", "GlobalJobId",
)  # fmt: skip
"""The attributes that a job usually keeps from its submission on."""


def recorded_queue(log: EventStore, at: int) -> QueueSnapshot:
    """Return the jobs that were in the queue of an import at an instant, sorted by id.

    :raises NotKnown: no record shows a submission by then
    """
    demand = Demand()
    runs = slot_times(log, demand.watch).runs
    demand.finish(runs)
    ads, last = _kept_attributes(log), _last_queue(log)
    for job, ad in (last or {}).items():
        ads[job] = {name: text for name, text in ad.items() if name in _KEPT}
        if job not in demand.submitted and ad.get("QDate", "").isdecimal():
            demand.submitted[job] = int(ad["QDate"]) * SECOND
    if not demand.submitted or at < min(demand.submitted.values()):
        raise NotKnown(min(demand.submitted.values(), default=0), NOTHING)
    runs_by_job: dict[str, list[JobRun]] = {}
    for run in sorted(runs, key=lambda run: run.began):
        runs_by_job.setdefault(run.job, []).append(run)
    jobs: list[e.Ad] = []
    for job, submitted in sorted(demand.submitted.items()):
        statuses = demand.statuses(job)
        since, status = max(((when, name) for when, name in statuses if when <= at), default=(submitted, "Idle"))
        has_vanished = last is not None and job not in last and all(name != LEFT for _, name in statuses)
        if submitted <= at and status != LEFT and not has_vanished:
            began = [run for run in runs_by_job.get(f"{job[0]}.{job[1]}", ()) if run.began <= at]
            user = demand.users.get(job[0], ("", ""))[0]
            known = {"Owner": quoted(user.partition("@")[0]), "User": quoted(user), "QDate": seconds(submitted)}
            jobs.append({"MyType": quoted("Job"), **known, **ads.get(job, {}), **_state(job, status, since, began, at)})
    return QueueSnapshot(jobs, at)


def _state(job: Job, status: str, since: int, runs: list[JobRun], at: int) -> e.Ad:
    """Return the attributes of a job that follow from its status and its runs until an instant."""
    run = runs[-1] if runs and (runs[-1].ended > at or runs[-1].outcome == RUNNING) and status != "Held" else None
    ended = [each for each in runs if each is not run]
    worked = sum(each.duration for each in ended)
    state = {"ClusterId": str(job[0]), "ProcId": str(job[1]), "NumJobStarts": str(len(runs))}
    state |= {"RemoteWallClockTime": f"{worked / SECOND:.1f}"} if ended else {"RemoteUserCpu": "0.0"}
    if run is not None:
        began = seconds(run.began)
        state |= {"ShadowBday": began, "JobCurrentStartDate": began, "RemoteHost": quoted(run.slot)}
        is_suspended = status == "Suspended" and since >= run.began
        status, since = (status, since) if is_suspended else ("Running", run.began)
    elif status != "Held":
        status, since = "Idle", max([since, *(each.ended for each in ended)])
    return state | {"JobStatus": str(STATUS_NUMBERS[status]), "EnteredCurrentStatus": seconds(since)}


def _last_queue(log: EventStore) -> dict[Job, e.Ad] | None:
    try:
        return {(int(ad["ClusterId"]), int(ad["ProcId"])): ad for ad in queue(log).jobs}
    except NotKnown:
        return None


def _kept_attributes(log: EventStore) -> dict[Job, e.Ad]:
    """Return the attributes that jobs keep, as their ads in the history show them."""
    ads: dict[Job, e.Ad] = {}
    for event in _ads_kept(log):
        index = packed_ads.index_of_event(event)
        jobs = zip(index.integers("cluster"), index.integers("proc"), strict=True)
        ads.update(zip(jobs, packed_ads.select(event, _KEPT), strict=True))
    return ads


def _ads_kept(log: EventStore) -> Iterator[e.AdsKept]:
    for kind in ("epochs", "history"):
        for _, event in log.read_stream(f"ads/{kind}"):
            if isinstance(event, e.AdsKept):
                yield event

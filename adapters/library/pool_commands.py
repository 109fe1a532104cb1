"""The methods of `Pool` and `Client` that act on jobs, slots and submitters. Each call is one command to a pool."""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from ...domain.negotiator.accounting import Standing
from ...domain.ports import stimuli as s
from ...domain.submit import SubmitWarning
from ...replay.narration.sentences import UnknownThingError
from .log_base import JobId
from .python_values import number_of, seconds_of, text_of
from .submissions import Submission, check_arguments


class Outcome(TypedDict):
    """The result for a range of jobs.

    >>> [(outcome["first"], outcome["last"], outcome["result"]) for outcome in pool.hold("1")]
    [(0, 3, 'done'), (4, 5, 'done')]
    """

    cluster: int
    first: int  #: number of the first process in the range
    last: int
    result: str  #: "done", "permission denied", "release limit", or the status that does not allow it
    changes: dict[str, str]  #: the attributes that the edit set, as expressions


class PoolCommands(ABC):
    """Commands to a pool. The caller is ``user``: for jobs by default `_user`; for slots, machines and submitters by
    default `_administrator`, who must be one of the pool's owners. A submitter's full name is user@domain. A value with
    a ``duration`` (seconds) reverts after it. In a pool with several negotiators, each has separate accounting, and
    ``negotiator`` names one."""

    _user: str
    _administrator: str

    @abstractmethod
    def _ask(self, stimulus: s.Stimulus) -> Any:
        """Execute a command and return the answer. Raise `Refusal` if the pool rejects it."""

    @abstractmethod
    def _new_id(self, command: str) -> str:
        """Return the id of a new command."""

    @abstractmethod
    def _submit(self, submission: Submission) -> dict[str, Any]:
        """Submit jobs and return the answer: their cluster's number, and perhaps a warning."""

    @abstractmethod
    def _is_queued(self, jobs: Sequence[tuple[int, int | None]]) -> Sequence[bool]:
        """Return, for each job (cluster, proc) or cluster (cluster, None), True if the queue contains it."""

    @abstractmethod
    def usage(self) -> dict[str, float]:
        """Return the weighted usage of ended claims by submitter, in seconds of a slot of weight 1.

        >>> client.usage()
        {'alice@example.org': 1200.0}
        """

    @abstractmethod
    def submitters(self, *, negotiator: str = "", at: float | None = None) -> list[Standing]:
        """Return, by name, the standings of submitters who have jobs or had slots: priorities, usage and settings.

        :param at: as of this instant, in seconds since the epoch; None: now, or for a `Client`, as of the last event
        :raises LogBeginsLater: the log begins after this instant
        """

    def _manage(self, kind: type[s.Command], name: str, user: str, *arguments: Any, **more: Any) -> Any:
        """Execute a command for administrators, and return the answer."""
        return self._ask(kind(self._new_id(name), user or self._administrator, *arguments, **more))

    def _selection(self, jobs: Sequence[JobId], constraint: str) -> s.Selection:
        """Return the selection of a call. Raise `UnknownThingError` if a job or cluster is not in the queue."""
        selected = selection(jobs, constraint)
        names: list[tuple[int, int | None]] = [*((cluster, None) for cluster in selected.clusters), *selected.jobs]
        for name, is_queued in zip(names, self._is_queued(names), strict=True):
            if not is_queued:
                raise not_queued(*name)
        return selected

    def _act(
        self, kind: type[s.JobCommand], jobs: Sequence[JobId], user: str, constraint: str, reason: str = "", **more: Any
    ) -> list[Outcome]:
        selected = self._selection(jobs, constraint)
        command = kind(self._new_id(kind.action), user or self._user, selected, reason, **more)
        return _outcomes_by_range(self._ask(command))

    def submit(
        self, description: str | Mapping[str, object], *, count: int = 1, user: str = "", folder: str | Path = "."
    ) -> int:
        """Submit jobs and return their cluster's number.

        >>> pool.submit({"executable": "/bin/work", "arguments": "$(Process)"}, count=3)
        2

        :param description: the text of a submit description, with its queue statement; or a mapping of its commands,
            queued `count` times
        :param folder: the directory to which its relative paths refer
        :raises SubmitError: the description is invalid; the error names the line
        :raises ValueError: `count` is not a whole number, or is given with a text
        :raises Refusal: the pool does not accept it
        :warns SubmitWarning: a command has no effect, or not the likely intended one
        """
        check_arguments(description, count)
        answer = self._submit(Submission(description, count, user or self._user, Path(folder)))
        if answer.get("warning"):
            warnings.warn(answer["warning"], SubmitWarning, stacklevel=2)
        return int(answer["cluster"])

    def hold(self, *jobs: JobId, reason: str = "", constraint: str = "", user: str = "") -> list[Outcome]:
        """Hold jobs; return the result for each range of them.

        >>> pool.hold("1.4", "bob", reason="wrong input")
        [{'cluster': 1, 'first': 4, 'last': 4, 'result': 'done', 'changes': {}}]

        :raises UnknownThingError: a job or cluster is not in the queue; no job is held
        """
        return self._act(s.Hold, jobs, user, constraint, reason)

    def release(self, *jobs: JobId, reason: str = "", constraint: str = "", user: str = "") -> list[Outcome]:
        """Release held jobs; return the result for each range of them."""
        return self._act(s.Release, jobs, user, constraint, reason)

    def remove(self, *jobs: JobId, reason: str = "", constraint: str = "", user: str = "") -> list[Outcome]:
        """Remove jobs from the queue and kill their processes; return the result for each range of them."""
        return self._act(s.Remove, jobs, user, constraint, reason)

    def vacate(self, *jobs: JobId, fast: bool = False, constraint: str = "", user: str = "") -> list[Outcome]:
        """Evict running jobs, gracefully unless `fast`; they become idle. Return the result for each range of them."""
        return self._act(s.Vacate, jobs, user, constraint, fast=fast)

    def suspend(self, *jobs: JobId, constraint: str = "", user: str = "") -> list[Outcome]:
        """Suspend running jobs; return the result for each range of them."""
        return self._act(s.Suspend, jobs, user, constraint)

    def resume(self, *jobs: JobId, constraint: str = "", user: str = "") -> list[Outcome]:
        """Continue suspended jobs; return the result for each range of them."""
        return self._act(s.Continue, jobs, user, constraint)

    def run_now(self, job: JobId, *victims: JobId, user: str = "") -> None:
        """Vacate running jobs, `victims`, and run an idle job on their combined slots as soon as the last victim has
        stopped. The job does not run if a victim is still running after SCHEDD_NOW_JOB_VACATE_TIMEOUT, if the job is no
        longer idle by then, or if it does not match the combined slot; `why` shows the reason.

        >>> pool.run_now("1.4", "1.0", "1.1")

        :raises Refusal: the job is not idle, a victim is not running, or one is not this user's; none is vacated
        :raises ValueError: an argument does not name a single job
        """
        named = [job_number(name) for name in (job, *victims)]
        self._ask(s.RunNow(self._new_id("now"), user or self._user, named[0], tuple(named[1:])))

    def edit(self, /, *jobs: JobId, user: str = "", constraint: str = "", **attributes: object) -> list[Outcome]:
        """Set attributes of jobs: Python values, or expressions as `Expr`.

        >>> outcomes = pool.edit("1", constraint="JobStatus == 1", JobPrio=10, Requirements=Expr("Memory > 2048"))
        """
        changes = {name: text_of(value) for name, value in attributes.items()}
        command = s.Edit(self._new_id("edit"), user or self._user, self._selection(jobs, constraint), changes)
        return _outcomes_by_range(self._ask(command))

    def prio(self, *jobs: JobId, value: int, user: str = "") -> list[Outcome]:
        """Set the JobPrio of jobs; jobs with higher values run first."""
        return self.edit(*jobs, user=user, JobPrio=value)

    def vacate_slot(self, name: str, *, fast: bool = False, user: str = "") -> list[str]:
        """Vacate a slot, or all slots of a machine; return the names of the slots whose claims were vacated."""
        return list(self._manage(s.VacateSlot, "vacate", user, name, fast)["vacated"])

    def suspend_slot(self, name: str, *, user: str = "") -> list[str]:
        """Suspend the job on a slot, or on all slots of a machine, until `resume_slot`; return the names of the slots
        that ran a job."""
        return list(self._manage(s.SuspendClaim, "suspend", user, name)["suspended"])

    def resume_slot(self, name: str, *, user: str = "") -> list[str]:
        """Continue the jobs that `suspend_slot` suspended; return the names of their slots."""
        return list(self._manage(s.ContinueClaim, "continue", user, name)["continued"])

    def drain(
        self,
        machine: str,
        *,
        schedule: str = "Graceful",
        reason: str = "",
        completion: str = "",
        check: str = "",
        start: str = "",
        user: str = "",
    ) -> str:
        """Drain a machine: it accepts no more jobs. Return the drain's number.

        >>> pool.drain("node1", schedule="Quick", reason="new kernel")
        '1'

        :param schedule: Graceful (jobs have their retirement time), Quick (only their time to vacate) or Fast
        :param completion: the action at the end: nothing (the machine stays empty) or resume; for reconfig, exit and
            restart the log records the end (``DrainTransitioned``), and the program must act
        :param check: drain only if this expression is true for each of the machine's slots
        :param start: the START expression during a graceful drain, instead of false
        """
        terms = (machine, schedule, reason, completion, check, start)
        return str(self._manage(s.Drain, "drain", user, *terms)["request"])

    def cancel_drain(self, machine: str, *, user: str = "") -> None:
        """Cancel a machine's drain: it accepts jobs again."""
        self._manage(s.CancelDrain, "drain", user, machine)

    def shut_down(self, machine: str, *, how: str = "Graceful", user: str = "") -> None:
        """Remove a machine from the pool after its jobs have ended: `how` is Peaceful, Graceful or Fast."""
        self._manage(s.ShutDown, "off", user, machine, how)

    def _set(self, submitter: str, name: str, value: float, duration: int, user: str, negotiator: str) -> None:
        terms = (submitter, name, number_of(value, name), round(seconds_of(duration, "duration")))
        self._manage(s.SetSubmitter, "userprio", user, *terms, negotiator=negotiator)

    def set_priority(self, submitter: str, value: float, *, user: str = "", negotiator: str = "") -> None:
        """Set a real priority, at least 0.5: lower is better."""
        self._set(submitter, "priority", value, 0, user, negotiator)

    def set_priority_factor(
        self, submitter: str, value: float, *, duration: int = 0, user: str = "", negotiator: str = ""
    ) -> None:
        """Set a priority factor, at least 1. A submitter with half the factor gets twice the share.

        >>> pool.set_priority_factor("alice@example.org", 100, duration=86400)
        """
        self._set(submitter, "factor", value, duration, user, negotiator)

    def set_floor(
        self, submitter: str, cores: float, *, duration: int = 0, user: str = "", negotiator: str = ""
    ) -> None:
        """Set the number of cores that a submitter gets before other submitters get any; 0 means no floor."""
        self._set(submitter, "floor", cores, duration, user, negotiator)

    def set_ceiling(
        self, submitter: str, cores: float, *, duration: int = 0, user: str = "", negotiator: str = ""
    ) -> None:
        """Set the maximum number of cores that a submitter may use; -1 means no limit."""
        self._set(submitter, "ceiling", cores, duration, user, negotiator)

    def end_lease(self, submitter: str, name: str, *, user: str = "", negotiator: str = "") -> None:
        """End the duration of a value now: `name` is factor, floor or ceiling."""
        self._manage(s.SetSubmitter, "userprio", user, submitter, name, cancel=True, negotiator=negotiator)

    def set_usage(self, submitter: str, seconds: float, *, user: str = "", negotiator: str = "") -> None:
        """Set the weighted usage that a submitter has accumulated."""
        self._set(submitter, "usage", seconds, 0, user, negotiator)

    def reset_usage(self, *submitters: str, user: str = "", negotiator: str = "") -> None:
        """Reset the usage of these submitters, or of all if none is named, to 0."""
        self._manage(s.ResetUsage, "userprio", user, submitters, negotiator)

    def delete_submitter(self, submitter: str, *, user: str = "", negotiator: str = "") -> None:
        """Delete a submitter's record; a submitter who returns gets a new one."""
        self._manage(s.DeleteSubmitter, "userprio", user, submitter, negotiator)


def not_queued(cluster: int, proc: int | None) -> UnknownThingError:
    name = f"cluster {cluster}" if proc is None else f"job {cluster}.{proc}"
    return UnknownThingError(f"{name} is not in the queue, so nothing was changed; `jobs` lists the queue")


_JOB = re.compile(r"([1-9][0-9]*)(?:\.([0-9]+))?|([A-Za-z_][^\s.]*)", re.ASCII)


def selection(jobs: Sequence[JobId], constraint: str = "") -> s.Selection:
    """Return the selection of a call.

    :raises ValueError: no job and no constraint is given
    """
    clusters: list[int] = []
    single: list[tuple[int, int]] = []
    owners: list[str] = []
    for job in jobs:
        if isinstance(job, tuple) and len(job) == 2 and all(type(part) is int and part >= 0 for part in job):
            single.append(job)
        elif type(job) is int and job > 0:
            clusters.append(job)
        elif isinstance(job, str) and (match := _JOB.fullmatch(job)):
            cluster, proc, owner = match.groups()
            if owner:
                owners.append(owner)
            elif proc is None:
                clusters.append(int(cluster))
            else:
                single.append((int(cluster), int(proc)))
        else:
            raise ValueError(f"{job!r} is not a job: give '12.3' or (12, 3), a cluster (12 or '12'), or a user's name")
    if not (jobs or constraint):
        raise ValueError("no jobs given: give jobs, clusters or users, or use a constraint (constraint='true' for all)")
    return s.Selection(tuple(clusters), tuple(single), tuple(owners), False, constraint)


def job_number(job: JobId) -> tuple[int, int]:
    jobs = selection([job]).jobs
    if not jobs:
        raise ValueError(f"{job!r} is not a single job: give '12.3' or (12, 3)")
    return jobs[0]


def _outcomes_by_range(outcomes: Sequence[dict[str, Any]]) -> list[Outcome]:
    """Return an outcome for each range of jobs of a command. Raise `UnknownThingError` if a job is not in the queue."""
    for outcome in outcomes:
        if outcome["result"] == "not found":
            raise not_queued(outcome["cluster"], outcome["procs"][0][0] if outcome["procs"] else None)
    return [
        Outcome(
            cluster=outcome["cluster"], first=first, last=last, result=outcome["result"], changes=outcome["changes"]
        )
        for outcome in outcomes
        for first, last in outcome["procs"]
    ]

"""A PSI/J executor whose jobs are jobs of a pool: ``psij.JobExecutor.get_instance("poolbook", url="pool.db")``.

PSI/J loads this module by its path, without an entry in ``sys.modules``, in every program that imports psij. So other
modules are imported on first use.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock, Thread
from typing import TYPE_CHECKING, Final

from psij import (
    InvalidJobException,
    Job,
    JobExecutor,
    JobExecutorConfig,
    JobSpec,
    JobState,
    JobStatus,
    ResourceSpecV1,
    SubmitException,
)

if TYPE_CHECKING:
    from ...domain.events import Event
    from .job_changes import JobChange

NativeIds = list[str]  # within the class, `list` is the method

_PREFIX: Final = "poolbook."  #: of custom attributes that are submit commands
_INTERVAL_S: Final = 0.05  #: the largest delay of an event
_MESSAGE_BYTES: Final = 2000
_STATES: Final = {
    "Idle": JobState.QUEUED, "Executing": JobState.ACTIVE, "Completed": JobState.FAILED, "Held": JobState.FAILED,
    "Removed": JobState.CANCELED,
}  # fmt: skip
"""The state for a job's new status; a job that has completed with code 0 is COMPLETED."""
_STAGES: Final = [
    getattr(JobState, name) for name in ("STAGE_IN", "ACTIVE", "STAGE_OUT", "CLEANUP") if hasattr(JobState, name)
]
"""The states of a job that has run. PSI/J 0.9 has only ACTIVE."""
_JOB_STATUSES: Final = {2: JobState.ACTIVE, 3: JobState.CANCELED, 4: JobState.FAILED}  #: the same by JobStatus


class PoolbookExecutor(JobExecutor):
    """Runs PSI/J jobs in a pool.

    :param url: the URL of a `Client`; by default POOLBOOK_LOG, or pool.db in the current directory
    """

    def __init__(self, url: str | None = None, config: JobExecutorConfig | None = None) -> None:
        """
        :raises LogError: there is no such pool
        """
        super().__init__(url, config or JobExecutorConfig())
        from .client import Client

        self._client = Client(url or os.environ.get("POOLBOOK_LOG") or "pool.db")
        self._work = Path.home() / ".psij" / "work" / "poolbook"
        self._work.mkdir(parents=True, exist_ok=True)
        self._lock = RLock()
        self._jobs: dict[str, list[Job]] = {}  #: by native id; several if jobs are attached to one
        self._follower: Thread | None = None

    def submit(self, job: Job) -> None:
        """Submit a job to the pool.

        :raises InvalidJobException: the pool cannot run such a job
        :raises SubmitException: the pool rejected the job, or does not answer
        """
        from ...domain.errors import PoolbookError

        spec = self._check_job(job)
        description = self._description(job, spec)
        with self._lock:
            self._follow()
            try:
                folder = spec.directory or Path.cwd()
                job._native_id = f"{self._client.submit(description, folder=folder)}.0"
            except (PoolbookError, ValueError) as error:
                raise SubmitException(f"the pool rejected the job: {error}", exception=error) from error
            self._jobs[job._native_id] = [job]
            self._set_job_status(job, JobStatus(JobState.QUEUED, metadata={"nativeId": job._native_id}))

    def _description(self, job: Job, spec: JobSpec) -> dict[str, object]:
        """Return the submit commands of a job. Raise `InvalidJobException`."""
        from .psij_script import NotStageable, script_of

        if spec.executable is None:
            raise InvalidJobException("the job has no executable; set spec.executable")
        commands, processes = _resources(spec)
        launcher = self._get_launcher(spec.launcher or "single")
        path = self._work / f"{job.id}.sh"
        try:
            path.write_text(script_of(spec, launcher.get_launch_command(job), processes))
        except NotStageable as error:
            raise InvalidJobException(str(error), exception=error) from error
        return {
            "executable": "/bin/bash",
            "transfer_executable": False,
            "arguments": f'"{shlex.quote(str(path))}"',
            "error": path.with_suffix(".err"),
            "batch_name": spec.name or job.id,
            **commands,
            **_attributes(spec),
        }

    def cancel(self, job: Job) -> None:
        """Remove a job from the pool. Its status changes when the pool has removed it.

        :raises SubmitException: the pool rejected the removal, or does not answer
        """
        from ...domain.errors import PoolbookError
        from ...replay.narration.sentences import UnknownThingError

        try:
            self._client.remove(str(job.native_id), reason="canceled with PSI/J")
        except UnknownThingError:
            return  # it has ended meanwhile
        except PoolbookError as error:
            raise SubmitException(f"the pool did not remove the job: {error}", exception=error) from error

    def list(self) -> NativeIds:
        """Return the ids of all jobs in the pool's queue."""
        return [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in self._client.jobs()]

    def attach(self, job: Job, native_id: str) -> None:
        """Attach a new job to a job of the pool, whichever program submitted it, even if it has ended.

        :raises InvalidJobException: the job is not new, or the pool has no job with this id
        """
        from .pool_commands import job_number

        if job.status.state != JobState.NEW:
            raise InvalidJobException("the job must be in the state NEW")
        cluster, proc = job_number(native_id)
        with self._lock:
            self._follow()
            condition = f"ClusterId == {cluster} && ProcId == {proc}"
            ads = self._client.jobs(condition) or self._client.history(condition)
            if not ads:
                raise InvalidJobException(f"the pool has no job {native_id}; `list` shows the jobs in its queue")
            job.executor, job._native_id = self, native_id
            self._jobs.setdefault(native_id, []).append(job)
            state, code = _JOB_STATUSES.get(ads[0]["JobStatus"], JobState.QUEUED), ads[0].get("ExitCode")
            if state == JobState.FAILED and code == 0:
                state = JobState.COMPLETED
            self._set(native_id, JobStatus(state, exit_code=code))

    def _follow(self) -> None:
        """Start to follow the pool's events, unless that has begun."""
        if self._follower is None:
            events = self._client.follow(self._client.position, interval=_INTERVAL_S)
            self._follower = Thread(target=self._read_events, args=(events,), name="poolbook-psij", daemon=True)
            self._follower.start()

    def _read_events(self, events: Iterator[tuple[int, Event]]) -> None:
        from .job_changes import job_changes

        try:
            for _, event in events:
                for change in job_changes(event):
                    for proc in range(change.first, change.last + 1):
                        self._apply(f"{change.cluster}.{proc}", change)
        except Exception as error:
            with self._lock:
                ids, self._follower = [*self._jobs], None
            for native_id in ids:
                self._set(native_id, JobStatus(JobState.FAILED, message=f"the pool cannot be followed: {error}"))

    def _apply(self, native_id: str, change: JobChange) -> None:
        """Set the status of jobs whose job in the pool has changed."""
        with self._lock:
            jobs = [*self._jobs.get(native_id, [])]
        state = _STATES.get(change.status)
        if not jobs or state is None:
            return
        if state == JobState.FAILED and change.code == 0:
            state = JobState.COMPLETED
        if change.code is not None:
            for stage in _STAGES:  # PSI/J ignores stages that the job has passed
                self._set(native_id, JobStatus(stage, time=change.at / 1_000_000))
        code = -change.signal if change.code is None and change.signal is not None else change.code
        message = (
            None if state in (JobState.QUEUED, JobState.ACTIVE, JobState.COMPLETED) else self._message(jobs, change)
        )
        self._set(native_id, JobStatus(state, time=change.at / 1_000_000, message=message, exit_code=code))
        if change.status == "Held" and any(job.spec is not None for job in jobs):  # PSI/J cannot release it
            self._client.remove(native_id, reason="held")

    def _message(self, jobs: Sequence[Job], change: JobChange) -> str:
        """Return what happened to a job, with what its launcher has written."""
        for path in (self._work / f"{job.id}.err" for job in jobs):
            with suppress(OSError):
                if output := path.read_bytes()[-_MESSAGE_BYTES:].decode(errors="replace").strip():
                    return f"the job {change.text()}: {output}"
        return f"the job {change.text()}"

    def _set(self, native_id: str, status: JobStatus) -> None:
        """Set the status of the jobs with a native id; forget them if it is final."""
        with self._lock:
            jobs = self._jobs.pop(native_id, []) if status.final else self._jobs.get(native_id, [])
        for job in jobs:
            self._set_job_status(job, status)
            if status.final:
                for suffix in (".sh", ".err"):
                    (self._work / f"{job.id}{suffix}").unlink(missing_ok=True)


def _resources(spec: JobSpec) -> tuple[dict[str, object], int]:
    """Return the submit commands for a job's resources and duration, and its number of processes. Raise
    `InvalidJobException` if the pool cannot provide them."""
    resources = spec.resources
    if not isinstance(resources, ResourceSpecV1):
        raise InvalidJobException(f"{type(resources).__name__} is not supported; use ResourceSpecV1")
    if resources.computed_node_count > 1 or resources.exclusive_node_use:
        raise InvalidJobException("a job of the pool has one slot: node_count must be 1, without exclusive_node_use")
    processes = resources.computed_process_count
    commands: dict[str, object] = {"request_cpus": processes * (resources.cpu_cores_per_process or 1)}
    if resources.gpu_cores_per_process:
        commands["request_gpus"] = processes * resources.gpu_cores_per_process
    if memory := getattr(resources, "memory", None):
        commands["request_memory"] = math.ceil(memory / 1024**2)
    if spec.attributes is not None:
        commands["allowed_execute_duration"] = math.ceil(spec.attributes.duration.total_seconds())
    return commands, processes


def _attributes(spec: JobSpec) -> dict[str, object]:
    """Return the submit commands for a job's attributes. Raise `InvalidJobException` if one is not supported. Custom
    attributes for other executors are ignored, as PSI/J specifies."""
    attributes = spec.attributes
    if attributes is None:
        return {}
    for name in ("queue_name", "reservation_id"):
        if getattr(attributes, name):
            raise InvalidJobException(f"{name}: a pool has no queues and reservations; use poolbook.requirements")
    custom = attributes.custom_attributes or {}
    commands = {name.removeprefix(_PREFIX): value for name, value in custom.items() if name.startswith(_PREFIX)}
    return {"accounting_group": attributes.account, **commands} if attributes.account else commands

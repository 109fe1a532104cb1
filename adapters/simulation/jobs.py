"""Make the jobs of a scenario: their ads, and the behaviour of their processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve

from ...domain.events import Ad
from ...domain.ports.stimuli import Submit
from ...domain.state.proc_ads import pack
from ...domain.state.settings import FILESYSTEM_DOMAIN, UID_DOMAIN, for_submissions
from ...domain.submit import Facts, NoFiles, from_mapping
from ...domain.submit.submit_context import SubmitError
from ...replay.scenario import PlayError, ScenarioStep
from ...replay.scenario.times import SECOND, length
from ...replay.virtual_world import Behaviour
from ..machine.host import CONDOR_VERSION
from .machines import ARCH, OPSYS, PLATFORM

RUN = 60  #: default run time of a job in seconds
LEASE = "JobLeaseDuration"
_SLEEP = {"executable": "/bin/sleep", "arguments": "1"}
_PROGRAMS = {"executable", "shell"}
_REQUESTS = {"cpus": "request_cpus", "memory": "request_memory", "disk": "request_disk"}


def submission(
    step: ScenarioStep, id: str, cluster: int, now: int, settings: Mapping[str, str], warn: Callable[[str], None]
) -> Submit:
    """Return the submission of a scenario's line to a pool of these settings, as condor_submit would make it; ``warn``
    is called with each of its warnings. Raise PlayError if condor_submit would reject it."""
    count = int(step.options.get("count", "1"))
    requests = {_REQUESTS[name]: text for name, text in step.options.items() if name in _REQUESTS}
    attributes = {f"+{name}": text for name, text in step.attributes.items()}
    program = {} if _PROGRAMS & {name.lower() for name in step.commands} else _SLEEP
    description = {**program, "transfer_executable": "false", **requests, **step.commands, **attributes}
    facts = Facts(
        now=now // SECOND,
        owner=step.thing,
        uid_domain=settings[UID_DOMAIN],
        filesystem_domain=settings[FILESYSTEM_DOMAIN],
        iwd="/",
        version=CONDOR_VERSION,
        platform=PLATFORM,
        arch=ARCH,
        opsys=OPSYS,
        cluster=cluster,
        settings=for_submissions(settings),
    )
    try:
        parsed = from_mapping(description, facts, NoFiles("a scenario's job has no files"), count=count)
    except SubmitError as error:
        raise PlayError(str(error), step.line) from None
    for warning in parsed.warnings:
        warn(warning)
    return Submit(id, step.thing, cluster, parsed.ad, count, pack(parsed.columns))


def outside(step: ScenarioStep, user: str, now: int, settings: Mapping[str, str], warn: Callable[[str], None]) -> Ad:
    """Return the ad of a job of a schedd outside of the pool."""
    ad = submission(evolve(step, thing=user), "", 1, now, settings, warn).ad
    given = {name.lower() for name in (*step.attributes, *step.commands)}
    if "lease" in step.options and given.isdisjoint(("jobleaseduration", "job_lease_duration")):
        ad = {name: text for name, text in ad.items() if name != LEASE}  # the claim's own lease counts
    return {**ad, "Owner": f'"{user}"', "User": f'"{user}@{settings[UID_DOMAIN]}"', **step.attributes}


def behaviour(options: Mapping[str, str]) -> Behaviour:
    """Return the behaviour of a job's processes by the options of its line."""
    soft = options.get("on-soft", "ends")
    grace: float | None = {"ends": 0.0, "ignores": None}.get(soft, 0.0)
    if soft not in ("ends", "ignores"):
        grace = length(soft.removeprefix("ends-after:")) / SECOND
    signal = options.get("signal")
    return Behaviour(
        seconds=length(options["run"]) / SECOND if "run" in options else RUN,
        code=int(options.get("code", "0")),
        signal=None if signal is None else int(signal),
        grace=grace,
        load=float(options.get("load", "0")),
    )

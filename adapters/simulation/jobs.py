"""Make the jobs of a scenario: their ads, and the behaviour of their processes."""

from __future__ import annotations

from collections.abc import Mapping

from ...domain.events import Ad
from ...domain.ports.stimuli import Submit
from ...domain.state.proc_ads import pack
from ...domain.state.settings import FILESYSTEM_DOMAIN, UID_DOMAIN, for_submissions
from ...domain.submit import Facts, NoFiles, from_mapping
from ...domain.submit.submit_context import SubmitError
from ...replay.scenario import PlayError, ScenarioStep
from ...replay.scenario.times import SECOND, length
from ...replay.scenario.verbs import SUBMIT_COMMANDS
from ...replay.virtual_world import Behaviour
from ..machine.host import CONDOR_VERSION
from .machines import ARCH, OPSYS, PLATFORM

RUN = 60  #: default run time of a job in seconds
LEASE = "JobLeaseDuration"
_WISHES = {"cpus": "request_cpus", "memory": "request_memory", "disk": "request_disk"}
_WISHES |= {name: name for name in SUBMIT_COMMANDS}


def submission(step: ScenarioStep, id: str, cluster: int, now: int, settings: Mapping[str, str]) -> Submit:
    """Return the submission of a scenario's line to a pool of these settings. Raise PlayError if no job can be like
    that."""
    count = int(step.options.get("count", "1"))
    wishes = {_WISHES[name]: text for name, text in step.options.items() if name in _WISHES}
    description = {"executable": "/bin/sleep", "arguments": "1", "transfer_executable": "false", **wishes}
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
    ad = _laid_over(parsed.ad, step.attributes)
    columns = {name: texts for name, texts in parsed.columns.items() if name.lower() not in map(str.lower, ad)}
    return Submit(id, step.thing, cluster, ad, count, pack(columns))


def outside(step: ScenarioStep, user: str, now: int, settings: Mapping[str, str]) -> Ad:
    """Return the ad of a job of a schedd outside of the pool."""
    named = ScenarioStep(step.line, step.at, "submit", step.words, thing=user, attributes=step.attributes)
    ad = submission(named, "", 1, now, settings).ad
    if "lease" in step.options and LEASE.lower() not in map(str.lower, step.attributes):
        ad = {name: text for name, text in ad.items() if name != LEASE}  # the claim's own lease counts
    return _laid_over(ad, {"Owner": f'"{user}"', "User": f'"{user}@{settings[UID_DOMAIN]}"', **step.attributes})


def _laid_over(ad: Mapping[str, str], changes: Mapping[str, str]) -> Ad:
    """Return the ad with changes, whatever the case of an attribute's letters."""
    names = {name.lower(): name for name in ad}
    return {**ad, **{names.get(name.lower(), name): text for name, text in changes.items()}}


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

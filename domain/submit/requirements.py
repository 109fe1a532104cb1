"""Make the job's Requirements: the owner's expression, and the clauses that a submission adds.

A clause is added unless the owner's expression refers to the slot's attribute. Source: the manual's page "Submit
Description File Commands", requirements and request_*; order and wording of the clauses as in HTCondor 25.14.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..classad import ClassAd, ClassAdSyntaxError, EvaluationError, parse
from ..classad.old_form import expression_text, is_true, literal, literal_string
from . import container_commands
from .job_sections import Job, Section

_SYSTEM = ("opsys", "opsysandver", "opsyslongname", "opsysshortname", "opsysname", "opsyslegacy")
# Requests with special clauses; any other Request<Name> asks for TARGET.<Name>.
_OWN_CLAUSE = {"requestcpus", "requestdisk", "requestmemory"}
_WITHIN_DISK = '(versionGE(split(TARGET.CondorVersion)[1], "25.12.0") || (TARGET.Disk >= RequestDisk))'
_WHEN_DUE = (
    "(((time() + ScheddInterval) >= (DeferralTime - DeferralPrepTime)) && (time() < (DeferralTime + DeferralWindow)))"
)
_DEFERRED_BY = ("CronMinute", "CronHour", "CronDayOfMonth", "CronMonth", "CronDayOfWeek", "DeferralTime")
_ENCRYPTED = ("EncryptInputFiles", "EncryptOutputFiles", "DontEncryptInputFiles", "DontEncryptOutputFiles")


def _requirements(job: Job) -> None:
    own = job.value("requirements")
    if job.value("my.requirements") is not None:
        if own is not None:
            job.warn("+Requirements overrides requirements; one of them should go")
        return
    clauses = []
    if own is not None:
        job.expression("requirements")
        clauses.append(f"({own})")
    vanilla = job.attribute("JobUniverse") == "5"
    added = (job.default("APPEND_REQ_VANILLA") if vanilla else "") or job.default("APPEND_REQUIREMENTS")
    if added:
        clauses.append(f"({added})")
    spoken = _spoken_of(job, " && ".join(clauses))
    clauses += _added(job, spoken, vanilla)
    job.made["Requirements"] = expression_text(" && ".join(clauses))


def _spoken_of(job: Job, text: str) -> set[str]:
    """Return the slot's attributes, in lower case, that a text reads; raise SubmitError for its own Requirements."""
    if not text:
        return set()
    ad = ClassAd({"RequestMemory": 0, "VM_CkptMac": "", "Requirements": True})
    try:
        references = parse(expression_text(text)).references(ad)
    except ClassAdSyntaxError as problem:
        raise job.wrong("requirements", f"this must be an expression, but {problem}") from None
    except EvaluationError:
        job.warn(f"Could not get attribute references from Requirements: {text}")
        return set()
    outside = {re.split(r"[.\[]", re.sub(r"^(target|other)\.", "", name.lower()))[0] for name in references.external}
    if "requirements" in outside or "Requirements" in references.internal:
        raise job.wrong("requirements", "it refers to itself; did you intend to use $(Requirements)?")
    return outside


def _added(job: Job, spoken: set[str], vanilla: bool) -> Iterator[str]:
    facts = job.facts
    if "arch" not in spoken:
        yield f'(TARGET.Arch == "{facts.arch}")'
    if container_commands.wants_container(job):
        yield from container_commands.clauses(job)
    elif not spoken.intersection(_SYSTEM):
        yield f'(TARGET.OpSys == "{facts.opsys}")'
    disk = job.attribute("RequestDisk")
    if "disk" in spoken:
        if disk is not None:
            yield "(TARGET.Disk >= RequestDisk)"
        _obsolete(job, "Disk", "disk")
    elif disk is None:
        yield "(TARGET.Disk >= DiskUsage)"
    elif _above(disk, 0):
        yield _WITHIN_DISK if vanilla else "(TARGET.Disk >= RequestDisk)"
    memory, cpus = job.attribute("RequestMemory"), job.attribute("RequestCpus")
    if memory is not None and _above(memory, 1):
        yield "(TARGET.Memory >= RequestMemory)"
    if "memory" in spoken:
        _obsolete(job, "Memory", "memory")
    if "cpus" not in spoken and cpus is not None and _above(cpus, 1):
        yield "(TARGET.Cpus >= RequestCpus)"
    yield from _resources(job, spoken)
    if "hasencryptexecutedirectory" not in spoken and is_true(job.attribute("EncryptExecuteDirectory")):
        yield "TARGET.HasEncryptExecuteDirectory"
    if vanilla:
        yield from _transfer(job, spoken)
    if any(job.attribute(name) is not None for name in _DEFERRED_BY):
        if job.attribute("JobUniverse") != "12":
            yield "TARGET.HasJobDeferral"
        yield _WHEN_DUE
    if is_true(job.attribute("WantFTOnCheckpoint")) and "hasselfcheckpointtransfers" not in spoken:
        yield "TARGET.HasSelfCheckpointTransfers"


def _above(text: str, bound: float) -> bool:
    """Return whether a request asks for more than the bound; an expression may."""
    value = literal(text)
    return not isinstance(value, (int, float)) or value > bound


def _obsolete(job: Job, attribute: str, resource: str) -> None:
    if job.facts.setting("ENABLE_DEPRECATION_WARNINGS").lower() == "true":
        job.warn(
            f"your Requirements expression refers to TARGET.{attribute}. This is obsolete. Set request_{resource} and"
            " condor_submit will modify the Requirements expression as needed."
        )


def _resources(job: Job, spoken: set[str]) -> Iterator[str]:
    """Yield the clauses of GPUs and of resources that a pool defines."""
    names = sorted({*job.before, *job.made}, key=str.lower)
    keys = {name.lower() for name in names}
    for name in names:
        tag = name[len("Request") :]
        key = name.lower()
        if not key.startswith("request") or key in _OWN_CLAUSE or len(tag) < 2 or tag[0] == "_":
            continue
        text = job.attribute(name)
        value = literal(text)
        if tag.lower() in spoken or text is None:
            continue
        if isinstance(value, str):
            if value:
                yield f"regexp({name}, TARGET.{tag})"
        elif isinstance(value, bool) or (isinstance(value, (int, float)) and value <= 0):
            continue
        elif f"require{tag.lower()}" in keys:
            yield f"(countMatches(MY.Require{tag}, TARGET.Available{tag}) >= {name})"
        else:
            yield f"(TARGET.{tag} >= {name})"


def _transfer(job: Job, spoken: set[str]) -> Iterator[str]:
    should = literal_string(job.attribute("ShouldTransferFiles")) or "IF_NEEDED"
    shared = "(TARGET.FileSystemDomain == MY.FileSystemDomain)"
    about_domain = "filesystemdomain" in spoken
    if should == "NO":
        if not about_domain:
            yield shared
        return
    if spoken.intersection(("hasfiletransfer", "hasjobtransferplugins")):
        return
    needs = [
        "TARGET.HasJobTransferPlugins" if literal_string(job.attribute("TransferPlugins")) else "TARGET.HasFileTransfer"
    ]
    if any(job.attribute(name) is not None for name in _ENCRYPTED) and "hasperfileencryption" not in spoken:
        needs.append("TARGET.HasPerFileEncryption")
    new = is_true(job.attribute("PreserveRelativePaths")) or job.attribute("TransferCheckpoint") is not None
    if new or literal_string(job.attribute("WhenToTransferOutput")) == "ON_SUCCESS":
        needs.append('versioncmp(split(TARGET.CondorVersion)[1], "8.9.7") >= 0')
    methods = _methods(job)
    if methods:
        job.set_string("WantTransferPluginMethods", ",".join(methods))
    if "hasfiletransferpluginmethods" not in spoken:
        needs += [f'stringListIMember("{method}", TARGET.HasFileTransferPluginMethods)' for method in methods]
    able = f"({' && '.join(needs)})"
    yield able if should == "YES" or about_domain else f"({shared} || {able})"


_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9.+-]*)://.")


def _methods(job: Job) -> list[str]:
    """Return the URL schemes of the job's files, without those whose plugins the job brings along."""
    urls = (literal_string(job.attribute("TransferInput")) or "").split(",")
    urls.append(literal_string(job.attribute("OutputDestination")) or "")
    remaps = (literal_string(job.attribute("TransferOutputRemaps")) or "").split(";")
    urls += [remap.partition("=")[2] for remap in remaps]
    plugins = (literal_string(job.attribute("TransferPlugins")) or "").split(";")
    brought = {name.strip().lower() for plugin in plugins for name in plugin.partition("=")[0].split(",")}
    schemes = [re.split(r"[.+-]", url[1])[-1] for text in urls if (url := _URL.match(text))]
    by_name = {scheme.lower(): scheme for scheme in reversed(schemes)}  # as it is first written
    return [by_name[scheme] for scheme in sorted(by_name.keys() - brought)]


REQUIREMENTS = Section(
    _requirements,
    ("requirements", "my.requirements"),
    ("Requirements", "WantTransferPluginMethods"),
    reads=(
        *("JobUniverse", "Request*", "Require*", "EncryptExecuteDirectory", "ShouldTransferFiles", "TransferPlugins"),
        *("PreserveRelativePaths", "TransferCheckpoint", "WhenToTransferOutput", "TransferInput", "OutputDestination"),
        *("TransferOutputRemaps", "WantFTOnCheckpoint", *_DEFERRED_BY, *_ENCRYPTED),
        *(*container_commands.WANTED, "DockerImage", "ContainerImage", "DockerNetworkType"),
    ),
)

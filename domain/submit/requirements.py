"""Compute the job's Requirements: the user's expression, and the clauses that condor_submit adds to it.

A clause is added unless the user's expression already refers to the slot attribute that the clause tests. Source: the
manual, "Submit Description File Commands", requirements and request_*; HTCondor 25.14 for the order and text of the
clauses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..classad import ClassAd, ClassAdSyntaxError, EvaluationError, parse
from ..classad.old_form import expression_text, is_true, literal_string, literal_value
from . import container_commands
from .job_sections import Section, SubmitJob

_SYSTEM_ATTRIBUTES = ("opsys", "opsysandver", "opsyslongname", "opsysshortname", "opsysname", "opsyslegacy")
# Requests with special clauses; any other Request<Name> is compared with TARGET.<Name>.
_SPECIAL_REQUESTS = {"requestcpus", "requestdisk", "requestmemory"}
_DISK_CLAUSE = '(versionGE(split(TARGET.CondorVersion)[1], "25.12.0") || (TARGET.Disk >= RequestDisk))'
_DEFERRAL_CLAUSE = (
    "(((time() + ScheddInterval) >= (DeferralTime - DeferralPrepTime)) && (time() < (DeferralTime + DeferralWindow)))"
)
_DEFERRAL_ATTRIBUTES = ("CronMinute", "CronHour", "CronDayOfMonth", "CronMonth", "CronDayOfWeek", "DeferralTime")
_ENCRYPTION = ("EncryptInputFiles", "EncryptOutputFiles", "DontEncryptInputFiles", "DontEncryptOutputFiles")


def _requirements(job: SubmitJob) -> None:
    user_expression = job.value("requirements")
    if job.value("my.requirements") is not None:
        if user_expression is not None:
            job.warn("+Requirements overrides requirements; remove one of them")
        return
    clauses = []
    if user_expression is not None:
        job.expression("requirements")
        clauses.append(f"({user_expression})")
    vanilla = job.attribute("JobUniverse") == "5"
    appended = (job.default("APPEND_REQ_VANILLA") if vanilla else "") or job.default("APPEND_REQUIREMENTS")
    if appended:
        clauses.append(f"({appended})")
    referenced = _slot_attributes_read(job, " && ".join(clauses))
    clauses += _added_clauses(job, referenced, vanilla)
    job.result["Requirements"] = expression_text(" && ".join(clauses))


def _slot_attributes_read(job: SubmitJob, text: str) -> set[str]:
    if not text:
        return set()
    ad = ClassAd({"RequestMemory": 0, "VM_CkptMac": "", "Requirements": True})
    try:
        references = parse(expression_text(text)).references(ad)
    except ClassAdSyntaxError as problem:
        raise job.error("requirements", f"this must be an expression, but {problem}") from None
    except EvaluationError:
        job.warn(f"Could not get attribute references from Requirements: {text}")
        return set()
    external = {re.split(r"[.\[]", re.sub(r"^(target|other)\.", "", name.lower()))[0] for name in references.external}
    if "requirements" in external or "Requirements" in references.internal:
        raise job.error("requirements", "the expression refers to itself; did you mean $(Requirements)?")
    return external


def _added_clauses(job: SubmitJob, referenced: set[str], vanilla: bool) -> Iterator[str]:
    facts = job.facts
    if "arch" not in referenced:
        yield f'(TARGET.Arch == "{facts.arch}")'
    if container_commands.wants_container(job):
        yield from container_commands.container_clauses(job)
    elif not referenced.intersection(_SYSTEM_ATTRIBUTES):
        yield f'(TARGET.OpSys == "{facts.opsys}")'
    disk = job.attribute("RequestDisk")
    if "disk" in referenced:
        if disk is not None:
            yield "(TARGET.Disk >= RequestDisk)"
        _warn_of_obsolete(job, "Disk", "disk")
    elif disk is None:
        yield "(TARGET.Disk >= DiskUsage)"
    elif _may_exceed(disk, 0):
        yield _DISK_CLAUSE if vanilla else "(TARGET.Disk >= RequestDisk)"
    memory, cpus = job.attribute("RequestMemory"), job.attribute("RequestCpus")
    if memory is not None and _may_exceed(memory, 1):
        yield "(TARGET.Memory >= RequestMemory)"
    if "memory" in referenced:
        _warn_of_obsolete(job, "Memory", "memory")
    if "cpus" not in referenced and cpus is not None and _may_exceed(cpus, 1):
        yield "(TARGET.Cpus >= RequestCpus)"
    yield from _resource_clauses(job, referenced)
    if is_true(job.attribute("EncryptExecuteDirectory")):
        rule = "no machine encrypts scratch directories; leave it out, or encrypt the files in the job's own script"
        raise job.error("encrypt_execute_directory", rule)
    if vanilla:
        yield from _transfer_clauses(job, referenced)
    if any(job.attribute(name) is not None for name in _DEFERRAL_ATTRIBUTES):
        if job.attribute("JobUniverse") != "12":
            yield "TARGET.HasJobDeferral"
        yield _DEFERRAL_CLAUSE
    if is_true(job.attribute("WantFTOnCheckpoint")) and "hasselfcheckpointtransfers" not in referenced:
        yield "TARGET.HasSelfCheckpointTransfers"


def _may_exceed(text: str, bound: float) -> bool:
    """Check whether a request could exceed a limit. If the request is an expression, it always could."""
    value = literal_value(text)
    return not isinstance(value, (int, float)) or value > bound


def _warn_of_obsolete(job: SubmitJob, attribute: str, resource: str) -> None:
    if job.facts.setting("ENABLE_DEPRECATION_WARNINGS").lower() == "true":
        job.warn(
            f"your Requirements expression refers to TARGET.{attribute}. This is obsolete. Set request_{resource} and"
            " condor_submit will modify the Requirements expression as needed."
        )


def _resource_clauses(job: SubmitJob, referenced: set[str]) -> Iterator[str]:
    names = sorted({*job.earlier, *job.result}, key=str.lower)
    keys = {name.lower() for name in names}
    for name in names:
        tag = name[len("Request") :]
        key = name.lower()
        if not key.startswith("request") or key in _SPECIAL_REQUESTS or len(tag) < 2 or tag[0] == "_":
            continue
        text = job.attribute(name)
        value = literal_value(text)
        if tag.lower() in referenced or text is None:
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


def _transfer_clauses(job: SubmitJob, referenced: set[str]) -> Iterator[str]:
    should = literal_string(job.attribute("ShouldTransferFiles")) or "IF_NEEDED"
    shared = "(TARGET.FileSystemDomain == MY.FileSystemDomain)"
    reads_domain = "filesystemdomain" in referenced
    if should == "NO":
        if not reads_domain:
            yield shared
        return
    if referenced.intersection(("hasfiletransfer", "hasjobtransferplugins")):
        return
    conditions = [
        "TARGET.HasJobTransferPlugins" if literal_string(job.attribute("TransferPlugins")) else "TARGET.HasFileTransfer"
    ]
    if any(job.attribute(name) is not None for name in _ENCRYPTION) and "hasperfileencryption" not in referenced:
        conditions.append("TARGET.HasPerFileEncryption")
    newer = is_true(job.attribute("PreserveRelativePaths")) or job.attribute("TransferCheckpoint") is not None
    if newer or literal_string(job.attribute("WhenToTransferOutput")) == "ON_SUCCESS":
        conditions.append('versioncmp(split(TARGET.CondorVersion)[1], "8.9.7") >= 0')
    methods = _transfer_methods(job)
    if methods:
        job.set_string("WantTransferPluginMethods", ",".join(methods))
    if "hasfiletransferpluginmethods" not in referenced:
        conditions += [f'stringListIMember("{method}", TARGET.HasFileTransferPluginMethods)' for method in methods]
    can_transfer = f"({' && '.join(conditions)})"
    yield can_transfer if should == "YES" or reads_domain else f"({shared} || {can_transfer})"


_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9.+-]*)://.")


def _transfer_methods(job: SubmitJob) -> list[str]:
    urls = (literal_string(job.attribute("TransferInput")) or "").split(",")
    urls.append(literal_string(job.attribute("OutputDestination")) or "")
    remaps = (literal_string(job.attribute("TransferOutputRemaps")) or "").split(";")
    urls += [remap.partition("=")[2] for remap in remaps]
    plugins = (literal_string(job.attribute("TransferPlugins")) or "").split(";")
    own_plugins = {name.strip().lower() for plugin in plugins for name in plugin.partition("=")[0].split(",")}
    schemes = [re.split(r"[.+-]", match[1])[-1] for text in urls if (match := _URL.match(text))]
    by_name = {scheme.lower(): scheme for scheme in reversed(schemes)}  # keeps the first spelling
    return [by_name[scheme] for scheme in sorted(by_name.keys() - own_plugins)]


REQUIREMENTS = Section(
    _requirements,
    ("requirements", "my.requirements"),
    ("Requirements", "WantTransferPluginMethods"),
    reads=(
        *("JobUniverse", "Request*", "Require*", "EncryptExecuteDirectory", "ShouldTransferFiles", "TransferPlugins"),
        *("PreserveRelativePaths", "TransferCheckpoint", "WhenToTransferOutput", "TransferInput", "OutputDestination"),
        *("TransferOutputRemaps", "WantFTOnCheckpoint", *_DEFERRAL_ATTRIBUTES, *_ENCRYPTION),
        *(*container_commands.CONTAINER_FLAGS, "DockerImage", "ContainerImage", "DockerNetworkType"),
    ),
)

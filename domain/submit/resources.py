"""Compute the job's requests (``request_*``) and its file transfer attributes.

Source: the manual's page "Submit Description File Commands", request_cpus and related commands, and the commands for
file transfer. Memory is in megabytes and disk in kilobytes, unless a suffix K, M, G or T (or KB ...) follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from ..classad.old_form import expression_text, literal_string
from ..suggestions import close_names
from .container_commands import CONTAINER_FLAGS, IMAGE_FILES, IMAGES, check_mounts, image_files
from .eviction import ON_EVICT, RETRIES, set_retries
from .job_sections import Action, Section, SubmitJob, strip_quotes
from .submit_context import SubmitError

_AMOUNT = re.compile(r"\s*([+-]?[0-9]{1,18})?(?:\.([0-9]{0,3})[0-9]*)?\s*(?:([KMGT])B?)?\s*", re.IGNORECASE)
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}

# The requests that every job has: command, attribute, setting that contains the default, unit in bytes.
_REQUESTS = (
    ("request_cpus", "RequestCpus", "JOB_DEFAULT_REQUESTCPUS", 0),
    ("request_gpus", "RequestGPUs", "JOB_DEFAULT_REQUESTGPUS", 0),
    ("request_disk", "RequestDisk", "JOB_DEFAULT_REQUESTDISK", 1024),
    ("request_memory", "RequestMemory", "JOB_DEFAULT_REQUESTMEMORY", 1024**2),
)
_STANDARD = {command for command, *_ in _REQUESTS}
_MISSPELLED = {"request_cpu": "request_cpus", "request_gpu": "request_gpus"}
_NOT_RESOURCES = {"request_gpu_memory", "request_gpus_memory"}
_MIN_SIMILARITY = 0.85
"""The minimum similarity, up to 1, for a known command to be suggested for a misspelled one."""


def parse_amount(text: str, unit: int) -> tuple[int, bool] | None:
    """Return an amount in units of ``unit`` bytes, rounded up, and whether it has a unit, or None for an expression."""
    match = _AMOUNT.fullmatch(text)
    if match is None or (match[1] is None and not match[2]):
        return None
    number = int(match[1] or 0) + int((match[2] or "0").ljust(3, "0")) / 1000
    factor = _UNITS[match[3].upper()] if match[3] else unit
    if abs(number * factor) >= 1 << 63:
        return None
    exact = int(number * factor) if match[2] else int(match[1] or 0) * factor
    size = exact + unit - 1
    return size // unit if size >= 0 else -(-size // unit), bool(match[3])


def _request_section(command: str, attribute: str, setting: str, unit: int) -> Section:
    retries = RETRIES.get(command)

    def action(job: SubmitJob) -> None:
        name = job.spelling(command, attribute.lower())
        value = job.value(name)
        if value is None:
            amount = parse_amount(job.facts.setting(setting), unit) if unit else None
            if default := str(amount[0]) if amount is not None else job.default(setting):
                job.result[attribute] = default
        elif value.lower() != "undefined":
            first = value.partition(",")[0] if retries and parse_amount(value.partition(",")[0], unit) else value
            job.result[attribute] = _request_text(job, name, first, unit)
        if retries and job.result.get(attribute, "").isdecimal():
            set_retries(job, name, retries, (value or "").partition(",")[2], partial(parse_amount, unit=unit))

    if retries is None:
        return Section(action, (command, attribute.lower()), (attribute,))
    return Section(action, (command, attribute.lower(), *retries.commands), (attribute, *retries.sets), (ON_EVICT,))


def _request_text(job: SubmitJob, command: str, value: str, unit: int) -> str:
    amount = parse_amount(value, unit) if unit else None
    if amount is None:
        return job.expression(command)
    number, has_unit = amount
    policy = job.facts.setting("SUBMIT_REQUEST_MISSING_UNITS").lower()
    if policy and not has_unit:
        if policy == "error":
            raise job.error(command, "this pool requires a unit after the number: K, M, G or T")
        job.warn(f"{command} = {value} should have a unit after the number: K, M, G or T")
    return str(number)


def request_sections(commands: Iterable[str]) -> list[Section]:
    """Return the sections of all requests: the standard requests, and each ``request_NAME`` among the commands."""
    sections = [_request_section(*row) for row in _REQUESTS]
    for command in commands:
        tag = command.removeprefix("request_")
        if command in _STANDARD or tag == command or len(tag) < 2 or tag[0] == "_" or command in _NOT_RESOURCES:
            continue
        if command in _MISSPELLED:
            sections.append(Section(_misspelled_action(command), (command,), ()))
        else:
            sections.append(_custom_section(command, tag))
    return [*sections, Section(_gpu_action, _GPU_COMMANDS, _GPU_ATTRIBUTES, ("RequestGPUs",))]


def _misspelled_action(command: str) -> Action:
    def action(job: SubmitJob) -> None:
        job.warn(f"{command} is not a valid submit keyword, did you mean {_MISSPELLED[command]}?")

    return action


def _custom_section(command: str, tag: str) -> Section:
    similar = close_names(command, _STANDARD, 1, _MIN_SIMILARITY)
    hint = f"Did you mean {similar[0]}?" if similar else ""

    def action(job: SubmitJob) -> None:
        if job.value(command) is None:
            return
        definition = job.definitions.get(command)
        name = tag if definition is None else definition.name[len("request_") :]
        try:
            job.result[f"Request{name}"] = job.expression(command)
        except SubmitError:
            if not similar:
                raise
            line = None if definition is None else definition.line
            raise SubmitError(f"Unknown command {command}. {hint}", line) from None
        if similar:
            job.warn(f"{command} requests a custom resource, {name}. {hint}")

    return Section(action, (command,), (f"Request{tag}", "Request*"))


# The properties of GPUs that a job may request: attribute, command, condition on a GPU's ad.
_GPU_LIMITS = (
    ("GPUsMinCapability", "gpus_minimum_capability", "Capability >= GPUsMinCapability"),
    ("GPUsMaxCapability", "gpus_maximum_capability", "Capability <= GPUsMaxCapability"),
    ("GPUsMinMemory", "gpus_minimum_memory", "GlobalMemoryMb >= GPUsMinMemory"),
    ("GPUsMinRuntime", "gpus_minimum_runtime", "MaxSupportedVersion >= GPUsMinRuntime"),
)
_GPU_COMMANDS = (
    *("require_gpus", "requiregpus"),
    *(name for attribute, command, _ in _GPU_LIMITS for name in (command, attribute.lower())),
)
_GPU_ATTRIBUTES = ("RequireGPUs", *(attribute for attribute, _, _ in _GPU_LIMITS))


def _gpu_action(job: SubmitJob) -> None:
    if job.attribute("RequestGPUs") is None:
        return
    command = job.spelling("require_gpus", "requiregpus")
    clauses = [job.expression(command)] if job.value(command) else []
    given_requirements = clauses[0].lower() if clauses else ""
    for attribute, command, condition in _GPU_LIMITS:
        name = job.spelling(command, attribute.lower())
        value = job.value(name)
        if value is None:
            continue
        version = re.fullmatch(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?", value) if attribute == "GPUsMinRuntime" else None
        if version is not None:
            job.result[attribute] = str(int(version[1]) * 1000 + int(version[2] or 0) * 10)
        else:
            job.result[attribute] = _request_text(job, name, value, 1024**2 if attribute == "GPUsMinMemory" else 0)
        if condition.split()[0].lower() not in given_requirements:
            clauses.append(condition)
    if clauses:
        first = f"({clauses[0]})" if len(clauses) > 1 and ("||" in clauses[0] or "?" in clauses[0]) else clauses[0]
        job.result["RequireGPUs"] = expression_text(" && ".join([first, *clauses[1:]]))


_SHOULD_TRANSFER = {
    **dict.fromkeys(("yes", "true", "always"), "YES"),
    **dict.fromkeys(("no", "false", "never"), "NO"),
    **dict.fromkeys(("if_needed", "auto"), "IF_NEEDED"),
}
_WHEN_TO_TRANSFER = {
    **dict.fromkeys(("on_exit", "onexit"), "ON_EXIT"),
    **dict.fromkeys(("on_exit_or_evict", "always"), "ON_EXIT_OR_EVICT"),
    **dict.fromkeys(("on_success", "onsuccess"), "ON_SUCCESS"),
    **dict.fromkeys(("never", "none"), "NEVER"),
}
"""The accepted values, from HTCondor's enum_utils.cpp; older manuals write NONE for NEVER."""
_NEEDS_TRANSFER = "it needs should_transfer_files = YES or IF_NEEDED, but that is NO"


def _transfer(job: SubmitJob) -> None:
    inputs, outputs = _file_list(job, "transfer_input_files"), _file_list(job, "transfer_output_files")
    images = image_files(job)
    check_mounts(job)
    should, when = _transfer_mode(job)
    job.set_string("ShouldTransferFiles", should)
    if should == "NO":
        for command, names in (("transfer_input_files", inputs), ("transfer_output_files", outputs)):
            if names is not None:
                raise job.error(command, _NEEDS_TRANSFER)
        if images:
            advice = "if the machines have the image, use transfer_container = false"
            raise job.error("container_image", f"{_NEEDS_TRANSFER}; {advice}")
        if job.boolean("transfer_executable", "transferexecutable"):
            raise job.error("transfer_executable", _NEEDS_TRANSFER)
    else:
        job.set_string("WhenToTransferOutput", when)
        inputs = [*(inputs or ()), *images]
        if inputs:
            job.set_string("TransferInput", ",".join(inputs))
        if outputs is not None:
            job.set_string("TransferOutput", ",".join(outputs))
    if should != "YES":
        job.set_string("FileSystemDomain", job.facts.filesystem_domain)
    _set_sizes(job, inputs or [])


def _file_list(job: SubmitJob, command: str) -> list[str] | None:
    value = job.value(command, command.replace("_", ""))
    if value is None:
        return None
    return [name for name in (part.strip() for part in strip_quotes(value).split(",")) if name]


def _transfer_mode(job: SubmitJob) -> tuple[str, str]:
    text = job.value("should_transfer_files", "shouldtransferfiles")
    text = text or literal_string(job.earlier.get("ShouldTransferFiles"))
    when_text = job.value("when_to_transfer_output", "whentotransferoutput")
    when_text = when_text or literal_string(job.earlier.get("WhenToTransferOutput"))
    should = _SHOULD_TRANSFER.get(
        (text or job.facts.setting("SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES") or "IF_NEEDED").lower()
    )
    if should is None:
        if text is not None:
            raise job.error("should_transfer_files", "this must be YES, NO or IF_NEEDED")
        should = "IF_NEEDED"
    when = _WHEN_TO_TRANSFER.get((when_text or "ON_EXIT").lower())
    if when is None:
        raise job.error("when_to_transfer_output", "this must be ON_EXIT, ON_EXIT_OR_EVICT or ON_SUCCESS")
    if should == "NO" and text is not None and when_text is None:
        when = "NEVER"
    if (should == "NO") != (when == "NEVER"):
        command = "when_to_transfer_output" if when_text is not None else "should_transfer_files"
        raise job.error(command, f"it contradicts should_transfer_files, which is {should}")
    if when == "ON_EXIT_OR_EVICT" and should == "IF_NEEDED":
        if text is not None:
            raise job.error("when_to_transfer_output", "this value requires should_transfer_files = YES")
        should = "YES"
    return should, when


def _set_sizes(job: SubmitJob, inputs: list[str]) -> None:
    program = literal_string(job.attribute("Cmd")) or ""
    executable = job.kilobytes(program if program.startswith("/") else f"{_iwd(job)}/{program}") if program else 0
    names = list(inputs)
    if job.attribute("TransferIn") != "false":
        names.append(literal_string(job.attribute("In")) or "")
    input_kilobytes = sum(
        job.kilobytes(name if name[0] == "/" or "://" in name else f"{_iwd(job)}/{name}") for name in names if name
    )
    job.result["ExecutableSize"] = str(executable)
    job.result["ImageSize"] = str(_kilobytes_of(job, "image_size", "imagesize") or executable)
    usage = _kilobytes_of(job, "disk_usage", "diskusage")
    job.result["DiskUsage"] = str(usage or executable + input_kilobytes)
    if usage is None:
        job.result["TransferInputSizeMB"] = str((executable + input_kilobytes + 1023) // 1024)


def _iwd(job: SubmitJob) -> str:
    return literal_string(job.attribute("Iwd")) or "/"


def _kilobytes_of(job: SubmitJob, *commands: str) -> int | None:
    for command in commands:
        if (value := job.value(command)) is not None:
            kilobytes = parse_amount(value, 1024)
            if kilobytes is None or kilobytes[0] < 1:
                raise job.error(command, "this must be a positive number of kilobytes, or have K, M, G or T after it")
            return kilobytes[0]
    return None


TRANSFER = Section(
    _transfer,
    (
        *("transfer_input_files", "transferinputfiles", "transfer_output_files", "transferoutputfiles"),
        *("should_transfer_files", "shouldtransferfiles", "when_to_transfer_output", "whentotransferoutput"),
        *("transfer_executable", "transferexecutable", "image_size", "imagesize", "disk_usage", "diskusage"),
        *IMAGES[2:],
    ),
    (
        *("ShouldTransferFiles", "WhenToTransferOutput", "TransferInput", "TransferOutput", "FileSystemDomain"),
        *("ExecutableSize", "ImageSize", "DiskUsage", "TransferInputSizeMB", *IMAGE_FILES),
    ),
    reads=("Cmd", "Iwd", "In", "TransferIn", *CONTAINER_FLAGS, "TransferContainer", "MountUnderScratch"),
)

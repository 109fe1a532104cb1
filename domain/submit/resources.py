"""Make the job's requests (``request_*``) and its file transfer attributes.

Source: the manual's page "Submit Description File Commands", request_cpus and its neighbours, and the entries of file
transfer. Memory counts in megabytes, disk in kilobytes, unless a suffix K, M, G or T (a B may follow) is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from ..classad.old_form import expression_text, literal_string
from ..suggestions import close_names
from .container_commands import IMAGE_FILES, IMAGES, WANTED, check_mounts, image_files
from .eviction import ON_EVICT, RETRIES, retry
from .job_sections import Action, Job, Section, stripped
from .submit_context import SubmitError

_AMOUNT = re.compile(r"\s*([+-]?[0-9]{1,18})?(?:\.([0-9]{0,3})[0-9]*)?\s*(?:([KMGT])B?)?\s*", re.IGNORECASE)
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}

# The requests that every job has: command, attribute, setting of the default, unit in bytes.
_REQUESTS = (
    ("request_cpus", "RequestCpus", "JOB_DEFAULT_REQUESTCPUS", 0),
    ("request_gpus", "RequestGPUs", "JOB_DEFAULT_REQUESTGPUS", 0),
    ("request_disk", "RequestDisk", "JOB_DEFAULT_REQUESTDISK", 1024),
    ("request_memory", "RequestMemory", "JOB_DEFAULT_REQUESTMEMORY", 1024**2),
)
_SPECIAL = {command for command, *_ in _REQUESTS}
_MISSPELT = {"request_cpu": "request_cpus", "request_gpu": "request_gpus"}
_NOT_RESOURCES = {"request_gpu_memory", "request_gpus_memory"}
_ALIKE = 0.85
"""The least similarity (up to 1) of a command to another to count as misspelled."""


def amount(text: str, unit: int) -> tuple[int, bool] | None:
    """Return an amount in units of ``unit`` bytes, rounded up, and whether it names its unit; None: an expression."""
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


def _request(command: str, attribute: str, setting: str, unit: int) -> Section:
    retries = RETRIES.get(command)

    def action(job: Job) -> None:
        name = job.given(command, attribute.lower())
        value = job.value(name)
        if value is None:
            quantity = amount(job.facts.setting(setting), unit) if unit else None
            if default := str(quantity[0]) if quantity is not None else job.default(setting):
                job.made[attribute] = default
        elif value.lower() != "undefined":
            first = value.partition(",")[0] if retries and amount(value.partition(",")[0], unit) else value
            job.made[attribute] = _requested(job, name, first, unit)
        if retries and job.made.get(attribute, "").isdecimal():
            retry(job, name, retries, (value or "").partition(",")[2], partial(amount, unit=unit))

    if retries is None:
        return Section(action, (command, attribute.lower()), (attribute,))
    return Section(action, (command, attribute.lower(), *retries.commands), (attribute, *retries.sets), (ON_EVICT,))


def _requested(job: Job, command: str, value: str, unit: int) -> str:
    quantity = amount(value, unit) if unit else None
    if quantity is None:
        return job.expression(command)
    number, named = quantity
    missing = job.facts.setting("SUBMIT_REQUEST_MISSING_UNITS").lower()
    if missing and not named:
        if missing == "error":
            raise job.wrong(command, "this pool wants a unit after the number: K, M, G or T")
        job.warn(f"{command} = {value} should have a unit after the number: K, M, G or T")
    return str(number)


def requests(commands: Iterable[str]) -> list[Section]:
    """Return the sections of all requests: the default ones, and one per ``request_NAME`` among the commands."""
    sections = [_request(*row) for row in _REQUESTS]
    for command in commands:
        tag = command.removeprefix("request_")
        if command in _SPECIAL or tag == command or len(tag) < 2 or tag[0] == "_" or command in _NOT_RESOURCES:
            continue
        if command in _MISSPELT:
            sections.append(Section(_misspelt(command), (command,), ()))
        else:
            sections.append(_custom(command, tag))
    return [*sections, Section(_gpus, _GPU_COMMANDS, _GPU_ATTRIBUTES, ("RequestGPUs",))]


def _misspelt(command: str) -> Action:
    def action(job: Job) -> None:
        job.warn(f"{command} is not a valid submit keyword, did you mean {_MISSPELT[command]}?")

    return action


def _custom(command: str, tag: str) -> Section:
    near = close_names(command, _SPECIAL, 1, _ALIKE)
    hint = f"Did you mean {near[0]}?" if near else ""

    def action(job: Job) -> None:
        if job.value(command) is None:
            return
        definition = job.definitions.get(command)
        name = tag if definition is None else definition.name[len("request_") :]
        try:
            job.made[f"Request{name}"] = job.expression(command)
        except SubmitError:
            if not near:
                raise
            line = None if definition is None else definition.line
            raise SubmitError(f"Unknown command {command}. {hint}", line) from None
        if near:
            job.warn(f"{command} asks for a resource of the site's own, {name}. {hint}")

    return Section(action, (command,), (f"Request{tag}", "Request*"))


# The properties of GPUs that a job may ask for: attribute, command, the condition on a GPU's own ad.
_GPU_LIMITS = (
    ("GPUsMinCapability", "gpus_minimum_capability", "Capability >= GPUsMinCapability"),
    ("GPUsMaxCapability", "gpus_maximum_capability", "Capability <= GPUsMaxCapability"),
    ("GPUsMinMemory", "gpus_minimum_memory", "GlobalMemoryMb >= GPUsMinMemory"),
    ("GPUsMinRuntime", "gpus_minimum_runtime", "MaxSupportedVersion >= GPUsMinRuntime"),
)
_GPU_COMMANDS = ("require_gpus", "requiregpus", *(command for _, command, _ in _GPU_LIMITS))
_GPU_ATTRIBUTES = ("RequireGPUs", *(attribute for attribute, _, _ in _GPU_LIMITS))


def _gpus(job: Job) -> None:
    if job.attribute("RequestGPUs") is None:
        return
    command = job.given("require_gpus", "requiregpus")
    clauses = [job.expression(command)] if job.value(command) else []
    given = clauses[0].lower() if clauses else ""
    for attribute, name, condition in _GPU_LIMITS:
        value = job.value(name)
        if value is None:
            continue
        megabytes = amount(value, 1024**2) if name == "gpus_minimum_memory" else None
        version = re.fullmatch(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?", value) if name == "gpus_minimum_runtime" else None
        if version is not None:
            job.made[attribute] = str(int(version[1]) * 1000 + int(version[2] or 0) * 10)
        else:
            job.made[attribute] = job.expression(name) if megabytes is None else str(megabytes[0])
        if condition.split()[0].lower() not in given:
            clauses.append(condition)
    if clauses:
        first = f"({clauses[0]})" if len(clauses) > 1 and ("||" in clauses[0] or "?" in clauses[0]) else clauses[0]
        job.made["RequireGPUs"] = expression_text(" && ".join([first, *clauses[1:]]))


# -- files -------------------------------------------------------------------------------------------------------------

_SHOULD = {
    **dict.fromkeys(("yes", "true", "always"), "YES"),
    **dict.fromkeys(("no", "false", "never"), "NO"),
    **dict.fromkeys(("if_needed", "auto"), "IF_NEEDED"),
}
_WHEN = {
    **dict.fromkeys(("on_exit", "onexit"), "ON_EXIT"),
    **dict.fromkeys(("on_exit_or_evict", "always"), "ON_EXIT_OR_EVICT"),
    **dict.fromkeys(("on_success", "onsuccess"), "ON_SUCCESS"),
    **dict.fromkeys(("never", "none"), "NEVER"),
}
"""Their values as HTCondor's enum_utils.cpp has them; NEVER is what an older manual calls NONE."""


def _transfer(job: Job) -> None:
    """Set whether, when and which files are transferred, and their size."""
    inputs, outputs = _list(job, "transfer_input_files"), _list(job, "transfer_output_files")
    images = image_files(job)
    check_mounts(job)
    should, when = _should_and_when(job)
    job.set_string("ShouldTransferFiles", should)
    if should == "NO":
        for command, names in (("transfer_input_files", inputs), ("transfer_output_files", outputs)):
            if names is not None:
                raise job.wrong(command, "it needs should_transfer_files = YES or IF_NEEDED, which is NO here")
        if images:
            way_out = "where it is there already say transfer_container = false"
            raise job.wrong(
                "container_image", f"it needs should_transfer_files = YES or IF_NEEDED, which is NO here; {way_out}"
            )
        if job.boolean("transfer_executable", "transferexecutable"):
            raise job.wrong(
                "transfer_executable", "it needs should_transfer_files = YES or IF_NEEDED, which is NO here"
            )
    else:
        job.set_string("WhenToTransferOutput", when)
        inputs = [*(inputs or ()), *images]
        if inputs:
            job.set_string("TransferInput", ",".join(inputs))
        if outputs is not None:
            job.set_string("TransferOutput", ",".join(outputs))
    if should != "YES":
        job.set_string("FileSystemDomain", job.facts.filesystem_domain)
    _sizes(job, inputs or [])


def _list(job: Job, command: str) -> list[str] | None:
    value = job.value(command, command.replace("_", ""))
    if value is None:
        return None
    return [name for name in (part.strip() for part in stripped(value).split(",")) if name]


def _should_and_when(job: Job) -> tuple[str, str]:
    given = job.value("should_transfer_files", "shouldtransferfiles")
    wanted = job.value("when_to_transfer_output", "whentotransferoutput")
    should = _SHOULD.get((given or job.facts.setting("SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES") or "IF_NEEDED").lower())
    if should is None:
        if given is not None:
            raise job.wrong("should_transfer_files", "this must be YES, NO or IF_NEEDED")
        should = "IF_NEEDED"
    when = _WHEN.get((wanted or "ON_EXIT").lower())
    if when is None:
        raise job.wrong("when_to_transfer_output", "this must be ON_EXIT, ON_EXIT_OR_EVICT or ON_SUCCESS")
    if should == "NO" and given is not None and wanted is None:
        when = "NEVER"
    if (should == "NO") != (when == "NEVER"):
        command = "when_to_transfer_output" if wanted is not None else "should_transfer_files"
        raise job.wrong(command, f"it contradicts should_transfer_files, which is {should}")
    if when == "ON_EXIT_OR_EVICT" and should == "IF_NEEDED":
        if given is not None:
            raise job.wrong("when_to_transfer_output", "with it should_transfer_files must be YES")
        should = "YES"
    return should, when


def _sizes(job: Job, inputs: list[str]) -> None:
    program = literal_string(job.attribute("Cmd")) or ""
    executable = job.kilobytes(program if program.startswith("/") else f"{_folder(job)}/{program}") if program else 0
    names = list(inputs)
    if job.attribute("TransferIn") != "false":
        names.append(literal_string(job.attribute("In")) or "")
    brought = sum(
        job.kilobytes(name if name[0] == "/" or "://" in name else f"{_folder(job)}/{name}") for name in names if name
    )
    job.made["ExecutableSize"] = str(executable)
    job.made["ImageSize"] = str(_kilobytes_given(job, "image_size", "imagesize") or executable)
    usage = _kilobytes_given(job, "disk_usage", "diskusage")
    job.made["DiskUsage"] = str(usage or executable + brought)
    if usage is None:
        job.made["TransferInputSizeMB"] = str((executable + brought + 1023) // 1024)


def _folder(job: Job) -> str:
    return literal_string(job.attribute("Iwd")) or "/"


def _kilobytes_given(job: Job, *commands: str) -> int | None:
    for command in commands:
        if (value := job.value(command)) is not None:
            kilobytes = amount(value, 1024)
            if kilobytes is None or kilobytes[0] < 1:
                raise job.wrong(command, "this must be a positive number of kilobytes, or have K, M, G or T after it")
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
    reads=("Cmd", "Iwd", "In", "TransferIn", *WANTED, "TransferContainer", "MountUnderScratch"),
)

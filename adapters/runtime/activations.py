"""Build the supervisor's requests to start a job or a backfill client, from ads and the machine's configuration."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from functools import lru_cache

from attrs import evolve

from ...domain.classad import ClassAd, EvaluationError
from ...domain.events import Ad
from ...domain.ports.world import ClientLaunch, Launch
from ...domain.startd.public_ad import is_published
from ...domain.state.caches import ad_from_attributes, parse_cached
from ...domain.state.deferrals import needs_transfer
from ...domain.state.job_ad import SPOOLED_OUTPUT_FILES, quoted
from ..machine.execution import activation as execution
from ..machine.starter import Starter
from .job_containers import container_of, with_image

SOFT_KILL = int(signal.SIGTERM)
PLAIN = Starter()  #: without a configuration, jobs run next to the log, with the pool's own niceness


class ReadAd:
    """Reads the values in an ad. Literal numbers and strings are read from the text; only expressions need parsing."""

    def __init__(self, texts: Ad) -> None:
        self._texts = texts
        self._ad: ClassAd | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def value(self, text: str) -> object:
        """Evaluate an expression in the ad. Return its value, or None if it has no value."""
        if self._ad is None:
            self._ad = ad_from_attributes(self._texts)
        parsed = parse_cached(text)
        try:
            return None if parsed is None else parsed.evaluate(self._ad)
        except EvaluationError:
            return None

    def is_true(self, name: str) -> bool:
        """Return True if an attribute evaluates to true."""
        return name.lower() in map(str.lower, self._texts) and self.value(name) is True

    def text(self, name: str) -> str:
        source = self._texts.get(name, "")
        if _PLAIN_STRING.fullmatch(source):
            return source[1:-1]
        value = self.value(name) if source else ""
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        source = self._texts.get(name, "")
        if source.isdecimal():
            return int(source)
        value = self.value(name) if source else None
        return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


_PLAIN_STRING = re.compile(r'"[^"\\]*"', re.ASCII)


def arguments(job: ReadAd) -> tuple[str, ...]:
    """Return a job's arguments from ``Arguments`` (in the new syntax) or ``Args`` (in the old syntax, without
    quotes)."""
    return tuple(_words_of_attribute(job, "Arguments") if "Arguments" in job else job.text("Args").split())


def environment(job: ReadAd) -> dict[str, str]:
    """Return a job's environment from ``Environment`` (in the new syntax) or ``Env`` (in the old syntax)."""
    has_new_syntax = "Environment" in job
    entries = (
        _words_of_attribute(job, "Environment")
        if has_new_syntax
        else job.text("Env").split(job.text("EnvDelim") or ";")
    )
    return {name: value for name, _, value in (entry.partition("=") for entry in entries) if name}


def _words_of_attribute(job: ReadAd, name: str) -> list[str]:
    """Return the words in an attribute in the new syntax."""
    items = job.value(f"argsToList({name})") if job.text(name) else ()
    return [str(value) for value in items] if isinstance(items, Sequence) else []


def kill_signals(job: ReadAd) -> dict[str, int]:
    """Return the soft-kill signals: ``HoldKillSig`` for a hold, ``RemoveKillSig`` for a removal, otherwise ``KillSig``,
    with SIGTERM as the default."""
    soft = _signal(job, "KillSig") or SOFT_KILL
    return {"soft": soft, "hold": _signal(job, "HoldKillSig") or soft, "remove": _signal(job, "RemoveKillSig") or soft}


def _signal(job: ReadAd, attribute: str) -> int:
    """Return the number of a signal that an ad gives by name or number, or 0 if it gives none."""
    number = job.number(attribute)
    if number is not None:
        return number if 0 < number < signal.NSIG else 0
    name = job.text(attribute).upper()
    named = getattr(signal, name if name.startswith("SIG") else f"SIG{name}", None)
    return int(named) if isinstance(named, signal.Signals) else 0


def _old_form(ad: Ad, names: Sequence[str]) -> str:
    return "".join([f"{name} = {ad[name]}\n" for name in names])


@lru_cache
def _sorted_names(names: tuple[str, ...]) -> list[str]:
    """Sort the names of an ad. The result is cached, because most jobs have the same names, and so do most slots."""
    return sorted(names, key=str.lower)


@lru_cache
def _published_names(names: tuple[str, ...]) -> list[str]:
    return _sorted_names(tuple(filter(is_published, names)))


def activation(
    launch: Launch,
    starter: Starter = PLAIN,
    account: execution.UnixAccount | None = None,
    files: execution.UnixAccount | None = None,
    place: str = "",
    spool: str = "",
) -> execution.LaunchRequest:
    """Return the request that makes the supervisor start a job. The job runs as the user ``account``, and its files
    belong to ``files`` (for both, None means the pool's user). ``place`` is the parent of its scratch directory, if not
    the configured one, and ``spool`` is its spool directory."""
    job, slot = ReadAd(launch.job_ad), ReadAd(launch.slot_ad)
    memory, disk = slot.number("Memory") or 0, slot.number("Disk") or 0
    transfer = with_image(file_transfer(job, slot, starter, launch.most_moved, spool), launch.job_ad)
    return execution.LaunchRequest(
        key=launch.key,
        job=f"{launch.cluster}.{launch.proc}",
        slot=launch.slot,
        executable=job.text("Cmd"),
        arguments=arguments(job),
        environment=environment(job),
        inherited=starter.variables.inherits,
        counts=() if _at_the_access_point(job) else starter.variables.counts,
        added=starter.variables.variables_of_slot(launch.slot_ad),
        sets_home=starter.variables.home,
        iwd=job.text("Iwd") or "/",
        stdin=job.text("In"),
        stdout=job.text("Out"),
        stderr=job.text("Err"),
        job_ad=_old_form(launch.job_ad, _sorted_names(tuple(launch.job_ad))),
        machine_ad=_old_form(launch.slot_ad, _published_names(tuple(launch.slot_ad))),
        cpus=slot.number("Cpus") or 1,
        memory_mb=memory,
        disk_kb=disk,
        limits=starter.limits.limits(launch.slot_ad, launch.job_ad, memory, disk),
        kill_signals=kill_signals(job),
        nice=starter.nice(launch.job_ad),
        execute=place or starter.directory(slot.number("SlotID") or 0),
        run_in_iwd=True,
        remote_iwd=job.text("RemoteIwd"),
        wrapper="" if job.number("JobUniverse") == _SCHEDULER_UNIVERSE else starter.wrapper,
        dataflow=_dataflow(job),
        transfer=transfer,
        container=container_of(launch, starter.containers, transfer is not None, account),
        account=account,
        files=files,
        core_bytes=job.number("CoreSize") or 0,
        stack_bytes=job.number("StackSize") or 0,
        chirp=_chirp(job, starter, ours=bool(launch.cluster)),
        deadline=launch.deadline,
        waits=launch.waits,
    )


def _dataflow(job: ReadAd) -> dict[str, tuple[str, ...]] | None:
    if not job.is_true("SkipIfDataflow"):
        return None
    inputs = tuple(name for name in _names(job.text("TransferInput")) if "://" not in name)
    return {"inputs": inputs, "outputs": _names(job.text("TransferOutput"))}


def _chirp(job: ReadAd, starter: Starter, ours: bool) -> execution.Chirp | None:
    """Return the condor_chirp operations that the job may use, or None if it requests none or may use none. If ``ours``
    is true, the job is in this pool's queue, which stores the attributes that the job sets."""
    chirp = starter.chirp
    if chirp is None or not job.is_true("WantIOProxy") or _at_the_access_point(job):
        return None
    return evolve(
        chirp,
        updates=ours and chirp.updates and job.value("WantRemoteUpdates") is not False,
        delayed=chirp.delayed if ours and job.value("WantDelayedUpdates") is not False else (),
    )


def sandbox_attributes(report: execution.Usage | execution.Exited) -> dict[str, str]:
    """Return the attributes of a job that describe its files: their number, the times of output and error while it
    runs, and at its end the names of the transferred outputs.

    Source: publishUpdateAd and publishJobExitAd in HTCondor's jic_shadow.cpp."""
    attributes = {name: str(value) for name, value in report.sandbox.items()}
    if isinstance(report, execution.Usage):
        return attributes
    last = report.moves[-1] if report.moves else None
    names = last.names if last is not None and not (last.failed or last.kept) else None
    counts = {name: text for name, text in attributes.items() if name == _FILE_COUNT}
    return {**counts, **({SPOOLED_OUTPUT_FILES: quoted(names)} if names is not None else {})}


_FILE_COUNT = "ScratchDirFileCount"


def client_activation(
    launch: ClientLaunch, starter: Starter = PLAIN, account: execution.UnixAccount | None = None
) -> execution.LaunchRequest:
    """Return the request that makes the supervisor start a backfill client. The client runs as the user ``account``
    (None means the pool's user). The supervisor kills it if no pool is running."""
    client, slot = launch.client, ReadAd(launch.slot_ad)
    variables = (entry.partition("=") for entry in client.get("Environment", "").split(";"))
    return execution.LaunchRequest(
        key=launch.key,
        job="backfill",
        slot=launch.slot,
        executable=client.get("Executable", ""),
        arguments=tuple(client.get("Arguments", "").split()),
        environment={name: value for name, _, value in variables if name},
        iwd=client.get("InitialDir", ""),
        stdout=client.get("Output", ""),
        stderr=client.get("Error", ""),
        machine_ad=_old_form(launch.slot_ad, _published_names(tuple(launch.slot_ad))),
        cpus=slot.number("Cpus") or 1,
        memory_mb=slot.number("Memory") or 0,
        disk_kb=slot.number("Disk") or 0,
        nice=starter.nice({}),
        execute=starter.directory(slot.number("SlotID") or 0),
        run_in_iwd=True,
        account=account,
        attended=True,
    )


NO_LIMITS: Mapping[str, str] = {}
_SCHEDULER_UNIVERSE = 7
_AT_THE_ACCESS_POINT = frozenset({_SCHEDULER_UNIVERSE, 12})  #: the universes scheduler and local


def file_transfer(
    job: ReadAd, slot: ReadAd, starter: Starter = PLAIN, limits: Mapping[str, str] = NO_LIMITS, spool: str = ""
) -> execution.FileTransfer | None:
    """Return how a job's files are transferred. Return None if the job accesses its files directly, because it runs at
    the access point, or because it has should_transfer_files = IF_NEEDED and a slot in its FileSystemDomain."""
    domains = job.text("FileSystemDomain"), slot.text("FileSystemDomain")
    if not needs_transfer(job.text("ShouldTransferFiles"), *domains):
        return None
    if _at_the_access_point(job):
        return None
    copied = [
        (name, stream)
        for name, (path, transfer, stream) in _STREAMS.items()
        if job.text(path) not in ("", os.devnull) and job.value(transfer) is not False
    ]
    streamed = tuple(name for name, stream in copied if stream and job.value(stream) is True)
    job_urls = job_plugins(job.text("TransferPlugins")) if starter.urls else {}
    inputs = _names(job.text("TransferInput"))
    brought = tuple(dict.fromkeys(path for path in job_urls.values() if path not in inputs))
    when = job.text("WhenToTransferOutput").upper()
    checkpoint = _checkpoint(job)
    keeps_spool = when == "ON_EXIT_OR_EVICT" or checkpoint is not None
    checkpoint_url = _checkpoint_url(job) if checkpoint is not None else ""
    number = job.number("CheckpointNumber")
    return execution.FileTransfer(
        executable=job.value("TransferExecutable") is not False,
        inputs=(*brought, *inputs),
        outputs=_names(job.text("TransferOutput")) if "TransferOutput" in job else None,
        remaps=remaps(job.text("TransferOutputRemaps")),
        preserve=job.is_true("PreserveRelativePaths"),
        brought=tuple(name for name, _ in copied if name not in streamed),
        streamed=streamed,
        max_input_mb=_max_transfer(job, "MaxTransferInputMB", limits.get("MAX_TRANSFER_INPUT_MB")),
        max_output_mb=_max_transfer(job, "MaxTransferOutputMB", limits.get("MAX_TRANSFER_OUTPUT_MB")),
        plugins={**starter.plugins, **{method: (os.path.basename(path),) for method, path in job_urls.items()}},
        plugin_seconds=starter.plugin_seconds,
        destination=job.text("OutputDestination"),
        success=job.number("JobSuccessExitCode") if when == "ON_SUCCESS" else None,
        spool=spool if keeps_spool else "",
        on_evict=when == "ON_EXIT_OR_EVICT" and not checkpoint_url,
        checkpoint=checkpoint,
        checkpoint_files=_names(job.text("TransferCheckpoint")) if "TransferCheckpoint" in job else None,
        checkpoint_url=checkpoint_url,
        checkpoint_number=-1 if number is None else number,
        kept_checkpoints=1 + max(0, starter.extra_checkpoints),
        appends=keeps_spool and (checkpoint is not None or job.value("EraseOutputAndErrorOnRestart") is False),
    )


def _max_transfer(job: ReadAd, name: str, setting: str | None) -> int | None:
    """Return the maximum size in MiB that a job may transfer, from its ad or otherwise from a setting."""
    ad_limit = job.number(name)
    value = job.value(setting) if ad_limit is None and setting else ad_limit
    return int(value) if isinstance(value, int | float) else None


def _at_the_access_point(job: ReadAd) -> bool:
    return job.number("JobUniverse") in _AT_THE_ACCESS_POINT


def _checkpoint(job: ReadAd) -> dict[str, int] | None:
    """Return the exit code or signal by which a job reports a checkpoint, or None if it takes no checkpoints."""
    if not job.is_true("WantFTOnCheckpoint"):
        return None
    if job.is_true("SuccessCheckpointExitBySignal"):
        return {"signal": _signal(job, "SuccessCheckpointExitSignal")}
    return {"code": job.number("SuccessCheckpointExitCode") or 0}


def _checkpoint_url(job: ReadAd) -> str:
    """Return the URL below which the checkpoints of a job are stored, or an empty string for its spool directory."""
    destination = job.text("CheckpointDestination")
    slash = "" if destination.endswith("/") else "/"
    return f"{destination}{slash}{job.text('GlobalJobId').replace('#', '_')}" if destination else ""


_STREAMS = {
    "stdin": ("In", "TransferIn", ""),
    "stdout": ("Out", "TransferOut", "StreamOut"),
    "stderr": ("Err", "TransferErr", "StreamErr"),
}
"""For each stream, the attributes that contain its path, that determine whether it is transferred, and that determine
whether it is streamed. Input is always transferred, regardless of StreamIn."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for each in text.split(",") if (name := each.strip()))


def job_plugins(text: str) -> dict[str, str]:
    """Parse TransferPlugins, ``METHOD,METHOD = PLUGIN; METHOD = PLUGIN``. Return each lower-case method's plugin."""
    entries = (entry.partition("=") for entry in text.split(";"))
    return {method.lower(): path.strip() for names, _, path in entries if path.strip() for method in _names(names)}


def remaps(text: str) -> dict[str, str]:
    """Parse TransferOutputRemaps, ``name = other; name = other``; the first entry for a name applies. A backslash
    escapes = in the first name and ; in the second, and is an ordinary character elsewhere. A text before ; without =
    is not an entry, so names cannot contain ;. (filename_remap_find)"""
    targets: dict[str, str] = {}
    text, place = text.replace("\t", "").replace("\n", ""), 0
    while entry := _ENTRY.match(text, place):
        name = entry[1].replace("\\=", "=").strip()
        if ";" in name:
            place = text.index(";", place) + 1
        else:
            targets.setdefault(name, entry[2].replace("\\;", ";").strip())
            place = entry.end()
    return targets


_ENTRY = re.compile(r"((?:\\=|[^=])*)=((?:\\;|[^;])*);?")

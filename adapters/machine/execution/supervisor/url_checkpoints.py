"""Checkpoints that transfer plugins store at a URL (``checkpoint_destination``).

The files of a checkpoint are below URL/NUMBER. Its manifest, which lists their SHA-256 digests and ends with its own,
is in the job's spool directory: a checkpoint exists as soon as its manifest does. The manifest of a failed upload, or
of damaged files, is named FAILURE instead. Manifests of failed and of old checkpoints wait in a directory next to the
spool directory until the access point has deleted their files.

Source: HTCondor's manifest.cpp, createCheckpointManifest (file_transfer.cpp) and pseudo_event_notification
(pseudo_ops.cpp), and the files of a real pool.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence

from .copying import File
from .file_pieces import check_name
from .launch import Order
from .plugins import PluginError, Plugins, scheme
from .transfer import expand, output_path
from .usage_meter import (
    RECEIVING,
    SENDING,
    Result,
    TransferError,
    UsageMeter,
    path_error,
    plugin_error,
    read_error,
    write_error,
)

MANIFEST, FAILURE = "_condor_checkpoint_MANIFEST.", "_condor_checkpoint_FAILURE."
CLEANUP = ".cleanup"  #: the suffix of the directory with the manifests of checkpoints to delete
INVALID = -1000 - errno.EBADMSG
"""HoldReasonSubCode of a run that received damaged files: the job runs again, from the previous checkpoint."""

AddToSpool = Callable[[File], Result]
"""Adds a file to the job's spool directory, wherever that is."""


def number_of(name: str, prefix: str = MANIFEST) -> int:
    """Return the number of the checkpoint that a manifest describes, or -1 for any other file."""
    number = name.removeprefix(prefix)
    return int(number) if number != name and number.isascii() and number.isdigit() else -1


def listed_files(text: bytes) -> list[tuple[str, str]]:
    """Return the digest and the name of each file that a manifest lists, without its own line."""
    lines = text.decode(errors="surrogateescape").split("\n")[:-2]
    return [(digest, name.removeprefix("*")) for digest, _, name in (line.partition(" ") for line in lines)]


def newest_manifest(spool: str) -> list[str]:
    """Return the name of the valid manifest with the highest number; an empty list if there is none."""
    names = os.listdir(spool)
    failed = {number_of(name, FAILURE) for name in names}
    manifests = sorted((number_of(name), name) for name in names if number_of(name) not in failed | {-1})
    return next(([name] for _, name in reversed(manifests) if _is_valid(f"{spool}/{name}")), [])


def _is_valid(path: str) -> bool:
    from hashlib import sha256

    try:
        text = _read(path)
    except OSError:
        return False
    body, _, _ = text.removesuffix(b"\n").rpartition(b"\n")
    body += b"\n" if body else b""
    return text == body + _last_line(sha256(body).hexdigest(), os.path.basename(path))


def _last_line(digest: str, name: str) -> bytes:
    return f"{digest} *{name}\n".encode()


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _digest(path: str) -> str:
    from hashlib import file_digest

    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def upload(order: Order, scratch: str, names: Sequence[str], number: int, add_to_spool: AddToSpool) -> Result:
    """Upload a checkpoint, then add its manifest to the job's spool directory. If a file is missing, upload nothing."""
    from hashlib import sha256

    meter = UsageMeter("checkpoint", None)
    plugins = Plugins(order, scratch, upload=True)
    url = f"{order['transfer']['checkpoint_url']}/{number:04}"
    lines: list[str] = []
    for name in names:
        meter.listed += 1
        with _counting_failures(meter, SENDING):
            for file in expand(output_path(scratch, name), name, order["transfer"]["preserve"], scratch):
                path = os.path.normpath(file.source).removeprefix(f"{scratch}/")
                if file.is_directory:
                    continue
                if "\n" in path or path.startswith("/"):  # a manifest cannot list it
                    raise path_error(path)
                meter.by_url(scheme(url), 0)
                plugins.add_file(f"{url}/{path}", file.source)
                lines.append(f"{_digest(file.source)} *{path}\n")
    if meter.failures:
        return meter.result()
    meter.move_by_plugins(plugins, SENDING)
    manifest, body = f"{MANIFEST}{number:04}", "".join(lines).encode(errors="surrogateescape")
    path = f"{scratch}/{manifest}"
    with _counting_failures(meter, SENDING):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with open(path, "xb") as writer:
            writer.write(body + _last_line(sha256(body).hexdigest(), manifest))
        result = add_to_spool(File(path, f"{FAILURE}{number:04}" if meter.failures else manifest))
        os.unlink(path)
        meter.files, meter.size = result["files"], result["size"]
        if failure := result.get("failure"):
            raise TransferError(failure["end"], failure["errno"], failure["words"])
    return meter.result()


def restore(order: Order, scratch: str, names: Sequence[str], meter: UsageMeter, add_to_spool: AddToSpool) -> list[str]:
    """Download the checkpoint whose manifest is in the scratch directory; ``names`` has its name, or is empty. Return
    the names of the files and directories at the top of the checkpoint."""
    if not names or meter.failures:
        return []
    path, number = f"{scratch}/{names[0]}", number_of(names[0])
    files = listed_files(_read(path))
    plugins = Plugins(order, scratch, upload=False)
    url = f"{order['transfer']['checkpoint_url']}/{number:04}"
    with _counting_failures(meter, RECEIVING):
        for _, name in files:
            check_name(name)
            os.makedirs(os.path.dirname(f"{scratch}/{name}"), exist_ok=True)
            meter.by_url(scheme(url), 0)
            plugins.add_file(f"{url}/{name}", f"{scratch}/{name}")
        meter.move_by_plugins(plugins, RECEIVING)
        damaged = [name for digest, name in files if not meter.failures and _digest(f"{scratch}/{name}") != digest]
        if damaged:
            add_to_spool(File(path, f"{FAILURE}{number:04}"))
            reason = f"checkpoint file {url}/{damaged[0]} does not have the checksum in its manifest"
            raise TransferError(RECEIVING, INVALID, reason)
        os.unlink(path)
    meter.checkpoint = number
    return sorted({name.partition("/")[0] for _, name in files})


@contextlib.contextmanager
def _counting_failures(meter: UsageMeter, end: str) -> Iterator[None]:
    """Count an exception in the block as a failure of the transfer."""
    try:
        yield
    except PluginError as error:
        meter.count_failed(plugin_error(end, error))
    except TransferError as error:
        meter.count_failed(error)
    except OSError as error:
        path = str(error.filename or "a checkpoint")
        meter.count_failed(read_error(path, error) if end == SENDING else write_error(path, error))


def retire(spool: str, kept: int) -> None:
    """Move the manifests of failed checkpoints, and of all but the last ``kept`` others, to the directory of
    checkpoints to delete. Raise `OSError` if that fails."""
    names = os.listdir(spool)
    failed = {number_of(name, FAILURE) for name in names} - {-1}
    numbers = sorted({number_of(name) for name in names} - failed - {-1})
    for name in names:
        if number_of(name) in failed:
            os.unlink(f"{spool}/{name}")
        elif number_of(name, FAILURE) in failed or number_of(name) in numbers[: max(0, len(numbers) - kept)]:
            os.makedirs(f"{spool}{CLEANUP}", 0o700, exist_ok=True)
            os.rename(f"{spool}/{name}", f"{spool}{CLEANUP}/{name}")

"""Transfer a job's files: its inputs to the scratch directory before it starts, its outputs back when it has ended.

It runs in a separate process (``mover``), while none of the job's processes runs. A file arrives complete or not at
all: outputs are copied next to their destination, made durable, and renamed. After a failure the other files are still
transferred; failures are counted, and the first failure is reported.

Source: the manual's "Submitting Jobs Without a Shared File System"; for what it leaves open, HTCondor's
file_transfer.cpp and runs of a real pool.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol

from .copying import SYNCED_ALONE, File, copy_in
from .launch import Order
from .output_staging import MovableOutputs, Staging
from .plugins import PluginError, Plugins, file_name, scheme
from .sandbox import OWN_FILES, STREAMS, Transfer
from .scratch import CATALOG, STAGING, write_note
from .usage_meter import RECEIVING, SENDING, Result, TransferError, UsageMeter, path_error, plugin_error, read_error

# Input


_OF_A_PROGRAM = 0o755  #: the mode of a transferred executable, whatever its source has

Restore = Callable[[str, UsageMeter], Collection[str]]
"""Copies the files kept from earlier runs to a scratch directory; returns their names."""


def transfer_inputs(
    order: Order, scratch: str, restore: Restore = lambda *_: (), fetch: Restore | None = None
) -> Result:
    """Copy a job's inputs to its scratch directory, and over them the files kept from its earlier runs; write the
    catalog. ``fetch`` copies the inputs without URLs if they are on another machine. Raise `OSError` if the catalog
    cannot be written."""
    transfer: Transfer = order["transfer"]
    meter = UsageMeter("input", transfer["max_input_mb"])
    plugins = Plugins(order, scratch, upload=False)
    if fetch is None:
        _copy_all(list_inputs(order, meter), scratch, meter)
    else:
        fetch(scratch, meter)
    for name in (name for _, name in _inputs(order) if scheme(name)):
        meter.by_url(scheme(name), 0)
        try:
            plugins.add_file(name, f"{scratch}/{file_name(name)}")
        except PluginError as error:
            meter.count_failed(plugin_error(RECEIVING, error))
    if not meter.failures:
        meter.move_by_plugins(plugins, RECEIVING)
    kept = restore(scratch, meter)
    if transfer["executable"]:
        with contextlib.suppress(OSError):
            os.chmod(f"{scratch}/{os.path.basename(order['executable'])}", _OF_A_PROGRAM)
    if not meter.failures:
        write_note(scratch, CATALOG, catalog_text(scratch, kept))
    return meter.result()


def catalog_text(scratch: str, kept: Collection[str] = ()) -> str:
    """Return the catalog of a scratch directory: its files with sizes and times, and those kept from earlier runs."""
    entries = _catalog(scratch)
    return json.dumps({name: [*entries[name], *([1] if name in kept else [])] for name in entries})


def list_inputs(order: Order, meter: UsageMeter) -> Collection[File]:
    """Return the files and directories of a job's inputs that have no URL."""
    files: dict[str, File] = {}  # by name: of two inputs with the same name, the later one is used
    for path, name in _inputs(order):
        if scheme(name):
            continue
        meter.listed += 1
        try:
            files.update((file.name, file) for file in expand(path, name, order["transfer"]["preserve"]))
        except TransferError as error:
            meter.files += 1
            meter.count_failed(error)
    return files.values()


def _copy_all(files: Iterable[File], folder: str, meter: UsageMeter) -> None:
    made_folders = {folder}
    for file in files:
        try:
            copy_in(file, folder, made_folders, meter)
        except TransferError as error:
            meter.files += 1
            meter.count_failed(error)


def copy_and_replace(path: str, name: str, order: Order, folder: str, scratch: str, meter: UsageMeter) -> list[File]:
    """Copy an output to its final directory, replacing files with the same names. Return the copied files. Raise
    `TransferError` if that fails."""
    made_folders, copied_files = {folder}, []
    for file in expand(path, name, order["transfer"]["preserve"], scratch):
        if not file.is_directory:
            with contextlib.suppress(OSError):  # if the file cannot be removed, it cannot be written, either
                os.unlink(f"{folder}/{file.name}")
        copy_in(file, folder, made_folders, meter, must_sync=meter.files < SYNCED_ALONE)
        copied_files.append(file)
    return copied_files


def _inputs(order: Order) -> Iterator[tuple[str, str]]:
    """Yield the absolute path of each input, and the job's name for it."""
    transfer, iwd = order["transfer"], order["iwd"]
    for name in transfer["inputs"]:
        yield os.path.join(iwd, name), name
    named_files = [order["stdin"]] if "stdin" in transfer["brought"] else []
    named_files += [order["executable"]] if transfer["executable"] else []
    for name in named_files:
        yield os.path.join(iwd, name), name if scheme(name) else os.path.basename(name)


def expand(path: str, name: str, preserve: bool, within: str = "") -> Iterator[File]:
    """Yield a listed file or, for a directory, its files: with the directory itself, unless its name ends in a slash
    and paths are not preserved. A preserved path must not contain "..". Skip sockets, FIFOs, links to directories below
    the listed one, and links that lead out of the directory ``within``."""
    keeps_path = preserve and not name.startswith("/")
    if keeps_path and ".." in name.split("/"):
        raise path_error(name)
    contents = name.endswith(("/", "/.")) and not keeps_path
    plain_path = os.path.normpath(name)
    where = os.path.dirname(plain_path) if keeps_path else ""
    start = os.path.normpath(path)[: -len(plain_path)]
    folders_above = where.split("/") if where else []
    for depth in range(len(folders_above)):
        folder = "/".join(folders_above[: depth + 1])
        yield File(f"{start}{folder}", folder, is_directory=True, on_the_way=True)
    own_name = "" if contents or plain_path == "." else os.path.basename(plain_path)
    yield from _walk(path, os.path.join(where, own_name).rstrip("/"), within, contents)


def _walk(path: str, name: str, within: str, contents: bool = False) -> Iterator[File]:
    """Yield a file, or a directory and its files, or only its ``contents``."""
    try:
        info = os.stat(path)
    except OSError as error:
        raise read_error(path, error) from None
    if stat.S_ISREG(info.st_mode) or (stat.S_ISCHR(info.st_mode) and not within):
        yield File(path, name)
    if not stat.S_ISDIR(info.st_mode):
        return
    if not contents and os.path.islink(path.rstrip("/")):
        raise read_error(path, OSError(errno.EISDIR, ""), "- Transfer of symlinks to directories is not supported.")
    pending = [File(path, name, is_directory=True)]
    while pending:  # not recursive: the tree may be deeper than the stack
        file = pending.pop()
        if file.name and not (contents and file.source == path):
            yield file
        if file.is_directory:
            pending += reversed(list(_entries(file, within)))


def _entries(folder: File, within: str) -> Iterator[File]:
    """Yield the transferable entries of a directory."""
    try:
        with os.scandir(folder.source.rstrip("/") or "/") as found_entries:
            entries = sorted(found_entries, key=lambda entry: entry.name)
    except OSError as error:
        raise read_error(folder.source, error) from None
    for entry in entries:
        inner_name = f"{folder.name}/{entry.name}" if folder.name else entry.name
        if within and entry.is_symlink() and not _leads_inside(within, entry.path):
            continue
        if entry.is_file():
            yield File(entry.path, inner_name)
        elif entry.is_dir(follow_symlinks=False):
            yield File(entry.path, inner_name, is_directory=True)


def _catalog(scratch: str) -> dict[str, list[int]]:
    """Return the size and the modification time (nanoseconds) of each file in a scratch directory."""
    with os.scandir(scratch) as entries:
        job_entries = (entry for entry in entries if entry.name not in OWN_FILES and not entry.name.startswith(STAGING))
        stats = {entry.name: entry.stat(follow_symlinks=False) for entry in job_entries}
    return {name: [info.st_size, info.st_mtime_ns] for name, info in stats.items()}


# Output


class Outputs(Protocol):
    """Receives the outputs of one transfer."""

    def copy_or_move(self, file: File, target: str, meter: UsageMeter, as_tree: bool = False) -> bool:
        """Take a file; see `Staging.copy_or_move`."""

    def commit(self, meter: UsageMeter) -> None:
        """Bring all files to their destinations."""


def transfer_outputs(
    order: Order, scratch: str, failed: bool, may_move: bool = False, core: str = "", staging: Outputs | None = None
) -> Result:
    """Copy a job's outputs to their destination. ``failed``: it did not succeed and requests its outputs ON_SUCCESS, so
    transfer only its standard output and error. ``may_move``: the scratch directory is removed afterwards, so files may
    be moved out of it; ``core``: a file that is always transferred; ``staging``: where outputs go, if not to this
    machine."""
    transfer: Transfer = order["transfer"]
    meter = UsageMeter("output", transfer["max_output_mb"])
    if staging is None:
        staging = Staging(order["key"], order["iwd"], scratch, MovableOutputs(scratch) if may_move else None)
    plugins = Plugins(order, scratch, upload=True)
    own_streams = _streams(order, scratch)
    names = [] if failed else _outputs(order, scratch, {os.path.basename(source) for source, _ in own_streams})
    for name in names if failed or not core or core in names else [*names, core]:
        meter.listed += 1
        try:
            base = "" if name.startswith("/") else scratch
            moved_folder = ""  # the directory that was moved with all its contents
            for file in expand(output_path(scratch, name), name, transfer["preserve"], base):
                if moved_folder and file.source.startswith(moved_folder):
                    continue
                target = _url(order, scratch, file) or destination(order, file.name)
                if not scheme(target):
                    if "/" not in file.name:
                        meter.names[file.name] = None
                    if staging.copy_or_move(file, target, meter, as_tree=not _is_split(order, file)):
                        moved_folder = f"{file.source}/"
                elif not file.is_directory:
                    meter.by_url(scheme(target), 0)
                    plugins.add_file(target, file.source)
        except PluginError as error:
            meter.count_failed(plugin_error(SENDING, error))
        except TransferError as error:
            meter.files += 1
            meter.count_failed(error)
    meter.move_by_plugins(plugins, SENDING)
    for source, target in own_streams:
        try:
            staging.copy_or_move(File(source, ""), target, meter)
        except TransferError as error:
            meter.count_failed(error)
    staging.commit(meter)
    return meter.result()


def _streams(order: Order, scratch: str) -> list[tuple[str, str]]:
    """Return output and error with their destinations, once if both are the same. Include a file, or a device (empty),
    that the job created in their place, even for a streamed one; skip anything else without a failure."""
    streams = {}
    transfer = order["transfer"]
    for name, stream_file in STREAMS.items():
        is_shared = name == "stderr" and order["stderr"] == order["stdout"]
        if (name in transfer["brought"] or name in transfer.get("streamed", ())) and not is_shared:
            streams[f"{scratch}/{stream_file}"] = destination(order, order[name])
    return [(source, target) for source, target in streams.items() if _can_be_brought(source)]


def _can_be_brought(path: str) -> bool:
    with contextlib.suppress(OSError):
        mode = os.stat(path).st_mode
        return stat.S_ISREG(mode) or stat.S_ISCHR(mode)
    return False


def _outputs(order: Order, scratch: str, own_names: set[str]) -> list[str]:
    """Return the names of a job's outputs: the listed ones, or all new or changed files."""
    named_outputs: list[str] | None = order["transfer"]["outputs"]
    if named_outputs is not None:
        return named_outputs
    return changed(order, scratch, own_names)


def changed(order: Order, scratch: str, own_names: Collection[str], resumed: bool = True) -> list[str]:
    """Return the new or changed files. With ``resumed``, also return those restored from an earlier run."""
    try:
        with open(f"{os.path.dirname(scratch)}/{CATALOG}", encoding="utf-8", errors="surrogateescape") as file:
            catalog_before = json.load(file)
    except (OSError, ValueError):
        catalog_before = {}
    program = os.path.basename(order["executable"]) if order["transfer"]["executable"] else ""
    return sorted(
        name
        for name, now in _catalog(scratch).items()
        if (catalog_before.get(name) if resumed else catalog_before.get(name, [])[:2]) != now
        and name not in own_names
        and name != program
        and _is_file(scratch, name)
    )


def is_output(order: Order, name: str) -> bool:
    """Return True if a file of this name, or a directory above it, may be among the job's outputs."""
    transfer: Transfer = order["transfer"]
    if transfer["outputs"] is None:
        return "/" not in name
    for listed_name in (*transfer["outputs"], f"core.{order['job']}"):
        plain_path = os.path.normpath(listed_name)
        keeps_path = transfer["preserve"] and not listed_name.startswith("/")
        is_contents = plain_path == "." or (listed_name.endswith(("/", "/.")) and not keeps_path)
        top = plain_path if keeps_path else os.path.basename(plain_path)
        if is_contents or f"{name}/".startswith(f"{top}/") or (keeps_path and top.startswith(f"{name}/")):
            return True
    return False


def _is_file(scratch: str, name: str) -> bool:
    """Return True if the scratch directory has a file, or a link to a file in it, with this name."""
    path = f"{scratch}/{name}"
    return os.path.isfile(path) and _leads_inside(scratch, path)


def _leads_inside(scratch: str, path: str) -> bool:
    home_path = os.path.realpath(scratch)
    return os.path.commonpath((home_path, os.path.realpath(path))) == home_path


def output_path(scratch: str, name: str) -> str:
    """Return the path of an output. Raise `TransferError` if it leads out of the scratch directory, by ".." or a link;
    an absolute path is allowed."""
    path = os.path.join(scratch, name)
    if not name.startswith("/") and not _leads_inside(scratch, path):
        raise read_error(path, OSError(errno.EXDEV, ""))
    return path


def _url(order: Order, scratch: str, file: File) -> str:
    """Return an output's URL below the destination URL, with its path in the scratch directory; the result is empty if
    there is no destination URL."""
    parent_url: str = order["transfer"].get("destination", "")
    return f"{parent_url.rstrip('/')}/{file.source.removeprefix(f'{scratch}/')}" if parent_url else ""


def _is_split(order: Order, file: File) -> bool:
    """Return True if only a part of a directory is transferred, or a part has another destination."""
    return file.on_the_way or any(name.startswith(f"{file.name}/") for name in order["transfer"]["remaps"])


def destination(order: Order, name: str) -> str:
    """Return an output's destination, a path or a URL, after remapping its name or a parent directory. Raise
    `TransferError` if the remaps form a cycle."""
    remapped_url = _remap_name(order["transfer"]["remaps"], name)
    name = name if remapped_url is None else remapped_url
    return name if scheme(name) else os.path.join(order["iwd"], name)


def _remap_name(remaps: Mapping[str, str], name: str, level: int = 0) -> str | None:
    """Remap the longest remapped prefix of a path, and the result again; keep the rest of the path. Return None if no
    prefix is remapped."""
    end = len(name)
    while remaps and end > 0:
        if (head_path := name[:end]) in remaps:
            if level > _MOST_REMAPS:
                raise TransferError(RECEIVING, errno.EPERM, "remaps resulted in a cycle: <abort>")
            try:
                new = _remap_name(remaps, remaps[head_path], level + 1)
            except TransferError as error:
                message_begin, message_end = error.reason.split(": ", 1)
                error.reason = f"{message_begin}: <{level}: {head_path}>{message_end}"
                raise
            return (remaps[head_path] if new is None else new) + name[end:]
        end = name.rfind("/", 0, end)
    return None


_MOST_REMAPS = 128  #: MAX_REMAP_RECURSIONS

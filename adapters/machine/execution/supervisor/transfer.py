"""Transfer a job's files: its inputs into the scratch directory before it begins, its outputs back when it has ended.

It runs in another process than the supervisor's (``mover``), while nothing of the job does. A file arrives whole or
not at all: outputs are copied beside the place that they go to, made durable, and then given their names. Each failure
is counted, and the other files go on; the first one is told.

Source: the manual's "Submitting Jobs Without a Shared File System"; what it leaves open, the reference's
file_transfer.cpp and a real pool's runs.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from .copying import SYNCED_ALONE, File, copy_in
from .launch import Order
from .plugins import PluginError, Plugins, file_name, scheme
from .sandbox import OWN_FILES, STREAMS, Transfer
from .scratch import CATALOG, STAGING, note
from .staging import Movable, Staging
from .usage_meter import RECEIVING, SENDING, Result, TransferError, UsageMeter, illegal, of_plugin, unreadable

# Input


_OF_A_PROGRAM = 0o755  #: the rights of what a job executes, whatever they are where it comes from

Give = Callable[[str, UsageMeter], Collection[str]]
"""Copies what is kept of earlier runs into a scratch directory; returns the names."""


def bring(order: Order, scratch: str, give: Give = lambda *_: ()) -> Result:
    """Copy a job's inputs into its scratch directory, and what is kept of its earlier runs over them; note what is
    there. Raise `OSError` if that cannot be noted."""
    transfer: Transfer = order["transfer"]
    tally = UsageMeter("input", transfer["max_input_mb"])
    plugins = Plugins(order, scratch, upload=False)
    wanted: dict[str, File] = {}  # by their names: of two with one name the later one counts
    for path, name in _inputs(order):
        try:
            if kind := scheme(name):
                tally.by_url(kind, 0)
                plugins.add(name, f"{scratch}/{file_name(name)}")
                continue
            tally.listed += 1
            for file in _expanded(path, name, transfer["preserve"]):
                wanted[file.name] = file
        except PluginError as error:
            tally.failed(of_plugin(RECEIVING, error))
        except TransferError as error:
            tally.files += 1
            tally.failed(error)
    _copy_all(wanted.values(), scratch, tally)
    if not tally.failures:
        tally.take(plugins, RECEIVING)
    kept = give(scratch, tally)
    if transfer["executable"]:
        with contextlib.suppress(OSError):
            os.chmod(f"{scratch}/{os.path.basename(order['executable'])}", _OF_A_PROGRAM)
    if not tally.failures:
        there = _catalog(scratch)
        note(scratch, CATALOG, json.dumps({name: [*there[name], *([1] if name in kept else [])] for name in there}))
    return tally.result()


def _copy_all(files: Iterable[File], folder: str, tally: UsageMeter) -> None:
    made = {folder}
    for file in files:
        try:
            copy_in(file, folder, made, tally)
        except TransferError as error:
            tally.files += 1
            tally.failed(error)


def copy_for_good(path: str, name: str, order: Order, folder: str, scratch: str, tally: UsageMeter) -> list[File]:
    """Copy an output into a directory in which it stays, in the place of what has its name there. Return all that was
    copied. Raise `TransferError`."""
    made, copied = {folder}, []
    for file in _expanded(path, name, order["transfer"]["preserve"], scratch):
        if not file.is_directory:
            with contextlib.suppress(OSError):  # what cannot be removed, cannot be written, either
                os.unlink(f"{folder}/{file.name}")
        copy_in(file, folder, made, tally, sync=tally.files < SYNCED_ALONE)
        copied.append(file)
    return copied


def _inputs(order: Order) -> Iterator[tuple[str, str]]:
    """Yield each path as it is found from here, and as the job names it."""
    transfer, iwd = order["transfer"], order["iwd"]
    for name in transfer["inputs"]:
        yield os.path.join(iwd, name), name
    named = [order["stdin"]] if "stdin" in transfer["brought"] else []
    named += [order["executable"]] if transfer["executable"] else []
    for name in named:
        yield os.path.join(iwd, name), name if scheme(name) else os.path.basename(name)


def _expanded(path: str, name: str, preserve: bool, within: str = "") -> Iterator[File]:
    """Yield a listed file or, of a directory, the files in it: with the directory itself, unless its name ends in a
    slash and no paths are kept; a path that leads up cannot be. Sockets and FIFOs are left out, and so are links to
    directories below the listed one, and links that lead out of the directory ``within``."""
    keeps = preserve and not name.startswith("/")
    if keeps and ".." in name.split("/"):
        raise illegal(name)
    contents = name.endswith(("/", "/.")) and not keeps
    plain = os.path.normpath(name)
    where = os.path.dirname(plain) if keeps else ""
    start = os.path.normpath(path)[: -len(plain)]
    above = where.split("/") if where else []
    for depth in range(len(above)):
        folder = "/".join(above[: depth + 1])
        yield File(f"{start}{folder}", folder, is_directory=True, on_the_way=True)
    own = "" if contents or plain == "." else os.path.basename(plain)
    yield from _below(path, os.path.join(where, own).rstrip("/"), within, contents)


def _below(path: str, name: str, within: str, contents: bool = False) -> Iterator[File]:
    """Yield a file; of a directory the same, with it or only its ``contents``."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from None
    if stat.S_ISREG(found.st_mode) or (stat.S_ISCHR(found.st_mode) and not within):
        yield File(path, name)
    if not stat.S_ISDIR(found.st_mode):
        return
    if not contents and os.path.islink(path.rstrip("/")):
        raise unreadable(path, OSError(errno.EISDIR, ""), "- Transfer of symlinks to directories is not supported.")
    left = [File(path, name, is_directory=True)]
    while left:  # a directory may lie deeper than calls can
        file = left.pop()
        if file.name and not (contents and file.source == path):
            yield file
        if file.is_directory:
            left += reversed(list(_entries(file, within)))


def _entries(folder: File, within: str) -> Iterator[File]:
    """Yield what is in a directory and can be brought."""
    try:
        with os.scandir(folder.source.rstrip("/") or "/") as found_there:
            entries = sorted(found_there, key=lambda entry: entry.name)
    except OSError as error:
        raise unreadable(folder.source, error) from None
    for entry in entries:
        inner = f"{folder.name}/{entry.name}" if folder.name else entry.name
        if within and entry.is_symlink() and not _leads_inside(within, entry.path):
            continue
        if entry.is_file():
            yield File(entry.path, inner)
        elif entry.is_dir(follow_symlinks=False):
            yield File(entry.path, inner, is_directory=True)


def _catalog(scratch: str) -> dict[str, list[int]]:
    """Return what stands in a scratch directory: of each file its size and time of change in nanoseconds."""
    with os.scandir(scratch) as entries:
        theirs = (entry for entry in entries if entry.name not in OWN_FILES and not entry.name.startswith(STAGING))
        found = {entry.name: entry.stat(follow_symlinks=False) for entry in theirs}
    return {name: [each.st_size, each.st_mtime_ns] for name, each in found.items()}


# Output


def take_back(order: Order, scratch: str, failed: bool, moves: bool = False, core: str = "") -> Result:
    """Copy a job's outputs to where they belong. ``failed``: it did not succeed, and its outputs are wanted ON_SUCCESS:
    then only its standard output and error come back. ``moves``: the scratch directory goes afterwards, so files may be
    taken out of it; ``core``: a file that comes back whatever the job names."""
    transfer: Transfer = order["transfer"]
    tally = UsageMeter("output", transfer["max_output_mb"])
    movable = Movable(scratch) if moves else None
    staging = Staging(order["key"], order["iwd"], scratch, movable)
    plugins = Plugins(order, scratch, upload=True)
    own = _streams(order, scratch)
    names = [] if failed else _outputs(order, scratch, {os.path.basename(source) for source, _ in own})
    for name in names if failed or not core or core in names else [*names, core]:
        tally.listed += 1
        try:
            within = "" if name.startswith("/") else scratch
            moved = ""  # the directory of which all that is in it has been taken
            for file in _expanded(inside_of(scratch, name), name, transfer["preserve"], within):
                if moved and file.source.startswith(moved):
                    continue
                target = _url(order, scratch, file) or _destination(order, file.name)
                if not scheme(target):
                    if staging.add(file, target, tally, whole=not _goes_apart(order, file)):
                        moved = f"{file.source}/"
                elif not file.is_directory:
                    tally.by_url(scheme(target), 0)
                    plugins.add(target, file.source)
        except PluginError as error:
            tally.failed(of_plugin(SENDING, error))
        except TransferError as error:
            tally.files += 1
            tally.failed(error)
    tally.take(plugins, SENDING)
    for source, target in own:
        try:
            staging.add(File(source, ""), target, tally)
        except TransferError as error:
            tally.failed(error)
    staging.commit(tally)
    return tally.result()


def _streams(order: Order, scratch: str) -> list[tuple[str, str]]:
    """Return output and error, once if they are one, with where they belong. What the job itself made in place of one,
    even of a streamed one, is brought as well if it is a file or, empty, a device; else nothing is, without a failure.
    """
    found = {}
    transfer = order["transfer"]
    for name, own in STREAMS.items():
        shared = name == "stderr" and order["stderr"] == order["stdout"]
        if (name in transfer["brought"] or name in transfer.get("streamed", ())) and not shared:
            found[f"{scratch}/{own}"] = _destination(order, order[name])
    return [(source, target) for source, target in found.items() if _can_be_brought(source)]


def _can_be_brought(path: str) -> bool:
    with contextlib.suppress(OSError):
        mode = os.stat(path).st_mode
        return stat.S_ISREG(mode) or stat.S_ISCHR(mode)
    return False


def _outputs(order: Order, scratch: str, own: set[str]) -> list[str]:
    """Return the names of a job's outputs: those that it gave, or all files that are new or changed."""
    named: list[str] | None = order["transfer"]["outputs"]
    if named is not None:
        return named
    return changed(order, scratch, own)


def changed(order: Order, scratch: str, own: Collection[str], again: bool = True) -> list[str]:
    """Return the files that are new or were changed; also, unless it is not ``again``, those kept of an earlier run,
    which were then."""
    try:
        with open(f"{os.path.dirname(scratch)}/{CATALOG}", encoding="utf-8", errors="surrogateescape") as file:
            before = json.load(file)
    except (OSError, ValueError):
        before = {}
    program = os.path.basename(order["executable"]) if order["transfer"]["executable"] else ""
    return sorted(
        name
        for name, now in _catalog(scratch).items()
        if (before.get(name) if again else before.get(name, [])[:2]) != now
        and name not in own
        and name != program
        and _is_file(scratch, name)
    )


def _is_file(scratch: str, name: str) -> bool:
    """Tell whether a file, or a link to one of the scratch directory, has this name in it."""
    path = f"{scratch}/{name}"
    return os.path.isfile(path) and _leads_inside(scratch, path)


def _leads_inside(scratch: str, path: str) -> bool:
    home = os.path.realpath(scratch)
    return os.path.commonpath((home, os.path.realpath(path))) == home


def inside_of(scratch: str, name: str) -> str:
    """Return the path of an output. One that leads out of the scratch directory, by dots in its name or by a link, is
    none; an absolute path is what its submitter wants."""
    path = os.path.join(scratch, name)
    if not name.startswith("/") and not _leads_inside(scratch, path):
        raise unreadable(path, OSError(errno.EXDEV, ""))
    return path


def _url(order: Order, scratch: str, file: File) -> str:
    """Return where an output goes below the destination that is a URL; empty: there is none. The name there is that of
    the scratch directory, with the directories in it."""
    destination: str = order["transfer"].get("destination", "")
    return f"{destination.rstrip('/')}/{file.source.removeprefix(f'{scratch}/')}" if destination else ""


def _goes_apart(order: Order, file: File) -> bool:
    """Tell whether something in a directory may go elsewhere than the directory, or nowhere."""
    return file.on_the_way or any(name.startswith(f"{file.name}/") for name in order["transfer"]["remaps"])


def _destination(order: Order, name: str) -> str:
    """Return where an output goes, a path or a URL: by another name for it or for a directory in it, or its own. Raise
    `TransferError` if names lead in a circle."""
    other = _remapped(order["transfer"]["remaps"], name)
    name = name if other is None else other
    return name if scheme(name) else os.path.join(order["iwd"], name)


def _remapped(remaps: Mapping[str, str], name: str, level: int = 0) -> str | None:
    """Return the other name of the longest of a path's beginnings that has one, which may have another in turn, with
    what follows in the path; None: there is none."""
    end = len(name)
    while remaps and end > 0:
        if (head := name[:end]) in remaps:
            if level > _MOST_REMAPS:
                raise TransferError(RECEIVING, errno.EPERM, "remaps resulted in a cycle: <abort>")
            try:
                new = _remapped(remaps, remaps[head], level + 1)
            except TransferError as error:
                front, back = error.words.split(": ", 1)
                error.words = f"{front}: <{level}: {head}>{back}"
                raise
            return (remaps[head] if new is None else new) + name[end:]
        end = name.rfind("/", 0, end)
    return None


_MOST_REMAPS = 128  #: MAX_REMAP_RECURSIONS

"""Transfer a job's files: its inputs into the scratch directory before it begins, its outputs back when it has ended.

It runs in a process of its own (``mover``), for one activation, while nothing of the job does. A file arrives whole or
not at all: outputs are copied beside the place that they go to, made durable, and then given their names. Each failure
is counted, and the other files go on; the first one is told.

Source: the manual's "Submitting Jobs Without a Shared File System"; what it leaves open, the reference's
file_transfer.cpp and a real pool's runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from .channel import Channel, LocalChannel
from .launch import Order
from .movable import Movable
from .plugins import PluginError, Plugins, file_name, scheme
from .sandbox import OWN_FILES, STREAMS, Transfer
from .scratch import CATALOG, STAGED, STAGING, remove
from .tally import RECEIVING, SENDING, Result, Tally, TransferError, illegal, of_plugin, unreadable, unwritable

SYNCED_ALONE = 64  #: files up to this number are made durable one by one, more of them with all of their disk
_BUFFER = 1 << 20
_NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class File(NamedTuple):
    """A file or directory to be copied; ``name`` may have directories in it, which are made."""

    source: str
    name: str
    is_directory: bool = False


# Input


Give = Callable[[str, Tally, Channel], Collection[str]]
"""Copies what is kept of earlier runs into a scratch directory; returns the names."""


def bring(order: Order, scratch: str, channel: Channel | None = None, give: Give = lambda *_: ()) -> Result:
    """Copy a job's inputs into its scratch directory, and what is kept of its earlier runs over them; note what is
    there. Raise `OSError` if that cannot be noted."""
    transfer: Transfer = order["transfer"]
    tally = Tally("input", transfer["max_input_mb"])
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
    _copy_all(wanted.values(), scratch, tally, channel or LocalChannel())
    if not tally.failures:
        tally.take(plugins, RECEIVING)
    kept = give(scratch, tally, channel or LocalChannel())
    if transfer["executable"]:
        with contextlib.suppress(OSError):
            program = f"{scratch}/{os.path.basename(order['executable'])}"
            os.chmod(program, stat.S_IMODE(os.stat(program).st_mode) | 0o500)
    if not tally.failures:
        there = _catalog(scratch)
        _note(scratch, CATALOG, json.dumps({name: [*there[name], *([1] if name in kept else [])] for name in there}))
    return tally.result()


def _copy_all(files: Iterable[File], folder: str, tally: Tally, channel: Channel) -> None:
    made = {folder}
    for file in files:
        try:
            copy_in(file, folder, made, tally, channel)
        except TransferError as error:
            tally.files += 1
            tally.failed(error)


def copy_for_good(path: str, name: str, order: Order, folder: str, scratch: str, tally: Tally) -> list[File]:
    """Copy an output into a directory in which it stays, in the place of what has its name there. Return all that was
    copied. Raise `TransferError`."""
    made, copied = {folder}, []
    for file in _expanded(path, name, order["transfer"]["preserve"], scratch):
        if not file.is_directory:
            with contextlib.suppress(OSError):  # what cannot be removed, cannot be written, either
                os.unlink(f"{folder}/{file.name}")
        copy_in(file, folder, made, tally, LocalChannel(), sync=tally.files < SYNCED_ALONE)
        copied.append(file)
    return copied


def _inputs(order: Order) -> Iterator[tuple[str, str]]:
    """Yield each path as it is found from here, and as the job names it."""
    transfer, iwd = order["transfer"], order["iwd"]
    named = [order["executable"]] if transfer["executable"] else []
    named += [order["stdin"]] if "stdin" in transfer["brought"] else []
    for name in named:
        yield os.path.join(iwd, name), name if scheme(name) else os.path.basename(name)
    for name in transfer["inputs"]:
        yield os.path.join(iwd, name), name


def _expanded(path: str, name: str, preserve: bool, within: str = "") -> Iterator[File]:
    """Yield a listed file or, of a directory, the files in it: with the directory itself, unless its name ends in a
    slash and no paths are kept; a path that leads up cannot be. Sockets and FIFOs are left out, and so are links to
    directories below the listed one, and links that lead out of the directory ``within``."""
    keeps = preserve and not name.startswith("/")
    if keeps and ".." in name.split("/"):
        raise illegal(name)
    contents = name.endswith("/") and not keeps
    plain = os.path.normpath(name)
    where = os.path.dirname(plain) if keeps else ""
    start = os.path.normpath(path)[: -len(plain)]
    above = where.split("/") if where else []
    for depth in range(len(above)):
        folder = "/".join(above[: depth + 1])
        yield File(f"{start}{folder}", folder, is_directory=True)
    own = "" if contents or plain == "." else os.path.basename(plain)
    yield from _below(path, os.path.join(where, own).rstrip("/"), within, contents)


def _below(path: str, name: str, within: str, contents: bool = False) -> Iterator[File]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from None
    if stat.S_ISREG(found.st_mode):
        yield File(path, name)
    if not stat.S_ISDIR(found.st_mode):
        return
    if not contents and os.path.islink(path.rstrip("/")):
        raise unreadable(path, OSError(errno.EISDIR, ""), "- Transfer of symlinks to directories is not supported.")
    if name and not contents:
        yield File(path, name, is_directory=True)
    try:
        with os.scandir(path.rstrip("/") or "/") as found_there:
            entries = sorted(found_there, key=lambda entry: entry.name)
    except OSError as error:
        raise unreadable(path, error) from None
    for entry in entries:
        inner = f"{name}/{entry.name}" if name else entry.name
        if within and entry.is_symlink() and not _leads_inside(within, entry.path):
            continue
        if entry.is_file():
            yield File(entry.path, inner)
        elif entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path, inner, within)


def make_directory(path: str, like: str = "") -> None:
    """Make a directory that is missing, with the rights of another one, and those above it. Raise `OSError`."""
    if os.path.isdir(path):
        return
    missing = [path]
    while not os.path.lexists(above := os.path.dirname(missing[-1])):
        missing.append(above)
    for each in reversed(missing):
        os.mkdir(each, 0o700)
    if like:
        os.chmod(path, stat.S_IMODE(os.stat(like).st_mode) & 0o777 | 0o700)


def copy_in(file: File, folder: str, made: set[str], tally: Tally, channel: Channel, sync: bool = False) -> None:
    """Copy a file into a directory; ``made``: the directories that are there. Raise `TransferError`."""
    target = f"{folder}/{file.name}"
    parent = target if file.is_directory else os.path.dirname(target)
    if parent not in made:
        try:
            make_directory(parent, file.source if file.is_directory else "")
        except OSError as error:
            raise unwritable(target, error) from None
        made.add(parent)
    if not file.is_directory:
        _copy(file.source, target, tally, channel, sync)


def _copy(source: str, target: str, tally: Tally, channel: Channel, sync: bool) -> None:
    """Copy a file and its mode. Raise `TransferError`, which tells the end that failed."""
    try:
        reader = os.open(source, os.O_RDONLY | _NEVER_WAIT)
    except OSError as error:
        raise unreadable(source, error) from None
    try:
        found = os.fstat(reader)
        tally.admit(source, found.st_size)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | _NEVER_WAIT
        try:
            writer = os.open(target, flags, 0o600)
        except OSError as error:
            raise unwritable(target, error) from None
        try:
            size = channel.carry(reader, writer)
            os.fchmod(writer, stat.S_IMODE(found.st_mode) & 0o777)
            if sync:
                os.fsync(writer)
        except OSError as error:
            raise unwritable(target, error) from None
        finally:
            os.close(writer)
    finally:
        os.close(reader)
    tally.files += 1
    tally.size += size


def _catalog(scratch: str) -> dict[str, list[int]]:
    """Return what stands in a scratch directory: of each file its size and time of change in nanoseconds."""
    with os.scandir(scratch) as entries:
        theirs = (entry for entry in entries if entry.name not in OWN_FILES and not entry.name.startswith(STAGING))
        found = {entry.name: entry.stat(follow_symlinks=False) for entry in theirs}
    return {name: [each.st_size, each.st_mtime_ns] for name, each in found.items()}


def _note(scratch: str, name: str, text: str) -> None:
    with open(f"{os.path.dirname(scratch)}/{name}", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


# Output


def take_back(order: Order, scratch: str, failed: bool, channel: Channel | None = None, moves: bool = False) -> Result:
    """Copy a job's outputs to where they belong. ``failed``: it did not succeed, and its outputs are wanted ON_SUCCESS:
    then only its standard output and error come back. ``moves``: the scratch directory goes afterwards, so files may be
    taken out of it."""
    transfer: Transfer = order["transfer"]
    tally = Tally("output", transfer["max_output_mb"])
    movable = Movable(scratch) if moves else None
    staging = Staging(order["key"], order["iwd"], scratch, channel or LocalChannel(), movable)
    plugins = Plugins(order, scratch, upload=True)
    own = _streams(order, scratch)
    for name in [] if failed else _outputs(order, scratch, {os.path.basename(source) for source, _ in own}):
        tally.listed += 1
        try:
            within = "" if name.startswith("/") else scratch
            for file in _expanded(inside_of(scratch, name), name, transfer["preserve"], within):
                target = _url(order, scratch, file) or _destination(order, file.name)
                if not scheme(target):
                    staging.add(file, target, tally)
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
    """Return output and error, once if they are one, with where they belong."""
    found = {}
    for name, own in STREAMS.items():
        shared = name == "stderr" and order["stderr"] == order["stdout"]
        if name in order["transfer"]["brought"] and not shared:
            found[f"{scratch}/{own}"] = _destination(order, order[name])
    return [(source, target) for source, target in found.items() if os.path.isfile(source)]


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


def _destination(order: Order, name: str) -> str:
    """Return where an output goes, a path or a URL: by the longest of its leading directories that has another name, or
    its own."""
    remaps, head, tail = order["transfer"]["remaps"], name, ""
    while head:
        if head in remaps:
            name = os.path.join(remaps[head], tail) if tail else remaps[head]
            break
        head, last = os.path.split(head)
        tail = os.path.join(last, tail) if tail else last
    return name if scheme(name) else os.path.join(order["iwd"], name)


class Staging:
    """Outputs on their way: those that cannot be moved are copied into a directory of their own on the disk where they
    belong, and all are given their names when all were copied. What a killed transfer leaves of it is removed with the
    scratch directory."""

    def __init__(self, key: str, iwd: str, scratch: str, channel: Channel, movable: Movable | None) -> None:
        self._name = f"{STAGING}{key}"
        self._iwd, self._scratch, self._channel = iwd, scratch, channel
        self._movable = movable
        self._folders: dict[int, str] = {}
        self._places: dict[str, tuple[str, str, bool]] = {}
        self._files: list[tuple[str, str]] = []
        self._directories: dict[str, str] = {}  # with those of the scratch directory, whose rights they get

    def add(self, file: File, target: str, tally: Tally) -> None:
        """Copy a file. Raise `TransferError`."""
        if file.is_directory:
            tally.files += target not in self._directories
            self._directories.setdefault(target, file.source)
            return
        try:
            if os.path.islink(target):
                target = os.path.realpath(target)
            where, there, suits = self._place(os.path.dirname(target))
            target = f"{where}/{os.path.basename(target)}"
            if not os.path.isfile(target) and os.path.lexists(target):
                self._write_into(file.source, target, tally)
                return
            if self._movable and (found := self._movable.take(file.source, suits)):
                self._moves(file.source, target, found, tally)
                return
            staged = f"{self._folder(there)}/{len(self._files)}"
        except OSError as error:
            raise unwritable(target, error) from None
        try:
            _copy(file.source, staged, tally, self._channel, sync=len(self._files) < SYNCED_ALONE)
        except TransferError as error:
            error.words = error.words.replace(staged, target)
            raise
        self._files.append((staged, target))

    def _moves(self, source: str, target: str, found: os.stat_result, tally: Tally) -> None:
        tally.admit(source, found.st_size)
        if len(self._files) < SYNCED_ALONE:
            descriptor = os.open(source, os.O_RDONLY | _NEVER_WAIT)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        self._files.append((source, target))
        tally.moved(found)

    def _write_into(self, source: str, target: str, tally: Tally) -> None:
        """Write to what is no file, a device perhaps: it cannot be replaced."""
        if os.path.isdir(target):
            raise OSError(errno.EISDIR, "")
        writer = os.open(target, os.O_WRONLY | _NEVER_WAIT)
        try:
            with open(source, "rb") as reader:
                size = os.fstat(reader.fileno()).st_size
                tally.admit(source, size)
                while data := reader.read(_BUFFER):
                    while data:
                        data = data[os.write(writer, data) :]
        finally:
            os.close(writer)
        tally.files += 1
        tally.size += size

    def _place(self, folder: str) -> tuple[str, str, bool]:
        """Return the true path of a directory, that of the nearest one that is there, and whether files can be moved
        into it."""
        if folder not in self._places:
            true = os.path.realpath(folder)
            there = _nearest(true)
            suits = self._movable is not None and self._movable.suits(there)
            self._places[folder] = true, there, suits
        return self._places[folder]

    def _folder(self, there: str) -> str:
        """Return the directory for files that are copied to this disk."""
        device = os.stat(there).st_dev
        if device not in self._folders:
            here = os.stat(self._iwd).st_dev == device and os.access(self._iwd, os.W_OK | os.X_OK)
            near = self._iwd if here else there
            folder = f"{near}/{self._name}"
            _note(self._scratch, STAGED, "\0".join([*self._folders.values(), folder]))
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:  # of a transfer that was killed
                _clear(folder)
                os.mkdir(folder, 0o700)
            self._folders[device] = folder
        return self._folders[device]

    def commit(self, tally: Tally) -> None:
        """Give all their names."""
        if len(self._files) > SYNCED_ALONE:
            sync_disks([self._scratch, *self._folders.values()])
        for target, source in self._directories.items():
            try:
                make_directory(target, source)
            except OSError as error:
                tally.failed(unwritable(target, error))
        made: set[str] = set()
        for staged, target in self._files:
            try:
                if (folder := os.path.dirname(target)) not in made:
                    make_directory(folder)
                    made.add(folder)
                os.replace(staged, target)
            except OSError as error:
                tally.failed(unwritable(target, error))
        for folder in self._folders.values():
            _clear(folder)


def _nearest(folder: str) -> str:
    """Return this directory, or the one in which it will be made. Raise `OSError` if a file is in the way."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise OSError(errno.ENOTDIR, "")
    return folder


def sync_disks(folders: Iterable[str]) -> None:
    """Make all durable that is on the disks of these directories (syncfs(2))."""
    library = ctypes.CDLL(None)
    for folder in folders:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            library.syncfs(descriptor)
            os.close(descriptor)


def _clear(folder: str) -> None:
    for _ in remove(folder):
        pass

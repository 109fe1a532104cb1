"""A job's spool directory: what it had made when it was evicted or took a checkpoint, kept for its next run.

The directory changes as a whole. What it is to hold is put together beside it, made durable, and takes its place in two
renames; whoever comes next undoes the first of them if the second is missing. A list in it names what was kept: files
that were put there at submission are none of that.

Source: the manual's "Self-Checkpointing Applications"; what it leaves open, the reference's file_transfer.cpp.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from .copying import SYNCED_ALONE, File, copy_in, sync_disks, sync_folder
from .launch import Order
from .sandbox import STREAMS, Transfer
from .scratch import remove_now
from .transfer import Give, changed, copy_for_good, inside_of
from .usage_meter import Result, TransferError, UsageMeter, unwritable

KEPT = ".poolbook-kept"  #: in the spool directory: the names of what was kept
NEXT, BEFORE = ".tmp", ".swap"  #: behind its name: what takes its place, and what it was


def settled(spool: str) -> bool:
    """Undo or finish what a process that was killed has left of a change. Tell whether there is a spool directory."""
    there = os.path.isdir(spool)
    if not there and os.path.isdir(f"{spool}{BEFORE}"):
        os.rename(f"{spool}{BEFORE}", spool)
        there = True
    for waste in (f"{spool}{NEXT}", f"{spool}{BEFORE}"):
        if os.path.lexists(waste):
            remove_now(waste)
    return there


def kept_names(spool: str) -> list[str]:
    """Return the names of what is kept of a job's earlier runs; none if nothing is."""
    try:
        with open(f"{spool}/{KEPT}", encoding="utf-8", errors="surrogateescape") as file:
            names = json.load(file)
    except (OSError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)]


def of(order: Order) -> Give:
    """Return what brings back, to a new scratch directory, what is kept of a job."""

    def give(scratch: str, tally: UsageMeter) -> list[str]:
        spool: str = order["transfer"].get("spool", "")
        if not spool or not settled(spool):
            return []
        names, made = kept_names(spool), {scratch}
        for name in names:
            plain = name.rstrip("/")
            try:
                copy_in(File(f"{spool}/{plain}", plain, name.endswith("/")), scratch, made, tally)
            except TransferError as error:
                tally.failed(error)
        return names

    return give


def keep(order: Order, scratch: str, checkpoint: bool = False) -> Result:
    """Copy what a job has made into its spool directory, over what is kept there: all of it, or nothing.
    ``checkpoint``: those of its files that belong to one."""
    transfer: Transfer = order["transfer"]
    spool: str = transfer["spool"]
    tally = UsageMeter("checkpoint" if checkpoint else "output", None if checkpoint else transfer["max_output_mb"])
    new = f"{spool}{NEXT}"
    try:
        before = kept_names(spool) if settled(spool) else []
        os.makedirs(new, 0o700)
        if before or os.path.isdir(spool):
            _link_all(spool, new)
    except OSError as error:
        tally.failed(unwritable(spool, error))
        return tally.result()
    wanted = _wanted(order, scratch, checkpoint)
    copied = set(_copy_all(wanted, order, scratch, new, tally))
    if tally.failures:
        remove_now(new)
        return tally.result()
    try:
        _commit(spool, new, sorted(copied.union(before)), synced=tally.files < SYNCED_ALONE)
    except OSError as error:
        remove_now(new)
        tally.failed(unwritable(spool, error))
    return tally.result()


def _wanted(order: Order, scratch: str, checkpoint: bool) -> list[str]:
    """Return the names of what is to be kept: what the job calls its checkpoint or its outputs, else what is new or was
    changed; and what stands for its output and error until it ends."""
    transfer: Transfer = order["transfer"]
    streams = [own for name, own in STREAMS.items() if name in transfer["brought"]]
    named = transfer.get("checkpoint_files") if checkpoint else None
    named = transfer["outputs"] if named is None else named
    if named is None:
        named = changed(order, scratch, set(streams), again=False)
    return [*named, *(name for name in streams if os.path.isfile(f"{scratch}/{name}"))]


def _copy_all(names: list[str], order: Order, scratch: str, new: str, tally: UsageMeter) -> Iterator[str]:
    """Copy these; yield the names of all that was copied, with a slash behind a directory's."""
    for name in names:
        tally.listed += 1
        try:
            copied = copy_for_good(inside_of(scratch, name), name, order, new, scratch, tally)
        except TransferError as error:
            tally.files += 1
            tally.failed(error)
        else:
            yield from (f"{file.name}/" if file.is_directory else file.name for file in copied)


def _link_all(source: str, target: str) -> None:
    """Fill a directory with the files of another, by links: the other is not changed by what takes their place."""
    with os.scandir(source) as entries:
        for entry in entries:
            there = f"{target}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                os.mkdir(there, 0o700)
                _link_all(entry.path, there)
            else:
                os.link(entry.path, there, follow_symlinks=False)


def _commit(spool: str, new: str, names: list[str], synced: bool) -> None:
    """Let what was put together take the place of what there is. ``synced``: its files are on the disk."""
    listing = f"{new}/{KEPT}"
    if os.path.lexists(listing):
        os.unlink(listing)  # it is the earlier one's
    with open(listing, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(names, file)
        file.flush()
        os.fsync(file.fileno())
    if synced and not any("/" in name for name in names):
        sync_folder(new)
    else:
        sync_disks([new])
    if os.path.lexists(spool):
        os.rename(spool, f"{spool}{BEFORE}")
    os.rename(new, spool)
    sync_folder(os.path.dirname(spool))
    remove_now(f"{spool}{BEFORE}")

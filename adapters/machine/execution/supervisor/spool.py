"""A job's spool directory: the files from its eviction or last checkpoint, kept for its next run.

The directory changes atomically. Its new content is assembled next to it, made durable, and takes its place in two
renames; the next process undoes the first one if the second is missing. A list in it names the kept files, as opposed
to those spooled at submission.

Source: the manual's "Self-Checkpointing Applications"; for what it leaves open, HTCondor's file_transfer.cpp.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from . import url_checkpoints
from .copying import SYNCED_ALONE, File, copy_in, make_directory, sync_disks, sync_path
from .launch import Order
from .sandbox import STREAMS, Transfer
from .scratch import remove_now
from .transfer import Restore, changed, copy_and_replace, output_path
from .usage_meter import Result, TransferError, UsageMeter, write_error

KEPT = ".poolbook-kept"  #: in the spool directory: the names of the kept files
NEXT, BEFORE = ".tmp", ".swap"  #: the suffixes of its next and of its previous content


def recover(spool: str) -> bool:
    """Undo or finish a change that a killed process left incomplete. Return True if there is a spool directory."""
    does_exist = os.path.isdir(spool)
    if not does_exist and os.path.isdir(f"{spool}{BEFORE}"):
        os.rename(f"{spool}{BEFORE}", spool)
        does_exist = True
    for waste_path in (f"{spool}{NEXT}", f"{spool}{BEFORE}"):
        if os.path.lexists(waste_path):
            remove_now(waste_path)
    return does_exist


def kept_names(spool: str) -> list[str]:
    """Return the names of the files kept from a job's earlier runs."""
    try:
        with open(f"{spool}/{KEPT}", encoding="utf-8", errors="surrogateescape") as file:
            names = json.load(file)
    except (OSError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)]


def restorer(order: Order) -> Restore:
    """Return a function that restores a job's kept files to a new scratch directory."""

    def restore(scratch: str, meter: UsageMeter) -> list[str]:
        spool: str = order["transfer"].get("spool", "")
        if not spool or not recover(spool):
            return []
        names, made_folders = names_to_restore(order["transfer"]), {scratch}
        for name in names:
            plain_name = name.rstrip("/")
            try:
                copy_in(File(f"{spool}/{plain_name}", plain_name, name.endswith("/")), scratch, made_folders, meter)
            except TransferError as error:
                meter.count_failed(error)
        if order["transfer"].get("checkpoint_url"):
            return url_checkpoints.restore(order, scratch, names, meter, partial(add_file, order))
        return names

    return restore


def names_to_restore(transfer: Transfer) -> list[str]:
    """Return the names of the files in a job's spool directory that its next run needs: of checkpoints at a URL, the
    newest valid manifest."""
    spool: str = transfer["spool"]
    return url_checkpoints.newest_manifest(spool) if transfer.get("checkpoint_url") else kept_names(spool)


def copy_to_spool(order: Order, scratch: str, checkpoint: bool = False, number: int = 0) -> Result:
    """Copy a job's files to its spool directory, over those kept there: all of them, or none. ``checkpoint``: only the
    files of a checkpoint. If the job's checkpoints are at a URL, the files go there as checkpoint ``number``, and only
    the manifest to the spool directory."""
    names = names_to_keep(order, scratch, checkpoint)
    if checkpoint and order["transfer"].get("checkpoint_url"):
        return url_checkpoints.upload(order, scratch, names, number, partial(add_file, order))
    return change_spool(order, checkpoint, lambda new, meter: _copy_all(names, order, scratch, new, meter))


def add_file(order: Order, file: File) -> Result:
    """Add a manifest to a job's spool directory."""

    def add(new: str, meter: UsageMeter) -> list[str]:
        try:
            copy_in(file, new, {new}, meter, must_sync=True)
        except TransferError as error:
            meter.count_failed(error)
        return [file.name]

    return change_spool(order, True, add)


def change_spool(order: Order, checkpoint: bool, add_files: Callable[[str, UsageMeter], Iterable[str]]) -> Result:
    """Change the content of a job's spool directory: ``add_files`` adds files to a directory that has the previous
    content, and returns the names of all that it added, with a slash after a directory's."""
    transfer: Transfer = order["transfer"]
    spool: str = transfer["spool"]
    meter = UsageMeter("checkpoint" if checkpoint else "output", None if checkpoint else transfer["max_output_mb"])
    new = f"{spool}{NEXT}"
    try:
        names_before = kept_names(spool) if recover(spool) else []
        os.makedirs(new, 0o700)
        if names_before or os.path.isdir(spool):
            _link_all(spool, new)
    except OSError as error:
        meter.count_failed(write_error(spool, error))
        return meter.result()
    copied_names = set(add_files(new, meter))
    if meter.failures:
        remove_now(new)
        return meter.result()
    try:
        _commit(spool, new, sorted(copied_names.union(names_before)), synced=meter.files < SYNCED_ALONE)
        if transfer.get("checkpoint_url"):
            url_checkpoints.retire(spool, transfer["kept_checkpoints"])
    except OSError as error:
        remove_now(new)
        meter.count_failed(write_error(spool, error))
    return meter.result()


def names_to_keep(order: Order, scratch: str, checkpoint: bool) -> list[str]:
    """Return the names to keep: the job's checkpoint files or outputs if the job names any, otherwise the new or
    changed files. In both cases, add the job's output and error so far."""
    transfer: Transfer = order["transfer"]
    streams = [stream_file for name, stream_file in STREAMS.items() if name in transfer["brought"]]
    named_files = transfer.get("checkpoint_files") if checkpoint else None
    named_files = transfer["outputs"] if named_files is None else named_files
    if named_files is None:
        named_files = changed(order, scratch, set(streams), resumed=False)
    return [*named_files, *(name for name in streams if os.path.isfile(f"{scratch}/{name}"))]


def _copy_all(names: list[str], order: Order, scratch: str, new: str, meter: UsageMeter) -> Iterator[str]:
    """Copy these files; yield the names of all that was copied, with a slash after a directory's."""
    for name in names:
        meter.listed += 1
        try:
            copied_files = copy_and_replace(output_path(scratch, name), name, order, new, scratch, meter)
        except TransferError as error:
            meter.files += 1
            meter.count_failed(error)
        else:
            yield from (f"{file.name}/" if file.is_directory else file.name for file in copied_files)


def _link_all(source: str, target: str) -> None:
    """Hard-link the files of a directory into another one: replacing a link later does not change the source."""
    with os.scandir(source) as entries:
        for entry in entries:
            path = f"{target}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                make_directory(path, entry.path)
                _link_all(entry.path, path)
            else:
                os.link(entry.path, path, follow_symlinks=False)


def _commit(spool: str, new: str, names: list[str], synced: bool) -> None:
    """Replace the spool directory with the new content. ``synced`` is true if the new files are already durable."""
    listing = f"{new}/{KEPT}"
    if os.path.lexists(listing):
        os.unlink(listing)  # a link to the previous list
    with open(listing, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(names, file)
        file.flush()
        os.fsync(file.fileno())
    if synced and not any("/" in name for name in names):
        sync_path(new)
    else:
        sync_disks([new])
    if os.path.lexists(spool):
        os.rename(spool, f"{spool}{BEFORE}")
    os.rename(new, spool)
    sync_path(os.path.dirname(spool))
    remove_now(f"{spool}{BEFORE}")

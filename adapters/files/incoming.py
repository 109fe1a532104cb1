"""Receive a job's outputs from another machine, and bring them to their destinations.

They are received in a directory on the disk of their destinations, which only the files' owner can read. Once all are
complete, they are renamed, by the code that also moves the outputs of jobs of this machine. A note in the access
point's folder names that directory, so that a transfer continues after this process was killed, and its rest can be
removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..machine.execution.supervisor.copying import SYNCED_ALONE, File, link_in, sync_disks, sync_path
from ..machine.execution.supervisor.file_pieces import DIRECTORY, STREAM, Entry, Layout, Receiver, check_name
from ..machine.execution.supervisor.launch import Order
from ..machine.execution.supervisor.output_staging import MovableOutputs, Staging, may_write, nearest_ancestor
from ..machine.execution.supervisor.plugins import scheme
from ..machine.execution.supervisor.processes import boot_id
from ..machine.execution.supervisor.rights import UserIds, acting_as
from ..machine.execution.supervisor.sandbox import STREAMS, Transfer
from ..machine.execution.supervisor.scratch import STAGING, remove_now, remove_staged
from ..machine.execution.supervisor.spool import change_spool
from ..machine.execution.supervisor.transfer import destination, is_output
from ..machine.execution.supervisor.usage_meter import (
    RECEIVING,
    TransferError,
    UsageMeter,
    path_error,
    write_error,
)

Result = dict[str, Any]
"""The result of a transfer of outputs: files, size, and the fields of each failure."""


class FailureList(UsageMeter):
    """A meter that also keeps all failures."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind, None)
        self.errors: list[TransferError] = []

    def count_failed(self, error: TransferError) -> None:
        super().count_failed(error)
        self.errors.append(error)

    def fields(self) -> list[list[Any]]:
        """Return the fields of each failure, from which the other end creates it again."""
        return [fields_of(error) for error in self.errors]


def fields_of(error: TransferError) -> list[Any]:
    return [error.end, error.number, error.reason, error.code]


class Note:
    """A file in the access point's folder about the outputs of one activation."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return content

    def write(self, content: dict[str, Any]) -> None:
        new_path = self._path.with_name(f"{self._path.name}.new")
        new_path.write_text(json.dumps(content))
        os.replace(new_path, self._path)

    def remove_incoming(self) -> None:
        """Remove what remains of the transfer, and the note."""
        content = self.read()
        home = content.get("home", "")
        if home:
            rights = msgspec.convert(content["rights"], UserIds | None)
            with suppress(OSError), acting_as(rights):
                _remove_home(home)
        self._path.unlink(missing_ok=True)


def _remove_home(home: str) -> None:
    for _ in remove_staged(home):
        pass
    remove_now(home)


class OutputsRequest(msgspec.Struct):
    """The start of a transfer of outputs: an id that differs from that of any other transfer, the mover's task, and
    the files."""

    id: str
    kind: Literal["output", "checkpoint", "evict"]
    entries: list[Entry]


class IncomingOutputs:
    """The outputs of one transfer. Methods are called from one thread at a time."""

    def __init__(self, order: Order, rights: UserIds | None, body: bytes, note: Note) -> None:
        """Start a transfer, or continue it if the note is about the same one. Raise `ValueError` if the request is
        invalid."""
        request = msgspec.convert(json.loads(body), OutputsRequest)
        self.tag = tag_of(body)
        self._order, self._rights, self._note, self._kind = order, rights, note, request.kind
        self.layout = Layout(request.entries)
        _check(order, request)
        refused: dict[int, TransferError] = {}
        for index, entry in enumerate(request.entries):
            try:
                final_path(order, request.kind, entry)
            except TransferError as error:
                refused[index] = error
        content = note.read()
        if content.get("tag") != self.tag or content["boot"] != boot_id():
            note.remove_incoming()
            content = {"tag": self.tag, "boot": boot_id(), "rights": rights}
        self._content = content
        self._receiver: Receiver | None = None
        if "result" not in content and "placing" not in content:
            self._begin(refused)

    def _begin(self, refused: dict[int, TransferError]) -> None:
        """Create the directory for the files, unless it exists. If that fails, the transfer has failed."""
        home = ""
        try:
            with acting_as(self._rights):
                parent = self._content.get("home") or self._parent()
                home = self._content.setdefault("home", f"{parent}/{STAGING}{self._order['key']}")
            self._note.write(self._content)
            with acting_as(self._rights):
                os.makedirs(f"{home}/received", 0o700, exist_ok=True)
                self._receiver = Receiver(f"{home}/received", self.layout, self._final_path, refused)
        except OSError as error:
            failure = write_error(home or self._order["iwd"], error)
            self._finish({"files": 0, "size": 0, "failures": [[RECEIVING, failure.number, failure.reason, 0]]})

    def _parent(self) -> str:
        """Return a directory on the disk of the destinations where the owner may create files."""
        if self._kind != "output":
            return str(Path(self._order["transfer"]["spool"]).parent)
        iwd: str = self._order["iwd"]
        folders = (os.path.dirname(self._final_path(entry)) for entry in self._allowed_entries())
        candidates = (nearest_ancestor(os.path.realpath(folder)) for folder in folders)
        return iwd if may_write(iwd) else next(filter(may_write, candidates), iwd)

    def _allowed_entries(self) -> Iterator[Entry]:
        for entry in self.layout.entries:
            with suppress(TransferError):
                self._final_path(entry)
                yield entry

    def _final_path(self, entry: Entry) -> str:
        return final_path(self._order, self._kind, entry)

    @property
    def position(self) -> int:
        """Return the position in the stream where the sender continues."""
        return self.layout.length if self._receiver is None else self._receiver.position

    def feed(self, data: bytes) -> bool:
        """Receive the next part of the stream; see `Receiver.feed`."""
        if self._receiver is None:
            return False
        with acting_as(self._rights):
            return self._receiver.feed(data)

    def interrupt(self) -> None:
        """Forget an incomplete piece."""
        if self._receiver is not None:
            self._receiver.interrupt()

    def place(self) -> Result:
        """Bring the complete files to their destinations, unless that was done; return the result. Raise `ValueError`
        if files are missing."""
        if "result" in self._content:
            return dict(self._content["result"])
        if self.position < self.layout.length:
            raise ValueError("files are missing")
        failures = FailureList("output")
        if self._receiver is not None:
            self._receiver.close()
            failed_entries = self._receiver.failures.items()
            self._content["placing"] = {str(index): fields_of(error) for index, error in failed_entries}
            self._note.write(self._content)
        for fields in self._content["placing"].values():
            failures.files += 1
            failures.count_failed(TransferError(*fields))
        with acting_as(self._rights):
            self._place(failures)
        return self._finish({"files": failures.files, "size": failures.size, "failures": failures.fields()})

    def _finish(self, result: Result) -> Result:
        self._content["result"] = result
        self._note.write(self._content)
        self._receiver = None
        if home := self._content.get("home"):
            with acting_as(self._rights):
                _remove_home(home)
        return result

    def _place(self, meter: UsageMeter) -> None:
        if self._kind == "output":
            self._place_outputs(meter)
            return
        result = change_spool(self._order, self._kind == "checkpoint", self._link_into_spool)
        meter.files, meter.size = result["files"], result["size"]
        if failure := result.get("failure"):
            meter.count_failed(TransferError(failure["end"], failure["errno"], failure["words"], failure["code"]))

    def _received(self, meter: UsageMeter) -> Iterator[tuple[Entry, File]]:
        """Yield the received entries, with the modes of their sources. Count the ones that an earlier process
        placed."""
        for index, entry in enumerate(self.layout.entries):
            path = f"{self._content['home']}/received/{index}"
            try:
                os.chmod(path, entry.mode & 0o777)
            except FileNotFoundError:
                if str(index) not in self._content["placing"]:
                    meter.files, meter.size = meter.files + 1, meter.size + entry.size
            else:
                yield entry, File(path, entry.name, entry.kind == DIRECTORY)

    def _place_outputs(self, meter: UsageMeter) -> None:
        home = self._content["home"]
        received = f"{home}/received"
        movable = MovableOutputs(received, self._rights)
        # The name of the staging directories is that which `remove_staged` expects.
        staging = Staging(os.path.basename(home), self._order["iwd"], received, movable)
        folders = set()
        for entry, file in self._received(meter):
            try:
                target = self._final_path(entry)
                staging.copy_or_move(file, target, meter)
                folders.add(os.path.dirname(os.path.realpath(target)))
            except TransferError as error:
                meter.count_failed(error)
        staging.commit(meter)
        if len(folders) > SYNCED_ALONE:
            sync_disks(folders)
            return
        for folder in folders:
            with suppress(OSError):
                sync_path(folder)

    def _link_into_spool(self, new: str, meter: UsageMeter) -> Iterator[str]:
        made_folders: set[str] = set()
        for entry, file in self._received(meter):
            try:
                link_in(file, new, made_folders, must_sync=meter.files < SYNCED_ALONE)
            except TransferError as error:
                meter.files += 1
                meter.count_failed(error)
                continue
            meter.files, meter.size = meter.files + (not file.is_directory), meter.size + entry.size
            yield f"{entry.name}/" if file.is_directory else entry.name


def tag_of(text: bytes) -> str:
    """Return the entity tag of a list of files."""
    return f'"{sha256(text).hexdigest()}"'


def _check(order: Order, request: OutputsRequest) -> None:
    """Raise `ValueError` if a request cannot come from this job."""
    transfer: Transfer = order["transfer"]
    size = sum(entry.size for entry in request.entries)
    if any(entry.size < 0 or (entry.size and entry.kind == DIRECTORY) for entry in request.entries):
        raise ValueError("an entry has an invalid size")
    if request.kind != "checkpoint" and not UsageMeter("output", transfer["max_output_mb"]).has_room(size):
        raise ValueError("the outputs are larger than the job may transfer")
    may_keep = transfer["checkpoint"] if request.kind == "checkpoint" else transfer["on_evict"]
    if request.kind != "output" and not (may_keep and transfer["spool"]):
        raise ValueError("the job keeps no files")


def final_path(order: Order, kind: str, entry: Entry) -> str:
    """Return where an entry goes. Raise `TransferError` if the job may not write there."""
    transfer: Transfer = order["transfer"]
    if kind != "output":
        check_name(entry.name)
        return f"{transfer['spool']}/{entry.name}"
    if entry.kind == STREAM:
        copied_streams = (*transfer["brought"], *transfer["streamed"])
        targets = [destination(order, order[name]) for name in copied_streams if STREAMS.get(name) == entry.name]
        is_allowed = bool(targets)
        target = targets[0] if targets else ""
    else:
        check_name(entry.name)
        target = destination(order, entry.name)
        is_allowed = not transfer["destination"] and is_output(order, entry.name)
    if not is_allowed or scheme(target):
        raise path_error(entry.name)
    return target

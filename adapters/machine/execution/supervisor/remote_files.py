"""Transfer a job's files from and to an access point on another machine, over HTTPS.

The access point decides which files are the inputs, and where outputs go; this end requests them, and continues where a
connection was cut. It retries until there has been no progress for some time; the end of the job's lease ends it, too.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from . import url_checkpoints
from .copying import File, link_in
from .file_pieces import DIRECTORY, FILE, STREAM, Entry, Layout, Receiver, check_name, describe, read_pieces
from .launch import Order
from .sandbox import Transfer
from .scratch import STAGING, remove_now
from .spool import names_to_keep
from .transfer import expand, output_path, transfer_inputs, transfer_outputs
from .usage_meter import RECEIVING, SENDING, Result, TransferError, UsageMeter, write_error

if TYPE_CHECKING:
    from http.client import HTTPResponse, HTTPSConnection

UNREACHABLE = -1000 - errno.ETIMEDOUT
"""HoldReasonSubCode of a transfer that was given up: the job is tried again instead of held."""
_CHUNK = 8 << 20  #: the bytes of one request
_SILENCE_S = 30.0  #: an access point that sends nothing for so long is considered unreachable
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 30.0
_LARGEST_ANSWER = 256 << 20
_MOST_LISTS = 5  #: how often the access point may change the list of inputs during their transfer
_BLOCK = 1 << 16  #: the bytes that are sent or received at once, each time within ``_SILENCE_S``
_INCOMING = f"{STAGING}incoming"  #: in the scratch directory: where files are received
_REJECTIONS = {
    400: (errno.EPROTO, "rejects the request"),
    403: (errno.EACCES, "rejects the transfer key"),
}
"""By HTTP status: errno and text of failures after which a request is not repeated."""

_MODULES = ("encodings.idna", "hashlib", "http.client", "ssl", "urllib.parse")
"""Large modules, which therefore only movers import, and not the supervisor."""

T = TypeVar("T")


def transfer_files(kind: str, order: Order, scratch: str, failed: bool, core: str, checkpoint: int = 0) -> Result:
    """Do a mover's task for a job of a remote access point."""
    access_point = RemoteAccessPoint(order["access_point"], RECEIVING if kind == "input" else SENDING)
    try:
        if kind == "input":
            keeps_files = order["transfer"]["on_evict"] or order["transfer"]["checkpoint"]
            return transfer_inputs(
                order,
                scratch,
                restore=lambda folder, meter: _restore(access_point, order, folder, meter) if keeps_files else (),
                fetch=lambda folder, meter: pull(access_point, "inputs", folder, meter),
            )
        outputs = RemoteOutputs(access_point, kind)
        if kind == "output":
            return transfer_outputs(order, scratch, failed, core=core, staging=outputs)
        names = names_to_keep(order, scratch, kind == "checkpoint")
        if kind == "checkpoint" and order["transfer"].get("checkpoint_url"):
            return url_checkpoints.upload(
                order, scratch, names, checkpoint, lambda file: _push_file(access_point, file)
            )
        return _push_to_spool(order, scratch, outputs, names, checkpoint=kind == "checkpoint")
    finally:
        access_point.close()


def import_modules() -> None:
    """Import what a transfer needs. A mover calls this before it takes the rights of a user, who perhaps may not read
    the modules' files."""
    for name in _MODULES:
        import_module(name)


def _http() -> ModuleType:
    import http.client

    return http.client


class _Failed(Exception):
    """A request has failed, and may succeed later."""


class ListChanged(Exception):
    """The access point has another list of the files, or none."""


class RemoteAccessPoint:
    """The connection to an access point. ``end``: the end of the transfer that this process is, for messages."""

    def __init__(self, spec: Mapping[str, Any], end: str, silence_s: float = _SILENCE_S) -> None:
        self._urls: list[str] = list(spec["urls"])
        self._path = f"/{spec['activation']}"
        self._key: str = spec["key"]
        self._ca: str = spec["ca"]
        self._patience_s: int = spec["patience_s"]
        self._end = end
        self._silence_s = silence_s
        self._connection: HTTPSConnection | None = None
        self._progress_at = _now()

    def note_progress(self) -> None:
        self._progress_at = _now()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def use_next_url(self) -> None:
        self.close()
        self._urls.append(self._urls.pop(0))

    def persist(self, attempt: Callable[[], T]) -> T:
        """Return the result of an attempt, repeated until it succeeds; each base URL is tried in turn. Raise
        `TransferError` if there has been no progress for too long."""
        pause_s = _FIRST_PAUSE_S
        while True:
            began = self._progress_at
            try:
                result = attempt()
                self.note_progress()
                return result
            except (OSError, _http().HTTPException, _Failed) as error:
                self.close()
                if self._progress_at != began:
                    pause_s = _FIRST_PAUSE_S
                elif _now() - began >= self._patience_s:
                    raise TransferError(self._end, UNREACHABLE, f"{self._urls[0]}: {error or repr(error)}") from None
                else:
                    self.use_next_url()
                time.sleep(pause_s * (0.5 + os.urandom(1)[0] / 510))
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | Iterable[bytes] = b""
    ) -> HTTPResponse:
        """Send a request and return the answer, whose body the caller reads completely. Raise `ListChanged`,
        `TransferError`, or an error after which the caller tries again."""
        connection, base_path = self._connect()
        connection.request(
            method, f"{base_path}{self._path}{path}", body, {"Authorization": f"Bearer {self._key}", **(headers or {})}
        )
        response = connection.getresponse()
        if response.status in (200, 202, 206, 409):
            return response
        response.read(_BLOCK)
        if response.status in _REJECTIONS:
            number, problem = _REJECTIONS[response.status]
            raise TransferError(self._end, number, f"{self._urls[0]}: (errno {number}) the access point {problem}")
        if response.status == 412:
            raise ListChanged
        raise _Failed(f"the access point answers {response.status} {response.reason}")

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | Iterable[bytes] = b""
    ) -> tuple[Any, HTTPResponse]:
        """Send a request, and return the answer's JSON value and the answer itself."""
        response = self.request(method, path, headers, body)
        text = response.read(_LARGEST_ANSWER)
        try:
            return json.loads(text), response
        except ValueError:
            raise _Failed("the access point sends an incomplete answer") from None

    def _connect(self) -> tuple[HTTPSConnection, str]:
        import ssl
        from urllib.parse import urlsplit

        address = urlsplit(self._urls[0])
        if self._connection is None:
            context = ssl.create_default_context(cadata=self._ca or None)
            self._connection = _http().HTTPSConnection(
                address.hostname or "", address.port or 443, timeout=self._silence_s, context=context
            )
        return self._connection, address.path.rstrip("/")


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# Inputs


def pull(access_point: RemoteAccessPoint, part: str, scratch: str, meter: UsageMeter) -> list[str]:
    """Receive the ``inputs`` of a job, or the files ``kept`` from its earlier runs, into its scratch directory. Return
    their names."""
    try:
        return _pull(access_point, part, scratch, meter)
    except TransferError as error:
        meter.count_failed(error)
        return []
    finally:
        remove_now(f"{scratch}/{_INCOMING}")


def _pull(access_point: RemoteAccessPoint, part: str, scratch: str, meter: UsageMeter) -> list[str]:
    for _ in range(_MOST_LISTS):
        listing, response = access_point.persist(lambda: access_point.ask("GET", f"/{part}"))
        remove_now(f"{scratch}/{_INCOMING}")
        try:
            return _pull_listed(access_point, part, (listing, response.headers["ETag"]), scratch, meter)
        except ListChanged:
            continue
    raise TransferError(RECEIVING, errno.ESTALE, "the list of files changed during their transfer")


def _pull_listed(
    access_point: RemoteAccessPoint, part: str, listing: tuple[dict[str, Any], str], scratch: str, meter: UsageMeter
) -> list[str]:
    files, tag = listing
    entries = [Entry(*fields) for fields in files["entries"]]
    skipped: dict[int, TransferError] = {}
    size = meter.size
    for index, entry in enumerate(entries):
        try:
            check_name(entry.name)
            meter.admit(entry.source, entry.size)
            meter.size += entry.size
        except TransferError as error:
            skipped[index] = error
    meter.size = size
    incoming = f"{scratch}/{_INCOMING}"
    try:
        os.mkdir(incoming, 0o700)
        receiver = Receiver(incoming, Layout(entries), lambda entry: f"{scratch}/{entry.name}", skipped)
    except OSError as error:
        raise write_error(incoming, error) from None
    try:
        while not receiver.is_complete:
            access_point.persist(lambda: _receive(access_point, f"/{part}/data", tag, receiver))
    finally:
        receiver.close()
    meter.listed += files["listed"]
    for failure in (*(TransferError(*fields) for fields in files["failures"]), *receiver.failures.values()):
        meter.files += 1
        meter.count_failed(failure)
    return _place(receiver, scratch, meter)


def _receive(access_point: RemoteAccessPoint, path: str, tag: str, receiver: Receiver) -> None:
    """Receive the next part of the stream. Raise `_Failed` or `OSError` if the rest must be requested again."""
    position = receiver.position
    end = receiver.layout.end_of(position, _CHUNK)
    response = access_point.request("GET", path, {"Range": f"bytes={position}-{end - 1}", "If-Match": tag})
    if response.status == 409:
        receiver.skip(TransferError(*json.loads(response.read(_BLOCK))["failure"]))
        return
    try:
        while data := response.read1(_BLOCK):
            did_continue, previous, position = receiver.feed(data), position, receiver.position
            if position != previous:
                access_point.note_progress()
            if not did_continue:
                access_point.close()
                if position == previous:
                    raise _Failed("a part of the files was damaged")
                return
    finally:
        receiver.interrupt()
    if receiver.position < end:
        raise _Failed("the connection was cut")


def _place(receiver: Receiver, scratch: str, meter: UsageMeter) -> list[str]:
    """Move the received files to their names in the scratch directory; return these names."""
    made_folders, names = {scratch}, []
    for index, entry in enumerate(receiver.layout.entries):
        if index in receiver.failures:
            continue
        path, is_directory = receiver.path(index), entry.kind == DIRECTORY
        try:
            os.chmod(path, entry.mode)
            link_in(File(path, entry.name, is_directory), scratch, made_folders)
        except OSError as error:
            meter.count_failed(write_error(f"{scratch}/{entry.name}", error))
        except TransferError as error:
            meter.count_failed(error)
        else:
            meter.files += not is_directory
            meter.size += entry.size
            names.append(entry.name)
    return names


# Outputs


class RemoteOutputs:
    """The outputs of one transfer; the access point receives them when all are known. See `Staging`."""

    def __init__(self, access_point: RemoteAccessPoint, kind: str) -> None:
        self._access_point = access_point
        self._kind = kind
        self._entries: list[Entry] = []
        self._tag = ""  #: the access point's name for this transfer, or empty if it is not known there
        self._position: int | None = None  #: where the access point continues, if that is known

    def copy_or_move(self, file: File, target: str, meter: UsageMeter, as_tree: bool = False) -> bool:
        """Add a file or directory. Raise `TransferError` if it cannot be read, or is too large."""
        kind = DIRECTORY if file.is_directory else FILE if file.name else STREAM
        entry = describe(kind, file.name or os.path.basename(file.source), file.source)
        meter.admit(file.source, entry.size)
        meter.size += entry.size
        self._entries.append(entry)
        return False

    def commit(self, meter: UsageMeter) -> None:
        """Send all files; the access point brings them to their destinations."""
        meter.size -= sum(entry.size for entry in self._entries)
        if not self._entries:
            return
        try:
            result = self._push()
        except TransferError as error:
            meter.count_failed(error)
            return
        meter.files += result["files"]
        meter.size += result["size"]
        for fields in result["failures"]:
            meter.count_failed(TransferError(*fields))

    def _push(self) -> dict[str, Any]:
        """Send the files; return the access point's result. Raise `TransferError` if they cannot be sent."""
        layout = Layout(self._entries)
        head = {"id": os.urandom(16).hex(), "kind": self._kind, "entries": self._entries}
        body = json.dumps(head).encode()
        result: dict[str, Any] | None = None
        while result is None:
            try:
                result = self._access_point.persist(lambda: self._push_more(layout, body))
            except ListChanged:
                self._tag = ""  # the access point has restarted
                time.sleep(_FIRST_PAUSE_S)
        return result

    def _push_more(self, layout: Layout, body: bytes) -> dict[str, Any] | None:
        """Make the next request; return the access point's result if that was the last one."""
        access_point = self._access_point
        if not self._tag:
            answer, response = access_point.ask("POST", "/outputs", body=body)
            self._tag, self._position = response.headers["ETag"], int(answer["position"])
        headers = {"If-Match": self._tag}
        position, self._position = self._position, None
        if position is None:
            position = int(access_point.ask("GET", "/outputs", headers)[0]["position"])
        if position >= layout.length:
            result, response = access_point.ask("POST", "/outputs/place", headers)
            self._position = position
            return dict(result) if response.status == 200 else None
        end = layout.end_of(position, _CHUNK)
        headers["Content-Length"] = str(end - position)
        headers["Content-Range"] = f"bytes {position}-{end - 1}/{layout.length}"
        blocks = read_pieces(layout, position, end)
        parts = (block[at : at + _BLOCK] for block in blocks for at in range(0, len(block), _BLOCK))
        answer, _ = access_point.ask("PUT", "/outputs/data", headers, parts)
        self._position = int(answer["position"])
        return None


def _restore(access_point: RemoteAccessPoint, order: Order, scratch: str, meter: UsageMeter) -> list[str]:
    """Receive the files kept from a job's earlier runs, or the manifest of its checkpoint and the files at its URL."""
    names = pull(access_point, "kept", scratch, meter)
    if not order["transfer"].get("checkpoint_url"):
        return names
    return url_checkpoints.restore(order, scratch, names, meter, partial(_push_file, access_point))


def _push_file(access_point: RemoteAccessPoint, file: File) -> Result:
    """Send a manifest to a job's spool directory."""
    meter, outputs = UsageMeter("checkpoint", None), RemoteOutputs(access_point, "checkpoint")
    try:
        outputs.copy_or_move(file, "", meter)
        outputs.commit(meter)
    except TransferError as error:
        meter.count_failed(error)
    return meter.result()


def _push_to_spool(
    order: Order, scratch: str, outputs: RemoteOutputs, names: Sequence[str], checkpoint: bool
) -> Result:
    """Send the files of a checkpoint or an evicted job to its spool directory: all of them, or none."""
    transfer: Transfer = order["transfer"]
    meter = UsageMeter("checkpoint" if checkpoint else "output", None if checkpoint else transfer["max_output_mb"])
    for name in names:
        meter.listed += 1
        try:
            for file in expand(output_path(scratch, name), name, transfer["preserve"], scratch):
                outputs.copy_or_move(file, "", meter)
        except TransferError as error:
            meter.files += 1
            meter.count_failed(error)
    if not meter.failures:
        outputs.commit(meter)
    return meter.result()

"""The activations whose files an access point offers to the execution points where they run.

Each activation has a transfer key, computed from its name, its run and a secret that this access point keeps in a
private file. The key authorizes requests for this activation's files only.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from attrs import asdict

from ..machine.execution.activation import LaunchRequest
from ..machine.execution.supervisor.copying import File
from ..machine.execution.supervisor.dataflow import NEWER, NOT_NEEDED, are_outputs_newer
from ..machine.execution.supervisor.file_pieces import DIRECTORY, FILE, Entry, Layout, describe
from ..machine.execution.supervisor.launch import Order
from ..machine.execution.supervisor.rights import acting_as, ids_of_account
from ..machine.execution.supervisor.spool import names_to_restore, recover
from ..machine.execution.supervisor.transfer import list_inputs
from ..machine.execution.supervisor.usage_meter import SENDING, TransferError
from ..security.private_files import make_private_folder, read_private, write_private
from .incoming import FailureList, IncomingOutputs, Note, Result, tag_of

PARTS = ("inputs", "kept")
_IWD_ERROR = 14  #: HoldReasonCode IwdError


class StaleRequest(Exception):
    """A request is about another list of files than the current one, was replaced by a later one, or its activation was
    withdrawn."""


class Listing(NamedTuple):
    """A list of files: as the execution point receives it, the tag of this text, and the layout of the stream."""

    text: bytes
    tag: str
    layout: Layout


class Offer:
    """The files of one activation. The methods block; they act with the rights of the files' owner."""

    def __init__(self, order: Order, run: int, note: Note) -> None:
        self.order = order
        self.run = run
        self.rights = ids_of_account(order.get("files"))
        self._note = note
        self._lock = Lock()
        self._is_withdrawn = False
        self._outputs: IncomingOutputs | None = None
        self._sender = 0  #: the number of the request that may send outputs: the last one
        self._listings: dict[str, Listing] = {}

    def list_files(self, part: str) -> Listing:
        """Return the list of the ``inputs``, or of the files ``kept`` from earlier runs. It remains the same until
        `forget_list` is called."""
        with self._lock, acting_as(self.rights):
            if part not in self._listings:
                self._listings[part] = _list_files(self.order, part)
            return self._listings[part]

    def forget_list(self, part: str) -> None:
        """Forget a list of files, which may be long, when the last file has been sent."""
        self._listings.pop(part, None)

    def begin_outputs(self, body: bytes) -> tuple[str, int]:
        """Start to receive outputs, or continue if the request is the same as the last one. Return the transfer's tag
        and the position where the sender begins. Raise `ValueError` if the request is invalid."""
        with self._lock:
            self._check()
            self._sender += 1
            if self._outputs is None or self._outputs.tag != tag_of(body):
                self._outputs = IncomingOutputs(self.order, self.rights, body, self._note)
            return self._outputs.tag, self._outputs.position

    def position(self, tag: str) -> int:
        """Return the position up to which the outputs were received."""
        with self._lock:
            return self._current_outputs(tag).position

    def resume(self, tag: str) -> int:
        """Return the position where the sender of the outputs continues. Earlier requests may not send more, or the
        position would no longer be correct when the sender has received it."""
        with self._lock:
            self._sender += 1
            return self._current_outputs(tag).position

    def start_sending(self, tag: str, position: int) -> int:
        """Return the number of a request that sends outputs from a position on. Earlier requests may not send more."""
        with self._lock:
            outputs = self._current_outputs(tag)
            outputs.interrupt()
            self._sender += 1
            return self._sender if outputs.position == position else 0

    def receive(self, sender: int, data: bytes) -> bool:
        """Receive the next part of the outputs; see `Receiver.feed`."""
        with self._lock:
            self._check()
            if sender != self._sender or self._outputs is None:
                raise StaleRequest
            return self._outputs.feed(data)

    def place_outputs(self, tag: str) -> Result:
        """Bring the outputs to their destinations. Raise `ValueError` if some have not been received."""
        with self._lock:
            return self._current_outputs(tag).place()

    def withdraw(self) -> None:
        """Remove what remains of the transfers."""
        with self._lock:
            self._is_withdrawn = True
            self._note.remove_incoming()

    def _check(self) -> None:
        if self._is_withdrawn:
            raise StaleRequest

    def _current_outputs(self, tag: str) -> IncomingOutputs:
        self._check()
        if self._outputs is None or self._outputs.tag != tag:
            raise StaleRequest
        return self._outputs


def _list_files(order: Order, part: str) -> Listing:
    failures = FailureList("input")
    files: Iterable[File] = ()
    if part == "kept":
        files = _kept_files(order)
    elif (error := _iwd_error(order["iwd"])) is not None:
        failures.count_failed(error)
    elif are_outputs_newer(order):
        failures.count_failed(TransferError(SENDING, NOT_NEEDED, NEWER))
    else:
        files = list_inputs(order, failures)
    entries: list[Entry] = []
    for file in files:
        try:
            entries.append(describe(DIRECTORY if file.is_directory else FILE, file.name, file.source))
        except TransferError as error:
            failures.count_failed(error)
    content = {"entries": entries, "failures": failures.fields(), "listed": failures.listed}
    text = json.dumps(content).encode()
    return Listing(text, tag_of(text), Layout(entries))


def _iwd_error(iwd: str) -> TransferError | None:
    try:
        os.stat(f"{iwd}/")
    except OSError as error:
        number = error.errno or 0
        return TransferError(SENDING, number, f"iwd {iwd}: {os.strerror(number)}", _IWD_ERROR)
    return None


def _kept_files(order: Order) -> list[File]:
    spool: str = order["transfer"]["spool"]
    names = names_to_restore(order["transfer"]) if spool and recover(spool) else []
    return [File(f"{spool}/{name.rstrip('/')}", name.rstrip("/"), name.endswith("/")) for name in names]


class Offers:
    """All activations that an access point offers. The owner of the log calls the methods, possibly from another thread
    than the one that serves the files.

    :param folder: a private directory for the secret, and for notes on received files
    """

    def __init__(self, folder: Path) -> None:
        """Raise `OSError` or `PrivateFileError` if the folder cannot be used."""
        self._notes = folder / "notes"
        make_private_folder(self._notes)
        self._secret = _read_secret(folder / "secret")
        self._offers: dict[str, Offer] = {}
        self._remover = ThreadPoolExecutor(1, "files-remover")

    def offer(self, request: LaunchRequest, run: int) -> str:
        """Offer the files of an activation to the execution point where it runs; return the transfer key.

        :param request: the request that would start the job on this machine; its key is unique at this access point
        """
        if request.key not in self._offers:
            self._offers[request.key] = Offer(asdict(request), run, Note(self._notes / request.key))
        return self.key(request.key, run)

    def withdraw(self, activations: Iterable[str]) -> None:
        """Stop offering activations whose ends the log has, and remove what remains of their transfers."""
        for activation in activations:
            offer = self._offers.pop(activation, None)
            self._remover.submit(offer.withdraw if offer else Note(self._notes / activation).remove_incoming)

    def retain(self, activations: Iterable[str]) -> None:
        """Withdraw all activations except these, also an earlier process's."""
        known_names = {path.name for path in self._notes.iterdir()} | self._offers.keys()
        self.withdraw(known_names - set(activations))

    def key(self, activation: str, run: int) -> str:
        """Return the transfer key of an activation."""
        return self._sign([activation, run])

    def datagram_key(self, name: str) -> str:
        """Return the key with which the execution point of this name exchanges datagrams."""
        return self._sign(name)

    def _sign(self, content: object) -> str:
        return hmac.new(self._secret, json.dumps(content).encode(), sha256).hexdigest()

    def find(self, activation: str) -> Offer | None:
        return self._offers.get(activation)

    def close(self) -> None:
        """Wait until everything that was withdrawn is removed."""
        self._remover.shutdown()


def _read_secret(path: Path) -> bytes:
    """Return the secret in a file; create it if it is missing."""
    with suppress(FileExistsError):
        write_private(path, secrets.token_bytes(32), replace=False)
    return read_private(path)

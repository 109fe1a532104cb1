"""A snapshot of a pool's state beside its log, so that a start folds only the events after it (docs/log.md).

A snapshot is a cache: without it, the whole log is folded. It is used only if this version of the code wrote it, if the
log has the snapshot's digest at its position, and if only users with write access to the log can have written the file.
It can contain only instances of the state's own classes.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from ...domain.ports.log import EventStore
from ...domain.state.state import State
from ..stores.location import locate
from ..stores.sqlite_files import is_trusted, make_private

EVENTS: Final = 20_000
"""So many events are folded without writing a new snapshot, because this takes less than a tenth of a second."""
_DOMAIN: Final = Path(__file__).parents[2] / "domain"


class _Header(msgspec.Struct):
    """The first line of a snapshot's file, before the pickled state."""

    code: str  #: `code_version` of the code that wrote it
    position: int
    digest: str  #: the log's digest at this position
    checksum: str  #: of the pickled state


@cache
def code_version() -> str:
    """Return a text that changes with the code of the domain, on which a state depends, and with Python's version."""
    digest = blake2b(sys.version.encode(), digest_size=16)
    for path in sorted(path for kind in ("py", "txt") for path in _DOMAIN.rglob(f"*.{kind}")):
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


class Snapshot:
    """The snapshot of the log at `url`. Only a log in an SQLite file has a snapshot."""

    def __init__(self, url: str) -> None:
        location = locate(url)
        self._log = location.place if location.kind == "sqlite" else ""
        self._path = f"{self._log}.snapshot"
        self._position = 0  #: the position of the snapshot in the file

    def load_state(self, log: EventStore) -> State:
        """Return the state in the snapshot, or an empty state if the snapshot is missing or cannot be used."""
        if not self._log or not is_trusted(self._path, self._log):
            return State()
        with suppress(Exception):  # the file can contain anything; the log is still available
            with open(self._path, "rb") as file:
                header = msgspec.json.decode(file.readline(1000), type=_Header)
                content = file.read()
            is_usable = (
                header.code == code_version()
                and header.checksum == blake2b(content, digest_size=32).hexdigest()
                and header.digest == log.digest_at(header.position)
            )
            if is_usable:
                from .pickled_state import unpickle_state

                state = unpickle_state(content)
                if type(state) is State and state.position == header.position:
                    self._position = header.position
                    return state
        return State()

    def store_state(self, log: EventStore, state: State) -> None:
        """Replace the snapshot if a start without a new one would fold many events. If the disk is full or the
        directory is not writable, the old snapshot remains."""
        if not self._log or state.position != log.head.position or state.position - self._position < EVENTS:
            return
        from .pickled_state import pickle_state

        content = pickle_state(state)
        checksum = blake2b(content, digest_size=32).hexdigest()
        header = _Header(code_version(), state.position, log.head.digest, checksum)
        with suppress(OSError):
            new = f"{self._path}.new"
            with suppress(FileNotFoundError):
                os.unlink(new)  # left by a start that was killed
            make_private(new, self._log)
            with open(new, "wb") as file:
                file.write(msgspec.json.encode(header) + b"\n" + content)
            os.replace(new, self._path)
            self._position = state.position

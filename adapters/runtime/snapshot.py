"""Snapshots of a pool's state beside its log, so that a start folds only the events after the last one, and a replay
only those before the moment that it goes to (docs/log.md).

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
PAST_EVENTS: Final = 50_000  #: the number of events between two snapshots of a replay
MOST_PAST: Final = 64  #: before a replay stores more of them, it deletes every other one
_APPEND_EVENTS: Final = 10_000  #: among so many events, a replay looks for one that ends an append
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
        self._log = _sqlite_file(url)
        self._path = f"{self._log}.snapshot"
        self._position = 0  #: the position of the snapshot in the file

    def load_state(self, log: EventStore) -> State:
        """Return the state in the snapshot, or an empty state if the snapshot is missing or cannot be used."""
        state = _read(self._path, self._log, log) if self._log else State()
        self._position = state.position
        return state

    def store_state(self, log: EventStore, state: State) -> None:
        """Replace the snapshot if a start without a new one would fold many events. If the disk is full or the
        directory is not writable, the old snapshot remains."""
        if not self._log or state.position != log.head.position or state.position - self._position < EVENTS:
            return
        if _write(self._path, self._log, state, log.head.digest):
            self._position = state.position


class PastSnapshots:
    """The snapshots of states in the past of the log at `url`, which replays store and use. Only a log in an SQLite
    file has them: ``pool.db.snapshot-100004`` is the state after event 100004."""

    def __init__(self, url: str) -> None:
        self._log = _sqlite_file(url)

    def _positions(self) -> list[int]:
        folder, name = os.path.split(os.path.abspath(self._log))
        prefix = f"{name}.snapshot-"
        with suppress(OSError):
            ends = [file.removeprefix(prefix) for file in os.listdir(folder) if file.startswith(prefix)]
            return sorted(int(end) for end in ends if end.isdecimal())
        return []

    def load(self, log: EventStore, last: int) -> State:
        """Return the latest state up to position `last` that agrees with the log, or an empty state."""
        for position in reversed(self._positions() if self._log else ()):
            if position <= last:
                state = _read(self._path(position), self._log, log)
                if state.position == position:
                    return state
        return State()

    def due(self, log: EventStore, after: int) -> int:
        """Return the first position at least `PAST_EVENTS` after `after` at which an append ends, and so has a digest;
        a position after the log's end if there is none."""
        if self._log:
            first = (after // PAST_EVENTS + 1) * PAST_EVENTS
            for position in range(first, min(first + _APPEND_EVENTS, log.head.position + 1)):
                if log.digest_at(position) is not None:
                    return position
        return log.head.position + 1

    def store(self, log: EventStore, state: State) -> None:
        """Store a state at a position that `due` returned, unless that fails."""
        positions, digest = self._positions(), log.digest_at(state.position)
        if digest is None or state.position in positions:
            return
        if _write(self._path(state.position), self._log, state, digest) and len(positions) >= MOST_PAST:
            for position in positions[::2]:
                with suppress(OSError):
                    os.unlink(self._path(position))

    def _path(self, position: int) -> str:
        return f"{self._log}.snapshot-{position}"


def _sqlite_file(url: str) -> str:
    location = locate(url)
    return location.place if location.kind == "sqlite" else ""


def _read(path: str, log_path: str, log: EventStore) -> State:
    if is_trusted(path, log_path):
        with suppress(Exception):  # the file can contain anything; the log is still available
            with open(path, "rb") as file:
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
                    return state
    return State()


def _write(path: str, log_path: str, state: State, digest: str) -> bool:
    """Write a snapshot, and return True, unless the disk is full or the directory is not writable."""
    from .pickled_state import pickle_state

    content = pickle_state(state)
    header = _Header(code_version(), state.position, digest, blake2b(content, digest_size=32).hexdigest())
    with suppress(OSError):
        new = f"{path}.new"
        with suppress(FileNotFoundError):
            os.unlink(new)  # left by a process that was killed
        make_private(new, log_path)
        with open(new, "wb") as file:
            file.write(msgspec.json.encode(header) + b"\n" + content)
        os.replace(new, path)
        return True
    return False

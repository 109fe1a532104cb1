"""The log's store on a simulated machine: an append is one step that may fail, be cut off, or be the last."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from poolbook.adapters.stores.memory import MemoryRecorder
from poolbook.adapters.stores.opening import verify_seal
from poolbook.adapters.stores.recorder import LogRecorder, head_in
from poolbook.adapters.stores.seal import AppendBatch
from poolbook.adapters.stores.sqlite import SQLiteRecorder, open_sqlite
from poolbook.adapters.stores.stored_log import StoredLog, open_stored_log
from poolbook.adapters.stores.verification import find_problems
from poolbook.domain.ports.log import EventStore, Head, LogUnavailable

from .machine import POOL, Doom, Machine


class Store:
    """A store in memory whose appends are atomic and durable."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._tables = MemoryRecorder("the simulated log")
        self.full = False  #: the log's own disk is full
        self.tried = 0  #: appends, including failed ones
        self.torn = 0  #: half-written appends at a power cut
        self.doomed = False  #: the power is cut in the middle of the next append
        self.unclear = 0  #: how many appends will be stored, but lose their answer

    def open(self) -> EventStore:
        return StoredLog(watched(self._tables, self), head_in(self._tables), None)

    def crash(self) -> None:
        """End the pool without closing its log."""

    def problems(self) -> list[str]:
        """Return the problems that the log's seal shows."""
        return [problem.text for problem in find_problems(self._tables, None)]

    def append(self, store: Callable[[], None]) -> None:
        """Run one append by calling `store`."""
        machine = self._machine
        self.tried += 1
        if self.doomed:
            self.doomed = False
            machine.doom = Doom(0, POOL, power=True)
        machine.step(POOL, "append")
        if machine.disk.full or self.full:
            raise LogUnavailable("there is no space left for it")
        store()
        machine.step(POOL, "return from the append")
        if self.unclear:
            self.unclear -= 1
            raise LogUnavailable("the connection broke while it was stored")


def watched(recorder: LogRecorder, store: Store) -> LogRecorder:
    return cast(LogRecorder, WatchedRecorder(recorder, store))


class WatchedRecorder:
    """A recorder whose appends go through a `Store`."""

    def __init__(self, tables: Any, store: Store) -> None:
        self._tables, self._store = tables, store

    def append(self, old: Head, new: Head, batch: AppendBatch) -> None:
        self._store.append(lambda: self._tables.append(old, new, batch))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)


class SqliteStore(Store):
    """The real store in a real file. When the machine dies, the file is left as a disk may leave it: committed data is
    there, and any part of the write-ahead log of the current append."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        super().__init__(machine)
        self._path = folder / "pool.db"
        self._files = [self._path, folder / "pool.db-wal", folder / "pool.db.head"]
        self._open: SQLiteRecorder | None = None

    def open(self) -> EventStore:
        self.crash()
        self._open = open_sqlite(str(self._path), create=True, read_only=False)
        assert self._open is not None
        return open_stored_log(watched(self._open, self), f"{self._path}.head", False)

    def append(self, store: Callable[[], None]) -> None:
        if self.doomed:
            before = self._contents()
            store()
            self.crash(before)
            self.torn += 1
        super().append(store)

    def crash(self, before: list[bytes] | None = None) -> None:
        """Leave the files as they are, or torn between `before` and now; the store is not closed."""
        if self._open is None:
            return
        now = self._contents()
        self._open.close()  # which cleans up, and is reverted
        self._open = None
        Path(f"{self._path}-shm").unlink(missing_ok=True)
        if before is not None:
            now = [before[0], _torn(before[1], now[1], self._machine.chance), b"" if before[2] else now[2]]
        for path, content in zip(self._files, now, strict=True):
            path.write_bytes(content)

    def _contents(self) -> list[bytes]:
        return [path.read_bytes() if path.exists() else b"" for path in self._files]

    def problems(self) -> list[str]:
        self.crash()
        return [problem.text for problem in verify_seal(str(self._path))]


def _torn(old: bytes, new: bytes, chance: random.Random) -> bytes:
    """Return what a cut in the middle of writing leaves: some new pages, and some old ones."""
    kept_bytes = chance.randint(0, len(new))
    return new[:kept_bytes] + old[kept_bytes:]

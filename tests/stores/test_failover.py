"""Property: with PostgreSQL servers that fail and are promoted, no acknowledged append is lost, and a log has one
writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from poolbook import Client, LogError
from poolbook.adapters.stores import log_paths
from poolbook.adapters.stores.log_paths import WriterLock
from poolbook.adapters.stores.opening import follow_mark, open_log, verify_seal
from poolbook.domain.events import ClusterSubmitted, WriterBegan
from poolbook.domain.ports.log import EventStore, Fenced, LogDamaged, LogUnavailable

from .samples import AT, changed
from .servers import BINARIES, Pair, server_pair, wait_for

pytestmark = pytest.mark.skipif(BINARIES is None, reason="PostgreSQL is not installed")
_RELEASE = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
"""What docs/many-machines.md tells an administrator to do, instead of waiting until the lease of a process ends."""
_PROGRAM = "from poolbook.adapters.cli.main import entry; entry()"
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A primary and a standby for one test; they are not synchronous yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    with server_pair() as servers:
        yield servers


@pytest.fixture(scope="module")
def running() -> Iterator[Pair]:
    """A primary and a standby for tests in which they do not fail."""
    with server_pair() as servers:
        yield servers


class Served:
    """A process `poolbook serve -standby` of one of two machines."""

    def __init__(self, folder: Path, url: str) -> None:
        folder.mkdir(exist_ok=True)
        self.output = folder / "output.txt"
        environment = {**os.environ, "PYTHONPATH": str(ROOT / ".path"), "XDG_STATE_HOME": str(folder)}
        command = [sys.executable, "-c", _PROGRAM, "serve", "-standby", "-quiet", "-slots", "1", "-log", url]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=output)

    def wait_until(self, text: str) -> None:
        wait_for(lambda: self.process.poll() is not None or text in self.text)
        assert text in self.text, self.text

    @property
    def text(self) -> str:
        return self.output.read_text()


@contextmanager
def served(folder: Path, url: str) -> Iterator[Served]:
    server = Served(folder, url)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


class Appending(threading.Thread):
    """An append that may block."""

    def __init__(self, log: EventStore, number: int) -> None:
        super().__init__(daemon=True)
        self.result: object = None
        self._log, self._number = log, number
        self.start()

    def run(self) -> None:
        try:
            self.result = self._log.append([changed(self._number)])
        except LogError as error:
            self.result = error


def test_every_acknowledged_submission_survives_the_failure_of_the_primary(pair: Pair, tmp_path: Path) -> None:
    pair.make_synchronous()
    acknowledged: list[int] = []
    with served(tmp_path / "here", pair.url) as server:
        server.wait_until("serving")
        assert "synchronous" not in server.text

        def submit_until(count: int) -> None:
            while len(acknowledged) < count:
                try:
                    acknowledged.append(client.submit({"executable": "/bin/true", "hold": "true"}))
                except LogError:
                    time.sleep(0.05)

        with Client(pair.url) as client:
            submit_until(10)
            submitting = threading.Thread(target=submit_until, args=(60,))
            submitting.start()
            wait_for(lambda: len(acknowledged) > 20)
            pair.primary.kill()
            pair.standby.promote()
            wait_for(lambda: not submitting.is_alive())
        assert server.process.poll() is None, server.text
    with_log = open_log(pair.url, create=False)
    submitted = Counter(event.cluster for _, event in with_log.read() if isinstance(event, ClusterSubmitted))
    assert set(submitted.values()) == {1} and set(acknowledged) <= set(submitted)
    assert verify_seal(pair.url) == []


def test_a_waiting_process_takes_over_and_fences_a_process_that_was_stopped(running: Pair, tmp_path: Path) -> None:
    with served(tmp_path / "a", running.url) as first:
        first.wait_until("serving")
        assert "no synchronous standby" in first.text
        with served(tmp_path / "b", running.url) as second:
            second.wait_until("standing by: process ")
            first.process.send_signal(signal.SIGSTOP)
            running.primary.sql(_RELEASE)
            second.wait_until("serving")
            first.process.send_signal(signal.SIGCONT)
            assert first.process.wait(60) == 1
            assert "has a new writer since epoch 2" in first.text
            with served(tmp_path / "a", running.url) as third:
                third.wait_until("standing by: process ")
                second.process.kill()
                third.wait_until("serving")
    epochs = [event.epoch for _, event in open_log(running.url, create=False).read() if isinstance(event, WriterBegan)]
    assert epochs == [1, 2, 3] and verify_seal(running.url) == []


def test_server_releases_the_lock_of_a_process_that_hangs(
    running: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(log_paths, "LEASE", 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    hangs = WriterLock(running.url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    waits = WriterLock(running.url)
    assert hangs.take_in_turn() and hangs.renew() and not waits.take_in_turn()
    wait_for(waits.take_in_turn)
    assert not hangs.renew() and waits.renew()
    waits.give_up()
    assert hangs.renew()
    hangs.give_up()


@pytest.mark.soak
def test_primary_acknowledges_nothing_while_its_synchronous_standby_lacks_it(pair: Pair) -> None:
    """Neither while it runs, nor when it was killed during the commit, and has the append after its restart."""
    pair.make_synchronous()
    log = open_log(pair.url, create=True)
    log.append([changed(0)])
    pair.standby.stop()
    appending = Appending(log, 1)
    wait_for(lambda: pair.primary.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
    pair.primary.kill()
    pair.primary.start()
    wait_for(lambda: pair.primary.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
    assert pair.primary.sql("SELECT position FROM poolbook.head") == [(2,)] and appending.result is None
    pair.standby.start()
    wait_for(lambda: appending.result)
    assert appending.result == 2
    # Both servers accept connections now, as if the primary had only been cut off.
    pair.standby.promote()
    promoted = open_log(pair.standby.url, create=False)
    blocked = Appending(log, 2)  # its connection leads to the old primary
    wait_for(lambda: pair.primary.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
    assert promoted.raise_epoch("new", AT, "s") == 1 and promoted.append([changed(3)]) == 4
    assert blocked.result is None
    pair.primary.kill()
    wait_for(lambda: blocked.result)
    assert isinstance(blocked.result, LogUnavailable)
    with pytest.raises(Fenced):
        log.append([changed(4)])


def test_promoted_standby_without_acknowledged_events_is_not_written(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = open_log(pair.url, create=True)
    log.append([changed(0)])
    wait_for(pair.is_replayed)
    pair.standby.stop()
    log.append([changed(1)])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    follow_mark(pair.url)  # as a process does that stands by on another machine
    pair.primary.kill()
    pair.standby.start()
    pair.standby.promote()
    for machine in ("here", "elsewhere"):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / machine))
        with pytest.raises(LogDamaged, match="it ends at position 1, but had reached 2: its end was truncated"):
            open_log(pair.url, create=False)
    # An old primary that comes back continues another log.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "new"))
    promoted = open_log(pair.url, create=False)
    promoted.append([changed(2)])
    pair.standby.stop()
    pair.primary.start()
    with pytest.raises(LogDamaged, match="it was replaced"):
        open_log(pair.url, create=False)
    open_log(pair.primary.url, create=False).append([changed(number) for number in range(4, 9)])
    with pytest.raises(LogDamaged, match="are not the ones that were appended: it was replaced"):
        open_log(pair.url, create=False)

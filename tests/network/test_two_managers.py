"""Property: of two managers on a network, another takes over, jobs that were submitted meanwhile run, and after a cut
between both there is one active manager again, which knows what was set on both sides.

With ``-s``, pytest shows the time of the takeover (docs/performance.md)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from .machines import Machine, Network, missing_requirements
from .roles import LOG, POOLBOOK, RolePool, wait_until

pytestmark = pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements())

URLS = "https://cm1.poola.example:9618,https://cm2.poola.example:9618"
CONFIG = """\
DAEMON_LIST = HAD REPLICATION
HAD_LIST = cm1.poola.example:9618, cm2.poola.example:9618
REPLICATION_LIST = $(HAD_LIST)
HAD_USE_PRIMARY = True
HAD_USE_REPLICATION = True
HAD_STABILIZATION_PERIOD = fast
"""
OPTIONS = ["-listen", "0.0.0.0:9618", "-log", LOG, "-config", "/srv/pool/pool.conf"]
SERVE = [str(POOLBOOK), "serve", "-role", "manager", *OPTIONS]


class TwoManagers(RolePool):
    def start_all(self) -> None:
        tokens: list[str] = []
        for name in ("cm1", "cm2"):
            machine = self.add_machine(name)
            with (machine.home("pool") / "pool.conf").open("a") as file:
                file.write(CONFIG)
            options = ["-join", "https://cm1.poola.example:9618", "-token", "/srv/pool/token"] if tokens else []
            if tokens:
                self.write_token(machine, tokens)
            self.daemons[name] = machine.start([*SERVE, *options])
            self.wait_until_serving(machine)
            tokens.append(self.run(machine, "token", "create", "-identity", "condor@poola.example").strip())
        for name, role in (("ap1", "access-point"), ("ep1", "execution-point")):
            machine = self.add_machine(name)
            self.write_token(machine, tokens)
            options = ["-role", role, "-users", "-log", LOG, "-config", "/srv/pool/pool.conf"]
            self.daemons[name] = machine.start([POOLBOOK, "join", URLS, "/srv/pool/token", *options])

    def write_token(self, machine: Machine, tokens: list[str]) -> None:
        path = machine.home("pool") / "token"
        path.write_text("\n".join(tokens) + "\n")
        path.chmod(0o600)

    def is_active(self, name: str) -> bool:
        machine = self.network.machines[name]
        return self.run(machine, "status", "-had", "-af", "HadIsActive", check=False).strip() == "true"

    def wait_for_active(self, *names: str) -> float:
        """Wait until these managers and no others are active; return the seconds."""
        began = time.monotonic()
        managers = [name for name in self.daemons if name.startswith("cm")]
        wait_until(lambda: [name for name in managers if self.is_active(name)] == [*names], self.texts, 60)
        return time.monotonic() - began

    def took_over_at(self, name: str) -> int:
        """Return when a manager last became active, according to its log, rounded up to whole seconds."""
        return int(self.run(self.network.machines[name], "status", "-had", "-af", "HadStateTime")) + 1

    def submit(self) -> None:
        machine = self.network.machines["ap1"]
        machine.run([POOLBOOK, "submit", "-log", LOG, "job.sub"], user="alice")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoManagers]:
    with Network(tmp_path_factory.mktemp("network")) as network:
        pool = TwoManagers(network, {})
        pool.start_all()
        home = network.machines["ap1"].home("alice")
        (home / "job.sub").write_text("executable = /bin/sleep\narguments = 0\nqueue\n")
        wait_until(lambda: bool(pool.slots()), pool.texts)
        yield pool


def test_the_standby_takes_over_and_the_primary_returns(pool: TwoManagers) -> None:
    pool.wait_for_active("cm1")
    pool.submit()
    pool.wait_for_empty_queue(pool.network.machines["ap1"])
    pool.network.machines["cm1"].kill9()
    killed = time.time()
    pool.submit()
    pool.wait_for_empty_queue(pool.network.machines["ap1"])
    ran = time.time() - killed
    takeover = pool.took_over_at("cm2") - killed
    print(f"takeover within {takeover:.1f} s; a job submitted meanwhile had run after {ran:.1f} s")
    print(pool.run(pool.network.machines["cm2"], "status", "-had"))
    pool.daemons["cm1"] = pool.network.machines["cm1"].start(SERVE)
    pool.wait_for_active("cm1")


def test_both_managers_are_active_during_a_cut_and_one_after_it(pool: TwoManagers) -> None:
    pool.wait_for_active("cm1")
    cm1, cm2 = pool.network.machines["cm1"], pool.network.machines["cm2"]
    pool.network.cut(cm1, cm2)
    pool.wait_for_active("cm1", "cm2")
    for machine, factor in ((cm1, "5"), (cm2, "7")):
        pool.run(machine, "userprio", "-setfactor", "alice@poola.example", factor)
    pool.submit()
    pool.wait_for_empty_queue(pool.network.machines["ap1"])
    pool.network.heal()
    pool.wait_for_active("cm1")
    for machine in (cm1, cm2):
        wait_until(lambda machine=machine: "conflict" in pool.run(machine, "log"), pool.texts)  # type: ignore[misc]
        print(*(line for line in pool.run(machine, "log").splitlines() if "conflict" in line), sep="\n")
        assert "7.00" in pool.run(machine, "userprio", "-allusers")
        assert "sound" in pool.run(machine, "verify")

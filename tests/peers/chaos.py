"""Stories of roles apart: jobs run while machines, processes, disks, clocks and the network fail as a seed says. At the
end everything is repaired, and nothing may be lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from poolbook.adapters.fabric import datagrams, links
from poolbook.adapters.fabric.datagrams import PAGE, PART
from poolbook.adapters.stores.stored_log import StoredLog
from poolbook.domain import events as e
from poolbook.domain.fold.evolve import fold
from poolbook.domain.units import SECOND
from poolbook.replay.validation.quotes import compare_logs
from poolbook.replay.validation.validator import audit_native_log

from ..domain.test_two_processes import parts
from .simulated import Node, SimulatedPool

LEASE, HURRIED_LEASE = 60, 20
STEPS = 14
FAILURES = {
    "submit": 4,
    "remove": 2,
    "stop": 2,
    "start": 2,
    "restart": 2,
    "power": 2,
    "crash": 2,
    "sleep": 1,
    "wake": 2,
    "cut": 2,
    "one way": 2,
    "heal": 2,
    "clock": 3,
    "disk": 2,
    "disk works": 2,
    "new log": 1,
}
"""What can happen, and how often compared with the rest."""
DISK_FAULTS = {
    "full": "is full",
    "broken": "can neither be read nor written",
    "unsure": "writes, but reports that it does not",
}


class Story:
    """A story from a seed. ``lines`` has what happened, in order. A ``hurried`` one has short leases and slow answers,
    so that faults of leases show soon."""

    def __init__(self, seed: int, hurried: bool = False, managers: int = 1) -> None:
        self.random = Random(seed)
        choose = self.random.choice
        self.pool = SimulatedPool(
            seed,
            access_points=choose((1, 2)),
            execution_points=choose((1, 2, 3)),
            slots=choose((1, 2)),
            dialect=choose(("manual", "htcondor-25")),
            kind=choose(("static", "partitionable")),
            drifts=choose(((0,), (-10_000, 0, 100, 10_000))),
            managers=managers,
        )
        self.lines: list[str] = []
        self.jobs: Counter[str] = Counter()
        network = self.pool.network
        network.loss = self.random.choice((0.0, 0.0, 0.05, 0.3))
        network.duplication = self.random.choice((0.0, 0.2))
        network.delay = self.random.choice(((200, 2_000), (1_000, 500_000), (1_000, 5_000_000)))
        self.page = choose(((PART, PAGE), (700, 1_000), (2_000, 10_000)))
        self.lease = LEASE
        if hurried:
            self.lease, network.loss, network.delay = HURRIED_LEASE, 0.0, (1_000, 6_000_000)
            self.page = PART, PAGE  # with small ones, an entry would take longer than a lease
        for node in self.pool.nodes.values():
            node.shortest_lease = self.lease * SECOND
        shortest, longest = network.delay
        self.note(
            f"the network loses {network.loss:.0%} of the datagrams, delivers {network.duplication:.0%} twice, and "
            f"takes {shortest / SECOND} to {longest / SECOND} s; pages have {self.page[1]} bytes, parts {self.page[0]}"
        )
        drifts = [f"{name} {node.drift / SECOND:+.2%}" for name, node in self.pool.nodes.items() if node.drift]
        if drifts:
            self.note(f"these clocks drift: {', '.join(drifts)}")

    def note(self, text: str) -> None:
        self.lines.append(f"{self.pool.network.now / 1e6:10.3f}  {text}")

    def run(self) -> None:
        with sizes_of_pages(*self.page):
            self.submit(self.pool.ap())
            for _ in range(STEPS):
                self.pool.advance(self.random.choice((0.5, 5, 20, 40, 90)))
                self.fail()
            self.repair()

    def submit(self, node: Node) -> None:
        if not node.is_running or node.disk.fault:
            return
        count, seconds = self.random.randint(1, 4), self.random.choice((1, 10, 60, 200))
        self.note(f"a user submits {count} jobs of {seconds} s to {node.name}")
        self.pool.submit(count, int(node.name[-1]), JobLeaseDuration=str(self.lease), Args=f'"{seconds}"')
        self.jobs[node.name] += count

    def fail(self) -> None:
        (choice,) = self.random.choices([*FAILURES], [*FAILURES.values()])
        names = [*self.pool.nodes]
        name = self.random.choice(names)
        node = self.pool.nodes[name]
        if choice == "submit":
            self.submit(self.random.choice([each for each in self.pool.nodes.values() if "access" in each.name]))
        elif choice in ("cut", "one way"):
            group = [each for each in names if self.random.random() < 0.5] or [name]
            rest = [each for each in names if each not in group]
            what = "can neither send to nor receive from" if choice == "cut" else "can send nothing to"
            self.note(f"{', '.join(group)} {what} {', '.join(rest) or 'anyone'}")
            self.pool.cut(group, rest, one_way=choice == "one way")
        elif choice == "heal":
            self.note("the network heals")
            self.pool.heal()
        elif choice == "remove" and name.startswith("access") and node.is_running and not node.disk.fault:
            if node.state.clusters:
                cluster = next(iter(node.state.clusters))
                self.note(f"{name}: cluster {cluster} is removed")
                self.pool.act("remove", str(cluster), int(name[-1]))
        elif choice == "clock":
            seconds = self.random.choice((-86_400, -3_600, -600, -60, 60, 600, 3_600, 86_400))
            self.note(f"the wall clock of {name} is set by {seconds:+} s")
            node.set_clock(seconds)
        elif choice == "new log":
            self.set_up_again(node)
        else:
            self.fail_alone(choice, node)

    def fail_alone(self, choice: str, node: Node) -> None:
        """Let a role's process, machine or disk fail."""
        if choice == "stop" and node.is_running:
            self.note(f"{node.name} is killed")
            node.stop()
        elif choice == "start" and not node.is_up:
            self.note(f"{node.name} starts")
            node.start()
        elif choice == "restart" and node.is_running:
            self.note(f"{node.name} is killed and starts again")
            node.stop()
            node.start()
        elif choice == "power":
            self.note(f"{node.name} loses power")
            node.lose_power()
        elif choice == "crash" and node.is_running:
            node.disk.fault, node.crashes_with_power = (
                self.random.choice(("before", "after")),
                self.random.random() < 0.5,
            )
            what = "loses power" if node.crashes_with_power else "is killed"
            self.note(f"{node.name} {what} {node.disk.fault} its next append is durable")
        elif choice == "sleep" and node.is_running:
            self.note(f"the machine of {node.name} is suspended")
            node.sleep()
        elif choice == "wake":
            self.wake()
        elif choice == "disk" and node.is_up:
            node.disk.fault = self.random.choice([*DISK_FAULTS])
            self.note(f"the disk of {node.name} {DISK_FAULTS[node.disk.fault]}")
        elif choice == "disk works":
            self.repair_disks()

    def set_up_again(self, node: Node) -> None:
        """Set a machine up again. Of an access point, this loses the jobs."""
        if node.world.is_asleep:
            return
        if has_power := self.random.random() < 0.5:
            node.lose_power()
        self.note(f"{node.name} begins a new log; {'its machine was off' if has_power else 'its jobs may still run'}")
        self.pool.set_up_again(node.name)
        self.jobs.pop(node.name, None)

    def wake(self) -> None:
        for node in self.pool.nodes.values():
            if node.world.is_asleep:
                self.note(f"the machine of {node.name} wakes up")
                node.wake()

    def repair_disks(self) -> None:
        for node in self.pool.nodes.values():
            if node.disk.fault:
                self.note(f"the disk of {node.name} works")
                node.disk.fault = ""

    def repair(self) -> None:
        """Repair everything, wait until all jobs have ended, and check that nothing was lost."""
        self.note("everything is repaired")
        self.pool.heal()
        self.pool.network.loss = 0.0
        self.repair_disks()
        self.wake()
        for node in self.pool.nodes.values():
            if not node.is_up:
                node.start()
        for _ in range(100):
            self.pool.advance(60)
            if not any(node.state.clusters for node in self.pool.nodes.values()):
                break
        self.pool.advance(120)
        self.check()
        self.audit()

    def check(self) -> None:
        pool = self.pool
        still_running = [job for job in pool.running if pool.place(job)]
        assert not still_running, f"these still run: {still_running}"
        for name, node in pool.nodes.items():
            assert not node.state.clusters, f"{name}: jobs are left: {_queue(node)}"
            assert parts(fold(node.log.read())) == parts(node.state), f"{name}: the log gives another state"
            for slot in node.state.slots.values():
                assert slot.state_activity in ("Unclaimed/Idle", "Owner/Idle"), (name, slot.name, slot.state_activity)
                assert slot.claim is None, (name, slot)
            assert not node.state.peers.rejected, (name, node.state.peers.rejected)
        for name, count in self.jobs.items():
            ended = sum(
                last - first + 1
                for event in pool.nodes[name].events
                if isinstance(event, e.JobsTransitioned) and event.target == "Left"
                for first, last in event.procs
            )
            assert ended == count, f"{name}: {ended} of {count} jobs left the queue"
        for name, node in pool.nodes.items():
            if name.startswith("access"):
                assert not node.state.slots, f"{name} still has claims: {[*node.state.slots]}"
                assert not node.state.assigned_slots, (name, node.state.assigned_slots)
                assert not node.state.claim_requests
            if name.startswith("execution"):
                for manager in pool.managers:
                    assert {slot: one.state_activity for slot, one in node.state.slots.items()} == {
                        slot: one.state_activity
                        for slot, one in manager.state.slots.items()
                        if slot in node.state.slots
                    }, manager.name
                assert node.state.peers.shown == {}, node.state.peers.shown

    def audit(self) -> None:
        """Check that all logs are intact, legal, and agree with each other."""
        audits = []
        for node in self.pool.nodes.values():
            sealed = StoredLog(node.disk, node.log.head, None, read_only=True, checked=True)
            audits.append((node.name, sealed, audit_native_log(sealed, node.name)))
            for number, log in enumerate(node.past_logs, 1):
                name = f"log {number} of {node.name}"
                audits.append((name, log, audit_native_log(log, name)))
        compare_logs(audits)
        problems = [
            f"{finding.file}, position {finding.line}, {finding.thing}: {finding.words}"
            for _, _, audit in audits
            for finding in audit.violations
        ]
        assert not problems, problems


@contextmanager
def sizes_of_pages(part: int, page: int) -> Iterator[None]:
    """Send pages in parts of at most so many bytes, and pages of at most so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "PART", part)
        patch.setattr(datagrams, "PAGE", page)
        yield


def _queue(node: Node) -> list[tuple[int, list[str]]]:
    return [
        (cluster.id, [cluster.status_of(proc) for proc in cluster.procs()]) for cluster in node.state.clusters.values()
    ]


def failure_of(seed: int, hurried: bool = False, managers: int = 1) -> str:
    """Run the story of a seed. Return why it failed, with the story; empty if it did not."""
    story = Story(seed, hurried, managers)
    try:
        story.run()
    except (Exception, pytest.fail.Exception) as error:
        return "\n".join([f"seed {seed}{' hurried' if hurried else ''}, managers {managers}: {error}", *story.lines])
    return ""

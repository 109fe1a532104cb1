"""Stories of roles apart: jobs run while machines, processes and the network fail as a seed says. At the end
everything is repaired, and nothing may be lost."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from poolbook.domain import events as e
from poolbook.domain.fold.evolve import fold

from ..domain.test_two_processes import parts
from .simulated import Node, SimulatedPool

LEASE, HURRIED_LEASE = 60, 20
STEPS = 12


class Story:
    """A story from a seed. ``lines`` has what happened, in order. A ``hurried`` one has short leases and slow answers,
    so that faults of leases show soon."""

    def __init__(self, seed: int, hurried: bool = False) -> None:
        self.random = Random(seed)
        choose = self.random.choice
        self.pool = SimulatedPool(
            seed,
            access_points=choose((1, 2)),
            execution_points=choose((1, 2, 3)),
            slots=choose((1, 2)),
            dialect=choose(("manual", "htcondor-25")),
            kind=choose(("static", "partitionable")),
        )
        self.lines: list[str] = []
        self.jobs: Counter[str] = Counter()
        network = self.pool.network
        network.loss = self.random.choice((0.0, 0.0, 0.05, 0.3))
        network.duplication = self.random.choice((0.0, 0.2))
        network.delay = self.random.choice(((200, 2_000), (1_000, 500_000), (1_000, 5_000_000)))
        self.lease = LEASE
        if hurried:
            self.lease, network.loss, network.delay = HURRIED_LEASE, 0.0, (1_000, 6_000_000)
        self.note(f"loss {network.loss}, duplication {network.duplication}, delay {network.delay}")

    def note(self, text: str) -> None:
        self.lines.append(f"{self.pool.network.now / 1e6:10.3f}  {text}")

    def run(self) -> None:
        self.submit()
        for _ in range(STEPS):
            self.pool.advance(self.random.choice((0.5, 5, 20, 40, 90)))
            self.fail()
        self.repair()

    def submit(self) -> None:
        ap = self.random.randrange(len([name for name in self.pool.nodes if name.startswith("access")])) + 1
        if not self.pool.ap(ap).is_up:
            return
        count, seconds = self.random.randint(1, 4), self.random.choice((1, 10, 60, 200))
        self.note(f"ap{ap}: {count} jobs of {seconds} s")
        self.pool.submit(count, ap, JobLeaseDuration=str(self.lease), Args=f'"{seconds}"')
        self.jobs[f"access-point/ap{ap}"] += count

    def fail(self) -> None:
        choice = self.random.choice(
            ("submit", "submit", "stop", "start", "restart", "power", "cut", "one way", "heal", "remove")
        )
        names = [*self.pool.nodes]
        name = self.random.choice(names)
        node = self.pool.nodes[name]
        if choice == "submit":
            self.submit()
        elif choice == "stop" and node.is_up:
            self.note(f"{name} is killed")
            node.stop()
        elif choice == "start" and not node.is_up:
            self.note(f"{name} starts")
            node.start()
        elif choice == "restart" and node.is_up:
            self.note(f"{name} is killed and starts again")
            node.stop()
            node.start()
        elif choice == "power":
            self.note(f"{name} loses power")
            node.lose_power()
        elif choice in ("cut", "one way"):
            group = [each for each in names if self.random.random() < 0.5] or [name]
            self.note(f"{' '.join(group)} cut off, {choice}")
            self.pool.cut(group, [each for each in names if each not in group], one_way=choice == "one way")
        elif choice == "heal":
            self.note("the network heals")
            self.pool.heal()
        elif choice == "remove" and name.startswith("access") and node.is_up and node.state.clusters:
            cluster = next(iter(node.state.clusters))
            self.note(f"{name}: cluster {cluster} is removed")
            self.pool.act("remove", str(cluster), int(name[-1]))

    def repair(self) -> None:
        """Repair everything, wait until all jobs have ended, and check that nothing was lost."""
        self.note("everything is repaired")
        self.pool.heal()
        self.pool.network.loss = 0.0
        for node in self.pool.nodes.values():
            if not node.is_up:
                node.start()
        for _ in range(100):
            self.pool.advance(60)
            if not any(node.state.clusters for node in self.pool.nodes.values()):
                break
        self.pool.advance(120)
        self.check()

    def check(self) -> None:
        pool = self.pool
        assert pool.running == {}, pool.running
        for name, node in pool.nodes.items():
            assert parts(fold(node.log.read())) == parts(node.state), f"{name}: the log gives another state"
            assert not node.state.clusters, f"{name}: jobs are left: {_queue(node)}"
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
                assert {slot: one.state_activity for slot, one in node.state.slots.items()} == {
                    slot: one.state_activity
                    for slot, one in pool.manager.state.slots.items()
                    if slot in node.state.slots
                }
                assert node.state.peers.shown == {}, node.state.peers.shown


def _queue(node: Node) -> list[tuple[int, list[str]]]:
    return [
        (cluster.id, [cluster.status_of(proc) for proc in cluster.procs()]) for cluster in node.state.clusters.values()
    ]


def failure_of(seed: int, hurried: bool = False) -> str:
    """Run the story of a seed. Return why it failed, with the story; empty if it did not."""
    story = Story(seed, hurried)
    try:
        story.run()
    except (Exception, pytest.fail.Exception) as error:
        return "\n".join([f"seed {seed}: {error}", *story.lines])
    return ""

"""property: whatever machines, networks and messages did before, soon after it exactly one manager is active in each
part of the network, and after a network has healed exactly one in all."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.had.election import Election, HadPolicy
from poolbook.domain.state_machines.had import LEADER, PRE
from poolbook.domain.state_machines.machine import had_machine

INTERVAL = 100
STABLE = 5 * INTERVAL  #: three intervals for a takeover; one more for two active managers to hear each other, and one
# because a message may be under way


@define
class Manager:
    policy: HadPolicy
    state: str = PRE
    election: Election = field(factory=Election)
    runs: bool = True
    part: int = 0  #: of the network

    def start(self, now: int) -> None:
        self.state, self.election, self.runs = PRE, Election(due=now), True


@define
class Network:
    """Managers that send messages to each other. ``loses`` returns whether the next message is lost, and ``delay`` how
    long it takes."""

    managers: list[Manager]
    now: int = 0
    under_way: list[tuple[int, int, int, str]] = field(factory=list)  #: arrival, receiver, sender, state

    def run(self, duration: int, losses: Iterable[bool], delay: int) -> None:
        lost = iter(losses)
        end = self.now + duration
        while True:
            living = [each for each in self.managers if each.runs]
            instants = [each.election.due for each in living] + [message[0] for message in self.under_way]
            self.now = max(self.now, min(instants, default=end + 1))
            if self.now > end:
                self.now = end
                return
            for message in [each for each in self.under_way if each[0] <= self.now]:
                self.under_way.remove(message)
                receiver, sender = self.managers[message[1]], self.managers[message[2]]
                if receiver.runs and receiver.part == sender.part:
                    receiver.election.receive(sender.policy.number, message[3], self.now)
            for manager in living:
                if manager.election.due <= self.now:
                    self._cycle(manager, next(lost, False), delay)

    def _cycle(self, manager: Manager, is_lost: bool, delay: int) -> None:
        step = manager.election.cycle(manager.state, manager.policy, self.now)
        if step is not None:
            manager.state = had_machine().fire(manager.state, step.row)
        for index, other in enumerate(self.managers):
            if other is not manager and not is_lost:
                self.under_way.append((self.now + delay, index, manager.policy.index, manager.state))

    def active(self) -> dict[int, list[int]]:
        """Return the places of the active managers in each part of the network in which managers run."""
        parts: dict[int, list[int]] = {each.part: [] for each in self.managers if each.runs}
        for index, manager in enumerate(self.managers):
            if manager.runs and manager.state == LEADER:
                parts[manager.part].append(index)
        return parts


CHANGES = st.tuples(
    st.sampled_from(["stop", "start", "cut"]), st.integers(0, 3), st.integers(0, 1), st.integers(0, 4 * INTERVAL)
)


@given(
    count=st.integers(2, 4), primary=st.booleans(), changes=st.lists(CHANGES, max_size=12),
    losses=st.lists(st.booleans(), max_size=60), delay=st.integers(0, INTERVAL // 4),
    phases=st.lists(st.integers(0, INTERVAL), min_size=4, max_size=4),
)  # fmt: skip
def test_one_manager_is_active_in_each_part_of_the_network(
    count: int, primary: bool, changes: list[tuple[str, int, int, int]], losses: list[bool], delay: int,
    phases: list[int],
) -> None:  # fmt: skip
    names = tuple(f"cm{index}" for index in range(count))
    network = Network([Manager(HadPolicy(names, index, primary, INTERVAL)) for index in range(count)])
    for manager, phase in zip(network.managers, phases, strict=False):
        manager.start(phase)
    for kind, index, part, duration in changes:
        manager = network.managers[index % count]
        if kind == "cut":
            manager.part = part
        elif kind == "start" and not manager.runs:
            manager.start(network.now)
        elif kind == "stop":
            manager.runs = False
        network.run(duration, losses, delay)
    network.run(STABLE, (), delay)
    for part, active in network.active().items():
        assert len(active) == 1
        if primary and network.managers[0].runs and network.managers[0].part == part:
            assert active == [0]
    for manager in network.managers:
        manager.part = 0
        if not manager.runs:
            manager.start(network.now)
    before = [index for active in network.active().values() for index in active]
    network.run(STABLE, (), delay)
    (active,) = network.active().values()
    assert active == [0 if primary else min(before, default=0)]


@given(phase=st.integers(0, INTERVAL), dies=st.integers(0, 2 * INTERVAL), delay=st.integers(0, INTERVAL // 4))
def test_a_standby_takes_over_within_three_intervals(phase: int, dies: int, delay: int) -> None:
    network = Network([Manager(HadPolicy(("cm1", "cm2"), index, True, INTERVAL)) for index in range(2)])
    network.managers[1].start(phase)
    network.run(STABLE + dies, (), delay)
    assert network.active() == {0: [0]}
    network.managers[0].runs = False
    network.run(3 * INTERVAL + delay, (), delay)
    assert network.active() == {0: [1]}

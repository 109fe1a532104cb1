"""property: whatever happens, a daemon has at most one process, its waits follow the back-off, and the master ends."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.master import transitions as t
from poolbook.domain.master.master_settings import BackOff, MasterPolicy
from poolbook.domain.master.supervision import Master, MasterRefusal, Supervision, fold
from poolbook.domain.units import SECOND

NAMES = ("COLLECTOR", "SCHEDD", "STARTD")
SPEEDS = ("Peaceful", "Graceful", "Fast")
POLICIES = st.builds(
    MasterPolicy,
    st.builds(BackOff, st.integers(1, 20), st.floats(0.1, 4), st.integers(1, 100), st.integers(1, 60)),
    gives_up=st.booleans(),
    graceful_timeout=st.integers(1, 30),
    fast_timeout=st.integers(1, 30),
    controlled=st.sampled_from([{}, {"SCHEDD": "COLLECTOR"}]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 40)),
        st.tuples(st.just("exit"), st.sampled_from(NAMES), st.sampled_from([0, 0, 1, 3, -9, -11, 99])),
        st.tuples(st.sampled_from(["off", "restart"]), st.sampled_from(NAMES), st.sampled_from(SPEEDS)),
        st.tuples(st.just("on"), st.sampled_from(NAMES)),
        st.tuples(st.just("end"), st.sampled_from(["Off", "Off", "Exit"]), st.sampled_from(SPEEDS)),
        st.tuples(st.just("list"), st.lists(st.sampled_from(NAMES), unique=True)),
        st.tuples(st.just("broken"), st.sampled_from(NAMES), st.booleans()),
    ),
    max_size=40,
)


class World:
    """A supervision with processes that start as it decides, unless they are broken, and end when they are killed."""

    def __init__(self, policy: MasterPolicy) -> None:
        self.now = 0
        self.pids: dict[str, int] = {}
        self.broken: set[str] = set()
        self.recorded: list[t.Transition] = []
        self.supervision = Supervision(policy, self.recorded.append)
        self._last_pid = 0
        self.act(self.supervision.begin(0, "1", NAMES, ("STARTD",)))

    def act(self, transitions: Iterable[t.Transition]) -> None:
        due = list(transitions)
        while due:
            match due.pop(0):
                case t.DaemonLaunched(_, daemon):
                    assert daemon not in self.pids, "a daemon has one process"
                    if daemon in self.broken:
                        due += self.supervision.not_started(self.now, daemon, "no such file")
                        continue
                    self._last_pid += 1
                    self.pids[daemon] = self._last_pid
                    due += self.supervision.started(self.now, daemon, self._last_pid)
                case t.StopBegan(_, daemon, "Kill"):
                    self.exit(daemon, -9)

    def exit(self, daemon: str, code: int) -> None:
        if daemon in self.pids:
            del self.pids[daemon]
            self.act(self.supervision.exited(self.now, daemon, code))

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += SECOND
            self.act(self.supervision.tick(self.now))

    def step(self, kind: str, *values: object) -> None:
        supervision = self.supervision
        match kind, *values:
            case "wait", int(seconds):
                self.wait(seconds)
            case "exit", str(daemon), int(code):
                self.exit(daemon, code)
            case "list", list(names):
                self.act(supervision.reconfigure(self.now, names, ("STARTD",)))
            case "broken", str(daemon), bool(is_broken):
                (self.broken.add if is_broken else self.broken.discard)(daemon)
            case "end", str(then), str(how):
                self.act(supervision.end(self.now, then, how))
            case command, str(daemon), *how if daemon in supervision.master.daemons:
                self._command(str(command), daemon, str(*how))

    def _command(self, command: str, daemon: str, how: str) -> None:
        supervision = self.supervision
        try:
            if command == "on":
                self.act(supervision.on(self.now, [daemon]))
            elif command == "off":
                self.act(supervision.off(self.now, [daemon], how))
            else:
                self.act(supervision.restart(self.now, daemon, how))
        except MasterRefusal:
            assert supervision.master.is_ending or daemon not in self.pids


@given(POLICIES, STEPS)
def test_a_daemon_has_one_process_and_the_state_follows_from_the_transitions(
    policy: MasterPolicy, steps: list[tuple[str, object]]
) -> None:
    world = World(policy)
    for step in steps:
        world.step(*step)
        master = world.supervision.master
        assert {name: daemon.pid for name, daemon in master.daemons.items() if daemon.pid} == world.pids
        for name, daemon in master.daemons.items():
            is_waiting = daemon.starts_at is not None
            assert bool(daemon.pid) + is_waiting + (daemon.held and not daemon.pid) <= 1, name
            if not (daemon.pid or is_waiting or daemon.held):
                assert master.is_ending, "a daemon that is to run runs, or waits for its start"
    replayed = Master()
    for transition in world.recorded:
        fold(replayed, msgspec.json.decode(msgspec.json.encode(transition), type=t.Any))
    assert replayed == world.supervision.master


@given(POLICIES, STEPS, st.sampled_from(SPEEDS[1:]))
def test_the_master_ends_even_if_daemons_ignore_signals(
    policy: MasterPolicy, steps: list[tuple[str, object]], how: str
) -> None:
    world = World(policy)
    for step in steps:
        world.step(*step)
    world.act(world.supervision.end(world.now, "Exit", how))
    for _ in range(2):  # the execution points are stopped first
        world.wait(policy.graceful_timeout + policy.fast_timeout + 2)
    assert world.supervision.master.has_ended and not world.pids


@given(st.builds(BackOff, st.integers(1, 100), st.floats(1, 10), st.integers(1, 4000)), st.integers(0, 5000))
def test_waits_grow_up_to_the_ceiling(back_off: BackOff, deaths: int) -> None:
    assert 0 < back_off.seconds(deaths) <= back_off.seconds(deaths + 1) <= back_off.ceiling
    assert back_off.is_exhausted(deaths) <= (back_off.seconds(deaths) == back_off.ceiling)


@settings(max_examples=20)
@given(st.integers(1, 12))
def test_a_daemon_that_ran_long_enough_waits_as_after_its_first_death(deaths: int) -> None:
    world = World(MasterPolicy(BackOff(recover=300)))
    for _ in range(deaths):
        world.exit("SCHEDD", 1)
        world.wait(3600)
    world.wait(300)
    world.exit("SCHEDD", 1)
    waits = [each.seconds for each in world.recorded if isinstance(each, t.RestartScheduled)]
    assert waits == [10] * (deaths + 1)


def test_with_the_dialect_manual_a_daemon_that_continues_to_die_is_given_up() -> None:
    world = World(MasterPolicy(gives_up=True))
    while not world.supervision.master.daemons["SCHEDD"].held:
        world.exit("SCHEDD", 1)
        world.wait(5 * 60 - 1)  # it dies before it recovers
        assert world.now < 10**6 * SECOND
    kinds = [type(each) for each in world.recorded]
    assert kinds.count(t.DaemonGivenUp) == 1
    assert kinds.count(t.ObituaryDue) == 4
    assert [each.seconds for each in world.recorded if isinstance(each, t.RestartScheduled)] == [
        10, 11, 13, 17, 25, 41, 73, 137, 265, 521, 1033, 2057,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("how", "first"),
    [("Graceful", ["STARTD"]), ("Peaceful", ["STARTD"]), ("Fast", ["COLLECTOR", "SCHEDD", "STARTD"])],
)
def test_daemons_that_run_jobs_are_stopped_first(how: str, first: list[str]) -> None:
    world = World(MasterPolicy())
    made = world.supervision.end(0, "Exit", how)
    assert [each.daemon for each in made if isinstance(each, t.StopBegan)] == first
    made = world.supervision.exited(SECOND, "STARTD", 0)
    assert len(first) + sum(isinstance(each, t.StopBegan) for each in made) == 3


def test_a_daemon_that_had_controls_runs_only_on_command_and_not_without_had() -> None:
    world = World(MasterPolicy(controlled={"SCHEDD": "COLLECTOR"}))
    assert world.pids.keys() == {"COLLECTOR", "STARTD"}
    world.step("on", "SCHEDD")
    assert "SCHEDD" in world.pids
    world.exit("COLLECTOR", -9)
    assert world.supervision.master.daemons["SCHEDD"].stop == "Fast"
    world.exit("SCHEDD", 0)
    world.wait(30)
    assert world.pids.keys() == {"COLLECTOR", "STARTD"}
    world.step("list", ["COLLECTOR", "STARTD"])
    world.step("list", list(NAMES))
    assert "SCHEDD" not in world.pids

"""A stateful test of a pool, to which users add rules and invariants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from hypothesis.strategies import SearchStrategy

from ...domain.decide import Refusal
from ...domain.fold.evolve import fold
from ...domain.state.state import State
from ...replay.narration.sentences import UnknownThingError
from ...replay.virtual_world import Behaviour
from ..library.embedded_pool import Pool
from ..runtime.views import catch_up, open_tables
from .invariants import LogInvariants, check_claims, check_legality, check_runs, plain_state, view_rows
from .strategies import MachinePlan, behaviours, submit_descriptions

JOBS = st.sampled_from(["1.0", "1", "1.1", "2", "2.0", "3", "3.2", "4.1"])


ACTIONS = ("hold", "release", "remove", "vacate", "suspend", "resume")


def _drawn(choose: Callable[[Any], SearchStrategy[Any]]) -> SearchStrategy[Any]:
    """Draw from a strategy that the machine's class determines."""
    return st.runner().flatmap(choose)


_USERS = _drawn(lambda machine: st.sampled_from([*machine.users, "root"]))


class PoolMachine(RuleBasedStateMachine):
    """A pool in virtual time: users, owners and administrators do anything, in any order, and the invariants hold.

    Subclass it, set the attributes, and add rules and invariants; `self.pool` is a `Pool`.

    >>> class OurPool(PoolMachine):
    ...     config = Path("condor_config.d")
    ...
    ...     @invariant()
    ...     def bob_never_has_more_than_two_slots(self):
    ...         assert len(self.pool.slots('RemoteOwner == "bob@example.org"')) <= 2
    >>> TestOurPool = OurPool.TestCase
    """

    config: ClassVar[str | Path | Sequence[Path] | None] = None  #: the configuration, as for `Pool.open`
    dialects: ClassVar[Sequence[str]] = ("manual", "htcondor-25")
    users: ClassVar[Sequence[str]] = ("alice", "bob")
    machines: ClassVar[SearchStrategy[MachinePlan]] = st.builds(
        MachinePlan, st.just(""), st.integers(1, 4), st.sampled_from([1024, 4096])
    )
    submissions: ClassVar[SearchStrategy[dict[str, object]]] = submit_descriptions()
    runs: ClassVar[SearchStrategy[Behaviour]] = behaviours()
    pauses: ClassVar[SearchStrategy[float]] = st.sampled_from([1.0, 20.0, 300.0, 3600.0])

    pool: Pool

    # -- To override

    def open_pool(self, dialect: str, behave: Callable[..., Behaviour]) -> Pool:
        """Return the pool to test."""
        return Pool.open(
            config=self.config, dialect=dialect, behave=behave, user=self.users[0], uid_domain="example.org"
        )

    def begin(self) -> None:
        """Prepare the pool before the rules run; by default, add a machine."""
        self.add_machine(MachinePlan("", 2, 2048))

    def attempt(self, action: Callable[[], object]) -> None:
        """Do something that the pool may refuse."""
        with suppress(Refusal, UnknownThingError):
            action()

    # -- Rules

    @initialize(
        dialect=_drawn(lambda machine: st.sampled_from(machine.dialects)),
        runs=_drawn(lambda machine: st.lists(machine.runs, min_size=3, max_size=5)),
    )
    def open(self, dialect: str, runs: list[Behaviour]) -> None:
        self.pool = self.open_pool(dialect, lambda launch: runs[(launch.cluster + launch.proc) % len(runs)])
        self._position, self._folded, self._from_log = 0, State(), LogInvariants()
        self._views = open_tables(None)
        self.begin()

    @rule(machine=_drawn(lambda test: test.machines))
    def add_machine(self, machine: MachinePlan) -> None:
        name = machine.name or f"node{len(self.pool.state.machines) + 1}"
        self.attempt(lambda: self.pool.add_machine(name, cpus=machine.cpus, memory=machine.memory))

    @rule(description=_drawn(lambda machine: machine.submissions), count=st.integers(1, 4), user=_USERS)
    def submit(self, description: dict[str, object], count: int, user: str) -> None:
        self.attempt(lambda: self.pool.submit(description, count=count, user=user))

    @rule(action=st.sampled_from(ACTIONS), job=JOBS, user=_USERS)
    def act(self, action: str, job: str, user: str) -> None:
        self.attempt(lambda: getattr(self.pool, action)(job, user=user))

    @rule(job=JOBS, value=st.integers(-3, 3))
    def set_priority(self, job: str, value: int) -> None:
        self.attempt(lambda: self.pool.prio(job, value=value, user="root"))

    @rule(job=JOBS, victims=st.lists(JOBS, min_size=1, max_size=2))
    def run_now(self, job: str, victims: list[str]) -> None:
        jobs = [name if "." in name else f"{name}.0" for name in (job, *victims)]
        self.attempt(lambda: self.pool.run_now(*jobs, user="root"))

    @rule(number=st.integers(0, 9), fast=st.booleans())
    def vacate_slot(self, number: int, fast: bool) -> None:
        slots = [*self.pool.state.slots, "slot1@nowhere"]
        self.attempt(lambda: self.pool.vacate_slot(slots[number % len(slots)], fast=fast))

    @rule(number=st.integers(0, 9), schedule=st.sampled_from(["Graceful", "Quick", "Fast"]))
    def drain(self, number: int, schedule: str) -> None:
        self.attempt(lambda: self.pool.drain(self._machine(number), schedule=schedule, completion="resume"))

    @rule(number=st.integers(0, 9))
    def cancel_drain(self, number: int) -> None:
        self.attempt(lambda: self.pool.cancel_drain(self._machine(number)))

    @rule(number=st.integers(0, 9), idle=st.sampled_from([0, 100, 10_000]), load=st.sampled_from([0.0, 0.8]))
    def use_keyboard(self, number: int, idle: int, load: float) -> None:
        self.attempt(lambda: self.pool.read(self._machine(number), KeyboardIdle=idle, LoadAvg=load))

    @rule(seconds=_drawn(lambda machine: machine.pauses))
    def advance(self, seconds: float) -> None:
        self.attempt(lambda: self.pool.advance(seconds))

    def _machine(self, number: int) -> str:
        machines = [*self.pool.state.machines, "nowhere"]
        return machines[number % len(machines)]

    # -- Invariants

    @invariant()
    def the_state_is_the_fold_of_the_log(self) -> None:
        for position, event in self.pool.events(self._position):
            self._from_log.take(event, self._folded)
            self._folded, self._position = fold([(position, event)], self._folded), position
        catch_up(self.pool._log, self._views)
        assert plain_state(self.pool.state) == plain_state(self._folded)
        self._from_log.check(self.pool.state)

    @invariant()
    def no_job_runs_twice(self) -> None:
        check_runs(self.pool.state)

    @invariant()
    def each_claim_has_one_slot(self) -> None:
        check_claims(self.pool.state)

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        try:
            check_legality(self.pool._log)
            with closing(open_tables(None)) as rebuilt, closing(self._views):
                for views in (rebuilt, self._views):
                    catch_up(self.pool._log, views)
                assert view_rows(self._views) == view_rows(rebuilt), "views differ from rebuilt ones"
        finally:
            self.pool.close()

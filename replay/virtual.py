"""A world without processes: a clock that is set by hand, and jobs that run for as long as they are said to.

The live pool's own code runs in it: nothing of a decision knows whether its world is real. Time stands still while the
pool decides and jumps to the next instant at which something happens.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from attrs import define, field, frozen

from ..domain.decide.stimuli import Ended, Started, Stimulus
from ..domain.job_ad import unquoted
from ..domain.world import How, Launch

SECOND = 1_000_000
EPOCH = 1_800_000_000 * SECOND
"""Where a virtual clock begins unless it is told otherwise: in January 2027."""


@frozen
class Behaviour:
    """What a job's processes do: run for ``seconds`` and end with ``code`` or by ``signal``; told softly to end, they
    do so after ``grace`` seconds, or never (None). ``failure``: they cannot be started, and why. ``lost``: they vanish
    at their end without a record. ``immortal``: no signal
    ends them."""

    seconds: float = 60.0
    code: int = 0
    signal: int | None = None
    grace: float | None = 0.0
    failure: str = ""
    lost: bool = False
    immortal: bool = False


Behave = Callable[[Launch], Behaviour]


def sleeps(launch: Launch) -> Behaviour:
    """The behaviour that a job's ad asks for: `sleep N` runs N seconds, anything else a minute; an attribute
    VirtualSeconds, VirtualCode or VirtualGrace says otherwise."""
    ad = launch.job_ad
    arguments = unquoted(ad.get("Args") or ad.get("Arguments") or "").split()
    seconds = 60.0
    if ad.get("Cmd", "").rstrip('"').endswith("sleep") and arguments and arguments[0].isdigit():
        seconds = float(arguments[0])
    return Behaviour(
        seconds=float(ad.get("VirtualSeconds", seconds)),
        code=int(ad.get("VirtualCode", 0)),
        grace=float(ad["VirtualGrace"]) if "VirtualGrace" in ad else 0.0,
    )


@define
class _Run:
    behaviour: Behaviour
    left: int
    since: int
    running: bool = True
    version: int = 0
    killed_by: int | None = None


@define
class VirtualWorld:
    """The world of a simulation; ``behave`` says what each job does."""

    behave: Behave = sleeps
    clock: int = EPOCH
    _runs: dict[str, _Run] = field(factory=dict)
    _agenda: list[tuple[int, int, str, int]] = field(factory=list)
    _started: list[Stimulus] = field(factory=list)
    _serial: int = 0
    seen: set[str] = field(factory=set)
    """Every activation that was ever started here."""

    def now(self) -> int:
        return self.clock

    def start(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            if launch.key in self.seen:
                continue
            self.seen.add(launch.key)
            behaviour = self.behave(launch)
            if behaviour.failure:
                self._started.append(
                    Ended(
                        f"end-{launch.key}", launch.key, self.clock, failed=True, hold_reason=behaviour.failure,
                        hold_code=6, hold_subcode=2,
                    )
                )  # fmt: skip
                continue
            run = self._runs[launch.key] = _Run(behaviour, round(behaviour.seconds * SECOND), self.clock)
            self._started.append(
                Started(f"start-{launch.key}", launch.key, 10_000 + len(self.seen), f"dir_{launch.key}", self.clock)
            )
            self._plan(launch.key, run)

    def _plan(self, key: str, run: _Run) -> None:
        self._serial += 1
        run.version = self._serial
        heapq.heappush(self._agenda, (run.since + run.left, self._serial, key, run.version))

    def signal(self, key: str, how: How) -> None:
        run = self._runs.get(key)
        if run is None:
            return
        if how in ("soft", "hard") and run.behaviour.immortal:
            return
        if how == "suspend" and run.running:
            run.left -= self.clock - run.since
            run.running, run.version = False, 0
        elif how == "continue" and not run.running:
            run.running, run.since = True, self.clock
            self._plan(key, run)
        elif how == "hard" or (how == "soft" and run.killed_by is None):
            self._kill(key, run, hard=how == "hard")

    def _kill(self, key: str, run: _Run, hard: bool) -> None:
        if not run.running:  # what is stopped goes on to hear of it
            run.running, run.since = True, self.clock
            self._plan(key, run)
        grace = 0.0 if hard else run.behaviour.grace
        if grace is not None:
            run.killed_by = 9 if hard else 15
            run.since, run.left = self.clock, round(grace * SECOND)
            self._plan(key, run)

    def forget(self, keys: Iterable[str]) -> None:
        pass

    def wait(self, until: int | None) -> list[Stimulus]:
        """Jump to the next thing that happens, `until` at most, and return all that happens then."""
        if self._started:
            came, self._started = self._started, []
            return came
        when = self.next()
        if when is None or (until is not None and when > until):
            if until is not None:
                self.clock = max(self.clock, until)
            return []
        self.clock = max(self.clock, when)
        came = []
        while (when := self.next()) is not None and when <= self.clock:
            key = heapq.heappop(self._agenda)[2]
            came.append(self._end(key, self._runs.pop(key)))
        return came

    def next(self) -> int | None:
        """When the next job ends by itself; None if none runs."""
        while self._agenda:
            when, _, key, version = self._agenda[0]
            run = self._runs.get(key)
            if run is not None and run.version == version and run.running:
                return when
            heapq.heappop(self._agenda)
        return None

    def _end(self, key: str, run: _Run) -> Ended:
        done = run.behaviour
        signal = run.killed_by if run.killed_by is not None else done.signal
        return Ended(
            f"end-{key}", key, self.clock, code=None if signal is not None else done.code, signal=signal, lost=done.lost
        )

    def recover(self, launches: Sequence[Launch]) -> list[Stimulus]:
        self.start(launches)
        return []

    def close(self) -> None:
        pass

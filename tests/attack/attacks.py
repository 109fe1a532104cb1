"""What an attack is, and how it is tried: in a folder of its own, by a seed that decides what it does."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

from attrs import define, field
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

from ..pool.real import Folder
from ..stores.test_faults import CAN_MOUNT

LONGEST = 180  #: seconds that one trial may take before it counts as a failure
ROOT_USER = "root"
MOUNTS = "root, and a machine that mounts a tmpfs"
T = TypeVar("T")
_CAN = {"": True, ROOT_USER: os.geteuid() == 0, MOUNTS: CAN_MOUNT}


class TooLong(BaseException):
    """A trial did not end. It is no `Exception`: who takes any error for a failed example would go on with others."""


@define
class Trial:
    """One go at an attack. `tries` is how many things it tried, for the table: one unless the attack counts them.
    Where nothing came of the seed, as the write that was to fail was never made, it is 0."""

    seed: int
    path: Path
    tries: int = 1
    chance: random.Random = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    @property
    def folder(self) -> Folder:
        return Folder(self.path)

    def draw(self, strategy: SearchStrategy[T], check: Callable[[T], object], examples: int) -> None:
        """Check so many examples of a strategy; the smallest one that fails is told with the failure."""

        @seed(self.seed)
        @settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck))
        @given(strategy)
        def drawn(value: T) -> None:
            check(value)

        drawn()
        self.tries = examples


@define(frozen=True)
class Attack:
    """What is done; what is promised, in one sentence; what counts as a failure, besides a traceback and a trial that
    does not end. `needs`: what the machine must allow, empty for nothing."""

    name: str
    promise: str
    fails: str
    needs: str
    go: Callable[[Trial], None]

    @property
    def possible(self) -> bool:
        return _CAN[self.needs]


@define(frozen=True)
class Failure:
    attack: Attack
    seed: int
    told: str

    @property
    def repeat(self) -> str:
        return f"python -m tests.attack -only {self.attack.name} -seed {self.seed} -seconds 0"


@define
class Score:
    """What came of an attack so far."""

    attack: Attack
    trials: int = 0
    tries: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(factory=list)


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str, *, promise: str, fails: str, needs: str = ""
) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Enter a function into the table of attacks. It raises whatever it likes where it finds a failure."""

    def enter(go: Callable[[Trial], None]) -> Callable[[Trial], None]:
        assert name not in ATTACKS, name
        ATTACKS[name] = Attack(name, promise, fails, needs, go)
        return go

    return enter


def go(score: Score, number: int) -> None:
    """Try an attack once more, by this seed."""
    begun = time.monotonic()
    with _folder() as path:
        trial = Trial(number, path)
        try:
            with _bounded():
                score.attack.go(trial)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest's own failures are no Exception
            told = "".join(traceback.format_exception(error))
            score.failures.append(Failure(score.attack, number, told))
    score.trials += 1
    score.tries += trial.tries
    score.seconds += time.monotonic() - begun


def divided(attacks: Sequence[Attack], number: int, seconds: float, told: Callable[[Score], None]) -> list[Score]:
    """Try each of these attacks once, and go on with whichever has had the least time, while there is some. The
    trials of an attack have the seeds from `number` on."""
    until = time.monotonic() + seconds
    scores = [Score(one) for one in attacks]
    able = [score for score in scores if score.attack.possible]
    while able:
        score = min(able, key=lambda one: one.seconds)
        if score.trials and time.monotonic() >= until:
            break
        go(score, number + score.trials)
        told(score)
    return scores


@contextmanager
def _folder() -> Iterator[Path]:
    """A new folder that every user can reach. No process and no file of it stays."""
    path = Path(tempfile.mkdtemp(prefix="attack-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        Folder(path).kill_everything()
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _bounded() -> Iterator[None]:
    def end(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"it has not ended within {LONGEST} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

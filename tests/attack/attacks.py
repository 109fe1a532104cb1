"""Define attacks and run trials of them, each in a new folder and with a seed that determines what it does."""

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

MAX_SECONDS = 180  #: seconds after which a trial counts as a failure
ROOT_USER = "root"
MOUNTS = "root, and a machine that can mount a tmpfs"
T = TypeVar("T")
_AVAILABLE = {"": True, ROOT_USER: os.geteuid() == 0, MOUNTS: CAN_MOUNT}


class TrialTimeout(BaseException):
    """A trial did not end. It does not derive from `Exception`, because hypothesis would then try more examples."""


@define
class Trial:
    """One trial of an attack.

    `tries` is the number in the table. It is 1 unless the attack counts them, and 0 if the seed had no effect (for
    example, if the write that should fail never happened).
    """

    seed: int
    path: Path
    tries: int = 1
    rng: random.Random = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    @property
    def folder(self) -> Folder:
        return Folder(self.path)

    def draw(self, strategy: SearchStrategy[T], check: Callable[[T], object], examples: int) -> None:
        """Check examples of a strategy. A failure reports the smallest example that fails."""

        @seed(self.seed)
        @settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck))
        @given(strategy)
        def check_example(value: T) -> None:
            check(value)

        check_example()
        self.tries = examples


@define(frozen=True)
class Attack:
    """An attack, and the promise that it tests. A traceback and a trial that does not end are always failures."""

    name: str
    promise: str  #: one sentence
    fails: str  #: other failures
    needs: str  #: what the attack requires of the machine; may be empty
    run: Callable[[Trial], None]

    @property
    def possible(self) -> bool:
        return _AVAILABLE[self.needs]


@define(frozen=True)
class Failure:
    attack: Attack
    seed: int
    report: str

    @property
    def command(self) -> str:
        return f"python -m tests.attack -only {self.attack.name} -seed {self.seed} -seconds 0"


@define
class Score:
    """The results of an attack so far."""

    attack: Attack
    trials: int = 0
    tries: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(factory=list)


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str, *, promise: str, fails: str, needs: str = ""
) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Register a function as an attack. It raises any exception to report a failure."""

    def register(run: Callable[[Trial], None]) -> Callable[[Trial], None]:
        assert name not in ATTACKS, name
        ATTACKS[name] = Attack(name, promise, fails, needs, run)
        return run

    return register


def run_trial(score: Score, number: int) -> None:
    """Run a trial of an attack with this seed and add its result to the score."""
    began = time.monotonic()
    with _folder() as path:
        trial = Trial(number, path)
        try:
            with _time_limit():
                score.attack.run(trial)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest.fail raises a BaseException
            report = "".join(traceback.format_exception(error))
            score.failures.append(Failure(score.attack, number, report))
    score.trials += 1
    score.tries += trial.tries
    score.seconds += time.monotonic() - began


def run_attacks(attacks: Sequence[Attack], number: int, seconds: float, report: Callable[[Score], None]) -> list[Score]:
    """Try each attack once, and then, until the time is over, always the attack that had the least time.

    The first trial of each attack has the seed `number`, the next `number + 1`, and so on.
    """
    deadline = time.monotonic() + seconds
    scores = [Score(attack) for attack in attacks]
    possible = [score for score in scores if score.attack.possible]
    while possible:
        score = min(possible, key=lambda score: score.seconds)
        if score.trials and time.monotonic() >= deadline:
            break
        run_trial(score, number + score.trials)
        report(score)
    return scores


@contextmanager
def _folder() -> Iterator[Path]:
    """Create a folder that every user can reach; remove it and kill its processes at the end."""
    path = Path(tempfile.mkdtemp(prefix="attack-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        Folder(path).kill_everything()
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _time_limit() -> Iterator[None]:
    def end(number: int, frame: FrameType | None) -> None:
        raise TrialTimeout(f"it has not ended within {MAX_SECONDS} s")

    old_handler = signal.signal(signal.SIGALRM, end)
    signal.alarm(MAX_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old_handler)

"""Golden: the report on attacks that fail or cannot be tried, and the table in docs/reliability.md.

Property, in a soak: each attack once, with a fixed seed. ``make attack`` takes minutes.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from poolbook.adapters.stores.opening import open_log

from ..projections.pools import busy_pool
from . import attacks, damage
from .__main__ import main
from .attacks import ATTACKS, ROOT_USER, Attack, Score, Trial
from .table import ALL

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reliability.md"
ROW = re.compile(r"^\| `([\w-]+)` \| (.*?) \| ([\d,]+) \| (\d+) \|$", re.MULTILINE)


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in ALL if ATTACKS[name].possible])
def test_the_promise_holds_under_the_attack(name: str) -> None:
    score = Score(ATTACKS[name])
    attacks.run_trial(score, 1)
    assert score.trials == 1
    assert [f"{failure.command}\n{failure.report}" for failure in score.failures] == []


def test_the_page_lists_the_promise_tries_and_failures_of_each_attack() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert [(name, promise) for name, promise, *_ in rows] == [(name, ATTACKS[name].promise) for name in ALL]
    assert all(int(tries.replace(",", "")) > 0 for _, _, tries, _ in rows)


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that adds another attack to the table."""

    def register(name: str, run: Callable[[Trial], None], needs: str = "") -> None:
        monkeypatch.setitem(ATTACKS, name, Attack(name, "It holds.", "It does not.", needs, run))
        monkeypatch.setattr("tests.attack.__main__.ALL", [*ALL, name])

    return register


def test_a_failure_is_reported_with_its_seed_and_the_command_that_repeats_it(
    register: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    seeds, folders = [], []

    def fail_with_odd_seeds(trial: Trial) -> None:
        seeds.append(trial.seed)
        folders.append(trial.path)
        (trial.path / "left").touch()
        assert trial.seed % 2 == 0, "an odd seed"

    register("odd-seeds", fail_with_odd_seeds)
    assert main(["-only", "odd-seeds", "-seed", "7", "-seconds", "0"]) == 1
    output = capsys.readouterr().out
    assert re.search(r"^odd-seeds +1 +1$", output, re.MULTILINE)
    assert "odd-seeds, seed 7: Traceback" in output and "AssertionError: an odd seed" in output
    assert "Repeat: python -m tests.attack -only odd-seeds -seed 7 -seconds 0" in output
    assert main(["-only", "odd-seeds", "-seed", "8", "-seconds", "0"]) == 0
    assert seeds == [7, 8]
    assert not any(folder.exists() for folder in folders)


def test_an_attack_that_needs_a_missing_permission_is_reported_as_not_tried(
    register: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(attacks._AVAILABLE, ROOT_USER, False)
    register("of-root", lambda trial: pytest.fail("it was tried"), ROOT_USER)
    assert main(["-only", "of-root", "-seconds", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split("  ") == ["of-root", "not tried: needs root"]


def test_a_trial_that_does_not_end_is_a_failure(register: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks, "MAX_SECONDS", 1)

    def never(trial: Trial) -> None:
        while True:
            pass

    score = Score(Attack("never", "It ends.", "It does not.", "", never))
    attacks.run_trial(score, 1)
    assert "it has not ended within 1 s" in score.failures[0].report


def test_the_attacks_share_the_time_and_each_trial_has_another_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[tuple[str, int]] = []
    now = 0.0

    def run_trial(score: Score, number: int) -> None:
        nonlocal now
        seeds.append((score.attack.name, number))
        duration = 10.0 if score.attack.name == "long" else 2.0
        score.trials += 1
        score.seconds += duration
        now += duration

    monkeypatch.setattr(attacks, "run_trial", run_trial)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    both = [Attack(name, "", "", "", lambda trial: None) for name in ("short", "long")]
    attacks.run_attacks(both, 5, 30.0, lambda score: None)
    assert [number for name, number in seeds if name == "long"] == [5, 6]
    assert [number for name, number in seeds if name == "short"] == [5, 6, 7, 8, 9, 10]


def test_an_undetectable_change_is_a_failure(tmp_path: Path) -> None:
    """`verify` calls a forged log with its own head witness sound, and the attack reports that."""
    original = damage.write_log(tmp_path / "log", waiting=False)

    def forge(copy: Path) -> None:
        for path in copy.glob("pool.db*"):
            path.unlink()
        with closing(open_log(str(copy / "pool.db"), create=True)) as log:
            log.append([event for _, event in busy_pool("htcondor-25").events])

    trial = Trial(1, tmp_path / "copies")
    trial.path.mkdir()
    with pytest.raises(AssertionError):
        damage.check_detected_or_harmless(trial, original, forge)
    shutil.rmtree(trial.path)

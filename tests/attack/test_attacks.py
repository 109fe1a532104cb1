"""Golden: what the table of attacks tells, of one that fails, of one that cannot be tried; docs/reliability.md has all.

Property, in a soak: each attack, once, by a seed that is the same each time. ``make attack`` goes on for minutes.
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
def test_what_is_promised_under_an_attack_holds(name: str) -> None:
    score = Score(ATTACKS[name])
    attacks.go(score, 1)
    assert score.trials == 1
    assert [f"{failure.repeat}\n{failure.told}" for failure in score.failures] == []


def test_the_page_tells_of_each_attack_what_is_promised_how_often_it_was_tried_and_what_failed() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert [(name, promise) for name, promise, *_ in rows] == [(name, ATTACKS[name].promise) for name in ALL]
    assert all(int(tries.replace(",", "")) > 0 for _, _, tries, _ in rows)


@pytest.fixture
def enter(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put another attack into the table."""

    def enter(name: str, go: Callable[[Trial], None], needs: str = "") -> None:
        monkeypatch.setitem(ATTACKS, name, Attack(name, "It holds.", "It does not.", needs, go))
        monkeypatch.setattr("tests.attack.__main__.ALL", [*ALL, name])

    return enter


def test_a_failure_is_told_with_its_seed_and_how_to_repeat_it(
    enter: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    seeds, places = [], []

    def falls(trial: Trial) -> None:
        seeds.append(trial.seed)
        places.append(trial.path)
        (trial.path / "left").touch()
        assert trial.seed % 2 == 0, "an odd one"

    enter("falls", falls)
    assert main(["-only", "falls", "-seed", "7", "-seconds", "0"]) == 1
    said = capsys.readouterr().out
    assert re.search(r"^falls +1 +1$", said, re.MULTILINE)
    assert "falls, seed 7: Traceback" in said and "AssertionError: an odd one" in said
    assert "Again: python -m tests.attack -only falls -seed 7 -seconds 0" in said
    assert main(["-only", "falls", "-seed", "8", "-seconds", "0"]) == 0
    assert seeds == [7, 8]
    assert not any(place.exists() for place in places)


def test_what_cannot_be_tried_here_is_told_and_has_not_passed(
    enter: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(attacks._CAN, ROOT_USER, False)
    enter("of-root", lambda trial: pytest.fail("it was tried"), ROOT_USER)
    assert main(["-only", "of-root", "-seconds", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split("  ") == ["of-root", "not tried: needs root"]


def test_a_trial_that_does_not_end_is_a_failure(enter: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks, "LONGEST", 1)

    def never(trial: Trial) -> None:
        while True:
            pass

    score = Score(Attack("never", "It ends.", "It does not.", "", never))
    attacks.go(score, 1)
    assert "it has not ended within 1 s" in score.failures[0].told


def test_time_is_divided_among_the_attacks_and_each_trial_has_a_seed_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[tuple[str, int]] = []
    now = 0.0

    def go(score: Score, number: int) -> None:
        nonlocal now
        seeds.append((score.attack.name, number))
        lasts = 10.0 if score.attack.name == "long" else 2.0
        score.trials += 1
        score.seconds += lasts
        now += lasts

    monkeypatch.setattr(attacks, "go", go)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    both = [Attack(name, "", "", "", lambda trial: None) for name in ("short", "long")]
    attacks.divided(both, 5, 30.0, lambda score: None)
    assert [number for name, number in seeds if name == "long"] == [5, 6]
    assert [number for name, number in seeds if name == "short"] == [5, 6, 7, 8, 9, 10]


def test_a_change_that_nobody_could_find_would_be_a_failure(tmp_path: Path) -> None:
    """A log in which something else stands, whole and with a mark of its own, is called sound: the attack says so."""
    original = damage._log(tmp_path / "log", waiting=False)

    def forged(copy: Path) -> None:
        for path in copy.glob("pool.db*"):
            path.unlink()
        with closing(open_log(str(copy / "pool.db"), create=True)) as log:
            log.append([event for _, event in busy_pool("htcondor-25").events])

    trial = Trial(1, tmp_path / "copies")
    trial.path.mkdir()
    with pytest.raises(AssertionError):
        damage._found_or_harmless(trial, original, forged)
    shutil.rmtree(trial.path)

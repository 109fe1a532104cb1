"""Specification: the commands that `why` suggests, how `play` folds its lines, and how repeated and removed runs are
reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.cli import play as play_command
from poolbook.adapters.cli.log_commands import why
from poolbook.adapters.cli.run_report import ClusterResult
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import ClusterSubmitted
from poolbook.replay.outcomes import outcomes_of

PLAY = """machine w cores=1
until 1h
at 0:10 submit ann run=10:00 code=1 max_retries=1
at 0:10 submit bob run=30:00
at 25:00 remove 2.0
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "a.play").write_text(PLAY)
    return str(tmp_path / "p.db")


def play_output(url: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    play_command.play([str(Path(url).parent / "a.play"), "-log", url])
    return capsys.readouterr().out.splitlines()


def test_play_counts_removed_and_evicted_jobs_separately(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "jobs: 2 submitted, 3 started, 2 exited, 1 removed" in play_output(url, capsys)


def test_play_breaks_lines_at_words(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    full_text = " ".join(" ".join(play_output(url, capsys)).split())
    Path(url).rename(f"{url}.old")
    Path(f"{url}.head").unlink(missing_ok=True)
    monkeypatch.setattr(play_command, "width_of", lambda: 60)
    lines = play_output(url, capsys)
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()) == full_text


def test_why_of_a_cluster_suggests_the_life_of_a_job_except_with_verbose(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    play_output(url, capsys)
    why(["1", "-log", url])
    assert "why -verbose 1.0 -log" in capsys.readouterr().out
    why(["-verbose", "1", "-log", url])
    assert "why -verbose" not in capsys.readouterr().out


def test_several_starts_of_a_job_are_counted(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    play_output(url, capsys)
    log = open_log(url, create=False)
    for cluster, expected in ((1, {0: 2}), (2, {})):
        events = [event for _, event in log.read_stream(f"cluster/{cluster}")]
        submission = next(event for event in events if isinstance(event, ClusterSubmitted))
        assert ClusterResult(cluster, submission, events, outcomes_of(events)).repeated_runs() == expected
    log.close()

"""Differential: the import reads the daemons' logs that a pool writes, the audit finds the pool sound, and both logs
have the same transitions, matches, runs and processes. Property: the same holds for any scenario."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from poolbook.domain import events as e
from poolbook.domain.ports.log import EventStore
from poolbook.replay.forensics.audit.examine import examine

from ..importing.folders import imported
from ..play.test_any_story import DIALECTS, POLICY, SLOTS, STORIES, is_possible, play_scenario
from ..play.test_transcripts import TRANSCRIPTS, play_transcript, scenario_of
from ..sampling import soak_examples
from .written import SECOND, facts_of_import, facts_of_pool, write_logs

MILLISECOND = SECOND // 1000
FORMATS = [
    ("", SECOND),
    ("ALL_DEBUG = D_FULLDEBUG D_SUB_SECOND D_CAT D_PID", MILLISECOND),
    ("LOGS_USE_TIMESTAMP = True\nALL_DEBUG = D_SUB_SECOND", MILLISECOND),
    ("DEBUG_TIME_FORMAT = %Y-%m-%dT%H:%M:%S\nSTARTD_DEBUG = D_ALL", SECOND),
]
PLAYS = [(name, dialect) for name in TRANSCRIPTS for dialect in scenario_of(name)[1]]


def check(log: EventStore, folder: Path, text: str = "", unit: int = SECOND) -> None:
    write_logs(log, folder, text)
    read, result = imported(folder)
    assert result.refused == []
    read_facts, logged_facts = facts_of_import(read), facts_of_pool(log, unit)
    assert (sorted((logged_facts - read_facts), key=str), sorted((read_facts - logged_facts), key=str)) == ([], [])
    audit = examine(read)
    assert (audit.violations, audit.quarantined, audit.gaps, audit.noted, audit.lost) == ([], [], [], [], [])
    assert [found for found in audit.contradictions if found.thing not in _numbers_used_twice(log)] == []


def _numbers_used_twice(log: EventStore) -> set[str]:
    """Return the numbers of jobs that other access points run in this pool: its own jobs may have the same numbers, and
    a StartLog does not distinguish them."""
    events = [event for _, event in log.read()]
    claims = {event.job for event in events if isinstance(event, e.ClaimMade) and event.holder}
    return claims | {event.job for event in events if isinstance(event, e.ClaimActivated)}


@pytest.mark.parametrize(("play", "options"), list(zip(PLAYS, cycle(FORMATS), strict=False)), ids=str)
def test_logs_of_a_play_are_read_back(play: tuple[str, str], options: tuple[str, int], tmp_path: Path) -> None:
    stage, _, _ = play_transcript(*play)
    check(stage.log, tmp_path, *options)


def check_story(dialect: str, slots: str, story: list[tuple[int, str]]) -> None:
    at = "".join(f"at {seconds}s {line}\n" for seconds, line in story if is_possible(line, slots))
    stage, _ = play_scenario(f"{POLICY.format(dialect=dialect, slots=slots)}{at}until 45:00\n", steady=True)
    with TemporaryDirectory() as folder:
        check(stage.log, Path(folder))


@settings(max_examples=10, deadline=None)
@given(DIALECTS, SLOTS, STORIES)
def test_logs_of_any_story_are_read_back(dialect: str, slots: str, story: list[tuple[int, str]]) -> None:
    check_story(dialect, slots, story)


@pytest.mark.soak
@settings(max_examples=soak_examples(), deadline=None)
@given(DIALECTS, SLOTS, STORIES)
def test_logs_of_many_stories_are_read_back(dialect: str, slots: str, story: list[tuple[int, str]]) -> None:
    check_story(dialect, slots, story)

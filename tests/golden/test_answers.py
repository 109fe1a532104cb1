"""Golden: every stored log gives today the answers that it gave to the version that wrote it.

 The comparison uses no name of a class or topic: a kind of event may be renamed with an upcast, and `FIELDS` in
answers.py lists renamed fields. Every other difference means that a log has lost its meaning.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from poolbook import Log
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.negotiator.cycle import RULES
from poolbook.replay.runs.job_run import EVICTED
from poolbook.replay.runs.of_log import runs_of
from poolbook.replay.why.answer import why

from ..sampling import some, spread
from .answers import (
    Answers,
    answers_of,
    as_stored,
    audit_answers,
    differences,
    events_of,
    explanations,
    folded_state,
    store_answers,
    stored_answers,
    thing_names,
    view_answers,
)
from .make import GOLDEN, one_of_each_kind
from .stories import STORIES
from .test_golden import RELEASES

NEWEST = "0.2.0"
NEWER_KINDS: set[type[e.Event]] = {
    e.RunReported,
    e.RequestsRejected,
    e.ClaimJobEdited,
    e.CheckpointsDeleted,
    e.ScheddPublished,
    *(kind for kind in e.TOPICS.values() if kind.__module__.endswith((".events.peers", ".events.had"))),
}
"""Kinds of event that the logs of the newest release lack: logs of the next release will have them."""
LAST_REJECTIONS = {("0.2.0a2-import-daemons", "2:14"): (40, "reported", "2:15")}
"""A log and the place of the first of several rejections of one second -> the last one of that second."""


@cache
def stored(release: str) -> Answers:
    return stored_answers(GOLDEN / f"{release}.answers.json.gz")


def logs_with(key: str) -> list[str]:
    """Return the logs whose answers have this."""
    return [release for release in RELEASES if key in stored(release)]


OLDEST = ["0.1.0", "0.2.0a1"]


@pytest.fixture
def log(release: str, tmp_path: Path) -> Path:
    """The release's log, unpacked."""
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{release}.db.gz").read_bytes()))
    return path


@pytest.fixture
def store(log: Path) -> Iterator[Any]:
    with closing(open_log(str(log), create=False, read_only=True)) as log_opened:
        yield log_opened


@pytest.mark.parametrize("release", RELEASES)
def test_every_event_has_its_stored_fields(release: str, store: Any) -> None:
    events = [event for _, event in store.read()]
    assert len(events) == len(stored(release)["events"])
    changes = [
        f"{position}{difference}"
        for position, (event, (_, fields)) in enumerate(zip(events, stored(release)["events"], strict=True), 1)
        for difference in differences(fields, event)
    ]
    assert changes == []


@pytest.mark.parametrize("release", RELEASES)
def test_one_kind_of_event_stays_one_kind(release: str, store: Any) -> None:
    now: dict[int, set[type[Any]]] = {}
    for (kind, _), (_, event) in zip(stored(release)["events"], store.read(), strict=True):
        now.setdefault(kind, set()).add(type(event))
    assert [kinds for kinds in now.values() if len(kinds) > 1] == []


@pytest.mark.parametrize("release", logs_with("judged"))
def test_verification_and_audit_give_the_stored_result(release: str, log: Path) -> None:
    with Log.open(log) as log_opened:
        verdict = as_stored(audit_answers(log_opened))
        rules = {event.rules for _, event in log_opened.events() if isinstance(event, e.CycleHeld)}
    assert verdict["sound"]
    assert verdict["findings"][0] == [0, []]
    stored_verdict = without_unused_rows(stored(release)["judged"])
    if 0 < max(rules, default=0) < RULES:
        stored_verdict["cycles"] = 0  # cycles of an older release are not repeated
    assert without_unused_rows(verdict) == stored_verdict


def without_unused_rows(answers: Answers) -> Answers:
    """Return the answers without the rows that no slot or job took: later tables have more rows."""
    rows = {kind: {row: count for row, count in answers[kind].items() if count} for kind in ("slots", "jobs")}
    return answers | rows


@pytest.mark.parametrize("release", logs_with("folded"))
def test_its_fold_equals_the_stored_state(release: str, store: Any) -> None:
    assert as_stored(folded_state(store.read())) == stored(release)["folded"]


@pytest.mark.parametrize("release", logs_with("viewed"))
def test_its_views_equal_the_stored_ones(release: str, log: Path) -> None:
    with Log.open(log) as log_opened:
        views = as_stored(view_answers(log_opened))
    views["slots"] = comparable_ads(views["slots"], stored(release)["viewed"]["slots"])
    for view, stored_view in stored(release)["viewed"].items():
        assert views[view] == stored_view, view


def comparable_ads(ads: Any, stored_ads: Any) -> Any:
    """Return the ads without the attributes that slots have got since. Lists of dynamic slots were in order of
    creation; now they are ordered by number, like the real startd's."""
    return [
        {name: _in_order(name, ad[name], stored_ad) for name in ad if name in stored_ad}
        for ad, stored_ad in zip(ads, stored_ads, strict=True)
    ]


def _in_order(name: str, value: Any, stored_value: Any) -> Any:
    same_members = name.startswith("Child") and sorted(map(str, value)) == sorted(map(str, stored_value[name]))
    return stored_value[name] if same_members else value


@pytest.mark.parametrize("release", some(logs_with("why"), 4, OLDEST))
def test_why_does_not_send_the_user_to_the_command_just_typed(release: str, store: Any) -> None:
    for name in spread(sorted(stored(release)["why"]), 8):
        answer = why(store, name)
        commands = [command for line in answer.lines for command in re.findall("`([^`]*)`", line.text)]
        assert f"poolbook why {name}" not in commands, name
        assert answer.lines[-1].code != "see_life" or f"poolbook why -verbose {name}" in commands, name


@pytest.mark.parametrize("release", some(logs_with("why"), 8, OLDEST))
def test_its_jobs_and_slots_are_explained_by_the_same_events(release: str, store: Any) -> None:
    reasons = dict(spread(stored(release)["why"].items(), 25))
    explained, causes, events = as_stored(explanations(store, reasons)), causes_of_ends(store), dict(store.read())
    for name, stored_reasons in reasons.items():
        # The head of a cluster has its last event's cause.
        head_count = 0 if "." in name else 1 if name.isdigit() else None
        stored_lines = [lines and with_causes(lines, head_count, events, causes) for lines in stored_reasons]
        assert explained[name] == as_stored([lines and in_order(release, lines) for lines in stored_lines]), name


def causes_of_ends(store: Any) -> dict[int | str, str]:
    """Return the cause of each evicted run, by the position of its end, or for an import by the place of its record."""
    evicted_runs = [run for run in runs_of(store).runs if run.outcome == EVICTED]
    return {run.position or run.stimulus: run.cause.name for run in evicted_runs}


def with_causes(lines: Any, head_count: int | None, events: dict[int, Any], causes: dict[int | str, str]) -> Any:
    """Return stored lines with the causes of runs' ends, after so many heads (None: none of a slot's lines has one).
    When they were stored, the sentence of a run's end had the cause that its event has."""
    if head_count is None:
        return lines
    return lines[:head_count] + [
        [at, position, named if named and cause == events[position].cause else cause, place, *ground]
        for at, position, cause, place, *ground in lines[head_count:]
        for named in [causes.get(position) or causes.get(place)]
    ]


def in_order(release: str, lines: Any) -> Any:
    """Return stored lines with the last of several rejections of one second, in place of the first."""
    return [
        [at, *LAST_REJECTIONS.get((release, place), (position, cause, place)), *ground]
        for at, position, cause, place, *ground in lines
    ]


def test_the_newest_logs_have_every_kind_of_event(tmp_path: Path) -> None:
    release = f"{NEWEST}-kinds"
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{release}.db.gz").read_bytes()))
    with closing(open_log(str(path), create=False, read_only=True)) as log_opened:
        assert {type(event) for _, event in log_opened.read()} == set(e.TOPICS.values()) - NEWER_KINDS
    assert logs_with("folded") and logs_with("why") != logs_with("folded")


def test_the_newest_logs_cover_all_stories() -> None:
    story_names = {release.removeprefix(f"{NEWEST}-") for release in RELEASES if release.startswith(f"{NEWEST}-")}
    assert story_names == {"kinds", *STORIES}


@pytest.mark.parametrize("name", ["queue", "play-taken-back"])
def test_a_storys_answers_can_be_stored_and_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    STORIES[name](path)
    answers = as_stored(answers_of(path, is_story=True))
    assert answers["judged"]["sound"]
    assert answers.keys() == stored(f"{NEWEST}-{name}").keys()


# Tests of the checks above: a difference is detected.

CHANGES = e.SlotTransitioned(7, "claimed", "s-1", "slot1@h", "11", "Claimed/Idle", "Claimed/Busy")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda stored: stored, []),
        (lambda stored: stored | {"row": "12"}, [".row is '11' and not '12'"]),
        (lambda stored: stored | {"gone": 1}, [".gone is gone: it was 1"]),
        (lambda stored: {name: stored[name] for name in stored if name != "reason"}, []),
        (
            lambda stored: {name: stored[name] for name in stored if name != "row"},
            [".row is new, and not its default: '11'"],
        ),
    ],
)
def test_a_difference_is_detected(change: Callable[[Answers], Answers], expected: list[str]) -> None:
    ((_, fields),) = events_of([(1, CHANGES)])
    assert list(differences(change(fields), CHANGES)) == expected


def test_a_difference_inside_a_field_is_detected() -> None:
    match = e.Match("1.0", "slot1@h", 0.0)
    cycle = e.CycleHeld(7, "negotiated", "s-1", (match, match), ())
    ((_, fields),) = events_of([(1, replace(cycle, matches=(match, replace(match, rank=2.0))))])
    assert list(differences(fields, cycle)) == [".matches[1].rank is 0.0 and not 2.0"]
    ((_, fields),) = events_of([(1, replace(cycle, matches=(match,)))])
    assert list(differences(fields, cycle)) == [".matches has 2 and not 1"]


def test_answers_can_be_stored_and_read(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    one_of_each_kind(path)
    answers = answers_of(path, is_story=False)
    store_answers(tmp_path / "answers.json.gz", answers)
    assert stored_answers(tmp_path / "answers.json.gz") == as_stored(answers)


@pytest.mark.parametrize("release", [f"{NEWEST}-queue"])
def test_all_things_of_a_log_are_explained(release: str, store: Any) -> None:
    assert thing_names(store) == list(stored(release)["why"])

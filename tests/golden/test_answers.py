"""Golden: every log that was kept tells today what it told the version that wrote it.

What is compared has no name of a class or topic in it: a kind of event may be renamed with an upcast, and where a field
of one is, `FIELDS` in answers.py says so. Everything else that differs is a log that no longer means what it meant.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from msgspec.structs import replace

from poolbook import Log
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.negotiator.cycle import RULES
from poolbook.replay.runs.job_run import EVICTED
from poolbook.replay.runs.of_log import runs_of

from ..sampling import some, spread
from .answers import (
    Answers,
    answers_of,
    as_kept,
    differences,
    events_of,
    explained,
    folded,
    judged,
    keep_answers,
    kept_answers,
    things,
    viewed,
)
from .make import GOLDEN, one_of_each_kind
from .stories import STORIES
from .test_golden import RELEASES

NEWEST = "0.2.0a2"
SINCE = {
    *(e.BackfillStarted, e.BackfillExecuting, e.BackfillSignalled, e.BackfillExited, e.BackfillLeaving),
    e.DefragPolled,
    e.QuotasAssigned,
    *(e.JobsTransformed, e.SubmissionRefused),
    *(e.JobTransferBegan, e.JobTransferEnded),
    *(e.JobsDeferred, e.JobDue, e.JobsMaterialized, e.FactoryTransitioned),
    *(e.JobCooledDown, e.MailDue, e.Mailed),
    *(e.ClaimsEarmarked, e.EarmarkEnded),
}
"""The kinds of event that are newer: the logs of the next release will have them."""
LAST = {("0.2.0a2-import-daemons", "2:14"): (40, "reported", "2:15")}
"""A log and the place of the first of several refusals of one second -> the last one of that second."""


@cache
def kept(release: str) -> Answers:
    return kept_answers(GOLDEN / f"{release}.answers.json.gz")


def having(what: str) -> list[str]:
    """The logs of which the answers have this."""
    return [release for release in RELEASES if what in kept(release)]


OLDEST = ["0.1.0", "0.2.0a1"]


@pytest.fixture
def log(release: str, tmp_path: Path) -> Path:
    """The release's log, unpacked."""
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{release}.db.gz").read_bytes()))
    return path


@pytest.fixture
def store(log: Path) -> Iterator[Any]:
    with closing(open_log(str(log), create=False, read_only=True)) as opened:
        yield opened


@pytest.mark.parametrize("release", RELEASES)
def test_every_event_has_the_fields_that_it_had(release: str, store: Any) -> None:
    events = [event for _, event in store.read()]
    assert len(events) == len(kept(release)["events"])
    found = [
        f"{position}{difference}"
        for position, (event, (_, fields)) in enumerate(zip(events, kept(release)["events"], strict=True), 1)
        for difference in differences(fields, event)
    ]
    assert found == []


@pytest.mark.parametrize("release", RELEASES)
def test_what_was_one_kind_of_event_is_one_kind(release: str, store: Any) -> None:
    now: dict[int, set[type[Any]]] = {}
    for (kind, _), (_, event) in zip(kept(release)["events"], store.read(), strict=True):
        now.setdefault(kind, set()).add(type(event))
    assert [kinds for kinds in now.values() if len(kinds) > 1] == []


@pytest.mark.parametrize("release", having("judged"))
def test_it_is_judged_as_it_was(release: str, log: Path) -> None:
    with Log.open(log) as opened:
        found = as_kept(judged(opened))
        rules = {event.rules for _, event in opened.events() if isinstance(event, e.CycleHeld)}
    assert found["sound"]
    assert found["findings"][0] == [0, []]
    then = taken(kept(release)["judged"])
    if 0 < max(rules, default=0) < RULES:
        then["cycles"] = 0  # cycles that were decided by other rules are not decided again
    assert taken(found) == then


def taken(answers: Answers) -> Answers:
    """The same without the rows that no slot and no job took: later tables have more of them."""
    rows = {of: {row: count for row, count in answers[of].items() if count} for of in ("slots", "jobs")}
    return answers | rows


@pytest.mark.parametrize("release", having("folded"))
def test_its_fold_is_the_state_that_it_was(release: str, store: Any) -> None:
    assert as_kept(folded(store.read())) == kept(release)["folded"]


@pytest.mark.parametrize("release", having("viewed"))
def test_its_views_show_what_they_showed(release: str, log: Path) -> None:
    with Log.open(log) as opened:
        found = as_kept(viewed(opened))
    found["slots"] = then_said(found["slots"], kept(release)["viewed"]["slots"])
    for what, shown in kept(release)["viewed"].items():
        assert found[what] == shown, what


def then_said(ads: Any, kept: Any) -> Any:
    """The ads without the attributes that slots have got since. Lists of dynamic slots stood in the order of births;
    now they stand by their numbers, as the real startd's."""
    return [
        {name: _in_order(name, ad[name], then) for name in ad if name in then}
        for ad, then in zip(ads, kept, strict=True)
    ]


def _in_order(name: str, value: Any, then: Any) -> Any:
    same = name.startswith("Child") and sorted(map(str, value)) == sorted(map(str, then[name]))
    return then[name] if same else value


@pytest.mark.parametrize("release", some(having("why"), 8, OLDEST))
def test_its_jobs_and_slots_are_explained_by_the_same_events(release: str, store: Any) -> None:
    reasons = dict(spread(kept(release)["why"].items(), 25))
    found, causes, events = as_kept(explained(store, reasons)), causes_of_ends(store), dict(store.read())
    for name, why in reasons.items():
        heads = 0 if "." in name else 1 if name.isdigit() else None  # the head of a cluster has its last event's cause
        then = [lines and with_causes(lines, heads, events, causes) for lines in why]
        assert found[name] == as_kept([lines and in_order(release, lines) for lines in then]), name


def causes_of_ends(store: Any) -> dict[int | str, str]:
    """Return the cause of each evicted run, by the position of its end, of an import by the place of its record."""
    evicted = [run for run in runs_of(store).runs if run.outcome == EVICTED]
    return {run.position or run.stimulus: run.cause.name for run in evicted}


def with_causes(lines: Any, heads: int | None, events: dict[int, Any], causes: dict[int | str, str]) -> Any:
    """Return kept lines with the causes of runs' ends, behind so many heads (None: of a slot's lines none has one).
    When they were kept, the sentence of a run's end had the cause that its event has."""
    if heads is None:
        return lines
    return lines[:heads] + [
        [at, position, named if named and cause == events[position].cause else cause, place, *ground]
        for at, position, cause, place, *ground in lines[heads:]
        for named in [causes.get(position) or causes.get(place)]
    ]


def in_order(release: str, lines: Any) -> Any:
    """Return kept lines with the last of several refusals of one second, where they had the first."""
    return [
        [at, *LAST.get((release, place), (position, cause, place)), *ground]
        for at, position, cause, place, *ground in lines
    ]


def test_the_newest_logs_hold_every_kind_that_there_was(tmp_path: Path) -> None:
    release = f"{NEWEST}-kinds"
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{release}.db.gz").read_bytes()))
    with closing(open_log(str(path), create=False, read_only=True)) as opened:
        assert {type(event) for _, event in opened.read()} == set(e.TOPICS.values()) - SINCE
    assert having("folded") and having("why") != having("folded")


def test_the_newest_logs_are_of_all_stories() -> None:
    ours = {release.removeprefix(f"{NEWEST}-") for release in RELEASES if release.startswith(NEWEST)}
    assert ours == {"kinds", *STORIES}


@pytest.mark.parametrize("name", ["queue", "play-taken-back"])
def test_a_story_gives_answers_that_come_back(name: str, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    STORIES[name](path)
    answers = as_kept(answers_of(path, told=True))
    assert answers["judged"]["sound"]
    assert answers.keys() == kept(f"{NEWEST}-{name}").keys()


# The checks above, checked: a difference is found.

MOVED = e.SlotTransitioned(7, "claimed", "s-1", "slot1@h", "11", "Claimed/Idle", "Claimed/Busy")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda kept: kept, []),
        (lambda kept: kept | {"row": "12"}, [".row is '11' and not '12'"]),
        (lambda kept: kept | {"gone": 1}, [".gone is gone: it was 1"]),
        (lambda kept: {name: kept[name] for name in kept if name != "reason"}, []),
        (
            lambda kept: {name: kept[name] for name in kept if name != "row"},
            [".row is new, and not its default: '11'"],
        ),
    ],
)
def test_a_difference_is_found(change: Callable[[Answers], Answers], found: list[str]) -> None:
    ((_, fields),) = events_of([(1, MOVED)])
    assert list(differences(change(fields), MOVED)) == found


def test_a_difference_is_found_within_what_an_event_holds() -> None:
    match = e.Match("1.0", "slot1@h", 0.0)
    cycle = e.CycleHeld(7, "negotiated", "s-1", (match, match), ())
    ((_, fields),) = events_of([(1, replace(cycle, matches=(match, evolve(match, rank=2.0))))])
    assert list(differences(fields, cycle)) == [".matches[1].rank is 0.0 and not 2.0"]
    ((_, fields),) = events_of([(1, replace(cycle, matches=(match,)))])
    assert list(differences(fields, cycle)) == [".matches has 2 and not 1"]


def test_answers_are_kept_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    one_of_each_kind(path)
    answers = answers_of(path, told=False)
    keep_answers(tmp_path / "answers.json.gz", answers)
    assert kept_answers(tmp_path / "answers.json.gz") == as_kept(answers)


@pytest.mark.parametrize("release", [f"{NEWEST}-queue"])
def test_the_things_that_are_explained_are_all_that_the_log_has(release: str, store: Any) -> None:
    assert things(store) == list(kept(release)["why"])

"""Property: the logs of a pool's roles agree, and a change of one of them contradicts the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.domain.ports.log import EventStore
from poolbook.replay.audit_result import Audit
from poolbook.replay.validation.quotes import compare_logs

from ..peers.chaos import Story
from .test_legality_of_edited_roles import AP, EP, MANAGER, logs

OTHER_EP = "execution-point/ep2"
Logs = dict[str, list[e.Event]]


class EventList:
    """A log with these events."""

    def __init__(self, events: Sequence[e.Event]) -> None:
        founded = events[0]
        assert isinstance(founded, e.PoolFounded)
        self.id, self._events = founded.log, events

    def read(self, after: int = 0, limit: int | None = None) -> list[tuple[int, e.Event]]:
        end = None if limit is None else after + limit
        return list(enumerate(self._events[after:end], after + 1))


def audits_of(events: Mapping[str, Sequence[e.Event]]) -> dict[str, Audit]:
    audits = {name: Audit() for name in events}
    compare_logs([(name, cast("EventStore", EventList(log)), audits[name]) for name, log in events.items()])
    return audits


def findings(events: Mapping[str, Sequence[e.Event]]) -> list[tuple[str, str, str]]:
    """Return the violations in all logs: the log, the rule and the description."""
    return [(name, each.rule, each.words) for name, audit in audits_of(events).items() for each in audit.violations]


def copied() -> Logs:
    return {name: [*log] for name, log in logs().items()}


def test_the_logs_of_a_pool_agree() -> None:
    assert findings(copied()) == []


@pytest.mark.parametrize("seed", [2, 3])
def test_the_logs_agree_after_failures_of_machines_and_networks(seed: int) -> None:
    story = Story(seed)
    story.run()
    assert findings({name: node.events for name, node in story.pool.nodes.items()}) == []


def test_a_log_that_was_not_given_is_named() -> None:
    events = copied()
    missing = events.pop(EP)[0]
    assert isinstance(missing, e.PoolFounded)
    audits = audits_of(events)
    assert audits[MANAGER].unchecked == {EP: missing.log}
    assert audits[OTHER_EP].unchecked == {}
    assert not audits[MANAGER].violations


def test_a_log_that_was_copied_earlier_is_no_violation() -> None:
    for name, log in copied().items():
        ends = [end for end in range(2, len(log)) if log[end - 1].stimulus != log[end].stimulus]
        for end in ends[::4]:
            events = {**copied(), name: log[:end]}
            assert findings(events) == [], (name, end)


def test_a_log_that_was_cut_off_and_continued_is_reported() -> None:
    for name, end in ((EP, 20), (AP, 30), (MANAGER, 20)):
        log = copied()[name]
        later = replace(log[1], at=log[-1].at + 10**9)
        reported = findings({**copied(), name: [*log[:end], later]})
        assert reported, name
        assert all("ends with entry" in words for _, rule, words in reported if rule == "quotes" and "entry" in words)


def test_a_forked_log_is_reported() -> None:
    for name in (EP, AP, MANAGER):
        log = copied()[name]
        at = max(at for at, event in enumerate(log) if isinstance(event, e.Sent))
        log[at] = replace(log[at], digest="0" * 64)
        assert any("differs from the entry" in words for _, _, words in findings({**copied(), name: log})), name


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (MANAGER, e.SlotCreated), (MANAGER, e.SlotTransitioned), (MANAGER, e.ClaimMade), (MANAGER, e.ClaimActivated),
        (MANAGER, e.ClaimEnded), (MANAGER, e.ClusterSubmitted), (MANAGER, e.JobsTransitioned), (AP, e.CycleHeld),
        (AP, e.JobExited), (AP, e.ClaimMade), (EP, e.ClaimMade), (EP, e.ClaimActivated),
    ],
)  # fmt: skip
def test_a_changed_copy_is_reported(name: str, kind: type[e.Event]) -> None:
    for at, event in enumerate(copied()[name]):
        if (
            type(event) is not kind
            or event.cause == "lease_over"
            or (isinstance(event, e.CycleHeld) and not event.matches)
        ):
            continue
        log = copied()[name]
        log[at] = _changed(event)
        assert any(place == name for place, _, _ in findings({**copied(), name: log})), event


def _changed(event: e.Event) -> e.Event:
    changes: dict[type[e.Event], dict[str, object]] = {
        e.SlotCreated: {"kind": "partitionable"},
        e.SlotTransitioned: {"target": "Matched/Idle"},
        e.ClaimMade: {"claim": "another", "weight": 7},
        e.ClaimActivated: {"job": "77.7"},
        e.ClaimEnded: {"usage": 1},
        e.ClusterSubmitted: {"count": 7},
        e.JobsTransitioned: {"row": "remove"},
        e.JobExited: {"code": 77},
    }
    if isinstance(event, e.CycleHeld):
        return replace(event, matches=tuple(replace(match, slot="slot9@ep1") for match in event.matches))
    return replace(event, **changes[type(event)])


def test_an_omitted_copy_is_reported() -> None:
    for at, event in enumerate(copied()[MANAGER]):
        if isinstance(event, e.SlotEvent) and event.cause != "claimed":
            log = copied()[MANAGER]
            del log[at]
            assert any("has no copy" in words for _, _, words in findings({**copied(), MANAGER: log})), event


def test_a_job_that_runs_on_two_execution_points_is_reported() -> None:
    events = copied()
    start = next(event for event in events[EP] if isinstance(event, e.ClaimActivated))
    claim = next(event for event in events[EP] if isinstance(event, e.ClaimMade))
    slot = "slot1@ep2"
    for event in (
        replace(claim, slot=slot, claim="stolen", at=start.at + 5_000_000),
        replace(start, slot=slot, claim="stolen", at=start.at + 5_000_000),
    ):
        events[OTHER_EP].append(event)
    reported = findings(events)
    assert any(rule == "once" and "while it runs on slot1@ep1" in words for _, rule, words in reported)
    assert any(rule == "once" and "already started" in words for _, rule, words in reported)

"""Differential: answers for the web page equal the log and the live state. Golden: what actions will do."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing

import pytest

from poolbook import Pool
from poolbook.adapters.overview.effects import effect, possible_actions
from poolbook.adapters.overview.event_list import event_page
from poolbook.adapters.overview.search import search
from poolbook.adapters.overview.sentences import jobs_sentence, machines_sentence
from poolbook.adapters.overview.share_history import share_history
from poolbook.adapters.overview.slot_grid import slot_grid
from poolbook.adapters.overview.things import thing
from poolbook.adapters.overview.timeline import timeline
from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.fold.evolve import fold
from poolbook.domain.units import SECOND
from poolbook.projections.overview import MachineSummary
from poolbook.projections.use_view import PERIOD
from poolbook.replay.listing.members import StreamFilter, entries, parse_filter

from ..projections.pools import busy_pool

SLEEP = {"executable": "/bin/sleep", "request_memory": 1}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the log of a pool in which most things have happened."""
    url = str(tmp_path_factory.mktemp("answers") / "pool.db")
    with closing(open_log(url, create=True)) as log:
        log.append([event for _, event in busy_pool().events])
    return url


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the log of a pool that two users shared for three hours, in which a job is held."""
    url = str(tmp_path_factory.mktemp("answers") / "shared.db")
    settings = {"NEGOTIATOR_INTERVAL": 60, "CLAIM_WORKLIFE": 0}
    with Pool.open(url, user="alice", settings=settings) as pool:
        pool.add_machine("node1", cpus=4, memory=4096)
        pool.submit({**SLEEP, "arguments": 1700, "batch_name": "night run"}, count=12)
        pool.advance(1000)
        pool.submit({**SLEEP, "arguments": 1300}, count=6, user="bob")
        pool.advance(2 * 3600)
        pool.submit({**SLEEP, "arguments": 9000}, count=6)
        pool.advance(600)
        pool.hold("3.5", reason="wrong input")
    return url


def test_the_grid_equals_the_slots_at_each_moment(busy: str) -> None:
    with Queries(busy) as queries:
        events = list(queries.log.read())
    first, last = events[0][1].at, events[-1][1].at
    for at in range(first, last, (last - first) // 7):
        state = fold(event for event in events if event[1].at <= at)
        with Queries(busy, at=at) as queries:
            grid = slot_grid(queries)
        rows = zip(grid.names(), (grid.states[index] for index in grid.state), grid.since, strict=True)
        expected = {name: (slot.state_activity, slot.entered_activity // SECOND) for name, slot in state.slots.items()}
        assert {name: (pair, grid.base + since) for name, pair, since in rows} == expected


def test_uses_before_the_first_change_in_a_period_equal_the_accounts(shared: str) -> None:
    with Queries(shared) as queries:
        events = list(queries.log.read())
        first, last = events[0][1].at, events[-1][1].at
        history = share_history(queries, first, last)
    assert set(history.users) == {
        "alice@" + history.users[0].partition("@")[2],
        "bob@" + history.users[0].partition("@")[2],
    }
    for begin in range(first - first % PERIOD + PERIOD, last, PERIOD):
        state = fold(event for event in events if event[1].at < begin)
        index = max(number for number, at in enumerate(history.times) if at < begin)
        for user, used in zip(history.users, history.used, strict=True):
            account = state.submitters.get(user)
            assert used[index] == (0 if account is None else account.weighted_in_use / 1000), (begin, user)
    assert max(map(sum, zip(*history.used, strict=True))) == 4


def test_a_timeline_has_the_transitions_of_the_log(busy: str) -> None:
    with Queries(busy) as queries:
        until = queries.views.at
        for name in ("1.0", "slot1_1@h"):
            (lane, *_) = timeline(queries, name, until).lanes
            members = list(queries.entries(_stream(name), 0, until + 1))
            assert [tick.position for tick in lane.ticks] == [
                member.position for member in members if "transfer" not in member.what
            ]
            assert all(part.begin < part.end for part in lane.stretches)
            assert [part.begin for part in lane.stretches] == sorted(part.begin for part in lane.stretches)
        with pytest.raises(ValueError, match="is not a job or slot"):
            timeline(queries, "pool", until)


def _stream(name: str) -> StreamFilter:

    return parse_filter(name)


def test_pages_of_events_together_contain_the_log(busy: str) -> None:
    with Queries(busy) as queries:
        expected = {member.position for member in entries(queries.log)}
        positions: list[int] = []
        before, limit = 0, 150
        while True:
            page = event_page(queries, before=before, limit=limit)
            positions += [row.position for row in page.rows]
            if not page.before:
                break
            before = page.before
        assert positions == sorted(expected, reverse=True)
        held = event_page(queries, about="1", text="held")
        assert held.rows and all("held" in f"{row.text} {row.source} {row.target}".lower() for row in held.rows)


def test_searches_find_things_by_parts_of_their_names(shared: str) -> None:
    with Queries(shared) as queries:
        kinds = Counter(hit.kind for hit in search(queries, "node1"))
        assert set(kinds) == {"slot", "machine"}
        assert [(hit.kind, hit.name) for hit in search(queries, "3.5")] == [("job", "3.5")]
        assert ("cluster", "1") in [(hit.kind, hit.name) for hit in search(queries, "NIGHT")]
        assert any(hit.kind == "event" for hit in search(queries, "wrong input"))
        assert search(queries, "  ") == [] == search(queries, "100%")


def test_every_thing_that_a_page_links_to_has_a_page(busy: str) -> None:
    with Queries(busy) as queries:
        names = [("cluster", "1"), ("job", "1.0"), *(("slot", name) for name in slot_grid(queries).names())]
        for kind, name in [*names, ("machine", "h"), ("user", "alice"), ("event", "1")]:
            answer = thing(queries, kind, name)
            assert answer.sentences and answer.sentences[0].endswith("."), (kind, name)


@pytest.mark.parametrize(
    ("action", "kind", "name", "value", "sentence", "command"),
    [
        ("hold", "job", "3.0", "", r"1 running job is evicted; about .* of work is lost\. 1 job is held until it is "
         r"released\.", "poolbook hold 3.0"),
        ("hold", "cluster", "3", "", r"4 running jobs are evicted; .* 5 jobs are held .*", "poolbook hold 3"),
        ("release", "job", "3.5", "", r"1 held job is released, and may start when a slot matches\.",
         "poolbook release 3.5"),
        ("remove", "job", "3.4", "", r"1 job is removed from the queue\. This cannot be undone\.", "poolbook rm 3.4"),
        ("vacate slot", "slot", "slot1_1@node1", "", r"Job 3\.\d: 1 running job is evicted; .*",
         "poolbook vacate slot1_1@node1"),
        ("priority", "cluster", "3", "5", r"6 jobs are given the priority 5: alice's jobs with a higher priority start "
         r"first\.", "poolbook prio -p 5 3"),
        ("drain", "machine", "node1", "", r"node1 accepts no more jobs until the drain is cancelled\. 4 running .*",
         "poolbook drain node1"),
    ],
)  # fmt: skip
def test_an_effect_says_what_an_action_will_do(
    shared: str, action: str, kind: str, name: str, value: str, sentence: str, command: str
) -> None:

    with Queries(shared) as queries:
        answer = effect(queries, action, kind, name, "alice" if kind in ("job", "cluster") else "root", value)
        assert re.fullmatch(sentence, answer.sentence), answer.sentence
        assert answer.command == command and answer.allowed
        assert not effect(queries, action, kind, name, "bob", value).allowed


def test_only_owners_and_administrators_may_act_and_only_on_the_present(shared: str) -> None:
    with Queries(shared) as queries:
        at = queries.views.at
        assert "remove" in possible_actions(queries, "job", "3.0", "alice")
        assert possible_actions(queries, "job", "3.0", "bob") == []
        assert possible_actions(queries, "machine", "node1", "bob") == []
        assert possible_actions(queries, "machine", "node1", "root") == ["drain"]
        assert possible_actions(queries, "job", "1.0", "alice") == []  # it has left the queue
        with pytest.raises(ValueError, match="is not an action on a slot"):
            effect(queries, "hold", "slot", "slot1@node1", "alice")
        with pytest.raises(ValueError, match="is not a number"):
            effect(queries, "priority", "job", "3.0", "alice", "high")
        for value, message in {"nan": "is not a number", "inf": "is not a number", "0.5": "from 1 on"}.items():
            with pytest.raises(ValueError, match=message):
                effect(queries, "factor", "user", "alice@example.org", "root", value)
    with Queries(shared, at=at) as queries:
        assert possible_actions(queries, "job", "3.0", "alice") == []


@pytest.mark.parametrize(
    ("jobs", "owner", "sentence"),
    [
        ({}, "", "No jobs are in the queue."),
        ({}, "alice", "No jobs of alice are in the queue."),
        ({"idle": 1}, "alice", "1 job of alice: 1 waits."),
        ({"held": 2, "running": 1200, "idle": 3}, "", "1,205 jobs: 1,200 run, 3 wait, 2 are held."),
        ({"suspended": 1}, "", "1 job: 1 is suspended."),
    ],
)
def test_a_sentence_summarizes_jobs(jobs: dict[str, int], owner: str, sentence: str) -> None:
    assert jobs_sentence(jobs, owner) == sentence


@pytest.mark.parametrize(
    ("machines", "sentence"),
    [
        ([], "The pool has no machines."),
        ([(1, 0, 0)], "1 machine; its only slot is free."),
        ([(4, 4, 0), (4, 4, 0)], "2 machines; all of their 8 slots are busy."),
        ([(4, 0, 4)], "1 machine; none of its 4 slots is busy, and 1 machine has drained slots."),
    ],
)
def test_a_sentence_summarizes_machines(machines: list[tuple[int, int, int]], sentence: str) -> None:
    rows = [MachineSummary("m", 0, slots, busy, busy, drained, 1.0, 1.0) for slots, busy, drained in machines]
    assert machines_sentence(rows) == sentence

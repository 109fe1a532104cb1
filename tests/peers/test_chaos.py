"""Property: whatever fails, each job of roles apart ends once, never runs twice at the same time, and all logs agree.
A failure prints the seed's story; ``python -m tests.peers.tell SEED`` prints it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poolbook.adapters.fabric import links
from poolbook.adapters.stores import stored_log
from poolbook.domain.peers import at_access_point, at_execution_point, elsewhere, following
from poolbook.domain.peers.following import RULES
from poolbook.domain.ports.log import LogUnavailable
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import EPOCH

from ..sampling import soak_examples
from . import simulated
from .chaos import Story, failure_of


@pytest.mark.parametrize("seed", [11, 18, 36])
def test_whatever_fails_nothing_is_lost(seed: int) -> None:
    assert failure_of(seed) == ""


@pytest.mark.parametrize("seed", [11, 18, 36])
def test_nothing_is_lost_if_two_managers_match_at_once(seed: int) -> None:
    assert failure_of(seed, managers=2) == ""


@pytest.mark.soak
@pytest.mark.parametrize("share", range(8))
def test_nothing_is_lost_in_many_stories_with_two_managers(share: int) -> None:
    assert [failure for seed in range(share, soak_examples(4), 8) if (failure := failure_of(seed, managers=2))] == []


@pytest.mark.soak
@pytest.mark.parametrize("share", range(8))
def test_whatever_fails_nothing_is_lost_in_many_stories(share: int) -> None:
    assert [failure for seed in range(share, soak_examples(2), 8) if (failure := failure_of(seed))] == []


Patch = pytest.MonkeyPatch
FAULTS: dict[str, tuple[Callable[[Patch], None], int]] = {}
"""Plants a fault, by its description, and the first of the hundred seeds that must find it."""


def fault(name: str, first_seed: int = 0) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def declare(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        FAULTS[name] = plant, first_seed
        return plant

    return declare


@fault("entries that were read already are applied again")
def _apply_twice(patch: Patch) -> None:
    follow = links.Links._follow

    def follow_twice(self: Any, *arguments: Any) -> Any:
        for stimulus in follow(self, *arguments):
            yield from [stimulus, stimulus]

    patch.setattr(links.Links, "_follow", follow_twice)
    patch.setattr(following, "_next_entries", lambda draft, stimulus: ([*stimulus.entries], ""))


@fault("an entry counts as read before what follows from it is in the log")
def _read_before_append(patch: Patch) -> None:
    follow = links.Links._follow

    def forget_some(self: Any, peer: str, link: Any, asked: int, is_complete: bool) -> Any:
        stimulus: Any
        for stimulus in follow(self, peer, link, asked, is_complete):
            known = self.state().peers.followed.get(peer)
            if known is not None and len(getattr(stimulus, "entries", ())) > 1:
                known.version, known.digest = stimulus.entries[0].version, stimulus.entries[0].digest
            yield stimulus

    patch.setattr(links.Links, "_follow", forget_some)


@fault("the execution point counts the lease from the reply", first_seed=100)
def _count_from_reply(patch: Patch) -> None:
    follow = links.Links._follow
    patch.setattr(
        links.Links, "_follow", lambda self, peer, link, asked, done: follow(self, peer, link, self.clock(), done)
    )
    patch.setattr(links, "margin", lambda lease: 0)  # it is for clocks, which are exact here, and hides most cases


@fault("an access point that starts does not wait for the leases of its jobs")
def _give_up_at_start(patch: Patch) -> None:
    begin = links.Links.__attrs_post_init__

    def begin_impatiently(self: Any) -> None:
        begin(self)
        for link in self._links.values():
            link.answered = 0

    patch.setattr(links.Links, "__attrs_post_init__", begin_impatiently)


@fault("the access point waits for less time than the execution point")
def _shorter_lease(patch: Patch) -> None:
    patch.setattr(links, "margin", lambda lease: -lease // 2)


@fault("a job is started although it arrived after its lease")
def _start_late(patch: Patch) -> None:
    patch.setattr(at_execution_point, "lease_time", lambda slot, job=None: 1 << 60)
    patch.setattr(links.Links, "deadline_of", lambda self, slot: self.clock() + 80 * SECOND)


@fault("the supervisor does not know the deadlines of jobs")
def _no_deadline(patch: Patch) -> None:
    patch.setattr(links.Links, "deadline_of", lambda self, slot: 1 << 60)


@fault("a late answer to an earlier request renews the lease as of the last request")
def _same_number(patch: Patch) -> None:
    ask = links.Links._ask

    def ask_again(self: Any, peer: str, link: Any, now: int) -> None:
        ask(self, peer, link, now)
        link.reading.asked = dict.fromkeys(link.reading.asked, now)

    patch.setattr(links.Links, "_ask", ask_again)
    patch.setattr(links, "margin", lambda lease: 0)  # it is for clocks, which are exact here, and hides most cases


@fault("the access point does not tell the execution point that it has released a claim")
def _silent_release(patch: Patch) -> None:
    patch.setattr(elsewhere, "command", lambda draft, slot, name: True)


@fault("a rejected claim request is ignored")
def _ignore_rejection(patch: Patch) -> None:
    patch.setattr(at_access_point, "accept_rejection", lambda *arguments: None)


@fault("the wall clock measures leases")
def _wall_clock(patch: Patch) -> None:
    create = links.Links
    patch.setattr(simulated, "Links", lambda name, carrier, log, state, clock, log_time, *rest, **options: create(
        name, carrier, log, state, lambda: log_time() - EPOCH, log_time, *rest, **options
    ))  # fmt: skip


@fault("an append that failed counts as written")
def _failed_append(patch: Patch) -> None:
    append: Callable[..., int] = stored_log.StoredLog._append

    def append_anyway(self: Any, events: Any, epoch: int) -> int:
        try:
            return append(self, events, epoch)
        except LogUnavailable:
            return int(self.head.position) + len(events)

    patch.setattr(stored_log.StoredLog, "_append", append_anyway)


@fault("the jobs of an execution point's old log are given up at once")
def _give_up_old_log(patch: Patch) -> None:
    patch.setattr(links.Links, "_over_at", lambda self, link, lease: 0)


@pytest.mark.soak
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_within_a_hundred_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, first_seed = FAULTS[name]
    plant(monkeypatch)
    for rules in RULES.values():
        rules.clear()  # rules are loaded at their first use
    try:
        assert any(failure_of(seed, hurried=True) for seed in range(first_seed, first_seed + 100))
    finally:
        for rules in RULES.values():
            rules.clear()


def test_a_failure_is_told_as_a_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Story, "check", lambda story: pytest.fail("planted", pytrace=False))
    told_story = failure_of(18)
    assert told_story.splitlines()[0] == "seed 18, managers 1: planted"
    assert "everything is repaired" in told_story

"""Table: what administrators may set of submitters, lend, reset and delete, and in which words the rest is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poolbook.adapters.runtime.command_codec import COMMANDS, command_of
from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.domain import events as e
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.accounting import ceiling, factor, floor, terms
from poolbook.domain.negotiator.submitter_commands import GRANTS
from poolbook.domain.ports import stimuli as s
from poolbook.domain.units import SECOND
from poolbook.replay.listing import line, members
from poolbook.replay.validation import examine

from ..domain.pools import TestPool
from ..together import together
from .books import BEGAN, Books

ALICE = "alice@example.org"


class Administered(TestPool):
    """A pool of which alice is a user, and root the administrator."""

    __test__ = False

    def __init__(self, **more: str) -> None:
        super().__init__(settings=more)
        self.machine(static=2)
        self.submit()

    def set(
        self,
        name: str,
        value: float = 0.0,
        duration: int = 0,
        cancel: bool = False,
        user: str = "root",
        who: str = ALICE,
    ) -> StimulusResult:
        return self.handle(s.SetSubmitter(self.id(), user, who, name, value, duration, cancel))

    def has(self, name: str, who: str = ALICE) -> float:
        """What of factor, floor and ceiling counts now."""
        one, now = self.state.submitters[who], self.engine.now()
        rules = terms(self.state.settings)
        return {"factor": factor(one, rules, now), "floor": floor(one, now), "ceiling": ceiling(one, now)}[name]


def test_each_thing_that_an_event_may_say_is_one_that_can_be_set() -> None:
    assert list(GRANTS) == list(e.SET)


@together(
    ("name", "value", "is_then"),
    [
        ("priority", 12.5, 12.5),
        ("priority", 0.1, 0.5),  # as with condor_userprio -setprio: nobody has a better one
        ("priority", -5, 0.5),
        ("factor", 1, 1.0),
        ("factor", 2000, 2000.0),
        ("floor", 0, 0.0),
        ("floor", 16, 16.0),
        ("ceiling", -1, -1.0),
        ("ceiling", 0, 0.0),
        ("ceiling", 2.5, 2.5),
        ("usage", 0, 0.0),
        ("usage", 3600, 3600.0),
        ("begin", 1_700_000_000, 1.7e9),
        ("last", 5, 5.0),
    ],
)
def test_what_is_set_is_written_down_with_who_set_it(name: str, value: float, is_then: float) -> None:
    pool = Administered()
    answer = pool.set(name, value)
    assert answer.value == {"submitter": ALICE, "name": name, "value": is_then, "until": 0}
    event = pool.events()[-2]
    assert event == e.SubmitterSet(event.at, "granted", event.stimulus, ALICE, "root", name, is_then)
    one = pool.state.submitters[ALICE]
    kept = {"usage": one.usage_until(event.at) / 1e9, "begin": one.first_used / SECOND, "last": one.last_used / SECOND}
    assert kept.get(name, getattr(one, name, None)) == is_then
    assert examine(pool.log.read()).sound


@together(
    ("name", "value", "words"),
    [
        ("factor", 0.5, "the priority factor of alice@example.org cannot be 0.5: it must be greater than or equal to "
         "1; to favour a submitter, raise the factors of the others"),
        ("floor", -1, "the floor of alice@example.org cannot be -1: it must be greater than or equal to 0 cores; "
         "0 means no floor"),
        ("ceiling", -5, "the ceiling of alice@example.org cannot be -5: it must be greater than or equal to -1 cores; "
         "-1 means no limit"),
        ("ceiling", -0.5, "the ceiling of alice@example.org cannot be -0.5: it is -1 (no limit), or 0 or more cores"),
        ("usage", -5, "the accumulated usage of alice@example.org cannot be -5: it must be greater than or equal to 0"),
        ("begin", -5, "the begin of the usage of alice@example.org cannot be -5: it must be greater than or equal to "
         "0"),
        ("last", 1e11, "the last usage time of alice@example.org cannot be 1e+11: it must be less than or equal to "
         "1e+10"),
        ("factor", float("inf"), "the priority factor of alice@example.org cannot be inf: use a finite number"),
        ("priority", float("nan"), "the priority of alice@example.org cannot be nan: use a finite number"),
        ("colour", 3, "'colour' cannot be set for a submitter; use one of priority, factor, floor, ceiling, "
         "usage, begin, last"),
    ],
)  # fmt: skip
def test_what_cannot_be_set_is_refused_with_the_rule(name: str, value: float, words: str) -> None:
    pool = Administered()
    before = len(pool.events())
    assert pool.set(name, value).refusal == words
    assert len(pool.events()) == before


@together("who", ["alice", "alice@", "@example.org", "a b@example.org", "", "a\n@example.org", "<none>"])
def test_a_submitter_is_named_in_full(who: str) -> None:
    pool = Administered()
    way_out = "use the full name, user@domain, as `poolbook userprio -allusers` shows it"
    words = f"{who!r} is not a submitter's name: {way_out}"
    assert pool.set("factor", 5, who=who).refusal == words
    assert pool.handle(s.ResetUsage(pool.id(), "root", (who,))).refusal == words
    assert pool.handle(s.DeleteSubmitter(pool.id(), "root", who)).refusal == words


@pytest.mark.parametrize("who", ["nosuch@x", "group_physics.einstein@dom", "joe@elsewhere@dom", "nice-user.alice@dom"])
def test_what_is_set_of_somebody_whom_nobody_knows_makes_a_record(who: str) -> None:
    pool = Administered()
    assert not pool.set("factor", 3, who=who).refusal
    assert pool.has("factor", who) == 3
    assert pool.state.submitters[who].priority == 0.5


COMMANDS_OF: dict[str, Callable[[str], s.Command]] = {
    "set the factor of alice@example.org": lambda user: s.SetSubmitter("x", user, ALICE, "factor", 5.0),
    "set the ceiling of alice@example.org": lambda user: s.SetSubmitter("x", user, ALICE, "ceiling", cancel=True),
    "reset the usage of alice@example.org": lambda user: s.ResetUsage("x", user, (ALICE,)),
    "reset the usage of all submitters": lambda user: s.ResetUsage("x", user),
    "delete alice@example.org": lambda user: s.DeleteSubmitter("x", user, ALICE),
}


@pytest.mark.parametrize("what", COMMANDS_OF)
@pytest.mark.parametrize("user", ["alice", "bob", ""])
def test_only_the_pools_owner_may(what: str, user: str) -> None:
    pool = Administered()
    before = len(pool.events())
    refusal = pool.handle(COMMANDS_OF[what](user)).refusal
    assert refusal == f"permission denied to {what}: only the pool's owner may do that (condor, root)"
    assert len(pool.events()) == before


def test_who_the_pools_owner_is_the_settings_say() -> None:
    pool = Administered(QUEUE_SUPER_USERS="alice")
    assert not pool.set("factor", 5, user="alice").refusal
    assert "only the pool's owner may do that (alice)" in pool.set("factor", 5).refusal


# Leases


@pytest.mark.parametrize(("name", "before", "lent"), [("factor", 100, 7), ("floor", 0, 20), ("ceiling", 10, 42)])
def test_what_is_lent_comes_back_by_itself(name: str, before: float, lent: float) -> None:
    pool = Administered()
    pool.set(name, before)
    answer = pool.set(name, lent, duration=3600)
    assert answer.value["until"] == pool.engine.now() + 3600 * SECOND
    assert pool.has(name) == lent
    pool.advance(3599)
    assert pool.has(name) == lent
    events = len(pool.events())
    pool.advance(1)
    assert pool.has(name) == before
    assert not any(isinstance(event, e.SubmitterEvent) for event in pool.events()[events:])
    assert not pool.set(name, lent, duration=60).refusal
    assert pool.has(name) == lent
    assert examine(pool.log.read()).sound


@pytest.mark.parametrize(("name", "before", "lent"), [("factor", 100, 7), ("floor", 0, 20), ("ceiling", 10, 42)])
def test_a_lease_can_be_called_off_once(name: str, before: float, lent: float) -> None:
    pool = Administered()
    pool.set(name, before)
    pool.set(name, lent, duration=3600)
    pool.advance(10)
    assert not pool.set(name, cancel=True).refusal
    assert pool.has(name) == before
    lease = {"factor": "priority-factor lease", "floor": "floor lease", "ceiling": "ceiling lease"}[name]
    assert pool.set(name, cancel=True).refusal == (
        f"no {lease} in effect for {ALICE}: there is nothing to cancel; `poolbook userprio "
        f"{GRANTS[name].option} {ALICE} <value>` sets it permanently"
    )
    assert examine(pool.log.read()).sound


def test_one_lease_runs_at_a_time() -> None:
    pool = Administered()
    pool.set("factor", 7, duration=3600)
    until = pool.engine.now() // SECOND + 3600
    assert pool.set("factor", 8, duration=60).refusal == (
        f"priority-factor lease for {ALICE} is already in effect (expires at {until}): `poolbook userprio "
        f"-cancelfactorlease {ALICE}` cancels it"
    )
    assert pool.has("factor") == 7
    assert not pool.set("ceiling", 8, duration=60).refusal


def test_what_is_set_while_a_lease_runs_holds_until_the_lease_is_over() -> None:
    """As in HTCondor 25.14: setfactor 9 under a lease of 7 shows 9, and after it what was before the lease."""
    pool = Administered()
    pool.set("factor", 100)
    until = pool.set("factor", 7, duration=3600).value["until"]
    pool.advance(60)
    assert pool.set("factor", 9).value["until"] == until
    assert pool.has("factor") == 9
    pool.advance(3600)
    assert pool.has("factor") == 100
    assert examine(pool.log.read()).sound


@pytest.mark.parametrize("name", ["priority", "usage", "begin", "last"])
@pytest.mark.parametrize("how", [{"duration": 60}, {"cancel": True}])
def test_only_factor_floor_and_ceiling_can_be_lent(name: str, how: dict[str, Any]) -> None:
    assert Administered().set(name, 5, **how).refusal == (
        f"the {GRANTS[name].words} cannot be leased (only priority factor, floor, ceiling can): set it without a "
        "duration"
    )


@pytest.mark.parametrize("duration", [-5, 10**10 + 1])
def test_a_lease_lasts_for_some_time(duration: int) -> None:
    assert Administered().set("factor", 5, duration=duration).refusal == (
        f"a lease of {duration} s is not valid; use a whole number from 1 to 10,000,000,000 seconds"
    )


# Reset and delete


def test_all_usages_are_reset_or_those_that_are_named() -> None:
    pool = Administered()
    pool.submit(user="bob")
    answer = pool.handle(s.ResetUsage(pool.id(), "root"))
    assert answer.value == {"submitters": [ALICE, "bob@example.org"]}
    answer = pool.handle(s.ResetUsage(pool.id(), "root", ("bob@example.org", "new@x", "bob@example.org")))
    assert answer.value == {"submitters": ["bob@example.org", "new@x"]}
    resets = [event.submitters for event in pool.events() if isinstance(event, e.SubmittersReset)]
    assert resets == [(ALICE, "bob@example.org"), ("bob@example.org", "new@x")]
    assert examine(pool.log.read()).sound


def test_where_there_is_nobody_nothing_is_reset() -> None:
    pool = TestPool()
    assert pool.handle(s.ResetUsage(pool.id(), "root")).value == {"submitters": []}
    assert not [event for event in pool.events() if isinstance(event, e.SubmittersReset)]


def test_who_is_deleted_is_gone_and_may_be_deleted_again() -> None:
    pool, bob = Administered(), "bob@example.org"
    pool.set("factor", 5, who=bob)
    for known in (True, False):
        answer = pool.handle(s.DeleteSubmitter(pool.id(), "root", bob))
        assert answer.value == {"submitter": bob, "known": known}
        assert bob not in pool.state.submitters
    pool.submit(user="bob")
    assert pool.has("factor", bob) == 1000
    assert examine(pool.log.read()).sound


# Around


def test_an_act_that_is_asked_for_twice_under_one_id_is_done_once() -> None:
    pool = Administered()
    once = s.SetSubmitter("same", "root", ALICE, "factor", 5.0)
    answers = [pool.handle(once), pool.handle(once)]
    assert answers[0] == answers[1]
    assert sum(isinstance(event, e.SubmitterSet) for event in pool.events()) == 1


def test_a_log_read_again_gives_the_same_accounts() -> None:
    pool = Administered()
    pool.advance(5)
    pool.set("factor", 9, duration=60)
    pool.set("usage", 1234.5)
    pool.handle(s.ResetUsage(pool.id(), "root"))
    pool.handle(s.DeleteSubmitter(pool.id(), "root", ALICE))
    pool.advance(60)
    assert fold(pool.log.read()).submitters == pool.state.submitters


@pytest.mark.parametrize(
    ("request_", "means"),
    [
        (
            {"kind": "SetSubmitter", "submitter": ALICE, "name": "factor", "value": 5, "duration": 60},
            s.SetSubmitter("x", "root", ALICE, "factor", 5, 60),
        ),
        (
            {"kind": "SetSubmitter", "submitter": ALICE, "name": "floor", "cancel": True},
            s.SetSubmitter("x", "root", ALICE, "floor", cancel=True),
        ),
        ({"kind": "ResetUsage"}, s.ResetUsage("x", "root")),
        ({"kind": "ResetUsage", "submitters": [ALICE]}, s.ResetUsage("x", "root", (ALICE,))),
        ({"kind": "DeleteSubmitter", "submitter": ALICE}, s.DeleteSubmitter("x", "root", ALICE)),
    ],
)
def test_they_can_be_asked_for_over_the_wire(request_: dict[str, object], means: s.Command) -> None:
    assert command_of({**request_, "id": "x", "user": "root"}) == means
    assert request_["kind"] in COMMANDS


def test_a_log_tells_of_them_line_by_line() -> None:
    pool = Administered()
    pool.set("factor", 9, duration=60)
    pool.set("factor", cancel=True)
    pool.set("ceiling", 4)
    pool.handle(s.ResetUsage(pool.id(), "root"))
    pool.handle(s.DeleteSubmitter(pool.id(), "root", ALICE))
    kinds = (e.SubmitterSet, e.SubmittersReset, e.SubmitterDeleted)
    told = [
        (member.thing, member.what, member.details)
        for position, event in pool.log.read()
        if isinstance(event, kinds)
        for member in members(position, event)
    ]
    until = next(line(member).split("until ")[1][:19] for position, event in pool.log.read()
                 if isinstance(event, e.SubmitterSet) for member in members(position, event))  # fmt: skip
    assert told == [
        (ALICE, "lent", f"factor 9 until {until} UTC, by root"),
        (ALICE, "lease ended", "factor, by root"),
        (ALICE, "set", "ceiling 4, by root"),
        ("accountant", "reset", "the usage of alice@example.org, by root"),
        (ALICE, "deleted", "by root"),
    ]


# What a submitter begins with


@pytest.mark.parametrize(
    ("who", "setting", "before", "later"),
    [
        ("alice@here", "DEFAULT_PRIO_FACTOR", 1000, 500),
        ("nice-user.alice@here", "NICE_USER_PRIO_FACTOR", 1e10, 500),
        ("physics.alice@here", "GROUP_PRIO_FACTOR_physics", 30, 500),
        ("alice@elsewhere", "REMOTE_PRIO_FACTOR", 1e7, 500),
    ],
)
def test_a_submitter_keeps_the_factor_that_it_began_with_until_its_record_is_deleted(
    who: str, setting: str, before: float, later: float
) -> None:
    """ "The default initial priority factor for all new users as they first submit jobs"; the real accountant writes it
    down."""
    books = Books(ACCOUNTANT_LOCAL_DOMAIN="here", GROUP_NAMES="physics", GROUP_PRIO_FACTOR_physics="30")

    def has() -> float:
        return factor(books.state.submitters[who], terms(books.state.settings), BEGAN)

    books.tell(0, e.ClusterSubmitted, "submitted", 1, who, {}, 1, (), "Idle")
    assert has() == before
    books.tell(1, e.PoolConfigured, "reconfigured", {setting: str(later)})
    assert has() == before
    books.tell(2, e.SubmitterDeleted, "granted", who, "root")
    books.tell(3, e.ClusterSubmitted, "submitted", 2, who, {}, 1, (), "Idle")
    assert has() == later


def test_the_log_tells_the_factor_of_a_new_submitter_once() -> None:
    pool = Administered(GROUP_NAMES="physics", GROUP_PRIO_FACTOR_physics="30")
    pool.handle(s.RequestClaim("claim", "slot2@h", "c", "elsewhere", "dora@x", "7.0", {}))
    pool.submit()
    pool.set("floor", 2, who="physics.bob@example.org")
    pool.set("floor", 3, who="physics.bob@example.org")
    pool.handle(s.ResetUsage("reset", "root", (ALICE, "nice-user.carol@example.org")))
    pool.handle(s.DeleteSubmitter("delete", "root", "dora@x"))
    kinds = e.ClusterSubmitted | e.ClaimMade | e.SubmitterSet | e.SubmitterDeleted
    assert [(type(event).__name__, event.factor) for event in pool.events() if isinstance(event, kinds)] == [
        ("ClusterSubmitted", 1000.0),
        ("ClaimMade", 0.0),
        ("ClaimMade", 1000.0),
        ("ClusterSubmitted", 0.0),
        ("SubmitterSet", 30.0),
        ("SubmitterSet", 0.0),
        ("SubmitterDeleted", 1000.0),
    ]
    (reset,) = (event for event in pool.events() if isinstance(event, e.SubmittersReset))
    assert reset.factors == {"nice-user.carol@example.org": 1e10}
    assert all(one.appeared_under is None for one in pool.state.submitters.values())
    assert examine(pool.log.read()).violations == []

"""Table: what administrators can set, lease, reset and delete of submitters, and the messages of all rejections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poolbook.adapters.runtime.command_codec import COMMANDS, command_of
from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.domain import events as e
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.accounting import accountant_settings, ceiling, floor, priority_factor
from poolbook.domain.negotiator.submitter_commands import SUBMITTER_VALUES
from poolbook.domain.ports import stimuli as s
from poolbook.domain.units import SECOND
from poolbook.replay.listing.members import line, members
from poolbook.replay.validation import examine

from ..domain.pools import TestPool
from ..together import together
from .accounts import BEGAN, Accounts

ALICE = "alice@example.org"


class AdministeredPool(TestPool):
    """A pool with the user alice and the administrator root."""

    __test__ = False

    def __init__(self, **settings: str) -> None:
        super().__init__(settings=settings)
        self.machine(static=2)
        self.submit()

    def set(
        self,
        name: str,
        value: float = 0.0,
        duration: int = 0,
        cancel: bool = False,
        user: str = "root",
        submitter: str = ALICE,
    ) -> StimulusResult:
        return self.handle(s.SetSubmitter(self.id(), user, submitter, name, value, duration, cancel))

    def current(self, name: str, submitter: str = ALICE) -> float:
        """Return the factor, floor or ceiling that is in effect now."""
        record, now = self.state.submitters[submitter], self.engine.now()
        rules = accountant_settings(self.state.settings)
        return {
            "factor": priority_factor(record, rules, now),
            "floor": floor(record, now),
            "ceiling": ceiling(record, now),
        }[name]


def test_each_name_in_an_event_can_be_set() -> None:
    assert list(SUBMITTER_VALUES) == list(e.SET)


@together(
    ("name", "value", "expected"),
    [
        ("priority", 12.5, 12.5),
        ("priority", 0.1, 0.5),  # as with condor_userprio -setprio: 0.5 is the best priority
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
def test_a_value_that_is_set_is_logged_with_its_user(name: str, value: float, expected: float) -> None:
    pool = AdministeredPool()
    answer = pool.set(name, value)
    assert answer.value == {"submitter": ALICE, "name": name, "value": expected, "until": 0}
    event = pool.events()[-2]
    assert event == e.SubmitterSet(event.at, "granted", event.stimulus, ALICE, "root", name, expected)
    alice = pool.state.submitters[ALICE]
    usage, begin, last = alice.usage_until(event.at) / 1e9, alice.first_used / SECOND, alice.last_used / SECOND
    assert {"usage": usage, "begin": begin, "last": last}.get(name, getattr(alice, name, None)) == expected
    assert examine(pool.log.read()).sound


@together(
    ("name", "value", "message"),
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
def test_an_invalid_value_is_rejected_with_the_rule(name: str, value: float, message: str) -> None:
    pool = AdministeredPool()
    before = len(pool.events())
    assert pool.set(name, value).refusal == message
    assert len(pool.events()) == before


@together("name", ["alice", "alice@", "@example.org", "a b@example.org", "", "a\n@example.org", "<none>"])
def test_a_submitter_needs_its_full_name(name: str) -> None:
    pool = AdministeredPool()
    fix = "use the form user@domain; `poolbook userprio -allusers` lists the submitters"
    message = f"{name!r} is not a submitter's name: {fix}"
    assert pool.set("factor", 5, submitter=name).refusal == message
    assert pool.handle(s.ResetUsage(pool.id(), "root", (name,))).refusal == message
    assert pool.handle(s.DeleteSubmitter(pool.id(), "root", name)).refusal == message


@pytest.mark.parametrize("name", ["nosuch@x", "group_physics.einstein@dom", "joe@elsewhere@dom", "nice-user.alice@dom"])
def test_setting_a_value_of_an_unknown_submitter_creates_its_record(name: str) -> None:
    pool = AdministeredPool()
    assert not pool.set("factor", 3, submitter=name).refusal
    assert pool.current("factor", name) == 3
    assert pool.state.submitters[name].priority == 0.5


COMMANDS_OF: dict[str, Callable[[str], s.Command]] = {
    "set the factor of alice@example.org": lambda user: s.SetSubmitter("x", user, ALICE, "factor", 5.0),
    "set the ceiling of alice@example.org": lambda user: s.SetSubmitter("x", user, ALICE, "ceiling", cancel=True),
    "reset the usage of alice@example.org": lambda user: s.ResetUsage("x", user, (ALICE,)),
    "reset the usage of all submitters": lambda user: s.ResetUsage("x", user),
    "delete alice@example.org": lambda user: s.DeleteSubmitter("x", user, ALICE),
}


@pytest.mark.parametrize("action", COMMANDS_OF)
@pytest.mark.parametrize("user", ["alice", "bob", ""])
def test_only_the_pool_s_owner_may_change_submitters(action: str, user: str) -> None:
    pool = AdministeredPool()
    before = len(pool.events())
    refusal = pool.handle(COMMANDS_OF[action](user)).refusal
    assert refusal == f"permission denied to {action}: only the pool's owner may do that (condor, root)"
    assert len(pool.events()) == before


def test_the_settings_determine_the_pool_s_owner() -> None:
    pool = AdministeredPool(QUEUE_SUPER_USERS="alice")
    assert not pool.set("factor", 5, user="alice").refusal
    assert "only the pool's owner may do that (alice)" in pool.set("factor", 5).refusal


# Leases


@pytest.mark.parametrize(("name", "before", "leased"), [("factor", 100, 7), ("floor", 0, 20), ("ceiling", 10, 42)])
def test_a_lease_expires(name: str, before: float, leased: float) -> None:
    pool = AdministeredPool()
    pool.set(name, before)
    answer = pool.set(name, leased, duration=3600)
    assert answer.value["until"] == pool.engine.now() + 3600 * SECOND
    assert pool.current(name) == leased
    pool.advance(3599)
    assert pool.current(name) == leased
    events = len(pool.events())
    pool.advance(1)
    assert pool.current(name) == before
    assert not any(isinstance(event, e.SubmitterEvent) for event in pool.events()[events:])
    assert not pool.set(name, leased, duration=60).refusal
    assert pool.current(name) == leased
    assert examine(pool.log.read()).sound


@pytest.mark.parametrize(("name", "before", "leased"), [("factor", 100, 7), ("floor", 0, 20), ("ceiling", 10, 42)])
def test_a_lease_can_be_cancelled_once(name: str, before: float, leased: float) -> None:
    pool = AdministeredPool()
    pool.set(name, before)
    pool.set(name, leased, duration=3600)
    pool.advance(10)
    assert not pool.set(name, cancel=True).refusal
    assert pool.current(name) == before
    lease = {"factor": "priority-factor lease", "floor": "floor lease", "ceiling": "ceiling lease"}[name]
    assert pool.set(name, cancel=True).refusal == (
        f"no {lease} in effect for {ALICE}: there is nothing to cancel; `poolbook userprio "
        f"{SUBMITTER_VALUES[name].option} {ALICE} <value>` sets it permanently"
    )
    assert examine(pool.log.read()).sound


def test_only_one_lease_of_a_value_can_be_in_effect() -> None:
    pool = AdministeredPool()
    pool.set("factor", 7, duration=3600)
    until = pool.engine.now() // SECOND + 3600
    assert pool.set("factor", 8, duration=60).refusal == (
        f"priority-factor lease for {ALICE} is already in effect (expires at {until}): `poolbook userprio "
        f"-cancelfactorlease {ALICE}` cancels it"
    )
    assert pool.current("factor") == 7
    assert not pool.set("ceiling", 8, duration=60).refusal


def test_a_value_set_during_a_lease_applies_until_the_lease_expires() -> None:
    """As in HTCondor 25.14: -setfactor 9 during a lease of 7 gives 9, and afterwards the value before the lease."""
    pool = AdministeredPool()
    pool.set("factor", 100)
    until = pool.set("factor", 7, duration=3600).value["until"]
    pool.advance(60)
    assert pool.set("factor", 9).value["until"] == until
    assert pool.current("factor") == 9
    pool.advance(3600)
    assert pool.current("factor") == 100
    assert examine(pool.log.read()).sound


@pytest.mark.parametrize("name", ["priority", "usage", "begin", "last"])
@pytest.mark.parametrize("options", [{"duration": 60}, {"cancel": True}])
def test_only_factor_floor_and_ceiling_can_be_leased(name: str, options: dict[str, Any]) -> None:
    assert AdministeredPool().set(name, 5, **options).refusal == (
        f"the {SUBMITTER_VALUES[name].words} cannot be leased (only priority factor, floor, ceiling can); "
        "set it without a duration"
    )


@pytest.mark.parametrize("duration", [-5, 10**10 + 1])
def test_the_duration_of_a_lease_must_be_positive_and_limited(duration: int) -> None:
    assert AdministeredPool().set("factor", 5, duration=duration).refusal == (
        f"a lease of {duration} s is not valid; use a whole number from 1 to 10,000,000,000 seconds"
    )


# Reset and delete


def test_the_usage_of_all_or_of_named_submitters_is_reset() -> None:
    pool = AdministeredPool()
    pool.submit(user="bob")
    answer = pool.handle(s.ResetUsage(pool.id(), "root"))
    assert answer.value == {"submitters": [ALICE, "bob@example.org"]}
    answer = pool.handle(s.ResetUsage(pool.id(), "root", ("bob@example.org", "new@x", "bob@example.org")))
    assert answer.value == {"submitters": ["bob@example.org", "new@x"]}
    resets = [event.submitters for event in pool.events() if isinstance(event, e.SubmittersReset)]
    assert resets == [(ALICE, "bob@example.org"), ("bob@example.org", "new@x")]
    assert examine(pool.log.read()).sound


def test_a_reset_without_submitters_logs_nothing() -> None:
    pool = TestPool()
    assert pool.handle(s.ResetUsage(pool.id(), "root")).value == {"submitters": []}
    assert not [event for event in pool.events() if isinstance(event, e.SubmittersReset)]


def test_a_deleted_submitter_is_unknown_and_may_be_deleted_again() -> None:
    pool, bob = AdministeredPool(), "bob@example.org"
    pool.set("factor", 5, submitter=bob)
    for known in (True, False):
        answer = pool.handle(s.DeleteSubmitter(pool.id(), "root", bob))
        assert answer.value == {"submitter": bob, "known": known}
        assert bob not in pool.state.submitters
    pool.submit(user="bob")
    assert pool.current("factor", bob) == 1000
    assert examine(pool.log.read()).sound


# Requests, the log, the socket


def test_a_repeated_request_with_the_same_id_is_executed_once() -> None:
    pool = AdministeredPool()
    request = s.SetSubmitter("same", "root", ALICE, "factor", 5.0)
    answers = [pool.handle(request), pool.handle(request)]
    assert answers[0] == answers[1]
    assert sum(isinstance(event, e.SubmitterSet) for event in pool.events()) == 1


def test_folding_the_log_gives_the_same_accounts() -> None:
    pool = AdministeredPool()
    pool.advance(5)
    pool.set("factor", 9, duration=60)
    pool.set("usage", 1234.5)
    pool.handle(s.ResetUsage(pool.id(), "root"))
    pool.handle(s.DeleteSubmitter(pool.id(), "root", ALICE))
    pool.advance(60)
    assert fold(pool.log.read()).submitters == pool.state.submitters


@pytest.mark.parametrize(
    ("fields", "command"),
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
def test_a_request_on_the_socket_is_decoded_as_a_command(fields: dict[str, object], command: s.Command) -> None:
    assert command_of({**fields, "id": "x", "user": "root"}) == command
    assert fields["kind"] in COMMANDS


def test_the_log_has_a_line_for_each_command() -> None:
    pool = AdministeredPool()
    pool.set("factor", 9, duration=60)
    pool.set("factor", cancel=True)
    pool.set("ceiling", 4)
    pool.handle(s.ResetUsage(pool.id(), "root"))
    pool.handle(s.DeleteSubmitter(pool.id(), "root", ALICE))
    kinds = (e.SubmitterSet, e.SubmittersReset, e.SubmitterDeleted)
    lines = [
        (member.thing, member.what, member.details)
        for position, event in pool.log.read()
        if isinstance(event, kinds)
        for member in members(position, event)
    ]
    until = next(line(member).split("until ")[1][:19] for position, event in pool.log.read()
                 if isinstance(event, e.SubmitterSet) for member in members(position, event))  # fmt: skip
    assert lines == [
        (ALICE, "lent", f"factor 9 until {until} UTC, by root"),
        (ALICE, "lease ended", "factor, by root"),
        (ALICE, "set", "ceiling 4, by root"),
        ("accountant", "reset", "the usage of alice@example.org, by root"),
        (ALICE, "deleted", "by root"),
    ]


# The initial factor


@pytest.mark.parametrize(
    ("name", "setting", "before", "later"),
    [
        ("alice@here", "DEFAULT_PRIO_FACTOR", 1000, 500),
        ("nice-user.alice@here", "NICE_USER_PRIO_FACTOR", 1e10, 500),
        ("physics.alice@here", "GROUP_PRIO_FACTOR_physics", 30, 500),
        ("alice@elsewhere", "REMOTE_PRIO_FACTOR", 1e7, 500),
    ],
)
def test_a_submitter_keeps_its_initial_factor_until_its_record_is_deleted(
    name: str, setting: str, before: float, later: float
) -> None:
    """ "The default initial priority factor for all new users as they first submit jobs"; HTCondor's accountant stores
    it."""
    accounts = Accounts(ACCOUNTANT_LOCAL_DOMAIN="here", GROUP_NAMES="physics", GROUP_PRIO_FACTOR_physics="30")

    def current_factor() -> float:
        return priority_factor(accounts.state.submitters[name], accountant_settings(accounts.state.settings), BEGAN)

    accounts.record(0, e.ClusterSubmitted, "submitted", 1, name, {}, 1, (), "Idle")
    assert current_factor() == before
    accounts.record(1, e.PoolConfigured, "reconfigured", {setting: str(later)})
    assert current_factor() == before
    accounts.record(2, e.SubmitterDeleted, "granted", name, "root")
    accounts.record(3, e.ClusterSubmitted, "submitted", 2, name, {}, 1, (), "Idle")
    assert current_factor() == later


def test_the_log_has_the_factor_of_a_new_submitter_once() -> None:
    pool = AdministeredPool(GROUP_NAMES="physics", GROUP_PRIO_FACTOR_physics="30")
    pool.handle(s.RequestClaim("claim", "slot2@h", "c", "elsewhere", "dora@x", "7.0", {}))
    pool.submit()
    pool.set("floor", 2, submitter="physics.bob@example.org")
    pool.set("floor", 3, submitter="physics.bob@example.org")
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
    assert all(submitter.appeared_under is None for submitter in pool.state.submitters.values())
    assert examine(pool.log.read()).violations == []

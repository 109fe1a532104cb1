"""Table: for whom jobs count, and that they are their users' all the same."""

from __future__ import annotations

from itertools import takewhile

import pytest
from msgspec.structs import replace

from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd, Context
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.sensor_readings import no_readings
from poolbook.domain.startd.evaluation import PolicyEvaluation
from poolbook.domain.startd.slot_ad import snapshot_ad
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.proc_ads import pack
from poolbook.projections.views import Views
from poolbook.replay.validation import examine

from ..domain.pools import JOB, TestPool, selection
from ..projections.pools import dump, folded
from ..together import together

USER = "alice@example.org"


def _submit(pool: TestPool, attributes: dict[str, str]) -> StimulusResult:
    return pool.handle(s.Submit(pool.id(), "alice", 0, JOB | attributes, 1, ()))


@together(
    ("attributes", "submitter"),
    [
        # what HTCondor 25.14 made of each, seen with condor_status -submitters
        ({}, "alice@example.org"),
        ({"AccountingGroup": '"ishmael"'}, "ishmael@example.org"),
        ({"AccountingGroup": '"group_physics.alice"'}, "group_physics.alice@example.org"),
        ({"AccountingGroup": '"group.b.c.alice"'}, "group.b.c.alice@example.org"),
        ({"AccountingGroup": '"nice-user.alice"'}, "nice-user.alice@example.org"),
        ({"AccountingGroup": '"joe@elsewhere"'}, "joe@elsewhere@example.org"),
        ({"AccountingGroup": '"group_a.joe@elsewhere"'}, "group_a.joe@elsewhere@example.org"),
        ({"AccountingGroup": '"raw.text"'}, "raw.text@example.org"),
        ({"AccountingGroup": "17"}, "alice@example.org"),
        ({"AccountingGroup": '""'}, "alice@example.org"),
        ({"AccountingGroup": "undefined"}, "alice@example.org"),
        ({"AccountingGroup": 'strcat("a", "b")'}, "ab@example.org"),
        ({"NiceUser": "true"}, "alice@example.org"),
        ({"AcctGroup": '"group_a"', "AcctGroupUser": '"joe"'}, "alice@example.org"),
        # and what follows from that
        ({"accountinggroup": '"ishmael"'}, "ishmael@example.org"),
        ({"AccountingGroup": 'strcat("of.", Owner)', "Owner": '"mallory"'}, "of.alice@example.org"),
        ({"AccountingGroup": '"say \\"x\\""'.replace(" ", "-")}, 'say-"x"@example.org'),
    ],
)
def test_whom_a_job_counts_for(attributes: dict[str, str], submitter: str) -> None:
    pool = TestPool()
    assert not _submit(pool, attributes).refusal
    (event,) = [event for event in pool.events() if isinstance(event, e.ClusterSubmitted)]
    assert event.submitter == submitter
    assert (event.ad["Owner"], event.ad["User"]) == ('"alice"', '"alice@example.org"')
    assert list(pool.state.submitters) == [submitter]
    assert examine(pool.log.read()).sound


@pytest.mark.parametrize("name", ["with blank", "with\\ttab", "with\\nline"])
def test_a_name_in_accounting_holds_no_blanks(name: str) -> None:
    pool = TestPool()
    refusal = pool.submit(AccountingGroup=f'"{name}"').refusal
    assert refusal == f'AccountingGroup = "{name}": a name in accounting holds no blanks and can be printed'
    assert not pool.state.clusters


def _columns(pool: TestPool, columns: dict[str, list[str]], **attributes: str) -> str:
    count = len(next(iter(columns.values())))
    return pool.handle(s.Submit(pool.id(), "alice", 0, JOB | attributes, count, pack(columns))).refusal


@pytest.mark.parametrize(
    ("columns", "attributes", "submitter"),
    [
        ({"Args": ['"1"', '"2"']}, {"AccountingGroup": '"ishmael"'}, "ishmael@example.org"),
        ({"AccountingGroup": ['"ishmael"', '"ishmael"']}, {}, "ishmael@example.org"),
        ({"AccountingGroup": ['"ab"', 'strcat("a", "b")']}, {}, "ab@example.org"),
        ({"AccountingGroup": ["undefined", "17"]}, {}, "alice@example.org"),
        ({"AcctGroup": ['"a"', '"b"']}, {}, "alice@example.org"),
    ],
)
def test_jobs_of_one_submission_count_for_one_submitter(
    columns: dict[str, list[str]], attributes: dict[str, str], submitter: str
) -> None:
    pool = TestPool()
    assert not _columns(pool, columns, **attributes)
    assert pool.state.clusters[1].submitter == submitter


@pytest.mark.parametrize(
    ("columns", "attributes", "words"),
    [
        ({"AccountingGroup": ['"v0"', '"v1"', '"v2"']}, {}, "the jobs of one submission count for one submitter, but "
         "AccountingGroup differs between them (v0@example.org, v1@example.org): submit them separately"),
        ({"AccountingGroup": ['"v0"', "undefined"]}, {}, "the jobs of one submission count for one submitter, but "
         "AccountingGroup differs between them (v0@example.org, alice@example.org): submit them separately"),
        ({"Team": ['"a"', '"b"']}, {"AccountingGroup": 'strcat("group_", team)'}, 'AccountingGroup = '
         'strcat("group_", team): it reads Team, which differs between the jobs, but all of them count for one '
         "submitter: submit them separately"),
    ],
)  # fmt: skip
def test_a_submission_for_several_submitters_is_refused(
    columns: dict[str, list[str]], attributes: dict[str, str], words: str
) -> None:
    pool = TestPool()
    assert _columns(pool, columns, **attributes) == words
    assert not pool.state.clusters


@pytest.mark.parametrize("name", ["AccountingGroup", "accountinggroup"])
def test_for_whom_a_job_counts_cannot_be_edited(name: str) -> None:
    pool = TestPool()
    pool.submit(AccountingGroup='"ishmael"')
    edit = s.Edit(pool.id(), "alice", selection("1"), {name: '"bob"'})
    assert pool.handle(edit).refusal == (
        f"{name} cannot be changed: it says for whom the jobs count from the start; remove them and submit them again"
    )
    assert not pool.edit("1", AcctGroup='"bob"').refusal  # which says nothing of it


# Whose they are


def _running(**attributes: str) -> TestPool:
    """A pool in which a job of alice's, which counts for ishmael, runs on the only slot."""
    pool = TestPool()
    pool.machine(static=1)
    _submit(pool, {"AccountingGroup": '"ishmael"', **attributes})
    pool.advance(1)
    assert pool.status("1.0") == "Running"
    return pool


def test_the_claim_counts_for_the_submitter() -> None:
    pool = _running()
    (made,) = [event for event in pool.events() if isinstance(event, e.ClaimMade)]
    assert made.submitter == "ishmael@example.org"
    assert {name: one.slots for name, one in pool.state.submitters.items()} == {"ishmael@example.org": 1}
    assert fold(pool.log.read()).slots == pool.state.slots


@pytest.mark.parametrize(("user", "allowed"), [("alice", True), ("ishmael", False), ("bob", False), ("root", True)])
def test_what_runs_is_its_users_business_and_not_that_of_whom_it_counts_for(user: str, allowed: bool) -> None:
    assert bool(_running().vacate_slot("slot1@h", user).refusal) != allowed
    (outcome,) = _running().act("hold", "1", user=user).value
    assert outcome["result"] == ("done" if allowed else "permission denied")
    (outcome,) = _running().edit("1", user=user, Foo="1").value
    assert outcome["result"] == ("done" if allowed else "permission denied")


@pytest.mark.parametrize(("owner", "finds"), [("alice", True), ("ishmael", False)])
def test_jobs_are_selected_by_their_users(owner: str, finds: bool) -> None:
    assert bool(_running().act("hold", owner, user="root").value) == finds


SAID = {"RemoteOwner": USER, "RemoteUser": USER, "AccountingGroup": "ishmael@example.org"}


def test_a_slots_ad_says_whose_its_job_is_and_for_whom_it_counts() -> None:
    pool = _running()
    slot = pool.state.slots["slot1@h"]
    found = snapshot_ad(
        PolicyEvaluation(pool.state, slot, no_readings, pool.engine.now(), _context(pool), Caches()).snapshot(),
        whole=True,
    )
    assert {name: found.eval(name) for name in SAID} == SAID
    assert {name: _shown(pool).eval(name) for name in SAID} == SAID


def test_a_policy_knows_the_user_already_when_the_claim_begins() -> None:
    """Between the claim and its first job, the claim is for the job that the slot was matched with."""
    pool = _running()
    state = fold(takewhile(lambda told: not isinstance(told[1], e.JobActivated), pool.log.read()))
    assert state.slots["slot1@h"].activation is None
    assert state.slots["slot1@h"].user == USER


def test_a_claim_that_goes_on_for_another_users_job_says_so() -> None:
    """Both count for ishmael, so the claim is theirs one after the other, as in the reference."""
    pool = _running()
    pool.submit(user="bob", AccountingGroup='"ishmael"')
    pool.advance(31)
    assert pool.status("2.0") == "Running"
    assert sum(isinstance(event, e.ClaimMade) for event in pool.events()) == 1
    assert _shown(pool).eval("RemoteUser") == "bob@example.org"
    assert pool.state.slots["slot1@h"].user == "bob@example.org"
    assert not pool.vacate_slot("slot1@h", "bob").refusal


@pytest.mark.parametrize("holder", ["", "elsewhere"])
def test_a_slots_ad_says_whose_job_waits_for_it_and_for_whom_that_counts(holder: str) -> None:
    pool = _running()
    pool.submit(user="bob", AccountingGroup='"queequeg"')
    ad = {"User": '"bob@example.org"'} if holder else {}
    waits = e.ClaimQueued(
        pool.engine.now(), "better_match", "x", "slot1@h", "c", "queequeg@example.org", 3.0, holder, "2.0", ad
    )
    state = fold([*pool.log.read(), (pool.state.position + 1, waits)])
    said = {
        "PreemptingOwner": "bob@example.org",
        "PreemptingUser": "bob@example.org",
        "PreemptingAccountingGroup": "queequeg@example.org",
        **SAID,
    }
    found = snapshot_ad(
        PolicyEvaluation(state, state.slots["slot1@h"], no_readings, state.at, _context(pool), Caches()).snapshot(),
        whole=True,
    )
    assert {name: found.eval(name) for name in said} == said
    (shown,) = Views(folded([*pool.log.read(), (state.position, waits)])).slot_ads(state.at // 1_000_000)
    assert {name: shown.eval(name) for name in said} == said


def test_who_counts_for_himself_has_no_accounting_group() -> None:
    assert "AccountingGroup" not in _shown(_running(AccountingGroup="undefined"))


def test_the_views_say_so_however_the_events_come_to_them() -> None:
    pool = _running()
    pool.submit(user="bob", AccountingGroup='"ishmael"')
    pool.submit(user="carol")
    pool.advance(70)
    events = list(pool.log.read())
    waits = e.ClaimQueued(
        pool.engine.now(), "better_match", "x", "slot1@h", "c", "carol@example.org", 1.0, "", "2.0", {}
    )
    events.append((len(events) + 1, waits))
    assert dump(folded(events)) == dump(folded(events, [1] * len(events)))


def test_the_usage_of_users_is_that_of_those_whose_jobs_they_were() -> None:
    pool = _running()
    pool.advance(60)
    assert [row.name for row in _views(pool).spent("user")] == [USER]


def test_two_users_who_count_for_one_wait_in_one_line() -> None:
    """ "If Alice submits 100 jobs as accounting_group_user ishmael, and so does Bob a moment later, HTCondor will not
    try to fair-share between them": first in, first out."""
    pool = TestPool()
    pool.machine(static=1)
    for user in ("alice", "alice", "bob", "alice"):
        pool.submit(user=user, AccountingGroup='"ishmael"')
        pool.advance(0.001)
    pool.advance(130)
    assert [event.cluster for event in pool.events() if isinstance(event, e.JobActivated)] == [1, 2, 3, 4]


@together(
    ("ad", "submitter", "legal"),
    [
        ({}, "alice@d", True),
        ({}, "ishmael@d", False),
        ({"AccountingGroup": '"ishmael"'}, "ishmael@d", True),
        ({"AccountingGroup": '"ishmael"'}, "alice@d", True),  # of a version for which it did not count
        ({"AccountingGroup": '"ishmael"'}, "bob@d", False),
        ({"AccountingGroup": '"ishmael"'}, "ishmael@elsewhere", False),
        ({"AccountingGroup": 'strcat("a", "b")'}, "ab@d", True),
    ],
)
def test_the_judge_knows_for_whom_a_cluster_may_count(ad: dict[str, str], submitter: str, legal: bool) -> None:
    pool = TestPool()
    pool.submit()
    whole = {"User": '"alice@d"', **ad}
    events = [
        (position, replace(event, submitter=submitter, ad=whole) if isinstance(event, e.ClusterSubmitted) else event)
        for position, event in pool.log.read()
    ]
    found = [violation.words for violation in examine(events).violations]
    words = f"it counts for {submitter}, which is neither its User nor its AccountingGroup"
    assert found == ([] if legal else [words])


def _views(pool: TestPool) -> Views:
    return Views(folded(list(pool.log.read())))


def _shown(pool: TestPool) -> ClassAd:
    """The slot's ad as `poolbook status` shows it."""
    (ad,) = _views(pool).slot_ads(pool.state.at // 1_000_000)
    return ad


def _context(pool: TestPool) -> Context:
    return Context(now=pool.engine.now() // 1_000_000)

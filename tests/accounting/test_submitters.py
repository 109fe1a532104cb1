"""Table: the submitter to whom a job's usage is charged, which may differ from the job's user."""

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
        # as in HTCondor 25.14, by condor_status -submitters
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
        # by the same rules
        ({"accountinggroup": '"ishmael"'}, "ishmael@example.org"),
        ({"AccountingGroup": 'strcat("of.", Owner)', "Owner": '"mallory"'}, "of.alice@example.org"),
        ({"AccountingGroup": '"say \\"x\\""'.replace(" ", "-")}, 'say-"x"@example.org'),
    ],
)
def test_a_job_is_charged_to_its_accounting_group_or_user(attributes: dict[str, str], submitter: str) -> None:
    pool = TestPool()
    assert not _submit(pool, attributes).refusal
    (event,) = [event for event in pool.events() if isinstance(event, e.ClusterSubmitted)]
    assert event.submitter == submitter
    assert (event.ad["Owner"], event.ad["User"]) == ('"alice"', '"alice@example.org"')
    assert list(pool.state.submitters) == [submitter]
    assert examine(pool.log.read()).sound


@pytest.mark.parametrize("name", ["with blank", "with\\ttab", "with\\nline"])
def test_an_accounting_name_with_blanks_is_rejected(name: str) -> None:
    pool = TestPool()
    refusal = pool.submit(AccountingGroup=f'"{name}"').refusal
    assert (
        refusal == f'AccountingGroup = "{name}": an accounting name must consist of printable characters without blanks'
    )
    assert not pool.state.clusters


def _submit_columns(pool: TestPool, columns: dict[str, list[str]], **attributes: str) -> str:
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
def test_jobs_of_one_submission_have_one_submitter(
    columns: dict[str, list[str]], attributes: dict[str, str], submitter: str
) -> None:
    pool = TestPool()
    assert not _submit_columns(pool, columns, **attributes)
    assert pool.state.clusters[1].submitter == submitter


@pytest.mark.parametrize(
    ("columns", "attributes", "message"),
    [
        ({"AccountingGroup": ['"v0"', '"v1"', '"v2"']}, {},
         "all jobs of a submission must have the same submitter, but AccountingGroup differs between them "
         "(v0@example.org, v1@example.org): submit them separately"),
        ({"AccountingGroup": ['"v0"', "undefined"]}, {}, "all jobs of a submission must have the same submitter, but "
         "AccountingGroup differs between them (v0@example.org, alice@example.org): submit them separately"),
        ({"Team": ['"a"', '"b"']}, {"AccountingGroup": 'strcat("group_", team)'}, 'AccountingGroup = '
         'strcat("group_", team): it reads Team, which differs between the jobs, but all of them must '
         "have the same submitter: submit them separately"),
    ],
)  # fmt: skip
def test_a_submission_with_several_submitters_is_rejected(
    columns: dict[str, list[str]], attributes: dict[str, str], message: str
) -> None:
    pool = TestPool()
    assert _submit_columns(pool, columns, **attributes) == message
    assert not pool.state.clusters


@pytest.mark.parametrize("name", ["AccountingGroup", "accountinggroup"])
def test_the_accounting_group_of_a_job_cannot_be_edited(name: str) -> None:
    pool = TestPool()
    pool.submit(AccountingGroup='"ishmael"')
    edit = s.Edit(pool.id(), "alice", selection("1"), {name: '"bob"'})
    assert pool.handle(edit).refusal == (
        f"{name} cannot be changed: it says for whom the jobs count from the start; remove them and submit them again"
    )
    assert not pool.edit("1", AcctGroup='"bob"').refusal  # does not change the submitter


# The user of a job


def _pool_with_running_job(**attributes: str) -> TestPool:
    """Return a pool in which alice's job, with ishmael as accounting group, runs on the only slot."""
    pool = TestPool()
    pool.machine(static=1)
    _submit(pool, {"AccountingGroup": '"ishmael"', **attributes})
    pool.advance(1)
    assert pool.status("1.0") == "Running"
    return pool


def test_the_claim_is_charged_to_the_submitter() -> None:
    pool = _pool_with_running_job()
    (made,) = [event for event in pool.events() if isinstance(event, e.ClaimMade)]
    assert made.submitter == "ishmael@example.org"
    assert {name: record.slots for name, record in pool.state.submitters.items()} == {"ishmael@example.org": 1}
    assert fold(pool.log.read()).slots == pool.state.slots


@pytest.mark.parametrize(("user", "allowed"), [("alice", True), ("ishmael", False), ("bob", False), ("root", True)])
def test_the_user_of_a_job_may_change_it_but_the_submitter_may_not(user: str, allowed: bool) -> None:
    assert bool(_pool_with_running_job().vacate_slot("slot1@h", user).refusal) != allowed
    (outcome,) = _pool_with_running_job().act("hold", "1", user=user).value
    assert outcome["result"] == ("done" if allowed else "permission denied")
    (outcome,) = _pool_with_running_job().edit("1", user=user, Foo="1").value
    assert outcome["result"] == ("done" if allowed else "permission denied")


@pytest.mark.parametrize(("owner", "matches"), [("alice", True), ("ishmael", False)])
def test_jobs_are_selected_by_their_users(owner: str, matches: bool) -> None:
    assert bool(_pool_with_running_job().act("hold", owner, user="root").value) == matches


CLAIM_ATTRIBUTES = {"RemoteOwner": USER, "RemoteUser": USER, "AccountingGroup": "ishmael@example.org"}


def test_a_slot_s_ad_has_the_user_and_the_accounting_group_of_its_job() -> None:
    pool = _pool_with_running_job()
    slot = pool.state.slots["slot1@h"]
    policy_ad = snapshot_ad(
        PolicyEvaluation(pool.state, slot, no_readings, pool.engine.now(), _context(pool), Caches()).snapshot(),
        whole=True,
    )
    assert {name: policy_ad.eval(name) for name in CLAIM_ATTRIBUTES} == CLAIM_ATTRIBUTES
    assert {name: _status_ad(pool).eval(name) for name in CLAIM_ATTRIBUTES} == CLAIM_ATTRIBUTES


def test_the_user_is_known_as_soon_as_the_claim_starts() -> None:
    """Until its first job starts, a claim belongs to the user of the matched job."""
    pool = _pool_with_running_job()
    state = fold(takewhile(lambda entry: not isinstance(entry[1], e.JobActivated), pool.log.read()))
    assert state.slots["slot1@h"].activation is None
    assert state.slots["slot1@h"].user == USER


def test_a_claim_that_is_reused_for_another_user_s_job_has_that_user() -> None:
    """Both users are charged to ishmael, so the claim is reused, as in HTCondor."""
    pool = _pool_with_running_job()
    pool.submit(user="bob", AccountingGroup='"ishmael"')
    pool.advance(31)
    assert pool.status("2.0") == "Running"
    assert sum(isinstance(event, e.ClaimMade) for event in pool.events()) == 1
    assert _status_ad(pool).eval("RemoteUser") == "bob@example.org"
    assert pool.state.slots["slot1@h"].user == "bob@example.org"
    assert not pool.vacate_slot("slot1@h", "bob").refusal


@pytest.mark.parametrize("holder", ["", "elsewhere"])
def test_a_slot_s_ad_has_the_user_and_the_accounting_group_of_the_preempting_job(holder: str) -> None:
    pool = _pool_with_running_job()
    pool.submit(user="bob", AccountingGroup='"queequeg"')
    ad = {"User": '"bob@example.org"'} if holder else {}
    queued = e.ClaimQueued(
        pool.engine.now(), "better_match", "x", "slot1@h", "c", "queequeg@example.org", 3.0, holder, "2.0", ad
    )
    state = fold([*pool.log.read(), (pool.state.position + 1, queued)])
    expected = {
        "PreemptingOwner": "bob@example.org",
        "PreemptingUser": "bob@example.org",
        "PreemptingAccountingGroup": "queequeg@example.org",
        **CLAIM_ATTRIBUTES,
    }
    policy_ad = snapshot_ad(
        PolicyEvaluation(state, state.slots["slot1@h"], no_readings, state.at, _context(pool), Caches()).snapshot(),
        whole=True,
    )
    assert {name: policy_ad.eval(name) for name in expected} == expected
    (status_ad,) = Views(folded([*pool.log.read(), (state.position, queued)])).slot_ads(state.at // 1_000_000)
    assert {name: status_ad.eval(name) for name in expected} == expected


def test_a_slot_s_ad_has_no_accounting_group_if_the_job_has_none() -> None:
    assert "AccountingGroup" not in _status_ad(_pool_with_running_job(AccountingGroup="undefined"))


def test_the_views_are_the_same_for_any_batch_size() -> None:
    pool = _pool_with_running_job()
    pool.submit(user="bob", AccountingGroup='"ishmael"')
    pool.submit(user="carol")
    pool.advance(70)
    events = list(pool.log.read())
    queued = e.ClaimQueued(
        pool.engine.now(), "better_match", "x", "slot1@h", "c", "carol@example.org", 1.0, "", "2.0", {}
    )
    events.append((len(events) + 1, queued))
    assert dump(folded(events)) == dump(folded(events, [1] * len(events)))


def test_usage_by_user_is_that_of_the_jobs_users() -> None:
    pool = _pool_with_running_job()
    pool.advance(60)
    assert [row.name for row in _views(pool).usage("user")] == [USER]


def test_jobs_of_two_users_with_one_submitter_start_in_order() -> None:
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
    ("ad", "submitter", "valid"),
    [
        ({}, "alice@d", True),
        ({}, "ishmael@d", False),
        ({"AccountingGroup": '"ishmael"'}, "ishmael@d", True),
        ({"AccountingGroup": '"ishmael"'}, "alice@d", True),  # from a version that ignored AccountingGroup
        ({"AccountingGroup": '"ishmael"'}, "bob@d", False),
        ({"AccountingGroup": '"ishmael"'}, "ishmael@elsewhere", False),
        ({"AccountingGroup": 'strcat("a", "b")'}, "ab@d", True),
    ],
)
def test_validation_detects_a_wrong_submitter(ad: dict[str, str], submitter: str, valid: bool) -> None:
    pool = TestPool()
    pool.submit()
    job_ad = {"User": '"alice@d"', **ad}
    events = [
        (position, replace(event, submitter=submitter, ad=job_ad) if isinstance(event, e.ClusterSubmitted) else event)
        for position, event in pool.log.read()
    ]
    messages = [violation.words for violation in examine(events).violations]
    expected = f"its submitter is {submitter}, which is neither its User nor its AccountingGroup"
    assert messages == ([] if valid else [expected])


def _views(pool: TestPool) -> Views:
    return Views(folded(list(pool.log.read())))


def _status_ad(pool: TestPool) -> ClassAd:
    """Return the slot's ad that `poolbook status` shows."""
    (ad,) = _views(pool).slot_ads(pool.state.at // 1_000_000)
    return ad


def _context(pool: TestPool) -> Context:
    return Context(now=pool.engine.now() // 1_000_000)

"""Golden: `poolbook qedit` prints what condor_qedit 25.14.1 printed for the same edits; who may edit what. Property:
whatever is edited by whom, guarded attributes stay, and the log is sound."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from poolbook.adapters.cli import qedit
from poolbook.adapters.runtime.requests import IMMUTABLE, SECURE
from poolbook.domain.events import JobsEdited
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.action_results import ActionResult
from poolbook.domain.state.job_ad import unquoted
from poolbook.replay.validation import examine

from ..together import together
from .policy_pool import PolicyPool

RECORDED = Path(__file__).parents[1] / "data" / "schedd" / "qedit.txt"
GUARDS = """
IMMUTABLE_JOB_ATTRS = Frozen
PROTECTED_JOB_ATTRS = Guarded
SECURE_JOB_ATTRS = Secret
"""


@cache
def recorded() -> dict[str, str]:
    """Return what condor_qedit printed, by its arguments."""
    blocks: dict[str, str] = {}
    for block in RECORDED.read_text().split("$ condor_qedit ")[1:]:
        title, _, printed_text = block.partition("\n")
        blocks.setdefault(title, printed_text.partition("exit ")[0])
    return blocks


def pool(user: str = "alice") -> PolicyPool:
    pool = PolicyPool(GUARDS)
    pool.submit(user=user, Which='"sec"', Frozen="1", Guarded="1")
    return pool


def output_of(pool: PolicyPool, argv: list[str], user: str = "alice") -> str:
    """Return the command's output."""
    try:
        request = qedit.parse_arguments(argv)
    except qedit.EditError as error:
        return str(error)
    body = request.edit
    selected = body.pop("selection")
    selected = s.Selection(tuple(selected.pop("clusters")), tuple(selected.pop("jobs")), **selected)
    body.pop("kind")
    answer = pool.handle(s.Edit(pool.id(), user, selected, **body))
    if not answer.refusal:
        printed = qedit.edit_output(request, [ActionResult(**entry) for entry in answer.value])
    elif answer.code in (IMMUTABLE, SECURE):
        return f"{answer.refusal}\n{qedit.NOTHING_SET}"
    else:
        printed = qedit.failure_output(request)
    return printed.out + printed.err


@together(
    "argv",
    [
        ["1.0", "Frozen", "2"],
        ["1.0", "Guarded", "2"],
        ["1.0", "Secret", "2"],
        ["1.0", "JobUniverse", "7"],
        ["1.0", "QDate", "1"],
        ["1.0", "Foo", "1", "Bar=2"],
        ["1.0", "Foo", "1", "Frozen", "2"],
        ["1", "Foo=3"],
        ["-constraint", 'Which=="sec"', "Foo", "5"],
        ["-constraint", 'Which=="none"', "Foo", "5"],
        ["-owner", "bob", "Foo", "5"],
        ["9999.0", "Foo", "5"],
        ["9999", "Foo", "5"],
        ["bob", "Foo", "5"],
        ["-dry-run", "1.0", "Foo", "7"],
        ["-dry-run", "1.0", "Frozen", "7"],
        ["1.0", "Foo", "1 +"],
        ["1.0", "Foo", ""],
        ["-constraint", "1 +", "Foo", "1"],
        ["-jobids", "1.0,1.0", "Foo=8"],
        ["1.0", "TotalSubmitProcs", "3"],
        ["1.0", "-edits", "nothere"],
    ],
)
def test_qedit_prints_what_condor_qedit_printed(argv: list[str]) -> None:
    assert output_of(pool(), argv) == recorded()[" ".join(argv)]


@together(
    ("argv", "user", "done"),
    [
        (["1.0", "Foo", "2"], "bob", False),
        (["-constraint", "true", "Foo", "2"], "bob", False),
        (["1.0", "Guarded", "2"], "condor", True),
        (["1.0", "Secret", "2"], "condor", False),
        (["1.0", "Frozen", "2"], "condor", False),
        (["-constraint", "true", "Foo", "2"], "condor", True),
    ],
)
def test_users_edit_their_own_jobs_and_super_users_protected_attributes(argv: list[str], user: str, done: bool) -> None:
    guarded = pool()
    printed_output = output_of(guarded, argv, user)
    assert printed_output.startswith("Set attribute") == done
    assert bool(guarded.of(JobsEdited)) == done


def test_an_edit_that_names_others_jobs_does_nothing() -> None:
    guarded = pool()
    guarded.submit(user="bob")
    assert output_of(guarded, ["1", "2", "Foo", "2"]) == (
        'Failed to set attribute "Foo" by constraint: ( (ClusterId == 1 || ClusterId == 2 ) )\n'
        "Queue transaction failed.  No attributes were set.\n"
    )
    assert guarded.of(JobsEdited) == []


def test_an_edit_by_a_constraint_alone_skips_others_jobs() -> None:
    guarded = pool()
    guarded.submit(user="bob")
    assert output_of(guarded, ["-constraint", "true", "Foo", "2"]) == 'Set attribute "Foo" for 1 matching jobs.\n'
    assert ("Foo" in guarded.ad(1), "Foo" in guarded.ad(2)) == (True, False)


NAMES = st.sampled_from(["Foo", "frozen", "GUARDED", "Secret", "JobPrio", "Owner", "RequestMemory", "JobStatus"])
USERS = st.sampled_from(["alice", "bob", "condor"])


class Edits(RuleBasedStateMachine):
    """Submissions, edits by any user, and changing guards."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = pool()
        self.frozen = {(1, 0): "1"}
        self.guards = True

    @rule(user=USERS, count=st.integers(1, 3))
    def submit(self, user: str, count: int) -> None:
        if not self.pool.submit(user=user, count=count, Frozen="7", Secret="3").refusal:
            number = max(self.pool.engine.state.clusters)
            self.frozen |= {(number, proc): "7" for proc in range(count)}

    @rule(user=USERS, name=NAMES, value=st.integers(0, 9), together=st.booleans(), is_own=st.booleans())
    def edit(self, user: str, name: str, value: int, together: bool, is_own: bool) -> None:
        before = {number: self.pool.ads(number) for number in self.pool.engine.state.clusters}
        answer = self.pool.edit(user, {name: str(value)}, together=together, own=is_own)
        for number, cluster in self.pool.engine.state.clusters.items():
            is_foreign = self.pool.engine.state.owner(cluster) not in (user,) and user != "condor"
            if is_foreign or answer.refusal:
                assert self.pool.ads(number) == before[number]
        guarded = name.lower() in ("frozen", "secret", "owner", "jobstatus") or (name == "GUARDED" and user != "condor")
        assert bool(answer.refusal) == (guarded if self.guards else name in ("Owner", "JobStatus"))

    @rule(guarded=st.booleans())
    def reconfigure(self, guarded: bool) -> None:
        self.guards = guarded
        self.pool.configure(GUARDS if guarded else "")

    @invariant()
    def the_pools_own_attributes_stay(self) -> None:
        for number, cluster in self.pool.engine.state.clusters.items():
            for ad in self.pool.ads(number):
                assert unquoted(ad["Owner"]) == self.pool.engine.state.owner(cluster)
                assert ad["JobStatus"] in ("1", "5")

    def teardown(self) -> None:
        assert examine(self.pool.log.read()).violations == []


TestEdits = Edits.TestCase
TestEdits.settings = settings(
    max_examples=6, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

"""Golden: after every end of a run, a job continues as in HTCondor 25.14 (Scheduler::shadowExitCode): with
SYSTEM_ON_VACATE_COOL_DOWN it cools down, or it is held, as recorded from a pool with each of these ends.

Property: only ``job_processes`` makes a job that ran Idle.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.records import RUNS
from poolbook.domain.state_machines.job_rows import JOB, JOB_HTCONDOR_25
from poolbook.replay.validation import examine
from poolbook.replay.validation.transition_rules import OUTCOMES
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.job import why_job

from ..domain.pools import TestPool
from ..together import together

DOMAIN = Path(__file__).parents[2] / "domain"
Does = Callable[[TestPool], object]


def exits(**how: object) -> Does:
    """Return an action that ends the processes of the running job like this."""

    def end(pool: TestPool) -> object:
        (key,) = pool.state.activations
        return pool.handle(s.ActivationEnded("end", key, pool.world.clock, **how))  # type: ignore[arg-type]

    return end


def act_on_job(action: str, fast: bool = False) -> Does:
    return lambda pool: pool.act(action, "1.0", fast=fast)


def failed(code: int, subcode: int = 0, **how: object) -> Does:
    return exits(hold_reason="it failed", hold_code=code, hold_subcode=subcode, **how)


def do_nothing(pool: TestPool) -> None:
    pass


def pool_after_end(does: Does, ad: dict[str, str], expression: str, dialect: str = "htcondor-25") -> TestPool:
    """Return a pool with this cool-down in which job 1.0 ran for 15 s, with this event in its tenth second."""
    settings = {"PERIODIC_EXPR_INTERVAL": "1", "SYSTEM_ON_VACATE_COOL_DOWN": expression}
    pool = TestPool(behave=lambda launch: Behaviour(600), dialect=dialect, settings=settings)
    pool.machine(Preempt="TARGET.TooSmall =?= true", WANT_HOLD="TARGET.TooSmall =?= true")
    pool.submit(1, **ad)
    pool.advance(10)
    does(pool)
    pool.advance(5)
    return pool


ENDS: list[tuple[str, Does, dict[str, str], str, str, str]] = [
    # the end, how, the job's ad, with a cool-down: status, NumJobCoolDowns; without one: status
    ("input transfer", failed(13, 2, failed=True), {}, "Idle", "1", "Held"),
    ("input too large", failed(32, failed=True), {}, "Idle", "1", "Held"),
    ("output transfer", failed(12, undelivered=True), {}, "Idle", "1", "Held"),
    ("output too large", failed(33, undelivered=True), {}, "Idle", "1", "Held"),
    ("transfer plugin missing", failed(13, -1001, failed=True), {}, "Idle", "1", "Running"),
    ("no program", failed(6, 2, failed=True), {}, "Idle", "1", "Held"),
    ("machine's fault", failed(1007, failed=True), {}, "Idle", "1", "Running"),
    ("out of memory", failed(34, 102), {}, "Idle", "1", "Held"),
    ("no directory", failed(14, failed=True), {}, "Held", "", "Held"),
    ("starter lost", exits(lost=True), {}, "Idle", "1", "Running"),
    ("vacate", act_on_job("vacate"), {}, "Idle", "1", "Running"),
    ("vacate fast", act_on_job("vacate", fast=True), {}, "Idle", "1", "Running"),
    ("machine vacated", lambda pool: pool.vacate_slot("slot1_1@h"), {}, "Idle", "1", "Running"),
    ("periodic_vacate", do_nothing, {"PeriodicVacate": "NumShadowStarts == 1"}, "Idle", "1", "Running"),
    ("WANT_HOLD", do_nothing, {"TooSmall": "true"}, "Idle", "1", "Held"),
    ("on_exit_remove", exits(code=0), {"OnExitRemove": "NumJobStarts > 1"}, "Idle", "1", "Running"),
    ("on_exit_remove, constant", exits(code=0), {"OnExitRemove": "false"}, "Idle", "1", "Running"),
    ("max_retries, signal", exits(signal=9), {"OnExitRemove": "ExitCode =?= 0"}, "Idle", "1", "Running"),
    ("done", exits(code=0), {}, "ended", "", "ended"),
    ("on_exit_hold", exits(code=0), {"OnExitHold": "true"}, "Held", "", "Held"),
    ("periodic_hold", do_nothing, {"PeriodicHold": "JobStatus == 2"}, "Held", "", "Held"),
    ("hold", act_on_job("hold"), {}, "Held", "", "Held"),
    ("remove", act_on_job("remove"), {}, "ended", "", "ended"),
    ("local: no program", failed(6, 2, failed=True), {"JobUniverse": "12"}, "Held", "", "Held"),
    ("local: vacate", act_on_job("vacate"), {"JobUniverse": "12"}, "Idle", "1", "Running"),
    ("local: on_exit_remove", exits(code=0), {"JobUniverse": "12", "OnExitRemove": "false"}, "Idle", "1", "Running"),
]  # fmt: skip


@together(("name", "does", "ad", "cooled", "counted", "uncooled"), ENDS)
def test_a_job_cools_down_after_every_run_that_another_is_to_follow(
    name: str, does: Does, ad: dict[str, str], cooled: str, counted: str, uncooled: str
) -> None:
    for dialect in ("manual", "htcondor-25"):
        pool = pool_after_end(does, ad, "600 + 0 * (JobPrio ?: 0)", dialect)
        assert pool.status("1.0") == cooled
        if cooled != "ended":
            attributes = pool.state.clusters[1].attributes(0)
            assert attributes.get("NumJobCoolDowns", "") == counted
            assert bool(attributes.get("HoldReasonCode")) == (cooled == "Held")
        assert [violation.words for violation in examine(pool.log.read()).violations] == []
        if counted:
            assert any("cools down until" in sentence.full for sentence in why_job(pool.log.read(), 1, 0).life)
        repeated = pool_after_end(does, ad, "", dialect)
        assert (repeated.status("1.0"), repeated.state.cool_downs) == (uncooled, {})
        assert [violation.words for violation in examine(repeated.log.read()).violations] == []


def test_the_cases_have_every_outcome_and_cause_that_an_end_may_have() -> None:
    """The closed list of the validator; a missed deferral is in tests/schedd/test_deferral.py, and a lost execution
    point in tests/peers/."""
    outcomes = set()
    for _, does, ad, *_ in ENDS:
        for event in pool_after_end(does, ad, "600").events():
            if isinstance(event, e.JobExited):
                outcomes.add((event.outcome, event.cause))
    assert outcomes == OUTCOMES.keys() - {("evicted", "deferral_missed"), ("lost", "lease_over")}


def test_the_cool_down_expression_sees_the_eviction_counted() -> None:
    """The shadow's last update comes before the schedd evaluates it."""
    pool = pool_after_end(act_on_job("vacate"), {}, "NumVacates * 100 + VacateReasonCode")
    (last,) = pool.state.cool_downs.values()
    (end,) = [event for event in pool.events() if isinstance(event, e.JobExited)]
    assert last - end.at // 1_000_000 == 100 + 1022


def test_a_job_whose_hold_is_prevented_records_its_eviction_and_counts_no_hold() -> None:
    pool = pool_after_end(failed(13, 2, failed=True), {}, "600")
    ad = pool.state.clusters[1].attributes(0)
    assert {name: ad.get(name) for name in ("VacateReasonCode", "NumVacates", "NumHolds", "HoldReason")} == {
        "VacateReasonCode": "13",
        "NumVacates": "1",
        "NumHolds": None,
        "HoldReason": None,
    }


# Where a job becomes Idle

AFTER_A_RUN = {"evict", "requeue"}
WITHOUT_A_RUN = {"submit", "release", "prepared", "unblock"}


def test_two_of_the_rows_that_lead_to_idle_follow_a_run() -> None:
    steps = [(row, *step) for table in (JOB, JOB_HTCONDOR_25) for row in table for step in row.steps]
    rows = {(row.name, source in RUNS) for row, source, target in steps if target == "Idle"}
    assert rows == {(row, True) for row in AFTER_A_RUN} | {(row, False) for row in WITHOUT_A_RUN}


def _calls(name: str) -> list[tuple[str, ast.Call]]:
    return [
        (str(path.relative_to(DOMAIN)), node)
        for path in sorted(DOMAIN.rglob("*.py"))
        if f"{name}(" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name
    ]


def test_only_run_ends_gives_the_end_of_a_run_a_row() -> None:
    """``JobExited`` is made without one, and only ``go_on`` looks up that row in the table of jobs."""
    exit_calls = _calls("JobExited")
    assert {path for path, _ in exit_calls} == {"schedd/job_processes.py", "schedd/deferred_starts.py"}
    for _, call in exit_calls:
        assert [ast.unparse(argument) for argument in call.args[6:8]] == ["''", "''"]
        assert not {"row", "target"} & {keyword.arg for keyword in call.keywords}
    fired = {path: ast.unparse(call.args[2]) for path, call in _calls("fire") if ast.unparse(call.args[0]) == "'job'"}
    assert fired == {
        "decision/draft.py": "row",
        "schedd/claims.py": "'activate'",
        "schedd/local_jobs.py": "'activate'",
        "schedd/job_processes.py": "exited.row",
        "schedd/job_submission.py": "'submit_on_hold' if is_held else 'submit'",
    }


def test_waiting_and_held_jobs_become_idle_only_by_a_release() -> None:
    rows = {(path, ast.unparse(call.args[2])) for path, call in _calls("move_jobs")}
    assert {path for path, row in rows if row.strip("'") in AFTER_A_RUN | WITHOUT_A_RUN} == {"schedd/job_actions.py"}
    assert {(path, row) for path, row in rows if not row.startswith("'")} == {("schedd/claims.py", "message.row")}


# Counters


HELD_BY_SHADOW = {
    "periodic_hold": {"PeriodicHold": "JobStatus == 2"},
    "allowed_execute_duration": {"AllowedExecuteDuration": "5"},
    "allowed_job_duration": {"AllowedJobDuration": "5"},
    "timer_remove undefined": {"TimerRemove": "undefined"},
}


@together(("case", "ad"), list(HELD_BY_SHADOW.items()))
def test_the_hold_of_a_running_job_by_policy_counts_three_times(case: str, ad: dict[str, str]) -> None:
    """As recorded: the shadow writes HoldReasonCode when the policy fires, and twice more as it ends the run."""
    pool = TestPool(behave=lambda launch: Behaviour(6000), dialect="htcondor-25")
    pool.machine()
    pool.submit(1, **ad, PeriodicRelease="NumHolds < 2")
    pool.advance(400)
    attributes = pool.state.clusters[1].attributes(0)
    assert (attributes["JobStatus"], attributes["NumHolds"], attributes["NumVacates"]) == ("5", "3", "2")
    assert (" = 3 ]" in attributes["NumHoldsByReason"], attributes["NumVacatesByReason"]) == (
        True,
        "[ ClaimDeactivated = 2 ]",
    )
    assert [violation.words for violation in examine(pool.log.read()).violations] == []


@together(
    ("universe", "ad", "counted"),
    [
        ("5", {"Requirements": "false", "PeriodicHold": "true", "PeriodicRelease": "NumHolds < 3"}, "3"),
        ("5", {"OnExitHold": "true", "PeriodicRelease": "NumHolds < 3"}, "3"),
        ("12", {"PeriodicHold": "JobStatus == 2"}, "1"),
        ("7", {"PeriodicHold": "JobStatus == 2"}, "1"),
        ("12", {"OnExitHold": "true"}, "1"),
        ("7", {"OnExitHold": "true"}, "1"),
    ],
)
def test_other_holds_by_policy_count_once(universe: str, ad: dict[str, str], counted: str) -> None:
    seconds = 5 if "OnExitHold" in ad else 6000
    pool = TestPool(behave=lambda launch: Behaviour(seconds), dialect="htcondor-25")
    pool.machine()
    pool.submit(1, JobUniverse=universe, **ad)
    pool.advance(600)
    attributes = pool.state.clusters[1].attributes(0)
    assert (attributes["JobStatus"], attributes["NumHolds"]) == ("5", counted)

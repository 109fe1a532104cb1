"""Differential: a constraint evaluated over the queue by columns selects the same jobs as one evaluated job by job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain import events as e
from poolbook.domain.classad import Context, EvaluationError, parse
from poolbook.domain.classad.matching import is_satisfied
from poolbook.domain.decide import Draft, Tables
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.ports.stimuli import Selection
from poolbook.domain.schedd import constraints
from poolbook.domain.schedd.constraints import (
    MIN_JOBS_FOR_COLUMNS,
    EvaluationBudget,
    NeedsPreEvaluation,
    SlowConstraint,
)
from poolbook.domain.schedd.job_commands import selected_jobs
from poolbook.domain.schedd.job_constraints import select_matching
from poolbook.domain.state.caches import ad_from_attributes
from poolbook.domain.state.cluster import Cluster
from poolbook.domain.state.job_procs import job_procs
from poolbook.domain.state.pool_settings import complete_settings
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.state.state import State
from poolbook.domain.state.user_maps import user_maps

NOW = 1_800_000_000
WHY = (NOW * 1_000_000, "submitted", "test")
AD = {
    "Owner": '"alice"', "JobUniverse": "5", "RequestMemory": "1024", "JobPrio": "0", "Cmd": '"/bin/sleep"',
    "Requirements": "TARGET.Memory >= RequestMemory", "Twice": "2 * RequestMemory", "Wish": "MY.Twice + ProcId",
    "Nested": "[ Size = ProcId; ]", "Empty": "", "cmd2": '"x"', "Cmd2": '"y"', "Big": "99999999999999999999",
}  # fmt: skip
CONSTRAINTS = (
    "ProcId % 2 == 0",
    "procid > 3 && ClusterId == 2",
    "JobStatus == 5",
    'JobStatus =!= 1 || HoldReason == "later"',
    "RequestMemory > 1000",
    "MY.RequestMemory / ProcId > 100",
    "Wish > 2050",
    "Nested.Size == 3",
    'Owner == "ALICE" && regexp("sl.*p$", Cmd)',
    "TARGET.Memory > 5",
    "Missing is undefined",
    "Missing",
    '"text"',
    "ProcId",
    "ProcId / 0",
    "JobPrio + 0.5",
    "QDate < time()",
    'Cmd2 == "y"',
    "Empty is undefined",
    "Big > 5",
    "Own",
    "Own > 2",
    'eval("ProcId") == 3',
    "ifThenElse(ProcId < 2, Own, JobPrio) > 0",
    'stringListMember(string(ProcId), "1,3,5")',
    "{ProcId, 4}[0] == 2",
    "random(10) < 5",
)
# What happens to jobs: (event, which jobs, changes)
OWN = ("1", "7", '"seven"', "", "ProcId * 2", "undefined", "-3", "true", "2.5", "Twice")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["hold", "edit", "leave"]),
        st.integers(0, 3),
        st.tuples(st.integers(0, 30), st.integers(0, 8)),
        st.sampled_from(["RequestMemory", "jobprio", "Own", "Fresh", "Wish"]),
        st.sampled_from([*OWN[:3], *OWN[4:]]),
    ),
    max_size=8,
)
CLUSTERS = st.lists(
    st.tuples(
        st.integers(1, 30),
        st.dictionaries(st.sampled_from(["Own", "RequestMemory"]), st.lists(st.sampled_from(OWN), min_size=1)),
    ),
    min_size=1,
    max_size=4,
)


def queue(
    clusters: list[tuple[int, dict[str, list[str]]]], steps: list[tuple[str, int, tuple[int, int], str, str]]
) -> State:
    state = state_of(clusters)
    for _ in apply_steps(state, steps):
        pass
    return state


def state_of(clusters: list[tuple[int, dict[str, list[str]]]]) -> State:
    state = State()
    evolve(state, e.PoolFounded(*WHY, "test", "htcondor-25", "example.org", "0", complete_settings({})))
    for number, (count, members) in enumerate(clusters, 1):
        columns = {name: [texts[proc % len(texts)] for proc in range(count)] for name, texts in members.items()}
        ad = {name: text for name, text in AD.items() if name not in columns}
        evolve(state, e.ClusterSubmitted(*WHY, number, "alice@example.org", ad, count, pack(columns), "Idle"))
    return state


def apply_steps(state: State, steps: list[tuple[str, int, tuple[int, int], str, str]]) -> Iterator[e.Event]:
    """Apply the events to the state, yielding each one afterwards."""
    for kind, number, (first, position), name, text in steps:
        cluster = state.clusters.get(number)
        if cluster is None:
            continue
        procs = tuple((proc, proc) for proc in range(first, min(first + position, cluster.count)) if proc in cluster)
        event: e.Event = e.JobsEdited(*WHY, number, procs, {name: text})
        if kind != "edit":
            target = "Held" if kind == "hold" else ""
            changes = {"HoldReason": '"later"'} if target else {}
            source = cluster.status_of(procs[0][0]) if procs else ""
            event = e.JobsTransitioned(*WHY, number, procs, kind, source, target or "Left", changes)
        if procs:
            evolve(state, event)
            yield event


def one_by_one(text: str, jobs: list[tuple[Cluster, list[int]]], context: Context) -> list[list[int]]:
    constraint = parse(text)

    def meets(cluster: Cluster, proc: int) -> bool:
        try:
            return is_satisfied(constraint.evaluate(ad_from_attributes(cluster.attributes(proc)), None, context))
        except EvaluationError:
            return False

    return [[proc for proc in procs if meets(cluster, proc)] for cluster, procs in jobs]


@given(CLUSTERS, STEPS)
def test_a_constraint_by_columns_equals_the_constraint_job_by_job(
    clusters: list[tuple[int, dict[str, list[str]]]], steps: list[tuple[str, int, tuple[int, int], str, str]]
) -> None:
    state, context = queue(clusters, steps), Context(now=NOW, seed=NOW)
    jobs = [(cluster, list(cluster.procs())) for cluster in state.clusters.values()]
    for text in CONSTRAINTS:
        matching = select_matching(parse(text), jobs, context)
        one_by_one_result = one_by_one(text, jobs, context)
        assert matching == one_by_one_result or (matching is None and "eval(" in text), text
        assert constraints.select_matching(parse(text), jobs, context) == one_by_one_result, text


@given(CLUSTERS, STEPS, st.sampled_from(CONSTRAINTS), st.lists(st.integers(0, 6), max_size=8))
def test_jobs_evaluated_ahead_have_their_value_at_the_decision_whatever_happens_meanwhile(
    clusters: list[tuple[int, dict[str, list[str]]]],
    steps: list[tuple[str, int, tuple[int, int], str, str]],
    text: str,
    turns: list[int],
) -> None:
    state, context, condition = state_of(clusters), Context(now=NOW, seed=NOW), parse(text)
    jobs = [(cluster, list(cluster.procs())) for cluster in state.clusters.values()]
    with pytest.raises(NeedsPreEvaluation) as first:
        constraints.select_matching(condition, jobs, context, EvaluationBudget(maximum=0))
    ahead = SlowConstraint(context)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(constraints, "_JOBS_PER_PAUSE", 2)
        asking, events = ahead.evaluate(first.value), apply_steps(state, steps)
        for turn in turns:
            for _ in range(turn):
                next(asking, None)
            event = next(events, None)
            procs = None if event is None else job_procs(event)
            if procs is not None:
                ahead.discard(*procs)
        for _ in asking:
            pass
    jobs = [(cluster, list(cluster.procs())) for cluster in state.clusters.values()]
    later = Context(now=NOW + 60, seed=1)
    assert constraints.select_matching(condition, jobs, later, EvaluationBudget(slow_constraint=ahead)) == one_by_one(
        text, jobs, context
    )


def test_a_waiting_constraint_has_the_value_of_when_it_arrived() -> None:
    """HTCondor's schedd evaluates it immediately: with the clock and the user maps of that time."""
    values, decided = ({"CLASSAD_USER_MAPDATA_team": f"* alice {team}"} for team in ("red", "blue"))
    state, condition = state_of([(4, {})]), parse('eval("userMap(\\"team\\", Owner)") == "red" && time() < 1800000030')
    jobs = [(cluster, list(cluster.procs())) for cluster in state.clusters.values()]
    context = Context(now=NOW, seed=NOW, user_maps=user_maps(values))
    with pytest.raises(NeedsPreEvaluation) as first:
        constraints.select_matching(condition, jobs, context, EvaluationBudget(maximum=0))
    ahead = SlowConstraint(first.value.context)
    for _ in ahead.evaluate(first.value):
        pass
    ahead.discard(1, [(2, 3)])  # something happened to these jobs: they are evaluated again at the decision
    later = Context(now=NOW + 60, seed=1, user_maps=user_maps(decided))
    assert constraints.select_matching(condition, jobs, later) == [[]]
    assert constraints.select_matching(condition, jobs, later, EvaluationBudget(slow_constraint=ahead)) == [
        [0, 1, 2, 3]
    ]


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_command_over_many_jobs_selects_the_same_ones(constraint: str) -> None:
    state = queue([(MIN_JOBS_FOR_COLUMNS, {"Own": list(OWN)}), (3, {})], [("hold", 1, (5, 8), "", "")])
    draft: Draft[State] = Draft(state, "test", WHY[0], Tables())
    matching = {cluster.id: procs for cluster, procs in selected_jobs(draft, Selection(constraint=constraint))}
    jobs = [(cluster, list(cluster.procs())) for cluster in state.clusters.values()]
    one_by_one_result = one_by_one(constraint, jobs, draft.context)
    assert matching == {cluster.id: procs for (cluster, _), procs in zip(jobs, one_by_one_result, strict=True) if procs}


def test_attributes_that_jobs_share_are_looked_up_once_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    state, queries = queue([(20_000, {})], []), 0

    def counted(cluster: Cluster, proc: int, changes=Cluster.changes) -> object:  # type: ignore[no-untyped-def]
        nonlocal queries
        queries += 1
        return changes(cluster, proc)

    monkeypatch.setattr(Cluster, "changes", counted)
    draft: Draft[State] = Draft(state, "test", WHY[0], Tables())
    (matching,) = selected_jobs(draft, Selection(constraint="ProcId % 2 == 0 && RequestMemory == 1024 && Wish > 0"))
    assert matching[1] == list(range(0, 20_000, 2))
    assert queries < 10

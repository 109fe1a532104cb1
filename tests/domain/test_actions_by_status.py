"""Specification: which actions the schedd rejects by a job's status, as in HTCondor; `why` advises none of them."""

from __future__ import annotations

import pytest

from poolbook.domain.submit.submission import SPOOLING_HOLD_CODE
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.job import why_job

from ..together import together
from .pools import TestPool


def pool_with(status: str) -> TestPool:
    """Return a pool with job 1.0 in this status."""
    pool = TestPool(behave=lambda launch: Behaviour(3600, grace=None))
    arriving = {
        "JobStatus": "5",
        "HoldReasonCode": str(SPOOLING_HOLD_CODE),
        "HoldReason": '"Spooling input data files"',
    }
    universe = {"Local": {"JobUniverse": "12"}, "Scheduler": {"JobUniverse": "7"}, "Spooling": arriving}
    if status not in ("Idle", "Held", "Spooling"):
        pool.machine(static=1, cpus=1)
    pool.submit(1, **universe.get(status, {}))
    pool.advance(2)
    if status in ("Held", "Suspended", "Removed"):
        pool.act({"Held": "hold", "Suspended": "suspend", "Removed": "remove"}[status], "1.0")
    return pool


STATUSES = ("Idle", "Running", "Suspended", "Held", "Spooling", "Removed", "Local", "Scheduler")
ALLOWED = {
    "hold": {"Idle", "Running", "Suspended", "Local", "Scheduler"},
    "release": {"Held"},
    "spooled": {"Spooling"},
    "remove": {"Idle", "Running", "Suspended", "Held", "Spooling", "Local", "Scheduler"},
    "remove now": {"Removed"},
    "vacate": {"Running", "Local", "Scheduler"},
    "suspend": {"Running"},
    "continue": {"Suspended"},
}


@together(("action", "status"), [(action, status) for action in ALLOWED for status in STATUSES])
def test_an_action_is_rejected_in_every_other_status(action: str, status: str) -> None:
    pool = pool_with(status)
    before = len(pool.events())
    outcome = pool.act(action, "1.0").value[0]["result"]
    event_kinds = {type(event).__name__ for event in pool.events()[before:]} - {"RequestAnswered"}
    assert ((outcome == "done"), bool(event_kinds)) == ((status in ALLOWED[action]),) * 2, (
        f"{action} of {status}: {outcome}"
    )


def test_a_release_of_a_cluster_skips_its_jobs_whose_input_has_not_arrived() -> None:
    pool = pool_with("Spooling")
    pool.submit(1)
    pool.act("hold", "2.0")
    outcomes = pool.act("release", "1", "2").value
    assert {outcome["cluster"]: outcome["result"] for outcome in outcomes} == {1: "Held", 2: "done"}
    assert [pool.status("1.0"), pool.status("2.0")] == ["Held", "Idle"]


VERBS = {name: name for name in ("hold", "release", "vacate", "suspend", "continue")} | {"rm": "remove"}


@pytest.mark.parametrize("status", STATUSES)
def test_why_advises_no_action_that_the_schedd_rejects(status: str) -> None:
    pool = pool_with(status)
    line = why_job(pool.log.read(), 1, 0).texts[-1]
    for verb, action in VERBS.items():
        if f"`poolbook {verb} 1.0`" in line:
            assert status in ALLOWED[action], line

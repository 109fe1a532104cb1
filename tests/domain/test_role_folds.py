"""Golden: the part of a log that a role learns, folded onto the state of that role alone, gives its part of the pool's
state.

The pools come from ``golden/decided``, with many simultaneous events, and from the logs of releases. In the log of a
separate execution point, events repeat the jobs' ads, which the log of a pool has in its queue.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.decide import agenda
from poolbook.domain.decision.moment import Moment
from poolbook.domain.fold.evolve import FOLDS_OF
from poolbook.domain.fold.matches import match_of_claim, own_job
from poolbook.domain.names import JobId
from poolbook.domain.ports.sensor_readings import no_readings
from poolbook.domain.state.agenda import Agendas
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.cluster import Cluster
from poolbook.domain.state.records import Claim, Machine, Slot, Starter
from poolbook.domain.state.state import AccessPoint, ExecutionPoint, LogState, Manager, Queue, Slots, State

from ..golden import decided
from ..golden.make import GOLDEN
from ..golden.test_golden import POOLS
from ..sampling import marked

Log = list[tuple[int, e.Event]]


def repeated(state: State, event: e.Event) -> e.Event:
    """Return the event as a separate execution point writes it: with the job's ad."""
    if isinstance(event, e.JobActivated) and event.claim:
        return replace(event, ad=state.clusters[event.cluster].attributes(event.proc))
    if isinstance(event, e.ClaimMade | e.ClaimQueued) and not event.holder:
        match = match_of_claim(state.slot_matches, event.slot, own_job(event))
        job = event.job or ("" if match is None else match[1])
        cluster_record = state.clusters.get(JobId.parse(job).cluster) if job else None
        return replace(event, ad={} if cluster_record is None else cluster_record.attributes(JobId.parse(job).proc))
    return event


def fold_by_role(log: Log) -> Iterator[tuple[State, dict[type[LogState], LogState]]]:
    """Fold a log; after each event, yield the pool's state and its roles' states."""
    whole_state = State()
    roles: dict[type[LogState], LogState] = {AccessPoint: AccessPoint(), ExecutionPoint: ExecutionPoint()}
    roles[Manager] = Manager()
    for position, event in log:
        repetition = repeated(whole_state, event)
        for state in (*roles.values(), whole_state):
            fold = FOLDS_OF[type(state)].get(type(event))
            if fold is not None:
                state.position, state.at = position, event.at
                fold(state, repetition if isinstance(state, Slots) and state is not whole_state else event)
        yield whole_state, roles


def parts(state: LogState, kind: type[LogState]) -> dict[str, Any]:
    """Return the compared parts of a role: without the end of its log, and without jobs for a manager, which does not
    fold them."""
    left_out = {"position", "at", *(field.name for field in fields(Queue) if kind is Manager)}
    names = [field.name for field in fields(kind) if field.compare and field.name not in left_out]
    return {name: plain(getattr(state, name), kind) for name in names}


def plain(value: Any, kind: type[LogState]) -> Any:
    """Return a field without the jobs' ads, and machines without their slots: both are compared separately. A manager
    does not learn how a starter is ended, nor of leases."""
    if isinstance(value, dict):
        return {name: plain(value, kind) for name, value in value.items()}
    if isinstance(value, Slot):
        slot_fields = {name: plain(getattr(value, name), kind) for name in ("claim", "queued_claim", "activation")}
        return replace(value, **slot_fields)
    if isinstance(value, Claim):
        return replace(value, ad={}, lease_end=0 if kind is Manager else value.lease_end)
    if isinstance(value, Starter):
        unsignalled = replace(value, ad={}, stop_signal="", last_signalled=0, next_signal=0)
        return unsignalled if kind is Manager else replace(value, ad={})
    if isinstance(value, Machine):
        return replace(value, slots=[*value.slots])
    if isinstance(value, Cluster):
        return {proc: value.attributes(proc) for proc in value.procs()}
    return value


def each_role_has_its_part(log: Log, every: int) -> None:
    for number, (whole_state, roles) in enumerate(fold_by_role(log)):
        if number % every and number + 1 < len(log):
            continue
        for kind, state in roles.items():
            assert parts(state, kind) == parts(whole_state, kind), (number, kind)
        assert ads_of(roles[ExecutionPoint]) == ads_of(whole_state), number


def ads_of(state: Any) -> dict[str, e.Ad]:
    """Return the ads of running jobs and waiting claims, as their startd reads them."""
    differences = {}
    for name, slot in state.slots.items():
        starter, waiting = slot.activation, slot.queued_claim
        if starter is not None and starter.cluster:
            differences[name] = state.job_ad((starter.cluster, starter.proc), starter.ad).attributes()
        if waiting is not None and waiting.job and not waiting.holder:
            differences[f"{name} next"] = state.job_ad(JobId.parse(waiting.job), waiting.ad).attributes()
    return differences


@pytest.mark.parametrize("every", [5, marked(1)])
@pytest.mark.parametrize("release", POOLS)
def test_a_releases_log_is_folded_by_each_role_alone(release: str, every: int, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{release}.db.gz").read_bytes()))
    each_role_has_its_part([*open_log(str(path), create=False, read_only=True).read()], every)


@pytest.mark.parametrize("every", [20, marked(7)])
@pytest.mark.parametrize(("dialect", "seed"), [("manual", 1), ("htcondor-25", 1), ("htcondor-25", 3)])
def test_the_log_of_a_crowded_pool_is_folded_by_each_role_alone(
    monkeypatch: pytest.MonkeyPatch, dialect: str, seed: int, every: int
) -> None:
    log: Log = []
    monkeypatch.setattr(decided, "line_of", lambda position, event: log.append((position, event)))
    for _ in decided.crowd(dialect, seed):
        pass
    kinds = {type(event) for _, event in log}
    assert kinds >= {e.CycleHeld, e.ClaimMade, e.JobActivated, e.JobExited, e.ClaimEnded, e.JobsTransitioned}
    each_role_has_its_part(log, every)


def test_an_edit_of_a_running_job_reaches_its_startd_as_a_message() -> None:
    point = ExecutionPoint()
    why = (0, "test", "x")
    job_ad = {"JobPrio": "0", "User": '"a@b"'}
    for event in (
        e.MachineJoined(*why, "h", {}),
        e.SlotCreated(*why, "slot1@h", "h", "static", "", {}),
        e.ClaimMade(*why, "slot1@h", "c", "a@b", 1000, ad=job_ad),
        e.JobActivated(*why, 1, 0, "slot1@h", "c", ad=job_ad),
        e.JobsEdited(*why, 1, ((0, 3),), {"JobPrio": "7"}),
        e.JobsEdited(*why, 2, ((0, 3),), {"JobPrio": "8"}),
    ):
        FOLDS_OF[ExecutionPoint][type(event)](point, event)
    starter = point.starters[1, 0]
    assert point.job_ad((1, 0), starter.ad).value("jobprio") == "7"
    assert (starter.user, point.slots["slot1@h"].activation) == ("a@b", starter)


@pytest.mark.parametrize(
    "release", ["0.2.0a2-negotiation", "0.2.0a2-play-leases", "0.2.0a2-play-drain-of-static-slots"]
)
def test_a_pools_timed_actions_are_due_for_one_of_its_roles(release: str, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{release}.db.gz").read_bytes()))
    for whole_state, roles in fold_by_role([*open_log(str(path), create=False, read_only=True).read()]):
        point, queue = roles[ExecutionPoint], roles[AccessPoint]
        deadlines = {
            kind: deadline(state) for kind, state in ((State, whole_state), (AccessPoint, queue), (LogState, point))
        }
        expected = deadlines.pop(State)
        assert expected == min((at for at in deadlines.values() if at is not None), default=None)


def deadline(state: Any) -> int | None:
    """Return when something is due for the roles of a freshly folded state, except for cycles."""
    state.agendas = Agendas()
    moment = Moment(state, state.at, UTC, no_readings, Caches(), matching=False)
    if isinstance(state, AccessPoint):
        agenda.plan_agendas(moment)
    return agenda.next_deadline(moment)

"""What an action on jobs, slots, machines or users will do: the sentence to confirm, the command, and the request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from ...domain.state.job_ad import STATUS_NAMES
from ...domain.state.pool_settings import super_users
from ...domain.units import SECOND
from ...projections.overview import job_statuses
from ...replay.narration.formatting import counted, interval

if TYPE_CHECKING:
    from ..runtime.queries import Queries


class Effect(Struct, frozen=True):
    """What an action will do. ``request`` and ``body`` are its command in the API; ``command`` is the command line."""

    allowed: bool  #: whether the pool's rules let the user do it
    sentence: str
    command: str
    request: str
    body: dict[str, Any]


class _Jobs(NamedTuple):
    """The jobs in the queue to which an action applies."""

    owner: str
    counts: Mapping[str, int]  #: by status
    work: int  #: how long the running jobs have run, in seconds

    @property
    def running(self) -> int:
        return sum(self.counts.get(status, 0) for status in ("Running", "Suspended", "TransferringOutput"))

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class _Target(NamedTuple):
    kind: str
    name: str
    value: str
    reason: str


class _JobAction(NamedTuple):
    """An action on jobs: its command, its request, the statuses to which it applies, and its sentence."""

    command: str
    request: str
    statuses: frozenset[str]
    sentence: Callable[[_Jobs], str]


def _are(jobs: int, kind: str = "") -> str:
    """Return a number of jobs with a verb: "1 running job is"."""
    return f"{jobs:,}{kind and ' '}{kind} {'job is' if jobs == 1 else 'jobs are'}"


def _eviction(jobs: _Jobs) -> str:
    if not jobs.running:
        return ""
    lost = f"; about {interval(jobs.work * SECOND)} of work is lost" if jobs.work else ""
    return f"{_are(jobs.running, 'running')} evicted{lost}."


def _hold(jobs: _Jobs) -> str:
    held = jobs.total - jobs.counts.get("Held", 0)
    until = "it is" if held == 1 else "they are"
    return f"{_eviction(jobs)} {_are(held)} held until {until} released.".strip()


def _remove(jobs: _Jobs) -> str:
    return f"{_eviction(jobs)} {_are(jobs.total)} removed from the queue. This cannot be undone.".strip()


def _vacate(jobs: _Jobs) -> str:
    return f"{_eviction(jobs)} Evicted jobs become idle, and may run again immediately."


_RUNS: Final = frozenset({"Running", "TransferringOutput"})
_ACTIVE: Final = frozenset({"Idle", "Running", "Suspended", "TransferringOutput"})
_JOB_ACTIONS: Final[Mapping[str, _JobAction]] = {
    "hold": _JobAction("hold", "Hold", _ACTIVE, _hold),
    "release": _JobAction(
        "release", "Release", frozenset({"Held"}),
        lambda jobs: f"{_are(jobs.counts.get('Held', 0), 'held')} released, and may start when a slot matches.",
    ),
    "remove": _JobAction("rm", "Remove", _ACTIVE | {"Held", "Completed"}, _remove),
    "vacate": _JobAction("vacate", "Vacate", _RUNS, _vacate),
    "suspend": _JobAction(
        "suspend", "Suspend", frozenset({"Running"}),
        lambda jobs: f"{_are(jobs.counts.get('Running', 0), 'running')} stopped until continued, and keep the slots.",
    ),
    "continue": _JobAction(
        "continue", "Continue", frozenset({"Suspended"}),
        lambda jobs: f"{_are(jobs.counts.get('Suspended', 0), 'suspended')} continued.",
    ),
}  # fmt: skip


def possible_actions(queries: Queries, kind: str, name: str, user: str) -> list[str]:
    """Return the actions on a thing that its state and the pool's rules allow, for the present of a pool's own log."""
    if queries.at is not None or queries.imported or not user:
        return []
    is_super = user in super_users(queries.views.pool().settings)
    if kind in ("job", "cluster"):
        jobs = _jobs(queries, name)
        if jobs.total == 0 or not (is_super or user == jobs.owner):
            return []
        return [*(each for each, row in _JOB_ACTIONS.items() if row.statuses & jobs.counts.keys()), "priority"]
    if not is_super:
        return []
    if kind == "slot":
        return ["vacate slot"] if _slot_job(queries, name) else []
    if kind == "machine":
        return ["cancel drain" if _is_draining(queries, name) else "drain"]
    return ["factor"] if kind == "user" else []


def effect(queries: Queries, action: str, kind: str, name: str, user: str, value: str = "", reason: str = "") -> Effect:
    """Return what an action will do.

    :param value: the priority or the priority factor
    :raises ValueError: the action, the name or the value is invalid
    """
    target = _Target(kind, name, value, reason)
    if action in _JOB_ACTIONS and kind in ("job", "cluster"):
        made = _job_effect(queries, _JOB_ACTIONS[action], target)
    elif (action, kind) in _OTHERS:
        made = _OTHERS[action, kind](queries, target)
    else:
        raise ValueError(f"{action!r} is not an action on a {kind}; a page lists the actions that apply")
    return Effect(action in possible_actions(queries, kind, name, user), *made)


_Made = tuple[str, str, str, dict[str, Any]]


def _quote(text: str) -> str:
    from shlex import quote

    return quote(text)


def _job_effect(queries: Queries, action: _JobAction, target: _Target) -> _Made:
    jobs = _jobs(queries, target.name)
    reason = f" -reason {_quote(target.reason)}" if target.reason else ""
    body = {"selection": _selection(target.name), "reason": target.reason or f"via poolbook {action.command}"}
    return action.sentence(jobs), f"poolbook {action.command} {target.name}{reason}", action.request, body


def _selection(name: str) -> dict[str, Any]:
    cluster, _, proc = name.partition(".")
    return {"jobs": [[int(cluster), int(proc)]]} if proc else {"clusters": [int(cluster)]}


def _jobs(queries: Queries, name: str) -> _Jobs:
    """Count the jobs of a cluster or a single job by status. Raise `ValueError`."""
    cluster, _, proc = name.partition(".")
    if not (cluster.isascii() and cluster.isdecimal() and (not proc or (proc.isascii() and proc.isdecimal()))):
        raise ValueError(f"{name!r} is not a job or cluster; use a number such as 12 or 12.3")
    connection, now = queries.views.connection, queries.views.at // SECOND
    rows = job_statuses(connection, int(cluster), int(proc) if proc else None, now)
    by_name = {STATUS_NAMES.get(status, ""): row for status, row in rows.items()}
    counts = {name: jobs for name, (jobs, _) in by_name.items()}
    work = sum(seconds for name, (_, seconds) in by_name.items() if name in _RUNS)
    owner = connection.execute("SELECT owner FROM clusters WHERE cluster=?", (int(cluster),)).fetchone()
    return _Jobs("" if owner is None else owner[0], counts, work)


def _priority(queries: Queries, target: _Target) -> _Made:
    number = _number(target.value, "priority", int)
    jobs = _jobs(queries, target.name)
    sentence = (
        f"{_are(jobs.total)} given the priority {number}: {jobs.owner}'s jobs with a higher priority start first."
    )
    body = {"selection": _selection(target.name), "changes": {"JobPrio": str(number)}}
    return sentence, f"poolbook prio -p {number} {target.name}", "Edit", body


def _number(text: str, label: str, kind: type[int] | type[float]) -> int | float:
    try:
        number = kind(text)
    except ValueError:
        number = nan
    if not isfinite(number):
        raise ValueError(f"{label}: {text[:80]!r} is not a number; enter one such as 10")
    return number


def _slot_job(queries: Queries, slot: str) -> str:
    statement = "SELECT cluster || '.' || first FROM jobs WHERE slot=?"
    row = queries.views.connection.execute(statement, (slot,)).fetchone()
    return "" if row is None else str(row[0])


def _vacate_slot(queries: Queries, target: _Target) -> _Made:
    job = _slot_job(queries, target.name)
    sentence = f"Job {job}: {_vacate(_jobs(queries, job))}" if job else f"{target.name} runs no job."
    return sentence, f"poolbook vacate {target.name}", "VacateSlot", {"slot": target.name}


def _is_draining(queries: Queries, machine: str) -> bool:
    statement = "SELECT record->'$.drain' IS NOT NULL AND record->>'$.drain' IS NOT NULL FROM machines WHERE machine=?"
    row = queries.views.connection.execute(statement, (machine,)).fetchone()
    return bool(row and row[0])


def _drain(queries: Queries, target: _Target) -> _Made:
    statement = "SELECT COUNT(*) FROM jobs WHERE slot IN (SELECT name FROM slots WHERE machine=?)"
    (running,) = queries.views.connection.execute(statement, (target.name,)).fetchone()
    jobs = f" {counted(running, 'running job')} may use the retirement time, and then must end." if running else ""
    reason = f" -reason {_quote(target.reason)}" if target.reason else ""
    sentence = f"{target.name} accepts no more jobs until the drain is cancelled.{jobs}"
    return sentence, f"poolbook drain{reason} {target.name}", "Drain", {"machine": target.name, "reason": target.reason}


def _cancel_drain(queries: Queries, target: _Target) -> _Made:
    sentence = f"The drain ends, and {target.name} accepts jobs again."
    return sentence, f"poolbook drain -cancel {target.name}", "CancelDrain", {"machine": target.name}


def _factor(queries: Queries, target: _Target) -> _Made:
    factor = _number(target.value, "priority factor", float)
    if factor < 1:
        raise ValueError(f"priority factor: {factor:g} is too small; enter a number from 1 on")
    now = next((row.factor for row in queries.views.submitters() if row.name == target.name), None)
    before = f", which is {now:g} now," if now is not None else ""
    sentence = (
        f"The priority factor of {target.name}{before} is set to {factor:g}. "
        "A user with a higher factor receives a smaller share of the cores, from the next negotiation cycle on."
    )
    body = {"submitter": target.name, "name": "factor", "value": factor}
    return sentence, f"poolbook userprio -setfactor {target.name} {factor:g}", "SetSubmitter", body


_OTHERS: Final[Mapping[tuple[str, str], Callable[[Queries, _Target], _Made]]] = {
    ("priority", "job"): _priority,
    ("priority", "cluster"): _priority,
    ("vacate slot", "slot"): _vacate_slot,
    ("drain", "machine"): _drain,
    ("cancel drain", "machine"): _cancel_drain,
    ("factor", "user"): _factor,
}

"""The fold's state of slots and of running jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from ....domain.events import Ad, JobExited
from ....domain.state.job_ad import began_in_vain, unquoted
from ....domain.state_machines.hold_codes import Why
from ....domain.units import SECOND
from .event_text import Numbers, Resource, megabytes, number, resources
from .logged_clusters import LoggedCluster

COMMON = {"Cpus": "", "Disk": "", "GPUs": "0", "Memory": ""}
"""Resources that every slot has, with the text for a slot that does not mention them."""


def address(name: str) -> str:
    """Return a contact address in HTCondor's form. Port 0: nobody listens there."""
    return f"<127.0.0.1:0?alias={name}>"


@frozen
class Place:
    """A slot: its machine and its resources as texts."""

    slot: str
    machine: str
    offers: Mapping[str, str]
    assigned: Mapping[str, str]
    ad: Mapping[str, str] = field(factory=dict)  #: what its own ad says


def place(slot: str, machine: str, ad: Ad) -> Place:
    custom = [name for name in unquoted(ad.get("MachineResources", "")).replace(",", " ").split() if name in ad]
    names = dict.fromkeys([*COMMON, *(name for name in custom if name != "Swap")])
    offers = {name: ad.get(name) or COMMON.get(name, "") for name in names}
    assigned = {name: text for name in names if (text := ad.get(f"Assigned{name}"))}
    return Place(slot, machine, {name: text for name, text in offers.items() if text}, assigned, ad)


def changed(before: Place, changes: Ad) -> Place:
    """Return the slot after its ad changed."""
    news = {name: text for name, text in changes.items() if name in before.offers and text}
    ad = {**before.ad, **changes}
    return Place(before.slot, before.machine, {**before.offers, **news}, before.assigned, ad)


def said_of(where: Place, machine: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return what attributes of a slot, or of its machine, say; without those that it lacks."""
    known = {name.lower(): (name, text) for name, text in {**machine, **where.ad}.items() if text}
    return dict(known[name.lower()] for name in names if name.lower() in known)


def local(slot: str) -> Place:
    """Return where a job of the local universe runs: at the access point, without a slot."""
    return Place(slot, "", {}, {})


@define
class LoggedRun:
    """One run of a job on a slot, from the activation until its last process is gone."""

    place: Place
    host: str
    activated: int
    executing: int | None = None  #: when its own process began
    resident: int = 0
    disk: int = 0
    moved: Numbers = (0, 0)  #: the bytes of its files: sent and received by the job
    suspended: bool = False
    deferred: bool = False  #: whether its process was to wait for its time
    removed: bool = False
    why: Why | None = None  #: the first reason that stopped it
    error: Why | None = None  #: the hold by its startd, which is reported as an error
    asked: dict[str, str] = field(factory=dict)  #: what its job wants to be told of the slot when it begins
    waiting: list[tuple[int, str]] = field(factory=list)  #: events (number, body) to write when its processes are gone


def table(run: LoggedRun, cluster: LoggedCluster, exit: JobExited) -> str:
    """Return the table of resources at a run's end. What was not measured stays empty; a run of less than a second has
    no CPU usage. A job of the local universe has none."""
    if not run.place.machine:
        return ""
    ended = exit.at // SECOND
    busy = ended - run.activated // SECOND
    executed = None if run.executing is None else ended - run.executing // SECOND
    resident = max(run.resident, exit.resident)
    cpu = (exit.user_cpu + exit.system_cpu) / SECOND
    usage = {
        "Cpus": number(round(cpu / executed, 2)) if executed else "",
        "Disk": str(exit.disk or run.disk or "") or _literal(cluster.value(exit.proc, "DiskUsage")),
        "Memory": str(megabytes(resident)) if resident else "",
    }
    offers, assigned = run.place.offers, run.place.assigned
    rows = [
        Resource(
            name, usage.get(name, ""), cluster.requested(exit.proc, name), offers.get(name, ""), assigned.get(name, "")
        )
        for name in {**COMMON, **offers}
    ]
    if executed is not None:
        rows.append(Resource("TimeExecute", str(executed)))
    if executed is not None or began_in_vain(exit):
        rows.append(Resource("TimeSlotBusy", str(busy)))
    return resources(rows)


def _literal(text: str) -> str:
    return text if text.isdigit() else ""

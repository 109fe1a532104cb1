"""Messages about jobs and slots that are not in a log, with the names that are. They read the whole log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import tzinfo

from ...domain import events as e
from ...domain.imported.packed_ads import index_of_event
from ...domain.ports.log import EventStore
from ...domain.suggestions import close_names
from ..forensics.imported_log import single_entries
from ..narration.formatting import counted, instant

NEAR_NAMES = 5
_KEY = re.compile(r"([1-9]\d*)\.(\d+)", re.ASCII)  #: a job's key in the schedd's table; a cluster's key begins with 0


def unknown_job(log: EventStore, cluster: int, proc: int | None, at: int | None, zone: tzinfo) -> str:
    """Return a message about an unknown job or cluster, with the jobs that exist. Reads the whole log."""
    jobs = {job for _, event in single_entries(log.read()) for job in _jobs_of(event)}
    procs = {number for other_cluster, number in jobs if other_cluster == cluster and number >= 0}
    clusters = {number for number, _ in jobs if number > 0}  # 0.0 is the header of the schedd's table
    name = f"cluster {cluster}" if proc is None else f"job {cluster}.{proc}"
    text = f"the log has no {name}{'' if at is None else f' at {instant(at, zone)}'}"
    if procs:
        return f"{text}; of cluster {cluster} it has {_range([f'{cluster}.{number}' for number in sorted(procs)])}"
    if clusters:
        return f"{text}; it has jobs of {_range([str(number) for number in sorted(clusters)], 'cluster ', 'clusters ')}"
    return f"{text}: it has no records of jobs"


def _jobs_of(event: e.Event) -> Iterator[tuple[int, int]]:
    if isinstance(event, e.JobLogged | e.JobReported):
        yield event.cluster, event.proc
    elif isinstance(event, e.AdsKept) and event.kind in ("history", "epochs", "job_ads"):
        columns = index_of_event(event)
        yield from zip(columns.integers("cluster"), columns.integers("proc"), strict=True)
    elif isinstance(event, e.TableWritten) and event.kind == "queue":
        keys = (_KEY.fullmatch(key) for _, key, _, _ in event.operations)
        yield from ((int(key[1]), int(key[2])) for key in keys if key)


def _range(names: list[str], singular: str = "", plural: str = "") -> str:
    if len(names) == 1:
        return singular + names[0]
    return f"{plural}{', '.join(names)}" if len(names) <= 5 else f"{plural}{names[0]} to {names[-1]} ({len(names):,})"


def slots_called(log: EventStore, name: str) -> list[str]:
    """Return the slots of this name (the part before the @) on any machine. Reads the whole log."""
    return [slot for slot in _slots(log) if slot.partition("@")[0] == name]


def _slots(log: EventStore) -> list[str]:
    return sorted({event.slot for _, event in log.read() if isinstance(event, e.SlotEvent)})


def unknown_slot(log: EventStore, name: str, at: int | None, zone: tzinfo) -> str:
    """Return a message about an unknown slot, with the slots that exist. Reads the whole log."""
    names = _slots(log)
    text = f"the log has no slot {name}{'' if at is None else f' at {instant(at, zone)}'}"
    near_names = close_names(name, names, NEAR_NAMES, 0.5)
    if name in names or not names:
        return text if names else f"{text}: it has no records of slots"
    if near_names:
        return f"{text}; near: {', '.join(near_names)}"
    return f"{text}; it has {counted(len(names), 'slot')}, from {names[0]} to {names[-1]}"

"""Write the daemons' logs of a pool's log, and compare what the import reads in them with the pool's log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC
from pathlib import Path

from poolbook.adapters.runtime.configuration import load
from poolbook.adapters.runtime.daemon_logs.log_settings import LogSettings, log_settings
from poolbook.adapters.runtime.daemon_logs.writer import DaemonLogWriter
from poolbook.domain import events as e
from poolbook.domain.ports.log import EventStore
from poolbook.domain.state_machines import DELETED

SECOND = 1_000_000
Fact = tuple[object, ...]


def configured(text: str, folder: str = "") -> LogSettings | None:
    """Return the settings of the logs under this configuration."""
    return log_settings(lambda daemon: load((), environment={}, subsystem=daemon, text=text), folder)


def write_logs(log: EventStore, folder: Path, text: str = "") -> list[str]:
    """Write the logs of all daemons into a folder, and return their paths in it."""
    settings = configured(text, str(folder))
    assert settings is not None
    writer = DaemonLogWriter(settings, zone=UTC)
    writer.write(log.read())
    return sorted(str(Path(path).relative_to(folder)) for path in writer.sizes)


def _instant(at: int, unit: int) -> int:
    return (at + (unit // 2 if unit < SECOND else 0)) // unit * unit


def facts_of_pool(log: EventStore, unit: int = SECOND) -> Counter[Fact]:
    """Return what a pool's log says about slots, matches, runs and processes, with times in multiples of `unit`."""
    facts: list[Fact] = []
    submitters: dict[int, str] = {}
    executing: set[tuple[int, int]] = set()
    for position, event in log.read():
        at = _instant(event.at, unit)
        match event:
            case e.SlotTransitioned():
                facts.append(("moved", at, event.slot, event.source, event.target))
            case e.SlotCreated():
                facts.append(("created", at, event.slot, event.kind))
            case e.ClusterSubmitted():
                submitters[event.cluster] = event.submitter
            case e.CycleHeld():
                facts += [("matched", at, match.job, match.slot) for match in event.matches]
                facts += [("rejected", at, refusal.job) for refusal in event.unmatched]
                facts.append(("cycle", at))
            case e.JobActivated() if event.claim:
                facts.append(("began", at, f"{event.cluster}.{event.proc}", event.slot, str(position)))
            case e.JobExecuting():
                executing.add((event.cluster, event.proc))
                facts.append(("process", at, f"{event.cluster}.{event.proc}", str(event.pid)))
            case e.JobExited():
                facts += _end_of_run(event, at, (event.cluster, event.proc) in executing)
                executing.discard((event.cluster, event.proc))
    return Counter(facts)


def _end_of_run(event: e.JobExited, at: int, has_process: bool) -> Iterable[Fact]:
    job = f"{event.cluster}.{event.proc}"
    yield "over", at, job, event.key
    if has_process and (event.code is not None or event.signal is not None):
        yield "exit", at, job, str(event.code if event.code is not None else -(event.signal or 0))


def facts_of_import(log: EventStore) -> Counter[Fact]:
    """Return the same facts from an imported log. Matches are in the NegotiatorLog, too; only the MatchLog's count."""
    facts: list[Fact] = []
    kinds: dict[str, str] = {}
    for _, event in log.read():
        match event:
            case e.SourceFound():
                kinds[str(event.source)] = event.kind
            case e.SlotTransitioned() if event.target != DELETED:
                facts.append(("moved", event.at, event.slot, event.source, event.target))
            case e.SlotCreated():
                facts.append(("created", event.at, event.slot, event.kind))
            case e.CycleReported() if event.said == "began":
                facts.append(("cycle", event.at))
            case e.JobReported() if kinds[event.stimulus.partition(":")[0]] != "negotiatorlog":
                facts += _reported(event, f"{event.cluster}.{event.proc}")
    return Counter(facts)


def _reported(event: e.JobReported, job: str) -> Iterable[Fact]:
    facts = event.facts
    match event.said:
        case "matched":
            yield "matched", event.at, job, facts["slot"]
        case "rejected":
            yield "rejected", event.at, job
        case "shadow_began":
            yield "began", event.at, job, facts["slot"], facts["shadow"]
        case "shadow_gone":
            yield "over", event.at, job, facts["shadow"]
        case "process_began":
            yield "process", event.at, job, facts["pid"]
        case "process_ended":
            yield "exit", event.at, job, facts.get("code") or f"-{facts['signal']}"

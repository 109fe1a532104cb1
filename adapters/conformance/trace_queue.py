"""The jobs of a golden trace: what was submitted when, and when each of them waited.

Submissions are those of ``timeline.txt``, with the descriptions in ``submit/`` (``<user>-<name>.sub``); when each was,
its first job's entry in an event log says, else its QDate, else the timeline. A cluster of which no description is
there has the ad that the histories or condor_q have of its first job.

When a job waited, ran or was held is told by the entries of job event logs, and by the claims on the machines: a job
that a claim was requested for no longer waits, whatever its log says of it later. Where the entry of a run's end was
trimmed away, the job waits again if it is started again, and is over if it is not.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from itertools import pairwise
from typing import Final

from attrs import evolve, frozen

from ...domain import events as e
from ...domain.config import Configuration
from ...domain.decide import Refusal, Tables, decide
from ...domain.events import Ad, JobsLogged
from ...domain.negotiator.pool_configuration import submissions
from ...domain.ports import stimuli as s
from ...domain.state.job_ad import LIVED, unquoted
from ...domain.state.proc_ads import pack
from ...domain.state.settings import for_submissions
from ...domain.state.state import State
from ...domain.state_machines import job_machine, slot_machine
from ...domain.submit import Facts, SubmitError, parse_submit
from ...replay.conformance.recording import JobMove, RecordedSubmission
from ..condor_files.job_event_log import JobEventLogReader
from ..condor_files.reader import SourceFile
from ..machine.host import CONDOR_VERSION
from .trace_files import SECOND, TraceFiles
from .trace_settings import system

_COMMAND: Final = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (\w+)\$ condor_submit (.*)")
_TIMED: Final = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d ")
_ANSWER: Final = re.compile(r"\d+ job\(s\) submitted to cluster (\d+)\.|(\d+)\.0 - \d+\.\d+$")
_MOVES: Final = {1: "Running", 4: "Idle", 5: "Completed", 7: "Idle", 9: "Completed", 12: "Held", 13: "Idle", 24: "Idle"}
"""The status of a job after an entry of its event log, by the entry's number."""
_ENDS: Final = frozenset({"Idle", "Completed", "Held"})
_NEAR: Final = 5 * SECOND
"""An end that the machine tells of is the one that the event log tells within this time."""


@frozen
class SubmitCommand:
    """A submission of the timeline: who submitted what as which cluster; ``arguments`` are condor_submit's."""

    at: int
    user: str
    arguments: tuple[str, ...]
    cluster: int


class _NoDisk:
    """The disk of the recorded pool, of which nothing is left."""

    def read(self, path: str) -> str:
        raise OSError("the recorded pool's files are gone")

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        return []

    def size(self, path: str) -> int | None:
        return 0


def commands(files: TraceFiles) -> Iterator[SubmitCommand]:
    """The submissions of the timeline that were accepted."""
    instants = iter(files.timeline)
    found: tuple[int, str, str] | None = None
    for line in files.text("timeline.txt").splitlines():
        if _TIMED.match(line):
            at = next(instants).at
            command = _COMMAND.fullmatch(line)
            found = (at, command[1], command[2]) if command else None
        elif found is not None and (answer := _ANSWER.match(line)):
            yield SubmitCommand(found[0], found[1], tuple(shlex.split(found[2])), int(answer[1] or answer[2]))
            found = None


def queue(
    files: TraceFiles, domain: str, dialect: str, configuration: Configuration, pool: Sequence[e.Event]
) -> tuple[list[RecordedSubmission], list[str]]:
    """The submissions in their order, and those that are left out, with the reasons."""
    settings = for_submissions(submissions(configuration))
    entries = _entries(files, max((event.at for event in pool), default=0))
    told = {one.cluster: one for one in commands(files)}
    ads = {int(id.partition(".")[0]): ad for id, ad in sorted(files.jobs.items(), reverse=True)}
    tables = Tables(slot_machine(dialect), job_machine(dialect))
    state = State()
    decide(state, s.FoundPool("founding", domain, dialect, domain, "", {}), 1, tables)
    moves = _moves(entries, pool)
    found: list[RecordedSubmission] = []
    left_out: list[str] = []
    for cluster in sorted(told.keys() | ads.keys()):
        first = next((at for at, proc, number in entries.get(cluster, ()) if number == 0), 0)
        ad, command = ads.get(cluster, {}), told.get(cluster)
        at = first or int(ad.get("QDate", "0")) * SECOND or (command.at if command else 0)
        try:
            request = _described(files, command, domain, at, settings) if command else None
            request = _counting(request, ad) if request else _of_ad(files, cluster, ad)
            events = decide(state, request, at, tables)
        except (SubmitError, Refusal) as error:
            left_out.append(f"cluster {cluster}: {error}")
            continue
        event = next(event for event in events if isinstance(event, e.ClusterSubmitted))
        event = evolve(event, factor=0.0)  # it is for the settings of the recorded pool to say
        found.append(RecordedSubmission(event, tuple(moves.get(cluster, ()))))
    return found, left_out


def _described(
    files: TraceFiles, command: SubmitCommand, domain: str, at: int, settings: Mapping[str, str]
) -> s.Submit | None:
    """The request that a submit description makes; None if there is none."""
    words, append, name = list(command.arguments), [], ""
    while words:
        word = words.pop(0)
        if word in ("-append", "-a") and words:
            append.append(words.pop(0))
        elif not word.startswith("-"):
            name = word
    text = files.text(f"submit/{command.user}-{name}")
    if not text:
        return None
    machine = system(files)
    facts = Facts(
        now=at // SECOND,
        owner=command.user,
        uid_domain=domain,
        filesystem_domain=domain,
        iwd=f"/home/{command.user}",
        version=CONDOR_VERSION,
        platform="",
        arch=unquoted(machine.get("Arch", '"X86_64"')),
        opsys=unquoted(machine.get("OpSys", '"LINUX"')),
        cluster=command.cluster,
        settings=settings,
    )
    parsed = parse_submit(text, facts, _NoDisk(), append=append)
    ad, columns = parsed.ad, pack(parsed.columns)
    return s.Submit(f"cluster-{command.cluster}", command.user, command.cluster, ad, parsed.count, columns, name)


def _counting(request: s.Submit, ad: Ad) -> s.Submit:
    """The request as the access point took it: it may have put the jobs into an accounting group."""
    group = ad.get("AccountingGroup", "")
    return evolve(request, ad={**request.ad, "AccountingGroup": group}) if group else request


def _of_ad(files: TraceFiles, cluster: int, ad: Ad) -> s.Submit:
    """The request that would have made a job with this ad."""
    count = 1 + max(int(id.partition(".")[2]) for id in files.jobs if id.startswith(f"{cluster}."))
    count = max(count, int(ad.get("TotalSubmitProcs", "0")))
    kept = {name: text for name, text in ad.items() if name.lower() not in LIVED and name not in _IDS}
    return s.Submit(f"cluster-{cluster}", unquoted(ad["Owner"]), cluster, kept, count, pack({}), "")


_IDS: Final = frozenset({"ClusterId", "ProcId"})

# What became of the jobs

_Entries = Mapping[int, list[tuple[int, int, int]]]
"""By cluster: instant, process and number of each entry, in order."""


def _entries(files: TraceFiles, last: int) -> _Entries:
    """What the job event logs say, which end about the instant ``last``; what several of them say counts once."""
    found: dict[int, set[tuple[int, int, int]]] = defaultdict(set)
    for name in (*files.names("EventLog"), *files.names("*job.log")):
        source = SourceFile(1, name, "userlog", "", UTC, last / SECOND, 1 << 62)
        data = files.data(name) or b""
        for event in JobEventLogReader(source, None, 0).read(data)[0]:
            if isinstance(event, JobsLogged):
                found[event.cluster] |= {(at, proc, number) for at, _, proc, _, number, _ in event.entries}
    return {cluster: sorted(entries) for cluster, entries in found.items()}


def _moves(entries: _Entries, pool: Iterable[e.Event]) -> dict[int, list[JobMove]]:
    """The moves of each cluster's jobs, in order."""
    found: dict[tuple[int, int], list[JobMove]] = defaultdict(list)
    for cluster, lines in entries.items():
        for at, proc, number in lines:
            if number in _MOVES:
                found[cluster, proc].append(JobMove(at - at % SECOND, proc, _MOVES[number]))
    for job, moves in _of_machines(pool).items():
        logged = [move for move in found[job] if move.status in _ENDS]
        for move, following in pairwise([*moves, None]):
            assert move is not None
            if move.status == "Running":
                found[job].append(move)
            elif not any(abs(one.at - move.at) <= _NEAR for one in logged):
                found[job].append(evolve(move, status="Idle" if following is not None else "Completed"))
    by_cluster: dict[int, list[JobMove]] = defaultdict(list)
    for (cluster, _), moves in found.items():
        by_cluster[cluster] += moves
    return {
        cluster: sorted(moves, key=lambda one: (one.at, one.status == "Running"))
        for cluster, moves in by_cluster.items()
    }


def _of_machines(pool: Iterable[e.Event]) -> dict[tuple[int, int], list[JobMove]]:
    """What the machines tell of jobs: a claim was requested for one, or one was started (Running), or it ended."""
    found: dict[tuple[int, int], list[JobMove]] = defaultdict(list)
    waiting: dict[str, str] = {}
    for event in pool:
        if isinstance(event, e.ClaimMade | e.ClaimQueued | e.ClaimActivated) and event.job:
            found[_job(event.job)].append(JobMove(event.at, _job(event.job)[1], "Running", event.slot))
            if isinstance(event, e.ClaimQueued):
                waiting[event.slot] = event.job
        elif isinstance(event, e.ClaimDeactivated) and event.job:
            found[_job(event.job)].append(JobMove(event.at, _job(event.job)[1], "Idle", event.slot))
        elif isinstance(event, e.ClaimWithdrawn) and (job := waiting.pop(event.slot, "")):
            found[_job(job)].append(JobMove(event.at, _job(job)[1], "Idle", event.slot))
    return found


def _job(text: str) -> tuple[int, int]:
    cluster, _, proc = text.partition(".")
    return int(cluster), int(proc)

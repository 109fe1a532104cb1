"""Read the jobs of a golden trace: the submissions, and when each job was idle. Submissions come from ``timeline.txt``,
with the descriptions in ``submit/`` (``<user>-<name>.sub``). Their instant is that of the first job's entry in an event
log, else its QDate, else the timeline's. A cluster without a description gets its first job's ad from the histories or
condor_q.

 Job event logs and the machines' claims show when a job was idle, ran or was held. A job for which a claim was
requested is not idle, whatever its log says later. If the end of a run was trimmed away, the job is idle again if it
restarts, and otherwise over.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final

from attrs import evolve, frozen
from msgspec.structs import replace

from poolbook.adapters.condor_files.job_event_log_reader import JobEventLogReader
from poolbook.adapters.machine.host import CONDOR_VERSION
from poolbook.domain import events as e
from poolbook.domain.config import Configuration
from poolbook.domain.decide import Refusal, Tables, decide
from poolbook.domain.decide.pool_configuration import configured_submission_settings
from poolbook.domain.events import Ad, JobsLogged
from poolbook.domain.ports import stimuli as s
from poolbook.domain.schedd.factories import LIMITS
from poolbook.domain.state.job_ad import unquoted
from poolbook.domain.state.pool_settings import submission_settings
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.state.runtime_attributes import RUNTIME_ATTRIBUTES
from poolbook.domain.state.state import State
from poolbook.domain.submit import NoSubmitFiles, SubmitError, SubmitFacts, parse_submit

from .recording import JobMove, RecordedSubmission
from .trace_files import SECOND, TraceFiles, source
from .trace_settings import system

_COMMAND: Final = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (\w+)\$ condor_submit (.*)")
_TIMED: Final = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d ")
_ANSWER: Final = re.compile(r"\d+ job\(s\) submitted to cluster (\d+)\.|(\d+)\.0 - \d+\.\d+$")
_MOVES: Final = {1: "Running", 4: "Idle", 5: "Completed", 7: "Idle", 9: "Completed", 12: "Held", 13: "Idle", 24: "Idle"}
"""Number of an event log entry -> the job's status after it."""
_ENDS: Final = frozenset({"Idle", "Completed", "Held"})
_NEAR: Final = 5 * SECOND
"""Time (microseconds) within which an end in the machine's log and one in the event log are the same."""


@frozen
class SubmitCommand:
    """A submission of the timeline."""

    at: int
    user: str
    arguments: tuple[str, ...]  #: condor_submit's
    cluster: int


def commands(files: TraceFiles) -> Iterator[SubmitCommand]:
    """Yield the timeline's accepted submissions."""
    instants = iter(files.timeline)
    submission: tuple[int, str, str] | None = None
    for line in files.text("timeline.txt").splitlines():
        if _TIMED.match(line):
            at = next(instants).at
            command = _COMMAND.fullmatch(line)
            submission = (at, command[1], command[2]) if command else None
        elif submission is not None and (answer := _ANSWER.match(line)):
            at, user, arguments = submission
            yield SubmitCommand(at, user, tuple(shlex.split(arguments)), int(answer[1] or answer[2]))
            submission = None


def queue(
    files: TraceFiles, domain: str, dialect: str, configuration: Configuration, pool: Sequence[e.Event]
) -> tuple[list[RecordedSubmission], list[str]]:
    """Return the submissions in order, and the omitted ones with the reasons."""
    settings = submission_settings(configured_submission_settings(configuration))
    entries = _entries(files, max((event.at for event in pool), default=0))
    commands_by_cluster = {submission.cluster: submission for submission in commands(files)}
    ads = {int(id.partition(".")[0]): ad for id, ad in sorted(files.jobs.items(), reverse=True)}
    tables = Tables(dialect)
    state = State()
    decide(state, s.FoundPool("founding", domain, dialect, domain, "", {}), 1, tables)
    moves = _moves(entries, pool)
    queued: list[RecordedSubmission] = []
    left_out: list[str] = []
    for cluster in sorted(commands_by_cluster.keys() | ads.keys()):
        first = next((at for at, proc, number in entries.get(cluster, ()) if number == 0), 0)
        ad, command = ads.get(cluster, {}), commands_by_cluster.get(cluster)
        at = first or int(ad.get("QDate", "0")) * SECOND or (command.at if command else 0)
        try:
            request = _described(files, command, domain, at, settings) if command else None
            request = _counting(request, ad) if request else _of_ad(files, cluster, ad)
            events = decide(state, request, at, tables)
        except (SubmitError, Refusal) as error:
            left_out.append(f"cluster {cluster}: {error}")
            continue
        event = next(event for event in events if isinstance(event, e.ClusterSubmitted))
        event = replace(event, factor=0.0)  # the recorded pool's settings determine it
        queued.append(RecordedSubmission(event, tuple(moves.get(cluster, ()))))
    return queued, left_out


def _described(
    files: TraceFiles, command: SubmitCommand, domain: str, at: int, settings: Mapping[str, str]
) -> s.Submit | None:
    """Return the request of a submit description, or None if there is none."""
    arguments, append, name = list(command.arguments), [], ""
    while arguments:
        word = arguments.pop(0)
        if word in ("-append", "-a") and arguments:
            append.append(arguments.pop(0))
        elif not word.startswith("-"):
            name = word
    text = files.text(f"submit/{command.user}-{name}")
    if not text:
        return None
    machine = system(files)
    facts = SubmitFacts(
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
    parsed = parse_submit(text, facts, NoSubmitFiles("the recorded pool's files are gone"), append=append)
    ad, columns = _at_once(parsed.ad), pack(parsed.columns)
    return s.Submit(f"cluster-{command.cluster}", command.user, command.cluster, ad, parsed.count, columns, name)


def _at_once(ad: Ad) -> Ad:
    """Return a cluster's ad without the attributes that materialize its jobs gradually: a record's jobs exist."""
    return {name: text for name, text in ad.items() if name.lower() not in LIMITS}


def _counting(request: s.Submit, ad: Ad) -> s.Submit:
    """Return the request as the schedd accepted it: it may have added an accounting group."""
    group = ad.get("AccountingGroup", "")
    return replace(request, ad={**request.ad, "AccountingGroup": group}) if group else request


def _of_ad(files: TraceFiles, cluster: int, ad: Ad) -> s.Submit:
    """Return the request that would have created a job with this ad."""
    count = 1 + max(int(id.partition(".")[2]) for id in files.jobs if id.startswith(f"{cluster}."))
    count = max(count, int(ad.get("TotalSubmitProcs", "0")))
    attributes = {
        name: text for name, text in ad.items() if name.lower() not in RUNTIME_ATTRIBUTES and name not in _IDS
    }
    return s.Submit(f"cluster-{cluster}", unquoted(ad["Owner"]), cluster, _at_once(attributes), count, pack({}), "")


_IDS: Final = frozenset({"ClusterId", "ProcId"})

# -- The jobs' moves

_Entries = Mapping[int, list[tuple[int, int, int]]]
"""Cluster -> instant, process and number of each entry, in order."""


def _entries(files: TraceFiles, last: int) -> _Entries:
    """Return the entries of the job event logs, which end about ``last``; an entry of several logs counts once."""
    found_entries: dict[int, set[tuple[int, int, int]]] = defaultdict(set)
    for name in (*files.names("EventLog"), *files.names("*job.log")):
        read = JobEventLogReader(source(name, "userlog", modified=last / SECOND), None, 0).read
        for event in read(files.data(name) or b"")[0]:
            if isinstance(event, JobsLogged):
                found_entries[event.cluster] |= {(at, proc, number) for at, _, proc, _, number, _ in event.entries}
    return {cluster: sorted(entries) for cluster, entries in found_entries.items()}


def _moves(entries: _Entries, pool: Iterable[e.Event]) -> dict[int, list[JobMove]]:
    """Return the moves of each cluster's jobs, in order."""
    moves_by_job: dict[tuple[int, int], list[JobMove]] = defaultdict(list)
    for cluster, lines in entries.items():
        for at, proc, number in lines:
            if number in _MOVES:
                moves_by_job[cluster, proc].append(JobMove(at - at % SECOND, proc, _MOVES[number]))
    for job, moves in _of_machines(pool).items():
        logged = [move for move in moves_by_job[job] if move.status in _ENDS]
        for move, following in pairwise([*moves, None]):
            assert move is not None
            if move.status == "Running":
                moves_by_job[job].append(move)
            elif not any(abs(logged_move.at - move.at) <= _NEAR for logged_move in logged):
                moves_by_job[job].append(evolve(move, status="Idle" if following is not None else "Completed"))
    by_cluster: dict[int, list[JobMove]] = defaultdict(list)
    for (cluster, _), moves in moves_by_job.items():
        by_cluster[cluster] += in_turn(moves)
    for moves in by_cluster.values():
        moves.sort(key=lambda one: one.at)
    return by_cluster


def in_turn(moves: Iterable[JobMove]) -> Iterator[JobMove]:
    """Yield a job's moves in order: in one second an idle job runs before its run ends, and any other job changes
    otherwise before it runs."""
    status = "Idle"
    for _, simultaneous in groupby(sorted(moves, key=lambda one: one.at), lambda one: one.at // SECOND):
        remaining = list(simultaneous)
        while remaining:
            move = next(
                (candidate for candidate in remaining if (candidate.status == "Running") == (status == "Idle")),
                remaining[0],
            )
            remaining.remove(move)
            status = move.status
            yield move


def _of_machines(pool: Iterable[e.Event]) -> dict[tuple[int, int], list[JobMove]]:
    """Return the moves that the machines show: a claim was requested or activated (Running), or ended."""
    moves_by_job: dict[tuple[int, int], list[JobMove]] = defaultdict(list)
    waiting: dict[str, str] = {}
    for event in pool:
        if isinstance(event, e.ClaimMade | e.ClaimQueued | e.ClaimActivated) and event.job:
            moves_by_job[_job(event.job)].append(JobMove(event.at, _job(event.job)[1], "Running", event.slot))
            if isinstance(event, e.ClaimQueued):
                waiting[event.slot] = event.job
        elif isinstance(event, e.ClaimDeactivated) and event.job:
            moves_by_job[_job(event.job)].append(JobMove(event.at, _job(event.job)[1], "Idle", event.slot))
        elif isinstance(event, e.ClaimWithdrawn) and (job := waiting.pop(event.slot, "")):
            moves_by_job[_job(job)].append(JobMove(event.at, _job(job)[1], "Idle", event.slot))
    return moves_by_job


def _job(text: str) -> tuple[int, int]:
    cluster, _, proc = text.partition(".")
    return int(cluster), int(proc)

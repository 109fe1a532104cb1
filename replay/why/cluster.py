"""Summarize the jobs of a cluster: their outcomes, and why the first job failed, is held or waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from itertools import zip_longest

from ...domain import events as e
from ...domain.names import JobId
from ...domain.ports.log import EventStore
from ...domain.state_machines import HTCONDOR_25
from ..forensics.imported_log import PlaceNames, is_imported, single_entries
from ..narration.formatting import EVER, counted, instant
from ..narration.sentence_tables import ADVICE
from ..narration.sentences import Explanation, Sentence, UnknownThingError, answer, events_until
from ..outcomes import HoldReason, Outcomes, ProcessEnd, outcome_text, outcomes_of
from ..runs.imported_runs import job_runs
from ..runs.job_run import EVICTED, RUNNING
from .imported_job import why_imported_job
from .job import why_job
from .job_records import BEGIN, JobAd, Record, ads_of_cluster, ads_of_queue, gaps_of, record_of
from .select_events import job_events
from .submissions import refusal
from .unknown_thing import unknown_job

_NAMES = {number: name.lower() for name, number in HTCONDOR_25.job_status_numbers.items()}
_OVER = ("completed", "failed", "removed")
UNKNOWN_STATE = "in an unknown state"
_OPEN = ("idle", "running", "suspended", UNKNOWN_STATE)


def why_cluster(log: EventStore, cluster: int, at: int | None, zone: tzinfo) -> Explanation:
    """Summarize a cluster's jobs as of the instant `at` (None: the log's end): the number of jobs with each outcome,
    and the answers for the first job that failed, for the first that is held, and, if none runs, for the first that
    waits.

    :raises UnknownThingError: the log has no such cluster
    """
    events = list(events_until(single_entries(log.read_stream(f"cluster/{cluster}")), at))
    results = outcomes(log, cluster, at)
    if not results.status:
        refusal_answer = refusal((*log.read_stream("evidence"), *events), cluster) if events else None
        if refusal_answer is not None:
            return refusal_answer
        moment = "" if at is None else f" at {instant(at, zone)}"
        absence = f"the log has no cluster {cluster}{moment}: `poolbook q` and `poolbook history` list its jobs"
        raise UnknownThingError(unknown_job(log, cluster, None, at, zone) if is_imported(log) else absence)
    # An import has its events in the order of reading.
    position, last_event = max(events, key=lambda event: event[1].at, default=(0, None))
    facts = {"cluster": str(cluster), "jobs": counted(len(results.status), "job"), "counts": outcome_text([results])}
    cause, stimulus = (last_event.cause, last_event.stimulus) if last_event else ("reported", "")
    head = Sentence(last_event.at if last_event else at or 0, position, "cluster", facts, cause, stimulus)
    kinds = ("failed", "held", *([] if results.first_job("running") is not None else ["idle"]))
    procs = (results.first_job(status) for status in kinds)
    first_answers = [why_any_job(log, cluster, proc, at, zone) for proc in procs if proc is not None]
    first_lines = [job_answer.lines[0] for job_answer in first_answers]
    steps = [*_missing_records(log, events, results, at, zone), *first_lines, *_later_lines(first_answers)]
    advice = first_answers[0].lines[-1] if first_answers and first_answers[0].lines[-1].code in ADVICE else None
    return answer(head, steps, advice, [sentence for job_answer in first_answers for sentence in job_answer.life])


def _later_lines(answers: Sequence[Explanation]) -> Iterator[Sentence]:
    """Yield the second lines of the answers, then the third ones and so on, without advice."""
    for lines in zip_longest(*(job_answer.lines[1:] for job_answer in answers)):
        yield from (line for line in lines if line is not None and line.code not in ADVICE)


def _missing_records(
    log: EventStore, events: Sequence[e.LoggedEvent], results: Outcomes, at: int | None, zone: tzinfo
) -> Iterator[Sentence]:
    """Yield a sentence about missing records if jobs may have ended in the gap: every log with the cluster has a gap
    after its last record of these jobs."""
    records = [record_of(position, event) for position, event in events if isinstance(event, e.JobLogged)]
    last_times: dict[int, int] = {}
    for record in records:
        last_times[record.event.proc] = max(last_times.get(record.event.proc, 0), record.at)
    places = PlaceNames(log)
    gaps = [gap for _, gap in gaps_of(log, records) if at is None or (gap.since or gap.at) <= at]
    dark_since = {places.chain(record.event.stimulus): 0 for record in records}
    for gap in gaps:
        chain = places.chain(gap.stimulus)
        dark_since[chain] = max(dark_since.get(chain, 0), gap.until or EVER)
    light = min(dark_since.values(), default=0)
    unknown = [proc for proc, status in results.status.items() if status in _OPEN and last_times.get(proc, 0) < light]
    later_gaps = [
        gap for gap in gaps if (gap.until or EVER) > min((last_times.get(proc, 0) for proc in unknown), default=EVER)
    ]
    if not later_gaps:
        return
    since, end = min(gap.since or gap.at for gap in later_gaps), max(gap.until or EVER for gap in later_gaps)
    span = f"from {instant(since, zone)} {f'to {instant(end, zone)}' if end < EVER else 'on'}"
    subject = "the end of 1 job is" if len(unknown) == 1 else f"the ends of {len(unknown):,} jobs are"
    names = tuple(dict.fromkeys(filter(None, (places.name(gap.stimulus) for gap in later_gaps))))
    yield Sentence(
        since, 0, "ends_unknown", {"when": span, "ends": subject}, later_gaps[0].cause, later_gaps[0].stimulus, names
    )


def why_any_job(log: EventStore, cluster: int, proc: int, at: int | None, zone: tzinfo) -> Explanation:
    """Explain the state of a job in the pool's own log or an imported one."""
    if is_imported(log):
        return why_imported_job(log, cluster, proc, at, zone)
    return why_job(job_events(log, cluster, proc), cluster, proc, at, zone, log.read)


def outcomes(log: EventStore, cluster: int, at: int | None = None) -> Outcomes:
    """Return the outcomes of a cluster's jobs as of the instant `at`, in the pool's own log or an imported one."""
    if is_imported(log):
        return _outcomes_of_records(log, cluster, at)
    return outcomes_of(event for _, event in events_until(log.read_stream(f"cluster/{cluster}"), at))


def _outcomes_of_records(log: EventStore, cluster: int, at: int | None) -> Outcomes:
    results = Outcomes()
    records: dict[int, list[Record]] = {}
    events = list(events_until(single_entries(log.read_stream(f"cluster/{cluster}")), at))
    for position, event in sorted(events, key=lambda event: event[1].at):
        if not isinstance(event, e.JobLogged | e.JobReported) or event.proc < 0:
            continue
        record = record_of(position, event)
        records.setdefault(event.proc, []).append(record)
        if isinstance(event, e.JobLogged):
            _update_with_entry(results, event.proc, record)
    _update_with_runs(log, cluster, at, results, records)
    for proc, ad in ads_of_cluster(log, "history", cluster):
        departure = ad.instant("CompletionDate") or ad.instant("EnteredCurrentStatus")
        if results.status.get(proc) not in _OVER and (at is None or departure <= at):
            _update_with_ad(results, proc, ad)
    for proc, ad in ads_of_queue(log, cluster, at).items():
        if proc not in results.status or (results.status[proc] in _OPEN and ad.has_left):
            _update_with_ad(results, proc, ad)
    reported_procs = {event.proc for _, event in events if isinstance(event, e.JobReported) and event.proc >= 0}
    results.set_status(sorted(reported_procs - results.status.keys()), UNKNOWN_STATE)
    return results


_BECOMES = {"0": "idle", "1": "running", "4": "idle", "7": "idle", "9": "removed", "10": "suspended", "11": "running",
            "13": "idle", "23": "running", "24": "idle"}  # fmt: skip
"""A job event log entry -> the job's status after it."""


def _update_with_entry(results: Outcomes, proc: int, record: Record) -> None:
    facts = record.facts
    if record.what == "5":
        code, signal = facts.get("code", ""), facts.get("signal", "")
        results.add_end(proc, ProcessEnd(_number(code), _number(signal)))
    elif record.what == "12":
        hold = HoldReason(facts.get("code", ""), facts.get("subcode", ""), facts.get("reason", ""))
        results.set_status((proc,), "held", hold)
    elif record.what in _BECOMES:
        results.set_status((proc,), _BECOMES[record.what])


def _update_with_runs(
    log: EventStore, cluster: int, at: int | None, results: Outcomes, records: dict[int, list[Record]]
) -> None:
    """Update the outcomes with runs whose start or end is missing from the job event logs. A job in such a log counts
    as running from its entry 001, not from its shadow's start."""
    if not set(_OPEN) & set(results.status.values()):
        return
    for run in job_runs(log, cluster, None, at):
        proc = JobId.parse(run.job).proc
        logged_records = [record for record in records.get(proc, ()) if isinstance(record.event, e.JobLogged)]
        runs = results.status.get(proc) in ("running", "suspended")
        last_time = max((record.at for record in logged_records if not runs or record.what == BEGIN), default=0)
        is_starting = any(record.what == "shadow_began" and record.at == run.began for record in records.get(proc, ()))
        if logged_records and is_starting and run.outcome == RUNNING:
            continue
        is_later = run.ended >= last_time if runs else run.began > last_time
        if is_later and results.status.get(proc, UNKNOWN_STATE) in _OPEN:
            results.set_status((proc,), {RUNNING: "running", EVICTED: "idle"}.get(run.outcome, UNKNOWN_STATE))


def _number(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdecimal() else None


def _update_with_ad(results: Outcomes, proc: int, ad: JobAd) -> None:
    status = _NAMES.get(ad.number("JobStatus"), UNKNOWN_STATE)
    if status == "completed":
        signalled = ad.text("ExitBySignal").lower() == "true"
        results.add_end(
            proc, ProcessEnd(None, ad.number("ExitSignal")) if signalled else ProcessEnd(ad.number("ExitCode"))
        )
        return
    hold = HoldReason(*(ad.text(name) for name in ("HoldReasonCode", "HoldReasonSubCode", "HoldReason")))
    results.set_status((proc,), status, hold if status == "held" else None)

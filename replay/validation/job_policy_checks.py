"""Check that a periodic policy that caused a transition applies in the job's status, has this effect, and was true."""

from __future__ import annotations

from collections.abc import Iterator

from ...domain import events as e
from ...domain.classad import ClassAd, Context
from ...domain.classad.analysis import value_or_error
from ...domain.classad.values import truth
from ...domain.schedd.evict_transforms import BODY_PREFIX
from ...domain.schedd.job_actions import HOLDS_BY_SHADOW
from ...domain.schedd.job_processes import RERUN_ROWS
from ...domain.schedd.periodic_policy import BY_CAUSE, EVICT, POLICIES, Policy, system_names
from ...domain.state.caches import parse_cached
from ...domain.state.cluster import SCHEDULER_UNIVERSE, Cluster
from ...domain.state.job_ad import EXPIRATION
from ...domain.state.pool_settings import START_SETTINGS, schedd_seconds
from ...domain.state.records import RUNS
from ...domain.state_machines.hold_codes import CLAIM_DEACTIVATED, HELD_BY_STARTD
from .judged_pool import JudgedPool, normalized_text, rule, truth_of


def _is_held_by_machine(event: e.JobSignalled) -> bool:
    """Return True if the signal is for a hold by the startd (WANT_HOLD), which the end of the run will record."""
    code = event.vacated.get("VacateReasonCode")
    return event.cause == "held_by_machine" and not event.evidence and code == str(HELD_BY_STARTD)


def check_policy_cause(
    pool: JudgedPool, cluster: Cluster, proc: int, event: e.JobsTransitioned | e.JobSignalled
) -> None:
    """Check a transition or signal that a periodic policy caused. Report evidence or a vacate reason on other
    signals."""
    if isinstance(event, e.JobsTransitioned) and event.holds != 1:
        is_by_shadow = event.cause in BY_CAUSE and event.source in RUNS and not cluster.is_local
        if not is_by_shadow or event.holds != HOLDS_BY_SHADOW:
            pool.report((cluster.id, proc), "value", f"its ad counts {event.holds} holds, but there was one")
    if event.cause not in BY_CAUSE:
        if isinstance(event, e.JobSignalled) and (event.evidence or event.vacated) and not _is_held_by_machine(event):
            text = f"{event.cause} ends its run, not a policy, but the event has a vacate reason or evidence"
            pool.report((cluster.id, proc), "evidence", text)
        return
    policy = BY_CAUSE[event.cause]
    if isinstance(event, e.JobsTransitioned):
        continues_eviction = event.row == "continue" and policy.row == EVICT  # a suspended job continues to be vacated
        if not (event.row == policy.row or continues_eviction) or event.source not in policy.statuses:
            pool.report((cluster.id, proc), "row", f"{event.cause} does not {event.row} a job that is {event.source}")
        code = event.changes.get("HoldReasonCode", "0")
        if policy.row == "hold" and code != str(policy.code):
            text = f"{event.cause} holds with the code {policy.code}, but the event has {code}"
            pool.report((cluster.id, proc), "value", text)
    else:
        code = str(policy.code) if policy.row == EVICT else "" if cluster.is_local else str(CLAIM_DEACTIVATED.code)
        if event.vacated.get("VacateReasonCode", "") != code:
            text = f"{event.cause} vacates with the code {code or 'of the job'}, but the event has another"
            pool.report((cluster.id, proc), "value", text)
    text = evidence_problem(pool, cluster, proc, (policy,), event.evidence, event.at)
    if text:
        pool.report((cluster.id, proc), "evidence", text)


def policies_of_row(row: str) -> tuple[Policy, ...]:
    """Return the policies that cause a transition of a job."""
    return tuple(policy for policy in POLICIES if policy.row == row)


def evidence_problem(
    pool: JudgedPool, cluster: Cluster, proc: int, policies: tuple[Policy, ...], evidence: int, at: int
) -> str:
    """Return what is wrong with the evidence that one of these policies was true, or "" if it is right. Without
    evidence (`evidence` is 0), a policy must be true in an empty ad, because it read no attributes."""
    texts = dict(_policy_texts(pool, cluster, proc, policies))
    if not evidence:
        if None in texts.values() or any(_is_true(text, at) for text in texts.values() if text):
            return ""
        return f"it has no evidence that {' or '.join(policy.cause for policy in policies)} held"
    note = pool.notes.get(evidence)
    if note is None:
        return f"this stimulus recorded no evidence at {evidence}"
    name = note.name.lower()
    if name not in texts:
        return f"{note.name} is not the expression to evaluate: {', '.join(texts) or 'nothing'}"
    if truth_of(note.value) is not True:
        return f"{note.name} is recorded as true, but it was {note.value}"
    text = texts[name]
    if text is not None and normalized_text(text) != normalized_text(note.expression):
        return f"its evidence is {note.name} = {note.expression}, but its {note.name} is {text or 'not there'}"
    return ""


def _is_true(text: str, at: int) -> bool:
    parsed, second = parse_cached(text), at // 1_000_000
    context = Context(now=second, seed=second)
    return parsed is not None and truth(value_or_error(parsed, ClassAd(), None, context)) is True


def _policy_texts(
    pool: JudgedPool, cluster: Cluster, proc: int, policies: tuple[Policy, ...]
) -> Iterator[tuple[str, str | None]]:
    """Yield the policies' lower-case names and their expressions (None if they differ between the cluster's jobs)."""
    settings = pool.state.settings
    for policy in policies:
        if policy.attribute:
            own_text = cluster.requested_value(proc, policy.attribute)
            text = own_text and (policy.condition or own_text)
            yield policy.attribute.lower(), text if cluster.is_uniform(policy.attribute) else None
        elif policy.row != EVICT or pool.state.dialect.evaluates_system_periodic_vacate:
            for name in system_names(settings, policy):
                yield name.lower(), settings[name]


def check_job_transform(pool: JudgedPool, cluster: Cluster, event: e.JobsEdited) -> None:
    """Check that a job has the transform that changed it at the end of its run."""
    proc = first_proc(event)
    if event.procs != ((proc, proc),) or (cluster.id, proc) not in pool.state.by_job:
        pool.report((cluster.id, proc), "activation", "a job's own transform changes only that job, when its run ends")
        return
    if not cluster.requested_value(proc, f"{BODY_PREFIX}{event.transform}"):
        pool.report((cluster.id, proc), "reference", f"it has no transform {event.transform}")
    _check_values_before(pool, cluster, proc, event)
    for place in event.noted:
        if place not in pool.notes:
            text = f"this stimulus recorded no evidence at {place}"
            pool.report((cluster.id, proc), "evidence", text)


def check_chirp_write(pool: JudgedPool, cluster: Cluster, event: e.JobsEdited) -> None:
    """Check that a job that changed its own attributes (condor_chirp) runs, and that the change is not a repetition."""
    proc = first_proc(event)
    run = pool.state.by_job.get((cluster.id, proc))
    if event.procs != ((proc, proc),) or run is None:
        pool.report((cluster.id, proc), "activation", "a job changes its own ad with condor_chirp only while it runs")
        pool.folds = None
        return
    if event.number < run.chirped + max(len(event.notes), 1):
        text = f"this is write {event.number} of its condor_chirp, but the log already has {run.chirped}"
        pool.report((cluster.id, proc), "value", text)
    if event.cause != "chirp" or event.transform or event.noted or not event.changes.keys() >= set(event.delayed):
        pool.report((cluster.id, proc), "value", "its own change is recorded a second time")
    _check_values_before(pool, cluster, proc, event)


def first_proc(event: e.JobsTransitioned | e.JobsEdited | e.JobsDeferred | e.JobsMaterialized) -> int:
    """Return the first process of an event, or 0 if an edited log has an event without processes."""
    return event.procs[0][0] if event.procs else 0


def _check_values_before(pool: JudgedPool, cluster: Cluster, proc: int, event: e.JobsEdited) -> None:
    for name, text in event.before.items():
        if name not in event.changes or text != cluster.value(proc, name):
            words = f"{name} is recorded as {text or 'undefined'}, but was {cluster.value(proc, name) or 'undefined'}"
            pool.report((cluster.id, proc), "value", words)


@rule(e.CheckpointsDeleted)
def check_checkpoints_deleted(pool: JudgedPool, event: e.CheckpointsDeleted) -> None:
    if event.cluster >= pool.state.next_cluster:
        pool.report(event, "reference", "its checkpoints are deleted, but there is no such job")


@rule(e.ScheddPublished)
def check_schedd_published(pool: JudgedPool, event: e.ScheddPublished) -> None:
    if event.attributes == pool.state.cron_attributes:
        pool.report(event.stream, "value", "its programs printed these attributes before")


@rule(e.MailDue)
def check_mail_due(pool: JudgedPool, event: e.MailDue) -> None:
    if event.cluster not in pool.state.clusters:
        pool.report(event, "reference", "a mail about it is due, but it is not in the queue")


@rule(e.Mailed)
def check_mailed(pool: JudgedPool, event: e.Mailed) -> None:
    due_mail = pool.state.mails.get(event.mail)
    if due_mail is None or (due_mail.cluster, due_mail.proc) != (event.cluster, event.proc):
        pool.report(event, "reference", f"event {event.mail} is not a due mail about it, or that mail was sent before")
        pool.folds = None


@rule(e.JobCooledDown)
def check_cooled_down(pool: JudgedPool, event: e.JobCooledDown) -> None:
    last_cool_down = pool.state.cool_downs.get((event.cluster, event.proc))
    if last_cool_down is None:
        pool.report(event, "reference", "its cool-down ends, but it had none")
        pool.folds = None
    elif event.at < last_cool_down * 1_000_000:
        pool.report(event, "order", "its cool-down ends too early")


def check_start_evidence(pool: JudgedPool, cluster: Cluster, event: e.JobActivated) -> None:
    """Check that a local or scheduler universe job was started because the pool's expression was true."""
    note, (name, _) = pool.notes.get(event.evidence), START_SETTINGS.get(cluster.universe, ("", ""))
    text = pool.state.settings.get(name, "")
    if note is None:
        words = f"this stimulus recorded no evidence at {event.evidence}"
    elif note.name != name or normalized_text(note.expression) != normalized_text(text):
        words = f"it was due to {note.name} = {note.expression}, but {name or 'no setting'} is {text or 'not there'}"
    elif truth_of(note.value) is not True:
        words = f"{note.name} is recorded as true, but it was {note.value}"
    else:
        return
    pool.report(event, "evidence", words)


def check_cool_down(pool: JudgedPool, event: e.JobExited) -> None:
    """Check that a cool-down's duration follows from SYSTEM_ON_VACATE_COOL_DOWN and SYSTEM_COOLDOWN_DURATION."""
    if pool.state.clusters[event.cluster].universe == SCHEDULER_UNIVERSE:
        _check_cool_down_after_failure(pool, event)
        return
    place = event.cooled if event.row == "requeue" else event.evidence
    note, text = pool.notes.get(place), pool.state.settings.get("SYSTEM_ON_VACATE_COOL_DOWN", "")
    seconds = int(event.changes[EXPIRATION]) - event.at // 1_000_000
    if event.row not in RERUN_ROWS:
        words = f"a run that ends by {event.row} has no cool-down"
    elif note is None and place:
        words = f"this stimulus recorded no evidence at {place}"
    elif normalized_text(text) != normalized_text(text if note is None else note.expression):
        policy_text = "nothing" if note is None else note.expression
        words = f"its cool-down comes from {policy_text}, but SYSTEM_ON_VACATE_COOL_DOWN is {text}"
    elif (
        max(
            _seconds(text if note is None else note.value),
            schedd_seconds(pool.state.settings, "SYSTEM_COOLDOWN_DURATION"),
        )
        != seconds
    ):
        words = f"it cools down {seconds} s, but SYSTEM_ON_VACATE_COOL_DOWN was {text if note is None else note.value}"
    else:
        return
    pool.report(event, "evidence", words)


def _check_cool_down_after_failure(pool: JudgedPool, event: e.JobExited) -> None:
    seconds = int(event.changes[EXPIRATION]) - event.at // 1_000_000
    expected = schedd_seconds(pool.state.settings, "SCHEDULER_UNIVERSE_COOL_DOWN_DURATION")
    if not event.code:
        pool.report(event, "evidence", "a run that did not fail has no cool-down")
    elif seconds != expected:
        text = f"it cools down for {seconds} s, but SCHEDULER_UNIVERSE_COOL_DOWN_DURATION is {expected}"
        pool.report(event, "evidence", text)


def _seconds(text: str) -> int:
    """Return a literal number of seconds, rounded down (true is 1), or 0 if it is not a number."""
    try:
        return int(text == "true") or int(float(text))
    except ValueError:
        return 0

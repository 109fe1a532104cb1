"""Check that the queued jobs are the submitted ones after the schedd's transforms, and meet the schedd's limits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from msgspec.structs import asdict

from ...domain import events as e
from ...domain.classad import Context
from ...domain.schedd.admission import changes_by_transform, submission_judge
from ...domain.schedd.job_submission import MAX_RESERVED_NUMBERS
from ...domain.schedd.queue_limits import exceeded_limit
from ...domain.schedd.rounding import EXACT, round_submission, rounding_rules
from ...domain.schedd.submit_policy import Columns, decide, merge_results, submit_policy
from ...domain.startd.machines import host_ad
from ...domain.state.job_ad import HOLD_ATTRIBUTES, unquoted
from ...domain.state.pool_settings import JOB_LIMITS
from ...domain.state.proc_ads import unpack
from .judged_pool import JudgedPool, rule

_NOT_COMPARED = frozenset({"jobstatus", *(name.lower() for name in HOLD_ATTRIBUTES)})
"""Lower-case attributes by which a transform holds jobs. The queue stores them as the jobs' status."""


@rule(e.JobsTransformed)
def check_transformed(pool: JudgedPool, event: e.JobsTransformed) -> None:
    name = f"cluster {event.cluster}"
    if f"JOB_TRANSFORM_{event.transform}" not in pool.state.settings:
        pool.report(name, "policy", f"{event.transform} is not a transform of the settings in force")
    for position in event.evidence:
        _evidence_at(pool, name, position, f"JOB_TRANSFORM_{event.transform}")
    pool.transformed.setdefault(event.cluster, []).append(event)


@rule(e.SubmissionRefused)
def check_submission_refused(pool: JudgedPool, event: e.SubmissionRefused) -> None:
    name = f"cluster {event.cluster}"
    check_number(pool, event)
    policy = event.setting.startswith(("SUBMIT_REQUIREMENT_", "JOB_TRANSFORM_")) or event.setting in JOB_LIMITS
    if policy and event.setting not in pool.state.settings:
        pool.report(name, "policy", f"{event.setting} is not a setting in force")
    pool.refusals_counted += 1
    if not event.job.startswith(f"{event.cluster}."):
        pool.report(name, "reference", f"{event.job} is not a job of {name}")
    if event.evidence:
        note = _evidence_at(pool, name, event.evidence, event.setting)
        if note is not None and note.value == "true":
            pool.report(name, "policy", f"it is rejected by {event.setting}, which is recorded as true")


def check_number(pool: JudgedPool, event: e.ClusterSubmitted | e.SubmissionRefused) -> None:
    """Check that a cluster's number is new, or was assigned in advance and not used yet."""
    state, number = pool.state, event.cluster
    if number > state.next_cluster + MAX_RESERVED_NUMBERS:
        pool.folds = None
        text = f"its number was never assigned: at most {MAX_RESERVED_NUMBERS:,} follow {state.next_cluster}"
        pool.report(f"cluster {number}", "reference", text)
    elif number < state.next_cluster and number not in state.unused_cluster_ids:
        pool.report(f"cluster {number}", "reference", f"cluster {number} was submitted before, or is below 1")


def count_refusal_answer(pool: JudgedPool, event: e.RequestAnswered) -> None:
    pool.refused_answers += event.request == "submit" and event.answer.startswith('{"refusal"')


def _evidence_at(pool: JudgedPool, name: str, position: int, subject: str) -> e.EvaluationRecorded | None:
    note = pool.notes.get(position)
    if note is None or not note.name.startswith(subject):
        pool.report(name, "evidence", f"{position} is not evidence of {subject}")
        return None
    return note


def judge_submission(pool: JudgedPool, event: e.ClusterSubmitted) -> None:
    """Undo a submission's transforms, repeat the schedd's decision about it, and compare the results."""
    name, settings = f"cluster {event.cluster}", pool.state.settings
    transformations = pool.transformed.pop(event.cluster, [])
    user = unquoted(event.ad.get("Owner", ""))
    exceeded = exceeded_limit(pool.state, user, 0 if event.factory else event.count)
    if exceeded is not None:
        pool.report(name, "policy", f"{exceeded.setting} = {exceeded.limit} rejects it")
    if not (submit_policy(settings) or transformations):
        if event.warnings:
            pool.report(name, "policy", f"it has the warnings {event.warnings}, but no requirement is in force")
        return
    try:
        columns: Columns = unpack(event.columns)
        ad, columns_before = _before_transforms(event.ad, columns, transformations, event.count)
    except Exception:
        pool.report(name, "value", "the values that differ between its jobs cannot be read")
        return
    if any(len(texts) != event.count for texts in columns_before.values()):
        pool.report(name, "value", f"it does not list the differences of all {event.count} jobs")
        return
    second = event.at // 1_000_000
    context = Context(now=second, seed=second, user_maps=pool.state.user_maps)
    judge = submission_judge(
        pool.state, host_ad(pool.state), context, event.at, event.cluster, user, ad, columns_before
    )
    decided_transforms = decide(judge, ad, columns_before, event.count)
    kinds, refusal = decided_transforms.groups, decided_transforms.refusal
    if refusal is not None:
        pool.report(name, "policy", f"{refusal.setting} rejects it: {refusal.reason.strip()}")
        return
    if decided_transforms.warnings != event.warnings:
        pool.report(name, "policy", f"its warnings are {event.warnings}, but should be {decided_transforms.warnings}")
    columns_after: Columns
    ad_after, columns_after = merge_results(kinds, ad, columns_before, event.count)
    if any(attribute.endswith(EXACT) for attribute in (*event.ad, *columns)):  # no older version rounded numbers
        rules = rounding_rules(pool.state)
        ad_after, columns_after = round_submission(rules, ad_after, columns_after, ad, columns_before)
    for attribute in dict.fromkeys(change for kind in kinds for change in kind.result.changes):
        if attribute.lower() in _NOT_COMPARED:
            continue
        values = columns.get(attribute, [event.ad.get(attribute, "undefined")])
        attribute_values = columns_after.get(attribute, [ad_after.get(attribute, "undefined")])
        if list(values) != list(attribute_values) and {*values} != {*attribute_values}:
            pool.report(name, "policy", f"{attribute} = {values[0]}, but its transforms make it {attribute_values[0]}")
    expected = [done for done, _ in changes_by_transform(kinds)]
    for done, logged in zip_longest(expected, transformations):
        if done is None or logged is None or any(getattr(logged, key) != value for key, value in asdict(done).items()):
            transform = (done or logged).transform
            pool.report(name, "policy", f"its record of what {transform} did differs from what the transform does")
            return


def settle_submissions(pool: JudgedPool) -> None:
    """Check at the end of a stimulus that all transformed submissions are in the queue."""
    for number in pool.transformed:
        pool.report(f"cluster {number}", "policy", "it was transformed, but did not enter the queue")
    pool.transformed.clear()
    if pool.refusals_counted != pool.refused_answers:
        pool.report("requests", "answer", "the answer to the request differs from what happened to the submission")
    pool.refusals_counted = pool.refused_answers = 0


def _before_transforms(
    ad: e.Ad, columns: Columns, transformations: Sequence[e.JobsTransformed], count: int
) -> tuple[e.Ad, dict[str, Sequence[str]]]:
    ad, columns_undone = dict(ad), dict(columns)
    for event in reversed(transformations):
        is_for_all = event.procs == ((0, count - 1),)
        for name, text in event.before.items():
            if is_for_all:
                columns_undone.pop(name, None)
                ad[name] = text
            else:
                _put_values(ad, columns_undone, name, event, [text] * count, count)
        for name, texts in unpack(event.columns_before).items():
            _put_values(ad, columns_undone, name, event, texts, count)
    return {name: text for name, text in ad.items() if text}, columns_undone


def _put_values(
    ad: e.Ad, columns: dict[str, Sequence[str]], name: str, event: e.JobsTransformed, texts: Sequence[str], count: int
) -> None:
    if "" in texts:  # no job had the attribute
        ad.pop(name, None)
        columns.pop(name, None)
        return
    column = list(columns.get(name) or [ad.pop(name, "undefined")] * count)
    procs = (proc for first, last in event.procs for proc in range(first, last + 1))
    for proc, text in zip(procs, texts, strict=False):  # in an edited log, a range may be too long
        column[proc] = text
    columns[name] = column

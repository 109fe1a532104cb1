"""Decide whether to accept a submission, and what to queue: queue limits, transforms, submit requirements.

Decisions are logged with their evidence. As in HTCondor, a rejected submission uses up its cluster number, under which
the rejection is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..classad import Context
from ..decision.draft import Draft, answer, job_id, ranges
from ..events import Ad, JobsTransformed, Procs, SubmissionRefused
from ..ports.messages import ShowHost
from ..ports.stimuli import Submit
from ..state.caches import ad_from_attributes
from ..state.job_ad import quoted, seconds
from ..state.proc_ads import pack
from ..state.state import AccessPoint
from .factories import has_factory
from .job_edits import SECURE, ignores_secure, protections
from .job_transforms import AppliedTransform, Evaluation, record_evaluations
from .queue_limits import ExceededLimit, exceeded_limit
from .schedd_ad import schedd_ad
from .submit_policy import Columns, JobGroup, Judge, SubmitRefusal, TransformStep, decide, merge_results, submit_policy


class Admission(Struct, frozen=True):
    """An accepted submission. ``log_transforms`` logs the changes by transforms. Call it only when nothing else can
    reject the submission, because logged changes cannot be withdrawn."""

    command: Submit
    columns: Columns
    warnings: tuple[str, ...] = ()  #: warnings for the user
    log_transforms: Callable[[], None] = lambda: None


COMMIT_FAILED = "Failed to commit job submission into the queue."


def admit_submission(draft: Draft[AccessPoint], command: Submit, number: int, columns: Columns) -> Admission | None:
    """Return the accepted submission. If it is rejected, answer the command and return None."""
    state = draft.state
    limit = exceeded_limit(state, command.user, 0 if has_factory(command.ad) else command.count)
    if limit is not None:
        _reject_excess(draft, command, number, limit)
        return None
    settings = state.settings
    protected = protections(settings)
    secure = [name for name in (*command.ad, *columns) if protected.get(name.lower()) == SECURE]
    if secure:
        if not ignores_secure(settings):
            reason = f"Attempt to edit secure attribute {secure[0]} in job {number}.0. Failing!"
            rejection = SubmitRefusal("SECURE_JOB_ATTRS", reason)
            _reject(draft, command, number, rejection, 0, f"{COMMIT_FAILED}\nERROR: {reason}")
            return None
        command = replace(command, ad={name: text for name, text in command.ad.items() if name not in secure})
        columns = {name: texts for name, texts in columns.items() if name not in secure}
        command = replace(command, columns=pack(columns))
    return (
        _judge_submission(draft, command, number, columns) if submit_policy(settings) else Admission(command, columns)
    )


def _judge_submission(draft: Draft[AccessPoint], command: Submit, number: int, columns: Columns) -> Admission | None:
    judge = submission_judge(
        draft.state, draft.send(ShowHost()), draft.context, draft.now, number, command.user, command.ad, columns
    )
    decided = decide(judge, command.ad, columns, command.count)
    rejection, groups = decided.refusal, decided.groups
    if rejection is not None:
        _reject(draft, command, number, rejection, decided.proc, f"{COMMIT_FAILED}\nERROR: {rejection.reason}")
        return None
    ad, after = merge_results(groups, command.ad, columns, command.count)
    same = after.keys() == columns.keys() and all(after[name] is columns[name] for name in after)
    packed = command.columns if same else pack(after)

    def log_transforms() -> None:
        for changes, applied in changes_by_transform(groups):
            fields = asdict(changes)
            evidence = record_evaluations(draft, applied, "JOB_TRANSFORM_")
            draft.emit(JobsTransformed(*draft.header("submitted"), number, **fields, evidence=evidence))

    return Admission(replace(command, ad=ad, columns=packed), after, decided.warnings, log_transforms)


def submission_judge(
    state: AccessPoint, host: Ad, context: Context, now: int, number: int, user: str, ad: Ad, columns: Columns
) -> Judge:
    """Return a judge that applies the current settings to the jobs of a submission.

    :param host: the ad of the pool's machine
    :param now: the current time, in microseconds
    """
    first = {name: texts[0] for name, texts in columns.items()}
    own = {
        "ClusterId": str(number),
        "Owner": quoted(user),
        "User": quoted(f"{user}@{state.uid_domain}"),
        "QDate": seconds(now),
    }
    computed_names = {name.lower() for name in own}
    visible = {name: text for name, text in {**ad, **first}.items() if name.lower() not in computed_names}
    return Judge(
        submit_policy(state.settings),
        state.settings,
        schedd_ad(state, host),
        context,
        ad_from_attributes({**visible, **own}),
        {name.lower(): name for name in (*ad, *columns)},
        state.dialect.transforms_see_all_attributes,
    )


# Events


class TransformChanges(Struct, frozen=True):
    """The changes that one transform made to its jobs, as recorded in ``JobsTransformed``."""

    transform: str
    procs: Procs
    changes: Ad
    before: Ad
    columns: tuple[bytes, ...]
    columns_before: tuple[bytes, ...]
    skipped: tuple[str, ...]


def changes_by_transform(groups: Sequence[JobGroup]) -> Iterator[tuple[TransformChanges, AppliedTransform]]:
    """Yield the changes by each transform, in order, with the transform's evaluations for its first job."""
    for name in dict.fromkeys(step.applied.name for group in groups for step in group.result.applied):
        steps = [(group.procs, step) for group in groups for step in group.result.applied if step.applied.name == name]
        yield _changes_of_steps(name, steps), steps[0][1].applied


def _changes_of_steps(name: str, steps: Sequence[tuple[Sequence[int], TransformStep]]) -> TransformChanges:
    procs = steps[0][0] if len(steps) == 1 else list(merge(*(procs for procs, _ in steps)))
    changes, before = Ad(), Ad()
    columns, columns_before = dict[str, list[str]](), dict[str, list[str]]()
    by_proc: dict[int, TransformStep] = {}
    for attribute in dict.fromkeys(attribute for _, step in steps for attribute in step.changes):
        values = {(step.changes.get(attribute, ""), step.previous.get(attribute, "")) for _, step in steps}
        if len(values) == 1:
            ((changes[attribute], before[attribute]),) = values
            continue
        by_proc = by_proc or {proc: step for step_procs, step in steps for proc in step_procs}
        columns[attribute] = [by_proc[proc].changes.get(attribute, "") for proc in procs]
        columns_before[attribute] = [by_proc[proc].previous.get(attribute, "") for proc in procs]
    skipped = tuple(dict.fromkeys(reason for _, step in steps for reason in step.applied.skipped))
    return TransformChanges(name, ranges(procs), changes, before, pack(columns), pack(columns_before), skipped)


def _reject(
    draft: Draft[AccessPoint], command: Submit, number: int, rejection: SubmitRefusal, proc: int, text: str
) -> None:
    evidence = 0
    if rejection.evidence is not None:
        evaluation = rejection.evidence
        evidence = draft.record_evaluation(rejection.setting, evaluation.text, evaluation.value, dict(evaluation.read))
    reason = rejection.reason.rstrip("\n")
    rejected_job = job_id(number, proc)
    draft.emit(
        SubmissionRefused(
            *draft.header("submitted"), number, command.user, rejection.setting, rejected_job, reason, evidence
        )
    )
    answer(draft, command, "submit", command.file, {"refusal": text})


def _reject_excess(draft: Draft[AccessPoint], command: Submit, number: int, limit: ExceededLimit) -> None:
    read = {"MY.JobsThere": str(limit.queued), "MY.JobsSubmitted": str(command.count)}
    evaluation = Evaluation("", f"MY.JobsThere + MY.JobsSubmitted <= {limit.limit}", "false", read)
    reason = limit.message.partition("\n")[2]
    _reject(draft, command, number, SubmitRefusal(limit.setting, reason, evaluation), limit.proc, limit.message)

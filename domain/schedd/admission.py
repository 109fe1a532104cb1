"""The decision whether a submission is accepted, and what is queued: queue limits, transforms, submit requirements.

Decisions are logged with their evidence. A refusal uses up the submission's cluster number, as in HTCondor, and is
logged under it.
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
from ..state.caches import ad_of
from ..state.job_ad import quoted, seconds
from ..state.proc_ads import pack
from ..state.state import AccessPoint
from .factories import makes_factory
from .job_edits import SECURE, guard, ignores_secure
from .job_transforms import Applied, Evaluation
from .queue_limits import Exceeded, exceeded
from .schedd_ad import schedd_ad
from .submit_policy import AlikeJobs, Columns, Judge, SubmitRefusal, TransformStep, decide, merged, submit_policy


class Admitted(Struct, frozen=True):
    """An accepted submission. ``tell`` logs what the transforms did, once nothing else can refuse it."""

    command: Submit
    columns: Columns
    warnings: tuple[str, ...] = ()  #: warnings for its user
    tell: Callable[[], None] = lambda: None


COMMIT = "Failed to commit job submission into the queue."


def admit(draft: Draft[AccessPoint], command: Submit, number: int, columns: Columns) -> Admitted | None:
    """Return what is queued of a submission, and the warnings for its user; None: it was refused and answered."""
    state = draft.state
    most = exceeded(state, command.user, 0 if makes_factory(command.ad) else command.count)
    if most is not None:
        _beyond(draft, command, number, most)
        return None
    settings = state.settings
    secure = [name for name in (*command.ad, *columns) if guard(name, settings) == SECURE]
    if secure:
        if not ignores_secure(settings):
            reason = f"Attempt to edit secure attribute {secure[0]} in job {number}.0. Failing!"
            _refuse(draft, command, number, SubmitRefusal("SECURE_JOB_ATTRS", reason), 0, f"{COMMIT}\nERROR: {reason}")
            return None
        command = replace(command, ad={name: text for name, text in command.ad.items() if name not in secure})
        columns = {name: texts for name, texts in columns.items() if name not in secure}
        command = replace(command, columns=pack(columns))
    return _judged(draft, command, number, columns) if submit_policy(settings) else Admitted(command, columns)


def _judged(draft: Draft[AccessPoint], command: Submit, number: int, columns: Columns) -> Admitted | None:
    judge = judge_of(
        draft.state, draft.send(ShowHost()), draft.context, draft.now, number, command.user, command.ad, columns
    )
    decided = decide(judge, command.ad, columns, command.count)
    refused, kinds = decided.refused, decided.kinds
    if refused is not None:
        _refuse(draft, command, number, refused, decided.proc, f"{COMMIT}\nERROR: {refused.reason}")
        return None
    ad, after = merged(kinds, command.ad, columns, command.count)
    same = after.keys() == columns.keys() and all(after[name] is columns[name] for name in after)
    packed = command.columns if same else pack(after)

    def tell() -> None:
        for done, applied in transformed(kinds):
            places = [_noted(draft, applied.name, evaluation) for evaluation in applied.evaluations]
            fields = asdict(done)
            evidence = tuple(place for place in places if place)
            draft.emit(JobsTransformed(*draft.why("submitted"), number, **fields, evidence=evidence))

    return Admitted(replace(command, ad=ad, columns=packed), after, decided.warnings, tell)


def judge_of(
    state: AccessPoint, host: Ad, context: Context, now: int, number: int, user: str, ad: Ad, columns: Columns
) -> Judge:
    """Return the judge of a submission's jobs, by the settings in force.

    :param host: the ad of the pool's machine
    :param now: the instant, in microseconds
    """
    first = {name: texts[0] for name, texts in columns.items()}
    own = {
        "ClusterId": str(number),
        "Owner": quoted(user),
        "User": quoted(f"{user}@{state.uid_domain}"),
        "QDate": seconds(now),
    }
    known = {name.lower() for name in own}
    shown = {name: text for name, text in {**ad, **first}.items() if name.lower() not in known}
    return Judge(
        submit_policy(state.settings),
        state.settings,
        schedd_ad(state, host),
        context,
        ad_of({**shown, **own}),
        {name.lower(): name for name in (*ad, *columns)},
        state.dialect.transforms_see_all_attributes,
    )


# Events


class Transformed(Struct, frozen=True):
    """What a transform did to the jobs that it applied to: the fields of `JobsTransformed`."""

    transform: str
    procs: Procs
    changes: Ad
    before: Ad
    columns: tuple[bytes, ...]
    columns_before: tuple[bytes, ...]
    skipped: tuple[str, ...]


def transformed(kinds: Sequence[AlikeJobs]) -> Iterator[tuple[Transformed, Applied]]:
    """Yield what each transform did, in their order, and what it evaluated for the first of its jobs."""
    for name in dict.fromkeys(step.done.name for kind in kinds for step in kind.outcome.applied):
        steps = [(kind.procs, step) for kind in kinds for step in kind.outcome.applied if step.done.name == name]
        yield _of_steps(name, steps), steps[0][1].done


def _of_steps(name: str, steps: Sequence[tuple[Sequence[int], TransformStep]]) -> Transformed:
    procs = steps[0][0] if len(steps) == 1 else list(merge(*(procs for procs, _ in steps)))
    changes, before = Ad(), Ad()
    columns, columns_before = dict[str, list[str]](), dict[str, list[str]]()
    by_proc: dict[int, TransformStep] = {}
    for attribute in dict.fromkeys(attribute for _, step in steps for attribute in step.changes):
        values = {(step.changes.get(attribute, ""), step.before.get(attribute, "")) for _, step in steps}
        if len(values) == 1:
            ((changes[attribute], before[attribute]),) = values
            continue
        by_proc = by_proc or {proc: step for its_procs, step in steps for proc in its_procs}
        columns[attribute] = [by_proc[proc].changes.get(attribute, "") for proc in procs]
        columns_before[attribute] = [by_proc[proc].before.get(attribute, "") for proc in procs]
    skipped = tuple(dict.fromkeys(reason for _, step in steps for reason in step.done.skipped))
    return Transformed(name, ranges(procs), changes, before, pack(columns), pack(columns_before), skipped)


def _noted(draft: Draft[AccessPoint], transform: str, one: Evaluation) -> int:
    return draft.note(f"JOB_TRANSFORM_{transform} {one.what}".rstrip(), one.text, one.value, dict(one.read))


def _refuse(
    draft: Draft[AccessPoint], command: Submit, number: int, refused: SubmitRefusal, proc: int, text: str
) -> None:
    evidence = 0
    if refused.evidence is not None:
        one = refused.evidence
        evidence = draft.note(refused.setting, one.text, one.value, dict(one.read))
    why, job = draft.why("submitted"), job_id(number, proc)
    reason = refused.reason.rstrip("\n")
    draft.emit(SubmissionRefused(*why, number, command.user, refused.setting, job, reason, evidence))
    answer(draft, command, "submit", command.file, {"refusal": text})


def _beyond(draft: Draft[AccessPoint], command: Submit, number: int, most: Exceeded) -> None:
    read = {"MY.JobsThere": str(most.there), "MY.JobsSubmitted": str(command.count)}
    evaluation = Evaluation("", f"MY.JobsThere + MY.JobsSubmitted <= {most.limit}", "false", read)
    reason = most.words.partition("\n")[2]
    _refuse(draft, command, number, SubmitRefusal(most.setting, reason, evaluation), most.proc, most.words)

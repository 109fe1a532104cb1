"""The schedd's policy for submissions: transforms change the jobs; requirements reject the jobs or warn.

Jobs with equal values of all attributes that the policy reads form a group, and share one decision. Every word in the
policy's texts is treated as an attribute that it reads, so a group may be too small but never too large.

Source: the manual's "condor_schedd Policy Configuration"; CheckTransaction (qmgmt.cpp), job_transforms.cpp and
checkSubmitRequirements (schedd.cpp) of HTCondor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

from msgspec import Struct, field

from ..classad import ERROR, ClassAd, ClassAdSyntaxError, Context, EvaluationError, Expression
from ..classad.tree import Literal
from ..classad.unparse import unparse_old
from ..events import Ad
from ..state.caches import parse_cached
from ..state.pool_settings import listed_names
from .job_edits import allowed_changes
from .job_transforms import (
    AppliedTransform,
    Evaluation,
    Transform,
    TransformError,
    TransformMacros,
    apply_transform,
    read_transform,
)
from .submitted_job import SubmittedJob, attribute_text

# Job transforms in the old syntax, which is that of job router routes, are converted to statements.
#
# ``[ Requirements = ...; copy_A = "B"; delete_C = true; set_D = expr; eval_set_E = expr; F = value ]``: copies come
# first, then deletions, assignments and evaluations, each sorted by name; other attributes are macros. The manual
# documents this syntax; HTCondor 25.14 no longer reads it, and skips such a transform.
#
# Source: ConvertClassadJobRouterRouteToXForm (xform_utils.cpp) of HTCondor.

_PREFIXES: Final = {"copy_": "COPY", "delete_": "DELETE", "set_": "SET", "eval_set_": "EVALSET"}
"""The prefixes of attribute names, with the statement that each becomes."""
_ORDER: Final = ("COPY", "DELETE", "SET", "EVALSET")


def convert_old_syntax(text: str) -> str:
    """Convert a transform in the old syntax to statements, one per line.

    :raises ClassAdSyntaxError: if the text is not a ClassAd
    """
    ad = ClassAd.from_new(text)
    head: list[str] = []
    by_keyword: dict[str, list[tuple[str, str]]] = {keyword: [] for keyword in _ORDER}
    macros: list[tuple[str, Expression]] = []
    for name, expression in ad.items():
        prefix = next(filter(name.lower().startswith, _PREFIXES), "")
        if prefix:
            _add_statement(by_keyword[_PREFIXES[prefix]], _PREFIXES[prefix], name[len(prefix) :], expression)
        elif name.lower() == "requirements":
            head.append(f"REQUIREMENTS {_one_line(expression)}")
        elif name.lower() == "targetuniverse":
            head.append(f"UNIVERSE {_one_line(expression)}")
        elif name.lower() != "name":
            macros.append((name, expression))
    ordered = [line for keyword in _ORDER for _, line in sorted(by_keyword[keyword], key=lambda pair: pair[0].lower())]
    evaluations = [line for line in ordered if line.startswith("EVALSET")]
    names = {word.lower() for line in evaluations for word in _WORD.findall(line)}
    used = _sorted_by_name(macro for macro in macros if macro[0].lower() in names)  # attributes during evaluations
    lines = [*head, *(f"{name} = {_macro_value(expression)}" for name, expression in _sorted_by_name(macros))]
    lines += ordered[: len(ordered) - len(evaluations)]
    lines += [f"SET {name} {_one_line(expression)}" for name, expression in used]
    return "\n".join([*lines, *evaluations, *(f"DELETE {name}" for name, _ in used)])


def _sorted_by_name(macros: Iterable[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    return sorted(macros, key=lambda pair: pair[0].lower())


def _add_statement(lines: list[tuple[str, str]], keyword: str, name: str, expression: Expression) -> None:
    if keyword == "DELETE":
        lines.append((name, f"DELETE {name}"))
    elif keyword == "COPY":
        if isinstance(expression, Literal) and isinstance(expression.value, str):
            lines.append((name, f"COPY {name} {expression.value}"))
    else:
        lines.append((name, f"{keyword} {name} {_one_line(expression)}"))


def _one_line(expression: Expression) -> str:
    return " ".join(unparse_old(expression).split("\n"))


def _macro_value(expression: Expression) -> str:
    if isinstance(expression, Literal) and isinstance(expression.value, str):
        return expression.value
    return _one_line(expression)


Columns = Mapping[str, Sequence[str]]
"""The attributes that differ between the jobs of a submission, each with one text per job."""


class SubmitRequirement(Struct, frozen=True):
    """A submit requirement."""

    name: str
    text: str  #: the condition
    reason: str  #: an expression that computes the message to the user (empty: HTCondor's message)
    is_warning: bool  #: whether a failure causes only a warning


class NamesRead(Struct, frozen=True):
    """The attributes that a policy may read, as determined from its texts."""

    names: frozenset[str]  #: all words in the texts, in lower case
    reads_all: bool  #: whether the policy may read attributes that its texts do not name


class SubmitPolicy(Struct, frozen=True):
    """The schedd's policy for submissions, built from the settings."""

    transforms: tuple[Transform, ...]
    requirements: tuple[SubmitRequirement, ...]
    macros: Mapping[str, str]  #: the configuration's values of macros in the transforms, by lower-case name
    read_by_transforms: NamesRead
    read_by_all: NamesRead

    def __bool__(self) -> bool:
        return bool(self.transforms or self.requirements)


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MAKES_NAMES = r"(?i)\b(?:eval|unparse|evalineachcontext|countmatches|unresolved)\s*\(|\w\$\(|\)\w|\(MY\.\$\("
_PATTERN_STATEMENT = r"(?im)^\s*(?:COPY|RENAME|DELETE)\s+/"
_PLAIN_STRING = r"\"[^\"]*\""
_CALLS_RANDOM = r"(?i)\brandom\s*\("
_SCOPED_NAME = r'(?i)"(?:[^"\\]|\\.)*"|\b(JOB|SCHEDD)(\s*\.)'


def submit_policy(settings: Mapping[str, str]) -> SubmitPolicy:
    """Return the policy that these settings define."""
    if "JOB_TRANSFORM_NAMES" not in settings and "SUBMIT_REQUIREMENT_NAMES" not in settings:
        return _NO_POLICY
    prefixes = ("JOB_TRANSFORM_", "SUBMIT_REQUIREMENT_", "$(")
    return _policy(tuple(item for item in settings.items() if item[0].startswith(prefixes) and item[1].strip()))


@lru_cache(maxsize=8)
def _policy(settings: tuple[tuple[str, str], ...]) -> SubmitPolicy:
    by_name = dict(settings)
    transforms = []
    for name in listed_names(by_name, "JOB_TRANSFORM_NAMES"):
        text = by_name.get(f"JOB_TRANSFORM_{name}", "")
        if text and name.upper() != "NAMES":
            with suppress(TransformError, ClassAdSyntaxError):  # as in HTCondor; the configuration warned about it
                transforms.append(parse_transform(name, text))
    names = [name for name in listed_names(by_name, "SUBMIT_REQUIREMENT_NAMES") if name != "NAMES"]
    requirements = tuple(
        SubmitRequirement(
            name,
            _replace_scopes(by_name[f"SUBMIT_REQUIREMENT_{name}"]),
            _replace_scopes(by_name.get(f"SUBMIT_REQUIREMENT_{name}_REASON", "")),
            by_name.get(f"SUBMIT_REQUIREMENT_{name}_IS_WARNING", "").lower() == "true",
        )
        for name in names
        if f"SUBMIT_REQUIREMENT_{name}" in by_name
    )
    macros = {name[2:-1].lower(): text for name, text in by_name.items() if name.startswith("$(")}
    for_transforms = {name: text for name, text in by_name.items() if name.startswith(("JOB_TRANSFORM_", "$("))}
    return SubmitPolicy(tuple(transforms), requirements, macros, _names_read(for_transforms), _names_read(by_name))


def _names_read(texts: Mapping[str, str]) -> NamesRead:
    text = "\n".join(texts.values())
    names = frozenset(word.lower() for word in _WORD.findall(text))
    if re.search(_CALLS_RANDOM, text):
        names |= {"procid"}
    return NamesRead(names, bool(re.search(_MAKES_NAMES, text) or re.search(_PATTERN_STATEMENT, text)))


_NO_NAMES: Final = NamesRead(frozenset(), False)
_NO_POLICY: Final = SubmitPolicy((), (), {}, _NO_NAMES, _NO_NAMES)


def parse_transform(name: str, text: str) -> Transform:
    """Parse a transform in either syntax.

    :raises TransformError, ClassAdSyntaxError: if the text is valid in neither syntax
    """
    return read_transform(name, convert_old_syntax(text) if text.lstrip().startswith("[") else text)


def _replace_scopes(text: str) -> str:
    """Rewrite an expression so that MY is the schedd's ad and TARGET is the job's."""

    def scope(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        return ("TARGET" if match[1].upper() == "JOB" else "MY") + match[2]

    return re.sub(_SCOPED_NAME, scope, text)


# One job


class SubmitRefusal(Struct, frozen=True):
    """The reason why a job is rejected."""

    setting: str
    reason: str
    evidence: Evaluation | None = None


class TransformStep(Struct, frozen=True):
    """A transform's effect on a job: the attributes it set, and their previous values (empty: not set)."""

    applied: AppliedTransform
    changes: Ad
    previous: Ad


class TransformResult(Struct):
    """The result of the transforms for a job."""

    applied: list[TransformStep] = field(default_factory=list)  #: the transforms that were applied, in order
    changes: Ad = field(default_factory=dict)  #: the attributes of the final ad that are new or changed
    refusal: SubmitRefusal | None = None  #: why the job cannot be transformed


TRANSFORM_FAILED: Final = "Failed to apply a required job transform."


class Judge(Struct, frozen=True):
    """Applies the policy to the jobs of a submission, one by one."""

    policy: SubmitPolicy
    settings: Mapping[str, str]
    schedd: ClassAd  #: the schedd's ad
    context: Context
    cluster: ClassAd  #: the submission's attributes; for attributes that differ, the first job's values
    spellings: Mapping[str, str]  #: the spellings of the attributes, by lower-case name
    reads_all: bool  #: whether regular expressions in statements match all attributes, as the manual says
    recorded: set[str] = field(default_factory=set)
    """The transforms whose evaluation for their first job is already logged."""

    def context_of(self, proc: int) -> Context:
        """Return the evaluation context of a job; each job has its own random seed."""
        context = self.context
        if context.seed is None or "random" not in self.policy.read_by_all.names:
            return context
        return context.replace(seed=context.seed + 1_000_003 * proc)

    def transform(self, job: SubmittedJob, proc: int) -> TransformResult:
        """Apply the transforms to a job."""
        result, context = TransformResult(), self.context_of(proc)
        macros = TransformMacros(job, self.policy.macros, context)
        for transform in self.policy.transforms:
            if transform.is_for(job, context) and not self._apply(transform, job, macros, result, context):
                result.refusal = SubmitRefusal(f"JOB_TRANSFORM_{transform.name}", TRANSFORM_FAILED)
                return result
        for step in result.applied:
            result.changes |= step.changes
        return result

    def _apply(
        self,
        transform: Transform,
        job: SubmittedJob,
        macros: TransformMacros,
        result: TransformResult,
        context: Context,
    ) -> bool:
        before = job.ad.copy()
        job.changed.clear()
        try:
            done = apply_transform(transform, job, macros, context, record=transform.name not in self.recorded)
        except TransformError:
            return False
        changes = {self.spellings.get(name.lower(), name): text for name, text in job.changes().items()}
        self.recorded.add(transform.name)
        accepted = allowed_changes(changes, self.cluster, self.settings)
        if accepted is None:
            return False
        result.applied.append(TransformStep(done, accepted, {name: attribute_text(before, name) for name in accepted}))
        return True

    def require(self, job: SubmittedJob, context: Context, warnings: list[str]) -> SubmitRefusal | None:
        """Return why a job is rejected, or None. Append failures that cause only warnings to ``warnings``."""
        for requirement in self.policy.requirements:
            setting = f"SUBMIT_REQUIREMENT_{requirement.name}"
            condition = parse_cached(requirement.text)
            try:
                value: object = ERROR if condition is None else condition.evaluate(self.schedd, job.ad, context)
            except EvaluationError:
                value = ERROR
            if not isinstance(value, bool | int | float):
                reason = f"Submit requirement {requirement.name} evaluated to non-boolean.\n"
            elif value:
                continue
            else:
                reason = self._reason(requirement, job, context)
                if requirement.is_warning:
                    warnings.append(reason)
                    continue
            evidence = None
            if condition is not None:
                from ..classad.value_evidence import (  # imported late: few pools have requirements
                    value_text,
                    values_read,
                )

                read = values_read(condition, self.schedd, job.ad, context)
                evidence = Evaluation("", requirement.text, value_text(value), read)
            return SubmitRefusal(setting, reason, evidence)
        return None

    def _reason(self, requirement: SubmitRequirement, job: SubmittedJob, context: Context) -> str:
        expression = parse_cached(requirement.reason) if requirement.reason else None
        try:
            value = None if expression is None else expression.evaluate(self.schedd, job.ad, context)
        except EvaluationError:
            value = None
        return value if isinstance(value, str) else f"Submit requirement {requirement.name} not met.\n"


# All jobs of a submission


class JobGroup(Struct, frozen=True):
    """Jobs, in order, on which the transforms have the same effect, and their result."""

    procs: Sequence[int]
    result: TransformResult


class SubmitPolicyResult(Struct, frozen=True):
    """The policy's result for a submission."""

    groups: Sequence[JobGroup]
    warnings: tuple[str, ...] = ()  #: the warnings to the user, without duplicates
    refusal: SubmitRefusal | None = None  #: why the submission is rejected
    proc: int = 0  #: the first job that is rejected


def decide(judge: Judge, ad: Ad, columns: Columns, count: int) -> SubmitPolicyResult:
    """Apply the policy to all jobs of a submission."""
    all_read = _attributes_read(judge.policy.read_by_all, ad, columns)
    groups: list[JobGroup] = []
    verdicts: list[tuple[int, SubmitRefusal | None, list[str]]] = []
    for procs in _group_alike(_attributes_read(judge.policy.read_by_transforms, ad, columns), columns, range(count)):
        proc = procs[0]
        differing = {name: texts[proc] for name, texts in columns.items() if texts[proc] != texts[0]}
        status = (columns["JobStatus"][proc] if "JobStatus" in columns else ad.get("JobStatus")) or "1"
        differing |= {"ProcId": str(proc), "JobStatus": status}
        job = SubmittedJob(judge.cluster, differing, judge.cluster if judge.reads_all else ())
        result = judge.transform(job, proc)
        groups.append(JobGroup(procs, result))
        if result.refusal is not None:
            verdicts.append((proc, result.refusal, []))
        elif judge.policy.requirements:
            read = {name: texts for name, texts in columns.items() if name.lower() in all_read - set(job.ever_changed)}
            verdicts += _check_requirements(judge, job, _group_alike(all_read, columns, procs), read)
    verdicts.sort(key=lambda verdict: verdict[0])
    warnings: dict[str, None] = {}
    for proc, refusal, messages in verdicts:
        if refusal is not None:
            return SubmitPolicyResult(groups, (), refusal, proc)
        warnings |= dict.fromkeys(messages)
    return SubmitPolicyResult(groups, tuple(warnings))


def _check_requirements(
    judge: Judge, job: SubmittedJob, groups: Iterator[Sequence[int]], read: Columns
) -> Iterator[tuple[int, SubmitRefusal | None, list[str]]]:
    """Check the requirements for jobs with the same transform result: once per group, for its first job."""
    for first, procs in enumerate(groups):
        proc = procs[0]
        if first:
            for name, texts in read.items():
                expression = parse_cached(texts[proc])
                if expression is not None:
                    job.ad[name] = expression
            job.ad["ProcId"] = Literal(proc)
        messages: list[str] = []
        refusal = judge.require(job, judge.context_of(proc), messages)
        yield proc, refusal, messages
        if refusal is not None:
            return


def _group_alike(read: frozenset[str], columns: Columns, procs: Sequence[int]) -> Iterator[Sequence[int]]:
    """Group the jobs by equal values of all attributes read, in the order of the groups' first jobs."""
    if "procid" in read:
        yield from ((proc,) for proc in procs)
        return
    compared = [texts for name, texts in columns.items() if name.lower() in read]
    if not compared:
        yield procs
        return
    groups: dict[tuple[str, ...], list[int]] = {}
    for proc in procs:
        groups.setdefault(tuple([texts[proc] for texts in compared]), []).append(proc)
    yield from groups.values()


def _attributes_read(read: NamesRead, ad: Ad, columns: Columns) -> frozenset[str]:
    everything = frozenset(name.lower() for name in columns) | {"procid"}
    if read.reads_all:
        return everything
    names = set(read.names)
    texts: dict[str, Sequence[str]] = {name.lower(): [text] for name, text in ad.items()}
    texts |= {name.lower(): column for name, column in columns.items()}
    pending = [name for name in names if name in texts]
    while pending:
        for text in dict.fromkeys(texts[pending.pop()]):
            if text.isdecimal() or re.fullmatch(_PLAIN_STRING, text):
                continue
            if re.search(_MAKES_NAMES, text):
                return everything
            new_words = {word.lower() for word in _WORD.findall(text)} - names
            names |= new_words
            pending += [word for word in new_words if word in texts]
    return frozenset(names)


def merge_results(
    groups: Sequence[JobGroup], ad: Ad, columns: Columns, count: int
) -> tuple[Ad, dict[str, Sequence[str]]]:
    """Return the final attributes of the jobs: the common ones, and columns for the others."""
    ad, merged_columns = dict(ad), dict(columns)
    for name in dict.fromkeys(name for group in groups for name in group.result.changes):
        values = {group.result.changes.get(name) for group in groups}
        if len(values) == 1:
            (text,) = values
            assert text is not None
            ad[name] = text
            merged_columns.pop(name, None)
            continue
        before = columns.get(name) or [ad.get(name, "undefined")] * count
        texts = list(before)
        for group in groups:
            text = group.result.changes.get(name)
            if text is not None:
                for proc in group.procs:
                    texts[proc] = text
        ad.pop(name, None)
        merged_columns[name] = texts
    return ad, merged_columns

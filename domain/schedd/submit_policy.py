"""The schedd's policy for a submission: its transforms change the jobs, its requirements refuse or warn.

Jobs that are equal in all that the policy reads are one kind, with one decision for all of them. What the policy may
read is found in its texts: every word counts as an attribute's name, so a kind may be too small but never too large.

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
from .job_edits import may_be_submitted
from .job_transforms import Applied, Evaluation, Transform, TransformError, TransformMacros, apply, read_transform
from .submitted_job import SubmittedJob, text_in

# Job transforms in the old syntax of the job router's routes, made into statements.
#
# ``[ Requirements = ...; copy_A = "B"; delete_C = true; set_D = expr; eval_set_E = expr; F = value ]``: copies come
# first, then deletions, settings, and evaluations, each by name; other attributes are macros. The manual has this
# syntax; HTCondor 25.14 no longer reads it, and skips such a transform.
#
# Source: ConvertClassadJobRouterRouteToXForm (xform_utils.cpp) of HTCondor.

_PREFIXES: Final = {"copy_": "COPY", "delete_": "DELETE", "set_": "SET", "eval_set_": "EVALSET"}
"""The prefixes of attribute names, and the statement of each."""
_ORDER: Final = ("COPY", "DELETE", "SET", "EVALSET")


def is_old(text: str) -> bool:
    """Check whether a transform is in the old syntax."""
    return text.lstrip().startswith("[")


def statements(text: str) -> str:
    """Convert a transform in the old syntax to lines.

    :raises ClassAdSyntaxError: it is not an ad
    """
    ad = ClassAd.from_new(text)
    about: list[str] = []
    by_word: dict[str, list[tuple[str, str]]] = {word: [] for word in _ORDER}
    macros: list[tuple[str, Expression]] = []
    for name, meaning in ad.items():
        prefix = next((one for one in _PREFIXES if name.lower().startswith(one)), "")
        if prefix:
            _note(by_word[_PREFIXES[prefix]], _PREFIXES[prefix], name[len(prefix) :], meaning)
        elif name.lower() == "requirements":
            about.append(f"REQUIREMENTS {_line(meaning)}")
        elif name.lower() == "targetuniverse":
            about.append(f"UNIVERSE {_line(meaning)}")
        elif name.lower() != "name":
            macros.append((name, meaning))
    ordered = [line for word in _ORDER for _, line in sorted(by_word[word], key=lambda one: one[0].lower())]
    mentioned = _mentioned((line for word, line in ((one[:7], one) for one in ordered) if word == "EVALSET"), macros)
    lines = [*about, *(f"{name} = {_value(meaning)}" for name, meaning in _by_name(macros))]
    at = next((place for place, line in enumerate(ordered) if line.startswith("EVALSET")), len(ordered))
    lines += [*ordered[:at], *(f"SET {name} {_line(meaning)}" for name, meaning in _by_name(mentioned)), *ordered[at:]]
    return "\n".join([*lines, *(f"DELETE {name}" for name, _ in _by_name(mentioned))])


def _by_name(of: Iterable[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    return sorted(of, key=lambda one: one[0].lower())


def _note(lines: list[tuple[str, str]], word: str, name: str, meaning: Expression) -> None:
    if word == "DELETE":
        lines.append((name, f"DELETE {name}"))
    elif word == "COPY":
        if isinstance(meaning, Literal) and isinstance(meaning.value, str):
            lines.append((name, f"COPY {name} {meaning.value}"))
    else:
        lines.append((name, f"{word} {name} {_line(meaning)}"))


def _mentioned(lines: Iterable[str], macros: list[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    """Return the macros that evaluations refer to: the job has them as attributes meanwhile."""
    import re

    names = {word.lower() for line in lines for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", line)}
    return [macro for macro in macros if macro[0].lower() in names]


def _line(meaning: Expression) -> str:
    return " ".join(unparse_old(meaning).split("\n"))


def _value(meaning: Expression) -> str:
    return meaning.value if isinstance(meaning, Literal) and isinstance(meaning.value, str) else _line(meaning)


__all__ = ["ClassAdSyntaxError", "is_old", "statements"]


Columns = Mapping[str, Sequence[str]]
"""What differs between the jobs of a submission: attribute -> a text for each of them."""


class Requirement(Struct, frozen=True):
    """A submit requirement."""

    name: str
    text: str  #: the condition
    reason: str  #: an expression for the message to the user (empty: HTCondor's words)
    is_warning: bool  #: whether a failure only warns


class Words(Struct, frozen=True):
    """What a policy may read, by its texts."""

    names: frozenset[str]  #: their words, in small letters
    everything: bool  #: whether it may read what they do not name


class SubmitPolicy(Struct, frozen=True):
    """The schedd's policy for submissions, by its settings."""

    transforms: tuple[Transform, ...]
    requirements: tuple[Requirement, ...]
    macros: Mapping[str, str]  #: what the configuration had for macros of the transforms, in small letters
    of_transforms: Words
    of_all: Words

    def __bool__(self) -> bool:
        return bool(self.transforms or self.requirements)


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MAKES_NAMES = re.compile(
    r"\b(?:eval|unparse|evalineachcontext|countmatches|unresolved)\s*\(|\w\$\(|\)\w|\(MY\.\$\(", re.I
)
_OF_PATTERN = re.compile(r"^\s*(?:COPY|RENAME|DELETE)\s+/", re.IGNORECASE | re.MULTILINE)
_PLAIN = re.compile(r"\"[^\"]*\"")
_DRAWS = re.compile(r"\brandom\s*\(", re.IGNORECASE)
_SCOPES = re.compile(r'"(?:[^"\\]|\\.)*"|\b(JOB|SCHEDD)(\s*\.)', re.IGNORECASE)


def submit_policy(settings: Mapping[str, str]) -> SubmitPolicy:
    """Return the policy in force."""
    if "JOB_TRANSFORM_NAMES" not in settings and "SUBMIT_REQUIREMENT_NAMES" not in settings:
        return _NONE
    mine = tuple(
        (name, text)
        for name, text in settings.items()
        if name.startswith(("JOB_TRANSFORM_", "SUBMIT_REQUIREMENT_", "$(")) and text.strip()
    )
    return _policy(mine)


@lru_cache(maxsize=8)
def _policy(settings: tuple[tuple[str, str], ...]) -> SubmitPolicy:
    given = dict(settings)
    transforms = []
    for name in listed_names(given, "JOB_TRANSFORM_NAMES"):
        text = given.get(f"JOB_TRANSFORM_{name}", "")
        if text and name.upper() != "NAMES":
            with suppress(TransformError, ClassAdSyntaxError):  # as in HTCondor; the configuration warned of it
                transforms.append(transform_of(name, text))
    named = [name for name in listed_names(given, "SUBMIT_REQUIREMENT_NAMES") if name != "NAMES"]
    requirements = tuple(
        Requirement(
            name,
            _scoped(given[f"SUBMIT_REQUIREMENT_{name}"]),
            _scoped(given.get(f"SUBMIT_REQUIREMENT_{name}_REASON", "")),
            given.get(f"SUBMIT_REQUIREMENT_{name}_IS_WARNING", "").lower() == "true",
        )
        for name in named
        if f"SUBMIT_REQUIREMENT_{name}" in given
    )
    macros = {name[2:-1].lower(): text for name, text in given.items() if name.startswith("$(")}
    own = {name: text for name, text in given.items() if name.startswith(("JOB_TRANSFORM_", "$("))}
    return SubmitPolicy(tuple(transforms), requirements, macros, _words(own), _words(given))


def _words(texts: Mapping[str, str]) -> Words:
    text = "\n".join(texts.values())
    names = frozenset(word.lower() for word in _WORD.findall(text))
    if _DRAWS.search(text):
        names |= {"procid"}
    return Words(names, bool(_MAKES_NAMES.search(text) or _OF_PATTERN.search(text)))


_NOTHING: Final = Words(frozenset(), False)
_NONE: Final = SubmitPolicy((), (), {}, _NOTHING, _NOTHING)


def transform_of(name: str, text: str) -> Transform:
    """Parse a transform in either syntax.

    :raises TransformError, ClassAdSyntaxError: it is valid in neither
    """
    return read_transform(name, statements(text) if is_old(text) else text)


def _scoped(text: str) -> str:
    """Rewrite an expression to use MY for the schedd's ad and TARGET for the job's."""

    def scope(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        return ("TARGET" if match[1].upper() == "JOB" else "MY") + match[2]

    return _SCOPES.sub(scope, text)


# -- one job


class SubmitRefusal(Struct, frozen=True):
    """Why a job is refused."""

    setting: str
    reason: str
    evidence: Evaluation | None = None


class TransformStep(Struct, frozen=True):
    """A transform that applied to a job: what it did, what it set, and the previous values (empty: none)."""

    done: Applied
    changes: Ad
    before: Ad


class TransformResult(Struct):
    """The result of the transforms for a job."""

    applied: list[TransformStep] = field(default_factory=list)  #: the transforms that applied to it, in their order
    changes: Ad = field(default_factory=dict)  #: the new attributes of the final ad
    refused: SubmitRefusal | None = None  #: why it cannot be transformed


FAILED: Final = "Failed to apply a required job transform."


class Judge(Struct, frozen=True):
    """Decides about the jobs of a submission, one after the other."""

    policy: SubmitPolicy
    settings: Mapping[str, str]
    schedd: ClassAd  #: the schedd's ad
    context: Context
    cluster: ClassAd  #: the submission's attributes, with the first job's values of those that differ
    spelled: Mapping[str, str]  #: the attributes' spellings, by their names in small letters
    everything: bool  #: whether statements with regular expressions see all attributes, as the manual has it
    noted: set[str] = field(default_factory=set)
    """The transforms whose evaluations were noted, for the first job of each."""

    def context_of(self, proc: int) -> Context:
        """Return the context of a job's evaluations; each job has its own random seed."""
        context = self.context
        if context.seed is None or "random" not in self.policy.of_all.names:
            return context
        return context.replace(seed=context.seed + 1_000_003 * proc)

    def transform(self, job: SubmittedJob, proc: int) -> TransformResult:
        """Apply the transforms to a job."""
        outcome, context = TransformResult(), self.context_of(proc)
        macros = TransformMacros(job, self.policy.macros, context)
        for transform in self.policy.transforms:
            if transform.is_for(job, context) and not self._apply(transform, job, macros, outcome, context):
                outcome.refused = SubmitRefusal(f"JOB_TRANSFORM_{transform.name}", FAILED)
                return outcome
        for step in outcome.applied:
            outcome.changes |= step.changes
        return outcome

    def _apply(
        self,
        transform: Transform,
        job: SubmittedJob,
        macros: TransformMacros,
        outcome: TransformResult,
        context: Context,
    ) -> bool:
        """Apply a transform; False: it cannot be applied, or sets a forbidden attribute."""
        before = job.ad.copy()
        job.changed.clear()
        try:
            done = apply(transform, job, macros, context, note=transform.name not in self.noted)
        except TransformError:
            return False
        changes = {self.spelled.get(name.lower(), name): text for name, text in job.changes().items()}
        self.noted.add(transform.name)
        accepted = may_be_submitted(changes, self.cluster, self.settings)
        if accepted is None:
            return False
        outcome.applied.append(TransformStep(done, accepted, {name: text_in(before, name) for name in accepted}))
        return True

    def require(self, job: SubmittedJob, context: Context, warnings: list[str]) -> SubmitRefusal | None:
        """Return why a job is refused; add failures that only warn to the warnings."""
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
                from ..classad.evidence import value_text, values_read  # few pools have requirements

                read = values_read(condition, self.schedd, job.ad, context)
                evidence = Evaluation("", requirement.text, value_text(value), read)
            return SubmitRefusal(setting, reason, evidence)
        return None

    def _reason(self, requirement: Requirement, job: SubmittedJob, context: Context) -> str:
        meaning = parse_cached(requirement.reason) if requirement.reason else None
        try:
            value = None if meaning is None else meaning.evaluate(self.schedd, job.ad, context)
        except EvaluationError:
            value = None
        return value if isinstance(value, str) else f"Submit requirement {requirement.name} not met.\n"


# -- all jobs of a submission


class AlikeJobs(Struct, frozen=True):
    """Jobs that are alike for the transforms, in order, and their result."""

    procs: Sequence[int]
    outcome: TransformResult


class SubmitPolicyResult(Struct, frozen=True):
    """The result of the policy for a submission."""

    kinds: Sequence[AlikeJobs]
    warnings: tuple[str, ...] = ()  #: the warnings for its user, each once
    refused: SubmitRefusal | None = None  #: why it is refused
    proc: int = 0  #: the first job that is refused


def decide(judge: Judge, ad: Ad, columns: Columns, count: int) -> SubmitPolicyResult:
    """Decide about the jobs of a submission."""
    of_all = _read(judge.policy.of_all, ad, columns)
    kinds: list[AlikeJobs] = []
    verdicts: list[tuple[int, SubmitRefusal | None, list[str]]] = []
    for procs in _alike(_read(judge.policy.of_transforms, ad, columns), columns, range(count)):
        proc = procs[0]
        own = {name: texts[proc] for name, texts in columns.items() if texts[proc] != texts[0]}
        status = (columns["JobStatus"][proc] if "JobStatus" in columns else ad.get("JobStatus")) or "1"
        own |= {"ProcId": str(proc), "JobStatus": status}
        job = SubmittedJob(judge.cluster, own, judge.cluster if judge.everything else ())
        outcome = judge.transform(job, proc)
        kinds.append(AlikeJobs(procs, outcome))
        if outcome.refused is not None:
            verdicts.append((proc, outcome.refused, []))
        elif judge.policy.requirements:
            read = {name: texts for name, texts in columns.items() if name.lower() in of_all - set(job.changed_ever)}
            verdicts += _required(judge, job, _alike(of_all, columns, procs), read)
    verdicts.sort(key=lambda one: one[0])
    warnings: dict[str, None] = {}
    for proc, refused, said in verdicts:
        if refused is not None:
            return SubmitPolicyResult(kinds, (), refused, proc)
        warnings |= dict.fromkeys(said)
    return SubmitPolicyResult(kinds, tuple(warnings))


def _required(
    judge: Judge, job: SubmittedJob, alike: Iterator[Sequence[int]], read: Columns
) -> Iterator[tuple[int, SubmitRefusal | None, list[str]]]:
    """Check the requirements for jobs with the same result of the transforms: for the first job of each kind."""
    for first, procs in enumerate(alike):
        proc = procs[0]
        if first:
            for name, texts in read.items():
                meaning = parse_cached(texts[proc])
                if meaning is not None:
                    job.ad[name] = meaning
            job.ad["ProcId"] = Literal(proc)
        said: list[str] = []
        refused = judge.require(job, judge.context_of(proc), said)
        yield proc, refused, said
        if refused is not None:
            return


def _alike(read: frozenset[str], columns: Columns, procs: Sequence[int]) -> Iterator[Sequence[int]]:
    """Group the jobs by equal values of all that is read, in the order of each group's first job."""
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


def _read(words: Words, ad: Ad, columns: Columns) -> frozenset[str]:
    """The attributes, in small letters, on which an outcome may depend."""
    everything = frozenset(name.lower() for name in columns) | {"procid"}
    if words.everything:
        return everything
    known = set(words.names)
    texts: dict[str, Sequence[str]] = {name.lower(): [text] for name, text in ad.items()}
    texts |= {name.lower(): column for name, column in columns.items()}
    pending = [name for name in known if name in texts]
    while pending:
        for text in dict.fromkeys(texts[pending.pop()]):
            if text.isdecimal() or _PLAIN.fullmatch(text):
                continue
            if _MAKES_NAMES.search(text):
                return everything
            fresh = {word.lower() for word in _WORD.findall(text)} - known
            known |= fresh
            pending += [word for word in fresh if word in texts]
    return frozenset(known)


def merged(kinds: Sequence[AlikeJobs], ad: Ad, columns: Columns, count: int) -> tuple[Ad, dict[str, Sequence[str]]]:
    """Return the final ads of the jobs: the shared attributes, and the columns of those that differ."""
    ad, out = dict(ad), dict(columns)
    for name in dict.fromkeys(name for kind in kinds for name in kind.outcome.changes):
        values = {kind.outcome.changes.get(name) for kind in kinds}
        if len(values) == 1:
            (text,) = values
            assert text is not None
            ad[name] = text
            out.pop(name, None)
            continue
        before = columns.get(name) or [ad.get(name, "undefined")] * count
        texts = list(before)
        for kind in kinds:
            text = kind.outcome.changes.get(name)
            if text is not None:
                for proc in kind.procs:
                    texts[proc] = text
        ad.pop(name, None)
        out[name] = texts
    return ad, out

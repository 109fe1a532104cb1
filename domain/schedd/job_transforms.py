"""Job transforms: the schedd's changes to jobs at submission.

A transform is a list of lines that are executed from top to bottom: ``SET``, ``DEFAULT``, ``EVALSET``, ``EVALMACRO``,
``COPY``, ``RENAME``, ``DELETE``, macros (``x = value``) and conditions. Macros work as in configurations and submit
descriptions. ``$(MY.Attr)`` is an attribute of the job; other names are looked up in the transforms, then in the
configuration. As in HTCondor, a statement with an invalid expression is skipped, but a line that is not a statement
causes the submission to fail.

Source: xform_utils.cpp and job_transforms.cpp of HTCondor, and the results of the same transforms in an HTCondor pool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct, field

from ..classad import ClassAdSyntaxError, Context, EvaluationError, Expression
from ..classad.ad import as_expression
from ..classad.functions_patterns import first_match, is_pattern
from ..classad.old_form import ad_text, read_expression
from ..classad.unparse import unparse_old
from ..decision.draft import Draft
from ..errors import PoolbookError
from ..events import Ad
from ..macros.conditions import Conditions
from ..macros.functions import FUNCTIONS
from ..macros.lines import Lines
from ..macros.macro_errors import MacroError
from ..macros.macros import Definition, Macros
from ..state.caches import parse_cached
from ..state.state import AccessPoint
from .submitted_job import SubmittedJob


class TransformError(PoolbookError):
    """A transform that cannot be applied; the message is the reason."""


class Transform(Struct, frozen=True):
    """A parsed transform."""

    name: str
    requirements: str  #: an expression that selects the jobs to transform (empty: all jobs)
    lines: tuple[str, ...]

    def is_for(self, job: SubmittedJob, context: Context) -> bool:
        """Return True if REQUIREMENTS is true or a nonzero number for the job; a transform without it applies to all
        jobs."""
        if not self.requirements:
            return True
        requirements = parse_cached(self.requirements)
        value = None if requirements is None else job.evaluate(requirements, context)
        return isinstance(value, bool | int | float) and bool(value)


class Evaluation(Struct, frozen=True):
    """An expression that a transform evaluated."""

    purpose: str  #: the attribute or macro that receives the value (empty: the transform's REQUIREMENTS)
    text: str
    value: str
    read: Ad  #: attribute -> value


class AppliedTransform(Struct):
    """The effect of one transform on one job."""

    name: str
    evaluations: list[Evaluation] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  #: statements that had no effect, with reasons


def record_evaluations(draft: Draft[AccessPoint], applied: AppliedTransform, prefix: str) -> tuple[int, ...]:
    """Log a transform's evaluations under its prefixed name. Return the positions of evaluations with references."""
    positions = [
        draft.record_evaluation(
            f"{prefix}{applied.name} {evaluation.purpose}".rstrip(), evaluation.text, evaluation.value, evaluation.read
        )
        for evaluation in applied.evaluations
    ]
    return tuple(position for position in positions if position)


_HEADER = r"(?is)(name|requirements|universe|transform)(?:\s+(?![=:])(.*)|\s*)"
_ASSIGNMENT = r"(?s)([A-Za-z0-9_./+]+)\s*(@=|\+=|=)\s*(.*)"
_ATTRIBUTE = r"(?a)[A-Za-z_][A-Za-z0-9_]*"
_VERSION: Final = "25.14.1"
PREDEFINED_MACROS: Final[Mapping[str, str]] = {
    "isclusterad": "0",
    "islinux": "1",
    "iswindows": "0",
    "iterating": "0",
    "latematerialization": "0",
}
"""The macros that are predefined in every transform."""


def read_transform(name: str, text: str) -> Transform:
    """Parse a transform, separating NAME, REQUIREMENTS, UNIVERSE and TRANSFORM from the statements.

    :raises TransformError: if REQUIREMENTS is not a valid expression
    """
    requirements, lines, tag, source = "", list[str](), "", Lines(text)
    while (logical_line := source.next_logical()) is not None:
        line = logical_line[1]
        if tag:
            tag = "" if line == tag else tag
            lines.append(line)
            continue
        assignment = re.fullmatch(_ASSIGNMENT, line)
        if assignment is not None:
            tag = f"@{assignment[3]}" if assignment[2] == "@=" else ""
            lines.append(line)
            continue
        match = re.fullmatch(_HEADER, line)
        if match is None:
            lines.append(line)
        elif match[1].lower() == "transform":
            break
        elif match[1].lower() == "requirements":
            requirements = (match[2] or "").strip()
            parsed = _parse(requirements)
            if parsed is None:
                raise TransformError(f"REQUIREMENTS {requirements} is not an expression")
            requirements = ad_text(parsed)
    return Transform(name, requirements, tuple(lines))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Expression | None:
    try:
        return read_expression(text)
    except ClassAdSyntaxError:
        return None


class TransformMacros(Macros):
    """The macros of a job's transforms; each transform can use macros that earlier ones defined."""

    def __init__(self, job: SubmittedJob, configured: Mapping[str, str], context: Context) -> None:
        super().__init__({**configured, **PREDEFINED_MACROS}, FUNCTIONS, {})
        self.job, self.ad, self._context = job, job.ad, context

    def _lookup(self, key: str) -> str | None:
        if not key.startswith("my."):
            return super()._lookup(key)
        parsed = self.job.ad.get(key[3:])
        return None if parsed is None else _unquoted(unparse_old(parsed))

    def value(self, name: str) -> str | None:
        """Return the value of a macro. A job attribute is evaluated, because macro functions need its value."""
        key = name.strip().lower()
        if not key.startswith("my."):
            return super().value(name)
        parsed = self.job.ad.get(key[3:])
        from ..classad.value_evidence import value_text  # imported late: few submissions are transformed

        return None if parsed is None else _unquoted(value_text(self.job.evaluate(parsed, self._context)))

    def changed(self) -> None:
        """Discard cached values after the job changed."""
        self._expanded.clear()


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1].replace('\\"', '"') if is_quoted else text


def apply_transform(
    transform: Transform, job: SubmittedJob, macros: TransformMacros, context: Context, *, record: bool = True
) -> AppliedTransform:
    """Apply a transform to a job.

    :param record: whether to record the evaluations in the result, which takes most of the time
    :raises TransformError: if a line is not a statement
    """
    applied = AppliedTransform(transform.name)
    if transform.requirements and record:
        requirements = parse_cached(transform.requirements)
        assert requirements is not None
        applied.evaluations.append(_evaluation("", requirements, job.evaluate(requirements, context), job, context))
    conditions = Conditions(macros, _VERSION)
    lines = iter(transform.lines)
    try:
        for line in lines:
            if conditions.process(line, 0) or not conditions.selected:
                continue
            assignment = re.fullmatch(_ASSIGNMENT, line)
            if assignment is None:
                _statement(line, _StatementTarget(job, macros, context, applied, record))
            else:
                _assign(assignment, macros, lines)
        conditions.check_closed()
    except MacroError as error:
        raise TransformError(error.message) from None
    return applied


def _assign(assignment: re.Match[str], macros: Macros, lines: Iterator[str]) -> None:
    name, operator, value = assignment.groups()
    if operator == "@=":
        value = "\n".join(iter(lambda: next(lines, f"@{value}"), f"@{value}"))
    elif operator == "+=":
        value = macros.append_value(name, "", value)
    macros.define(Definition(name, value))


class _StatementTarget(Struct, frozen=True):
    job: SubmittedJob
    macros: TransformMacros
    context: Context
    applied: AppliedTransform
    record: bool


def _statement(line: str, step: _StatementTarget) -> None:
    keyword, _, remaining = line.partition(" ")
    if "\t" in keyword:
        keyword, _, remaining = line.partition("\t")
    statement = _STATEMENTS.get(keyword.upper())
    remaining = remaining.strip()
    if statement is None or not remaining:
        raise TransformError(f"{line[:60]!r} is not a statement of a transform; use {', '.join(_STATEMENTS)}")
    name, flags, remaining = _first_argument(remaining, keyword.upper() in _PATTERN_STATEMENTS)
    if keyword.upper() != "DELETE":
        remaining = re.sub(r"^[=,](?:\s+|$)", "", remaining)
        if not remaining:
            raise TransformError(f"{keyword.upper()} needs 2 arguments")
    statement(step, name, flags, step.macros.expand(remaining))
    step.macros.changed()


def _first_argument(remaining: str, may_be_pattern: bool) -> tuple[str, str | None, str]:
    """Return the first argument, its flags if it is a regular expression, and the remainder of the line."""
    if may_be_pattern and remaining.startswith("/"):
        match = re.match(r"/((?:[^/\\]|\\.)*)/([A-Za-z]*)", remaining)
        if match is None:
            raise TransformError("invalid regex")
        return match[1].replace("\\/", "/"), match[2] + "i", remaining[match.end() :].strip()
    if "\t" in remaining.partition(" ")[0]:
        remaining = remaining.replace("\t", " ", 1)
    name, _, remaining = remaining.partition(" ")
    return name[:-1] if name[-1:] in (",", "=") and len(name) > 1 else name, None, remaining.strip()


def _evaluation(purpose: str, parsed: Expression, value: object, job: SubmittedJob, context: Context) -> Evaluation:
    from ..classad.value_evidence import value_text, values_read  # imported late: few submissions are transformed

    return Evaluation(purpose, unparse_old(parsed), value_text(value), values_read(parsed, job.ad, None, context))


def _set(step: _StatementTarget, name: str, flags: str | None, text: str) -> None:
    parsed = _parse(text)
    if parsed is None or not re.fullmatch(_ATTRIBUTE, name):
        step.applied.skipped.append(f"SET {name} {text}: this is not an expression")
    else:
        step.job.set(name, parsed)


def _default(step: _StatementTarget, name: str, flags: str | None, text: str) -> None:
    if name not in step.job.ad:
        _set(step, name, flags, text)


def _evaluate_statement(step: _StatementTarget, keyword: str, name: str, text: str) -> object:
    """Evaluate an expression and return its value, or None if it is invalid or its evaluation fails."""
    parsed = _parse(text)
    if parsed is None:
        step.applied.skipped.append(f"{keyword} {name} {text}: this is not an expression")
        return None
    try:
        value: object = parsed.evaluate(step.job.ad, None, step.context)
    except EvaluationError as error:
        step.applied.skipped.append(f"{keyword} {name} {text}: {error}")
        return None
    if step.record:
        step.applied.evaluations.append(_evaluation(name, parsed, value, step.job, step.context))
    return value


def _evalset(step: _StatementTarget, name: str, flags: str | None, text: str) -> None:
    value = _evaluate_statement(step, "EVALSET", name, text)
    if value is not None and re.fullmatch(_ATTRIBUTE, name):
        step.job.set(name, as_expression(value))


def _evalmacro(step: _StatementTarget, name: str, flags: str | None, text: str) -> None:
    value = _evaluate_statement(step, "EVALMACRO", name, text)
    if value is not None:
        step.macros.define(Definition(name, value if isinstance(value, str) else unparse_old(as_expression(value))))


def _for_each(
    step: _StatementTarget, keyword: str, name: str, flags: str | None, new: str, apply_to: Callable[[str, str], object]
) -> None:
    """Call ``apply_to`` for an attribute, or for all job attributes whose names match a regular expression."""
    if flags is None:
        names = {name: new}
    elif not is_pattern(name, flags):
        step.applied.skipped.append(f"{keyword} /{name}/: this is not a regular expression")
        return
    else:
        matches = {each: first_match(name, each, flags) for each in step.job.visible_attributes()}
        names = {each: _fill_groups(new, groups) for each, groups in matches.items() if groups}
    for old_name, new_name in sorted(names.items()):
        if new_name and not re.fullmatch(_ATTRIBUTE, new_name):
            step.applied.skipped.append(f"{keyword} {old_name} {new_name}: this is not an attribute name")
        else:
            apply_to(old_name, new_name)


def _fill_groups(pattern: str, groups: list[str]) -> str:
    def part(match: re.Match[str]) -> str:
        return groups[int(match[1])] if int(match[1]) < len(groups) else match[0]

    return re.sub(r"\\([0-9])", part, pattern)


def _copy(step: _StatementTarget, name: str, flags: str | None, new: str) -> None:
    _for_each(step, "COPY", name, flags, new, step.job.copy)


def _rename(step: _StatementTarget, name: str, flags: str | None, new: str) -> None:
    def apply_to(old_name: str, new_name: str) -> None:
        if old_name.lower() != new_name.lower() and step.job.copy(old_name, new_name):
            step.job.delete(old_name)

    _for_each(step, "RENAME", name, flags, new, apply_to)


def _delete(step: _StatementTarget, name: str, flags: str | None, new: str) -> None:
    _for_each(step, "DELETE", name, flags, "", lambda old_name, new_name: step.job.delete(old_name))


_STATEMENTS: Final[Mapping[str, Callable[[_StatementTarget, str, str | None, str], None]]] = {
    "SET": _set,
    "DEFAULT": _default,
    "EVALSET": _evalset,
    "EVALMACRO": _evalmacro,
    "COPY": _copy,
    "RENAME": _rename,
    "DELETE": _delete,
}
_PATTERN_STATEMENTS: Final = frozenset({"COPY", "RENAME", "DELETE"})


def transform_problems(transform: Transform) -> Iterator[str]:
    """Yield the problems that a transform has for every job: lines that are not statements, invalid expressions."""
    tag = ""
    for line in transform.lines:
        assignment = re.fullmatch(_ASSIGNMENT, line)
        if tag:
            tag = "" if line == tag else tag
        elif assignment is not None:
            tag = f"@{assignment[3]}" if assignment[2] == "@=" else ""
        elif not re.fullmatch(r"(?:if|elif|else|endif)\b.*", line, re.IGNORECASE | re.DOTALL):
            keyword, *remaining = line.split(None, 2)
            if keyword.upper() not in _STATEMENTS or not remaining:
                usage = ", ".join(_STATEMENTS)
                yield f"{line[:60]!r} is not a statement, so submissions to which it applies fail; use {usage}"
            elif (
                keyword.upper() in ("SET", "DEFAULT", "EVALSET", "EVALMACRO") and len(remaining) > 1 and "$" not in line
            ):
                text = re.sub(r"^[=,](?:\s+|$)", "", remaining[1])
                if _parse(text) is None:
                    yield f"{line[:60]!r} has no effect: {text[:60]!r} is not an expression"

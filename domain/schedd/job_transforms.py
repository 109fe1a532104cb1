"""Job transforms: what the schedd changes in jobs as they are submitted.

A transform is a list of lines that are executed from top to bottom: ``SET``, ``DEFAULT``, ``EVALSET``, ``EVALMACRO``,
``COPY``, ``RENAME``, ``DELETE``, macros (``x = value``) and conditions. Macros work as in configurations and submit
descriptions. ``$(MY.Attr)`` is an attribute of the job; other names are looked up in the transforms, then in the
configuration. A statement whose expression is none is left out, as in HTCondor; a line that is no statement
makes the submission fail.

Source: xform_utils.cpp and job_transforms.cpp of HTCondor, and what a real pool made of the same transforms.
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
from ..errors import PoolbookError
from ..macros.conditions import Conditions
from ..macros.functions import FUNCTIONS
from ..macros.lines import Lines
from ..macros.macro_errors import MacroError
from ..macros.macros import Definition, Macros
from ..state.caches import parse_cached
from .submitted_job import SubmittedJob


class TransformError(PoolbookError):
    """A transform cannot be applied, and why."""


class Transform(Struct, frozen=True):
    """A parsed transform."""

    name: str
    requirements: str  #: an expression that selects its jobs (empty: all)
    lines: tuple[str, ...]

    def is_for(self, job: SubmittedJob, context: Context) -> bool:
        """Check whether the transform's REQUIREMENTS are true for the job; undefined or a string is not true."""
        if not self.requirements:
            return True
        requirements = parse_cached(self.requirements)
        value = None if requirements is None else job.evaluated(requirements, context)
        return isinstance(value, bool | int | float) and bool(value)


class Evaluation(Struct, frozen=True):
    """An expression that a transform evaluated: its purpose, its text, its value, what it read."""

    what: str
    text: str
    value: str
    read: Mapping[str, str]


class Applied(Struct):
    """What a transform did to a job."""

    name: str
    evaluations: list[Evaluation] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  #: statements without effect, and why


_ENVELOPE = re.compile(r"(name|requirements|universe|transform)(?:\s+(?![=:])(.*)|\s*)", re.IGNORECASE | re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z0-9_./+]+)\s*(@=|\+=|=)\s*(.*)", re.DOTALL)
_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_VERSION: Final = "25.14.1"
VARIABLES: Final[Mapping[str, str]] = {
    "isclusterad": "0",
    "islinux": "1",
    "iswindows": "0",
    "iterating": "0",
    "latematerialization": "0",
}
"""The predefined macros of every transform."""


def read_transform(name: str, text: str) -> Transform:
    """Parse a transform: take NAME, REQUIREMENTS and the like out of its lines.

    :raises TransformError: its REQUIREMENTS are not a valid expression, or a line is not a statement
    """
    requirements, lines, tag = "", list[str](), ""
    for line in _logical(text):
        if tag:
            tag = "" if line == tag else tag
            lines.append(line)
            continue
        assignment = _ASSIGNMENT.fullmatch(line)
        if assignment is not None:
            tag = f"@{assignment[3]}" if assignment[2] == "@=" else ""
            lines.append(line)
            continue
        match = _ENVELOPE.fullmatch(line)
        if match is None:
            lines.append(line)
        elif match[1].lower() == "transform":
            break
        elif match[1].lower() == "requirements":
            requirements = (match[2] or "").strip()
            meaning = _meaning(requirements)
            if meaning is None:
                raise TransformError(f"REQUIREMENTS {requirements} is no expression")
            requirements = ad_text(meaning)
    return Transform(name, requirements, tuple(lines))


@lru_cache(maxsize=4096)
def _meaning(text: str) -> Expression | None:
    """Parse the text of an expression; None: it is not valid."""
    try:
        return read_expression(text)
    except ClassAdSyntaxError:
        return None


def _logical(text: str) -> Iterator[str]:
    lines = Lines(text)
    while (line := lines.next_logical()) is not None:
        yield line[1]


class TransformMacros(Macros):
    """The macros of a job's transforms: each transform sees what the earlier ones defined."""

    def __init__(self, job: SubmittedJob, configured: Mapping[str, str], context: Context) -> None:
        super().__init__({**configured, **VARIABLES}, FUNCTIONS, {})
        self.job, self.ad, self._context = job, job.ad, context

    def _lookup(self, key: str) -> str | None:
        if not key.startswith("my."):
            return super()._lookup(key)
        meaning = self.job.ad.get(key[3:])
        return None if meaning is None else _unquoted(unparse_old(meaning))

    def value(self, name: str) -> str | None:
        """Return a macro's value; an attribute of the job is evaluated, as functions need it."""
        key = name.strip().lower()
        if not key.startswith("my."):
            return super().value(name)
        meaning = self.job.ad.get(key[3:])
        from ..classad.evidence import value_text  # few submissions are transformed

        return None if meaning is None else _unquoted(value_text(self.job.evaluated(meaning, self._context)))

    def changed(self) -> None:
        """Forget known values after a change of the job."""
        self._expanded.clear()


def _unquoted(text: str) -> str:
    plain = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1].replace('\\"', '"') if plain else text


def apply(
    transform: Transform, job: SubmittedJob, macros: TransformMacros, context: Context, *, note: bool = True
) -> Applied:
    """Apply a transform to a job.

    :param note: record what was evaluated, which takes longer than the rest
    :raises TransformError: a line is not a statement
    """
    done = Applied(transform.name)
    if transform.requirements and note:
        requirements = parse_cached(transform.requirements)
        assert requirements is not None
        done.evaluations.append(_evaluation("", requirements, job.evaluated(requirements, context), job, context))
    conditions = Conditions(macros, _VERSION)
    lines = iter(transform.lines)
    try:
        for line in lines:
            if conditions.process(line, 0) or not conditions.selected:
                continue
            assignment = _ASSIGNMENT.fullmatch(line)
            if assignment is None:
                _statement(line, _StatementTarget(job, macros, context, done, note))
            else:
                _assign(assignment, macros, lines)
        conditions.check_closed()
    except MacroError as error:
        raise TransformError(error.message) from None
    return done


def _assign(assignment: re.Match[str], macros: Macros, lines: Iterator[str]) -> None:
    name, operator, value = assignment.groups()
    if operator == "@=":
        value = "\n".join(iter(lambda: next(lines, f"@{value}"), f"@{value}"))
    elif operator == "+=":
        value = macros.append_value(name, "", value)
    macros.define(Definition(name, value))


class _StatementTarget(Struct, frozen=True):
    """What a statement works on."""

    job: SubmittedJob
    macros: TransformMacros
    context: Context
    done: Applied
    note: bool


def _statement(line: str, step: _StatementTarget) -> None:
    word, _, rest = line.partition(" ")
    if "\t" in word:
        word, _, rest = line.partition("\t")
    statement = _STATEMENTS.get(word.upper())
    rest = rest.strip()
    if statement is None or not rest:
        raise TransformError(f"{line[:60]!r} is no statement of a transform; there are {', '.join(_STATEMENTS)}")
    name, flags, rest = _first(rest, word.upper() in _OF_PATTERNS)
    if word.upper() != "DELETE":
        rest = re.sub(r"^[=,](?:\s+|$)", "", rest)
        if not rest:
            raise TransformError(f"{word.upper()} needs 2 arguments")
    statement(step, name, flags, step.macros.expand(rest))
    step.macros.changed()


def _first(rest: str, may_be_pattern: bool) -> tuple[str, str | None, str]:
    """Return the first argument, its flags if it is a regular expression, and the rest of the line."""
    if may_be_pattern and rest.startswith("/"):
        match = re.match(r"/((?:[^/\\]|\\.)*)/([A-Za-z]*)", rest)
        if match is None:
            raise TransformError("invalid regex")
        return match[1].replace("\\/", "/"), match[2] + "i", rest[match.end() :].strip()
    name, _, rest = rest.replace("\t", " ", 1).partition(" ") if "\t" in rest.partition(" ")[0] else rest.partition(" ")
    return name[:-1] if name[-1:] in (",", "=") and len(name) > 1 else name, None, rest.strip()


def _evaluation(what: str, meaning: Expression, value: object, job: SubmittedJob, context: Context) -> Evaluation:
    from ..classad.evidence import value_text, values_read  # few submissions are transformed

    return Evaluation(what, unparse_old(meaning), value_text(value), values_read(meaning, job.ad, None, context))


def _set(step: _StatementTarget, name: str, flags: str | None, text: str) -> None:
    meaning = _meaning(text)
    if meaning is None or not _ATTRIBUTE.fullmatch(name):
        step.done.skipped.append(f"SET {name} {text}: this is no expression")
    else:
        step.job.set(name, meaning)


def _default(step: _StatementTarget, name: str, flags: str | None, text: str) -> None:
    if name not in step.job.ad:
        _set(step, name, flags, text)


def _value(step: _StatementTarget, word: str, name: str, text: str) -> object:
    """Return the value of an expression; None: it has none."""
    meaning = _meaning(text)
    if meaning is None:
        step.done.skipped.append(f"{word} {name} {text}: this is no expression")
        return None
    try:
        value: object = meaning.evaluate(step.job.ad, None, step.context)
    except EvaluationError as error:
        step.done.skipped.append(f"{word} {name} {text}: {error}")
        return None
    if step.note:
        step.done.evaluations.append(_evaluation(name, meaning, value, step.job, step.context))
    return value


def _evalset(step: _StatementTarget, name: str, flags: str | None, text: str) -> None:
    value = _value(step, "EVALSET", name, text)
    if value is not None and _ATTRIBUTE.fullmatch(name):
        step.job.set(name, as_expression(value))


def _evalmacro(step: _StatementTarget, name: str, flags: str | None, text: str) -> None:
    value = _value(step, "EVALMACRO", name, text)
    if value is not None:
        step.macros.define(Definition(name, value if isinstance(value, str) else unparse_old(as_expression(value))))


def _for_each(
    step: _StatementTarget, word: str, name: str, flags: str | None, new: str, do: Callable[[str, str], object]
) -> None:
    """Do it with one attribute, or with all of the job's own whose names a regular expression finds."""
    if flags is None:
        names = {name: new}
    elif not is_pattern(name, flags):
        step.done.skipped.append(f"{word} /{name}/: this is no regular expression")
        return
    else:
        matches = {each: first_match(name, each, flags) for each in step.job.open()}
        names = {each: _filled(new, groups) for each, groups in matches.items() if groups}
    for old, other in sorted(names.items()):
        if other and not _ATTRIBUTE.fullmatch(other):
            step.done.skipped.append(f"{word} {old} {other}: this is no attribute's name")
        else:
            do(old, other)


def _filled(pattern: str, groups: list[str]) -> str:
    def part(match: re.Match[str]) -> str:
        return groups[int(match[1])] if int(match[1]) < len(groups) else match[0]

    return re.sub(r"\\([0-9])", part, pattern)


def _copy(step: _StatementTarget, name: str, flags: str | None, new: str) -> None:
    _for_each(step, "COPY", name, flags, new, step.job.copy)


def _rename(step: _StatementTarget, name: str, flags: str | None, new: str) -> None:
    def do(old: str, other: str) -> None:
        if old.lower() != other.lower() and step.job.copy(old, other):
            step.job.delete(old)

    _for_each(step, "RENAME", name, flags, new, do)


def _delete(step: _StatementTarget, name: str, flags: str | None, new: str) -> None:
    _for_each(step, "DELETE", name, flags, "", lambda old, other: step.job.delete(old))


_STATEMENTS: Final[Mapping[str, Callable[[_StatementTarget, str, str | None, str], None]]] = {
    "SET": _set,
    "DEFAULT": _default,
    "EVALSET": _evalset,
    "EVALMACRO": _evalmacro,
    "COPY": _copy,
    "RENAME": _rename,
    "DELETE": _delete,
}
_OF_PATTERNS: Final = frozenset({"COPY", "RENAME", "DELETE"})


def faults(transform: Transform) -> Iterator[str]:
    """Yield what cannot work in a transform for any job: lines that are not statements, and invalid expressions."""
    tag = ""
    for line in transform.lines:
        assignment = _ASSIGNMENT.fullmatch(line)
        if tag:
            tag = "" if line == tag else tag
        elif assignment is not None:
            tag = f"@{assignment[3]}" if assignment[2] == "@=" else ""
        elif not re.fullmatch(r"(?:if|elif|else|endif)\b.*", line, re.IGNORECASE | re.DOTALL):
            word, *rest = line.split(None, 2)
            if word.upper() not in _STATEMENTS or not rest:
                there_are = ", ".join(_STATEMENTS)
                yield f"{line[:60]!r} is no statement; there are {there_are}: submissions that it is for fail"
            elif word.upper() in ("SET", "DEFAULT", "EVALSET", "EVALMACRO") and len(rest) > 1 and "$" not in line:
                text = re.sub(r"^[=,](?:\s+|$)", "", rest[1])
                if _meaning(text) is None:
                    yield f"{line[:60]!r} has no effect: {text[:60]!r} is no expression"

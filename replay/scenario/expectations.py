"""Parse expectations about a period: shares, waiting times and waste, and conditions that hold never or in time.

A condition is a ClassAd expression about each slot, or about each job in the queue. ``slot.NAME`` (or only ``NAME``) is
an attribute of the slot's ad, as its policy reads it, and ``job.NAME`` one of the job that the slot runs. A condition
that names only attributes of jobs is about each job in the queue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from attrs import field, frozen

from ...domain.classad import ClassAd, ClassAdSyntaxError, Expression, parse
from ...domain.classad.analysis import references_or_empty
from ...domain.state.job_ad import STATUS_NUMBERS
from ...domain.suggestions import did_you_mean
from ...domain.units import SECOND
from .scenario_times import length

MEASURES = {
    "share": "expect share USER|GROUP [of pool] >= 40% [<= 60%]",
    "wait": "expect wait USER|GROUP|JOB|all [average] <= 2h",
    "waste": "expect waste [USER|GROUP] <= 10% (or <= 2h)",
}
WATCHES = {
    "never": "expect never [SLOT|JOB] STATE|CONDITION",
    "within": "expect within TIME [SLOT|JOB] STATE|CONDITION [after CONDITION]",
}
ALL = "all"  #: the name that selects the jobs of all users
JOB = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
SLOT = re.compile(r"slot[0-9_*?]+(?:@\S+)?", re.ASCII)
_SCOPED = re.compile(r'("(?:\\.|[^"\\])*")|\b(slot|job)(\s*\.\s*[A-Za-z_])', re.ASCII | re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][\w.@-]*", re.ASCII)
_SCOPES = {"slot": "MY", "job": "TARGET"}


@frozen
class Measure:
    """An expectation about a number: a share, or a time in seconds, of a user, group or job. ``detail`` is "pool" for a
    share of all slot time instead of the used time, and "average" for the average wait instead of the longest one.
    ``is_time``: the bounds of a waste are times, and not shares of the used time."""

    kind: str
    name: str = ALL
    low: float | None = None
    high: float | None = None
    detail: str = ""
    is_time: bool = False


@frozen
class Condition:
    """A condition as written, and its expression. ``names``: the attributes that it reads of the slot (of the job, if
    it is ``of_jobs``), and ``job_names``: attributes of the slot's job."""

    text: str
    of_jobs: bool
    expression: Expression = field(repr=False, eq=False)
    names: frozenset[str] = field(repr=False)
    job_names: frozenset[str] = field(repr=False)


@frozen
class Watch:
    """An expectation about a condition of the slots or jobs that match ``thing`` (empty: all): it never holds or, if
    ``within`` is set, holds within that time (microseconds) after the start of the period or whenever ``after`` became
    true."""

    condition: Condition
    thing: str = ""
    within: int | None = None
    after: Condition | None = None

    @property
    def starts_at_once(self) -> bool:
        """Return True if the condition must hold within a time after the start of the period."""
        return self.within is not None and self.after is None


def parse_condition(text: str, thing: str = "") -> Condition:
    """Parse a condition about this slot or job (empty: about each). Raise ValueError if it is invalid."""
    scoped = _SCOPED.sub(lambda match: match[1] or f"{_SCOPES[match[2].lower()]}{match[3]}", text)
    try:
        expression = parse(scoped)
    except ClassAdSyntaxError as error:
        raise ValueError(f"{text!r} is not a condition: {error}") from None
    external = references_or_empty(expression, ClassAd()).external
    job_names = {name[7:] for name in external if name.lower().startswith("target.")}
    names = {name for name in external if "." not in name}
    of_jobs = bool(JOB.fullmatch(thing)) if thing else bool(job_names) and not names
    if thing and of_jobs and any(match[2].lower() == "slot" for match in _SCOPED.finditer(text) if match[2]):
        raise ValueError(f"{text!r} is about slots, but {thing} is a job")
    if of_jobs:
        names, job_names = names | job_names, set()
    return Condition(text, of_jobs, expression, frozenset(names), frozenset(job_names))


def parse_measure(kind: str, words: Sequence[str]) -> Measure:
    """Parse the words after ``expect share``, ``expect wait`` or ``expect waste``. Raise ValueError if they are
    invalid."""
    usage = f"expected: {MEASURES[kind]}"
    rest = list(words)
    name = rest.pop(0) if rest and rest[0] not in (">=", "<=") else ""
    if (not name and kind != "waste") or (name and not _NAME.fullmatch(name) and not JOB.fullmatch(name)):
        raise ValueError(f"{name!r} is not a user, group or job; {usage}" if name else usage)
    detail = ""
    for option, option_words in (("pool", ["of", "pool"]), ("average", ["average"])):
        if kind == {"pool": "share", "average": "wait"}[option] and rest[: len(option_words)] == option_words:
            detail, rest = option, rest[len(option_words) :]
    bounds: dict[str, str] = dict(zip(rest[::2], rest[1::2], strict=False))
    if not rest or len(rest) % 2 or len(bounds) * 2 != len(rest) or not bounds.keys() <= {">=", "<="}:
        raise ValueError(usage)
    is_time = kind == "wait" or (kind == "waste" and not any(map(_is_fraction, bounds.values())))
    read = (lambda text: length(text) / SECOND) if is_time else _fraction
    low, high = (read(bounds[sign]) if sign in bounds else None for sign in (">=", "<="))
    return Measure(kind, name or ALL, low, high, detail, is_time)


def _is_fraction(word: str) -> bool:
    return word.endswith("%") or word.startswith("0.")


def _fraction(word: str) -> float:
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{word!r} is not a share: write 40% or 0.4")
    return value


def parse_watch(kind: str, words: Sequence[str], slot_of: Callable[[str], str], pairs: Collection[str]) -> Watch:
    """Parse the words after ``expect never`` or ``expect within``; ``slot_of`` completes a slot's name, and ``pairs``
    are the states and activities of slots. Raise ValueError if they are invalid."""
    rest = list(words)
    within = None
    if kind == "within":
        within = length(rest.pop(0)) if rest else None
        if not within:
            raise ValueError(f"expected: {WATCHES[kind]}")
    thing = ""
    if len(rest) > 1 and (SLOT.fullmatch(rest[0]) or JOB.fullmatch(rest[0])):
        thing = rest.pop(0)
        thing = slot_of(thing) if SLOT.fullmatch(thing) else thing
    after_text = ""
    if kind == "within" and "after" in rest:
        at = rest.index("after")
        rest, after_text = rest[:at], " ".join(rest[at + 1 :])
        if not after_text:
            raise ValueError(f"expected: {WATCHES[kind]}")
    if not rest:
        raise ValueError(f"expected: {WATCHES[kind]}")
    condition = parse_condition(_state_condition(rest[0], pairs) if len(rest) == 1 else " ".join(rest), thing)
    return make_watch(condition, thing, within, parse_condition(after_text, thing) if after_text else None)


def make_watch(condition: Condition, thing: str, within: int | None, after: Condition | None) -> Watch:
    """Return the watch. Raise ValueError if its conditions are about different kinds of things."""
    of_jobs = bool(JOB.fullmatch(thing))
    for part in (condition, after):
        if part is not None and part.of_jobs != (of_jobs if thing else condition.of_jobs):
            raise ValueError(f"{part.text!r} is about {'jobs' if part.of_jobs else 'slots'}, and the rest is not")
    return Watch(condition, thing if "." in thing or not of_jobs else f"{thing}.0", within, after)


def _state_condition(word: str, pairs: Collection[str]) -> str:
    """Return the condition for a slot's state and activity or a job's status; any other word is a condition itself."""
    if word in pairs:
        state, activity = word.split("/")
        return f'slot.State == "{state}" && slot.Activity == "{activity}"'
    if word in STATUS_NUMBERS:
        return f"job.JobStatus == {STATUS_NUMBERS[word]}"
    if (_NAME.fullmatch(word) or "/" in word) and (hint := did_you_mean(word, [*STATUS_NUMBERS, *pairs], most=1)):
        raise ValueError(f"{word!r} is neither a state nor a condition; {hint}")
    return word

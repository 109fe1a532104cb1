"""Split Requirements into steps and count the ads that each of them accepts, as condor_q -better-analyze does.

``split`` returns the conditions and their combinations in the order of evaluation. ``decisive_steps`` counts the ads
that they accept and omits the steps that make no difference. Both follow HTCondor's expr_analyze.cpp, which determines
which of several equivalent steps remains.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...domain.classad import unparse
from ...domain.classad.analysis import references_or_empty, value_or_error
from ...domain.classad.matching import is_satisfied
from ...domain.classad.tree import Attribute, Binary, Call, Conditional, Expression, Parentheses, Unary, children

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Context

NONE = -1
"""The number of a part that is not a step."""
_COMPARISONS = frozenset(("<", "<=", "==", "!=", ">=", ">", "is", "isnt"))
_LOGIC = frozenset(("&&", "||", "!"))
_MARKS = {(False, False): "F", (True, False): "T", (False, True): "f", (True, True): "t"}


class Step:
    """A part of an expression that is evaluated separately: a condition, or a combination of two steps."""

    def __init__(self, tree: Expression, parts: Sequence[int]) -> None:
        self.tree = tree
        self.op = _logic_operator(tree)
        self.parts = list(parts)  #: the numbers of the steps in it, or `NONE`
        self.equal_step = NONE  #: the step that always has the same value
        self.is_irrelevant = False
        self.constant: bool | None = None  #: the value, if it is the same for all ads
        self.depends_on_time = _depends_on_time(tree)
        self.marks = ["", ""]  #: T or F after each part that is constant
        self.accepted = [0, 0]  #: the number of ads, and of ads of slots as if they were drained

    @property
    def is_decisive(self) -> bool:
        return self.equal_step == NONE and not self.is_irrelevant

    @property
    def text(self) -> str:
        parts = [f"[{part}]{mark}" for part, mark in zip(self.parts, self.marks, strict=False)]
        if self.op == "!" and self.parts[:1] not in ([], [NONE]):
            return f" ! {parts[0]}"
        return f" {self.op} ".join(parts) if self.op in ("&&", "||") else unparse(self.tree)

    @property
    def numbered_text(self) -> str:
        """Return the text. If a part of a condition is a step, its number precedes the text."""
        first = "" if self.op or self.parts[:1] in ([], [NONE]) else f"[{self.parts[0]}] "
        return first + self.text

    def count(self) -> int:
        return sum(self.accepted)


def _logic_operator(node: Expression) -> str:
    return node.op if isinstance(node, Binary | Unary) and node.op in _LOGIC else ""


def _depends_on_time(tree: Expression) -> bool:
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Call):
            if node.key == "time" and not node.arguments:
                return True
        elif isinstance(node, Attribute) and node.base is None and node.key == "currenttime":
            return True
        else:
            pending += children(node)
    return False


class _Visit(NamedTuple):
    node: Expression
    is_step: bool
    inlined: Collection[str]
    visited_parts: int = NONE  #: `NONE`: the parts are still to be visited


def split(ad: ClassAd, expression: Expression, inlined: Collection[str] = ()) -> list[Step]:
    """Return the steps of an expression of an ad, in the order of evaluation.

    :param inlined: names, in lower case, of the ad's attributes whose expressions are split, too
    """
    steps: list[Step] = []
    numbers: list[int] = []
    pending = [_Visit(expression, True, inlined)]
    while pending:
        visit = pending.pop()
        node, inlined_below = visit.node, visit.inlined
        if visit.visited_parts != NONE:
            first = len(numbers) - visit.visited_parts
            numbers[first:] = [_step_of(steps, visit, numbers[first:])]
            continue
        parts = children(node) if isinstance(node, Binary | Unary | Conditional | Parentheses | Attribute) else ()
        if isinstance(node, Attribute) and not parts and node.key in inlined_below and node.name in ad:
            parts, inlined_below = (ad[node.name],), ()
        are_steps = isinstance(node, Parentheses) or bool(_logic_operator(node))
        pending.append(visit._replace(visited_parts=len(parts)))
        pending += [_Visit(part, are_steps, inlined_below) for part in reversed(parts)]
    return steps


def _step_of(steps: list[Step], visit: _Visit, parts: Sequence[int]) -> int:
    """Return the number of the step for a visited node: of its only part, or a new one; or `NONE`."""
    node, only = visit.node, parts[0] if len(parts) == 1 else NONE
    is_comparison = isinstance(node, Binary) and node.op in _COMPARISONS
    is_step = not isinstance(node, Parentheses) and (visit.is_step or is_comparison or bool(_logic_operator(node)))
    if not is_step or only != NONE:
        if is_step and only == len(steps) - 1 and _logic_operator(node) == "!":
            steps[only].tree, steps[only].op = node, "!"
        return only
    steps.append(Step(node, parts))
    return len(steps) - 1


def decisive_steps(
    ad: ClassAd, steps: Sequence[Step], targets: Sequence[ClassAd], context: Context, drained: Sequence[ClassAd] = ()
) -> list[tuple[int, Step]]:
    """Count the ads that each step of an expression of an ad accepts; return the steps that decide, with their numbers.

    :param drained: more ads, of slots as if they were drained, which are counted separately
    """
    for step in steps:
        if not references_or_empty(step.tree, ad).external:
            step.constant = is_satisfied(value_or_error(step.tree, ad, None, context))
    for step in steps:
        if step.op in ("&&", "||"):
            _propagate_constants(steps, step)
    for step in steps:
        _replace_equal_parts(steps, step)
    ads = [(0, target) for target in targets] + [(1, target) for target in drained]
    for step in steps:
        if step.is_decisive and step.constant is None:
            _count(steps, step, ad, ads, context)
    return [(at, step) for at, step in enumerate(steps) if step.is_decisive]


def _propagate_constants(steps: Sequence[Step], step: Step) -> None:
    """Set the value of a combination with constant parts, and the part that has the same value."""
    sides = [steps[part] for part in step.parts]
    values = [side.constant for side in sides]
    for at, side in enumerate(sides):
        step.marks[at] = "" if side.constant is None else _MARKS[side.constant, side.depends_on_time]
    deciding_value = step.op == "||"
    if deciding_value in values:
        equal = values.index(deciding_value)
        is_time_dependent = sides[equal].depends_on_time
        step.constant = deciding_value
        step.depends_on_time = (all if deciding_value else any)(side.depends_on_time for side in sides)
    elif values == [None, None]:
        return
    elif None not in values:
        step.constant, step.depends_on_time = not deciding_value, any(side.depends_on_time for side in sides)
        return
    else:
        equal = values.index(None)
        is_time_dependent = (step if step.op == "&&" else sides[1 - equal]).depends_on_time
    step.equal_step = _last_equal(steps, step.parts[equal])
    if not is_time_dependent:
        _mark_irrelevant(steps, step.parts[1 - equal])


def _last_equal(steps: Sequence[Step], number: int) -> int:
    while steps[number].equal_step != NONE:
        number = steps[number].equal_step
    return number


def _mark_irrelevant(steps: Sequence[Step], number: int) -> None:
    pending = [number]
    while pending:
        step = steps[pending.pop()]
        step.is_irrelevant = True
        pending += [part for part in step.parts if part != NONE]


def _replace_equal_parts(steps: Sequence[Step], step: Step) -> None:
    parts = [part if part == NONE else _last_equal(steps, part) for part in step.parts]
    if parts != step.parts:
        step.parts, step.marks = parts, ["", ""]


def _count(
    steps: Sequence[Step], step: Step, ad: ClassAd, ads: Sequence[tuple[int, ClassAd]], context: Context
) -> None:
    """Count the ads that a step accepts, and mark the steps that make no difference."""
    if step.op in ("&&", "||"):
        _drop_ineffective_side(steps, step, len(ads))
    for kind, target in ads:
        step.accepted[kind] += is_satisfied(value_or_error(step.tree, ad, target, context))
    if step.op not in ("&&", "||"):
        return
    sides = step.parts
    _replace_equal_parts(steps, step)
    for number, other in zip(sides, reversed(sides), strict=True):
        if step.op == "&&" and steps[number].count() == step.count():
            step.equal_step = _last_equal(steps, number)
            steps[other].is_irrelevant |= steps[other].count() > step.count()
            return


def _drop_ineffective_side(steps: Sequence[Step], step: Step, total: int) -> None:
    """If one side of a combination accepts all ads or none, let the side that decides replace the combination."""
    counts = [steps[part].count() for part in step.parts]
    if step.op == "&&":
        equal = counts.index(0) if 0 in counts else NONE
    elif total in counts:
        equal = counts.index(total)
    else:
        equal = 1 - counts.index(0) if counts.count(0) == 1 else NONE
    if equal == NONE:
        return
    step.equal_step = _last_equal(steps, step.parts[equal])
    if step.op == "||":
        _mark_irrelevant(steps, step.parts[1 - equal])

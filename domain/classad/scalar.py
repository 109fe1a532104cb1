"""The scalar compiler: a tree becomes one closure, evaluated in one ad against one other.

A closure takes the environment of the whole evaluation and the ad in which the expression stands. Names are resolved
at run time, by the reference's scopes (``lookup``); what can be settled once, at compile time, is: keys, operators,
literals, how deep each part lies.

Depth. The reference allows 400 nested steps, an operator or an attribute each. Where a part lies inside its
expression is known when compiling, so only the step into an attribute counts at run time. An expression higher than
what is left is compiled a second time, carefully: every operator of it checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ad import ClassAd
from .context import DEFAULT, Context, Randomness
from .operator_compilers import operation, settled
from .operators import UNARY
from .scope import MATCH_ROOT, lookup, root_of
from .tree import (
    AdExpression,
    Attribute,
    Binary,
    Call,
    Compiled,
    Conditional,
    Constant,
    Evaluator,
    Expression,
    ListExpression,
    Literal,
    Parentheses,
    Survey,
    TimeLiteral,
    Unary,
    children,
    compiler,
)
from .values import (
    ERROR,
    UNDEFINED,
    AbsTime,
    ContextError,
    EvaluationFailed,
    ListValue,
    RelTime,
    low32,
    lower,
    truncate32,
    truth,
)

MAX_DEPTH = 400
# The reference stops after ten million evaluated nodes; here the attributes are counted, which are fewer.
MAX_STEPS = 1_000_000


class Environment:
    """One evaluation: the two ads of the match, the context, and what keeps it finite."""

    # What few evaluations change is set on the class: one is made for each evaluation.
    depth = MAX_DEPTH
    steps = MAX_STEPS
    active: set[tuple[int, str]] | None = None
    randomness: Randomness | None = None
    nested: tuple[ClassAd, ClassAd] | None = None
    # Where a call of ``LEAVERS`` has left the search; None: in the ad at hand.
    moved: ClassAd | None = None
    left: ClassAd | None
    right: ClassAd | None
    root: ClassAd | None

    def __init__(self, my: ClassAd | None, target: ClassAd | None, context: Context) -> None:
        self.context = context
        if target is None or my is None or target is my:
            self.left = self.right = None
            self.root = my
        else:
            self.left = my
            self.right = target
            self.root = MATCH_ROOT

    def random(self) -> Randomness:
        """The evaluation's random numbers.

        :raises ContextError: where the context has no seed.
        """
        if self.randomness is None:
            if self.context.seed is None:
                raise ContextError("random() needs a seed: evaluate with Context(seed=<number>)")
            self.randomness = Randomness(self.context.seed)
        return self.randomness

    def other(self, ad: ClassAd) -> ClassAd | None:
        """The other ad of the match, where ``ad`` is one of the two (or stands in for one)."""
        if ad is self.left:
            return self.right
        if ad is self.right:
            return self.left
        if self.nested is not None and ad is self.nested[0]:
            return self.nested[1]
        return None

    def inside(self, place: ClassAd) -> Environment:
        """The environment of ``evalInEachContext``: in an ad nested in one of the two, which sees the other one."""
        inner = Environment(None, None, self.context)
        inner.left, inner.right, inner.randomness = self.left, self.right, self.randomness
        inner.steps, inner.active, inner.depth = self.steps - 1, self.active, self.depth - 1
        if inner.depth < 0 or inner.steps < 0:
            raise EvaluationFailed("the evaluation nests too deeply")
        inner.root = root_of(self, place)
        around = place._outer
        other = None if around is None else self.other(around)
        if other is not None:
            inner.nested = place, other
        return inner


def evaluate(expression: Expression, my: ClassAd | None, target: ClassAd | None, context: Context | None) -> Any:
    """See ``Expression.evaluate``."""
    env = Environment(my, target, DEFAULT if context is None else context)
    compiled = expression._compiled
    if compiled is None or compiled.evaluator is None:
        compiled = prepare(expression)
    evaluator: Any = compiled.evaluator
    if compiled.height > MAX_DEPTH:
        evaluator = careful(expression, compiled)
    try:
        value = evaluator(env, my)
    except RecursionError:
        raise EvaluationFailed("the evaluation nests too deeply for this program's stack") from None
    kind = type(value)
    if kind is ListValue:
        return ListValue(value.expressions, value.scope, value.shared, context)
    # Its own copy, without the scopes of the match: what the caller does to it stays there.
    return value.copy() if kind is ClassAd else value


compiler.evaluate = evaluate


def evaluate_in(node: Expression, env: Environment, ad: ClassAd | None) -> Any:
    """A part of a running evaluation: a node on its own, in a given ad."""
    compiled = node._compiled
    if compiled is None or compiled.evaluator is None:
        compiled = prepare(node)
    if compiled.height > env.depth:
        return careful(node, compiled)(env, ad)
    return compiled.evaluator(env, ad)  # type: ignore[misc]


def prepare(expression: Expression) -> Compiled:
    """Compile an expression; the result is kept on it."""
    compiled = expression._compiled
    if compiled is None:
        compiled = expression._compiled = Compiled()
    first = _first_steps(expression)
    compiled.evaluator, compiled.height = (first, 0) if first is not None else _compile(expression, False)
    return compiled


def _first_steps(expression: Expression) -> Evaluator | None:
    """The evaluator of an expression whose first steps already lead too deep; None for all others.

    What is evaluated first is always to the left, so that long chains need not be compiled to know how they end.
    """
    node: Any = expression
    selecting = True
    for _ in range(MAX_DEPTH + 1):
        kind = type(node)
        selecting = selecting and kind is Attribute
        if kind is Binary:
            node = node.left
        elif kind is Attribute and node.base is not None:
            node = node.base
        elif kind is Parentheses:
            node = node.inner
        elif kind is Unary:
            node = node.operand
        elif kind is Conditional:
            node = node.condition
        else:
            return None
    return _error if selecting else _too_deep


def _error(env: Environment, ad: ClassAd | None) -> Any:
    # Of a chain of selections that is too long the reference makes an error value.
    return ERROR


def _too_deep(env: Environment, ad: ClassAd | None) -> Any:
    raise EvaluationFailed(f"the expression nests more deeply than {MAX_DEPTH} levels")


def careful(expression: Expression, compiled: Compiled) -> Evaluator:
    """The evaluator that checks its depth at every operator."""
    if compiled.careful is None:
        compiled.careful = _compile(expression, True)[0]
    return compiled.careful


# -- scopes at run time ------------------------------------------------------------------------------------------------


def enter(env: Environment, thing: Any, ad: ClassAd, key: str, depth: int) -> Any:
    """The value of what a name was found to stand for: ``thing``, in ``ad``, ``depth`` levels into its expression.

    A name that is being evaluated already is undefined: a circular reference.
    """
    kind = type(thing)
    if kind is Literal:
        return thing.value
    if kind is AdExpression:
        return ClassAd._nested(thing.cells, ad)
    if kind is ClassAd:
        return thing
    left = env.depth - depth
    if left <= 0:
        raise EvaluationFailed(f"the evaluation of {key} nests more deeply than {MAX_DEPTH} levels")
    env.steps -= 1
    if env.steps < 0:
        raise EvaluationFailed(f"the evaluation takes more than {MAX_STEPS:,} attributes")
    active = env.active
    if active is None:
        active = env.active = set()
    mark = (id(ad._cells), key)
    if mark in active:
        return UNDEFINED
    compiled = thing._compiled
    if compiled is None or compiled.evaluator is None:
        compiled = prepare(thing)
    evaluator = compiled.evaluator
    if compiled.height >= left:
        evaluator = careful(thing, compiled)
    outer, moved = env.depth, env.moved
    env.depth, env.moved = left - 1, None
    active.add(mark)
    try:
        return evaluator(env, ad)
    finally:
        active.discard(mark)
        env.depth, env.moved = outer, moved


def member(env: Environment, ad: ClassAd | None, members: ListValue, expression: Expression) -> Any:
    """A member of a list, evaluated the reference's way: in the ad at hand, not in the one where the list stands.

    Only ads and lists among the members belong to the place where they were written.
    """
    kind = type(expression)
    if kind is Literal:
        return expression.value  # type: ignore[attr-defined]
    if kind is AdExpression or kind is ListExpression:
        return evaluate_in(expression, env, members.scope)
    return evaluate_in(expression, env, ad if env.moved is None else env.moved)


def as_expression(value: Any) -> Expression:
    """A computed value as a member of a computed list; a length of time in whole seconds, and as a literal: a real."""
    kind = type(value)
    if kind is AbsTime:
        return TimeLiteral(value)
    if kind is RelTime:
        return TimeLiteral(RelTime(truncate32(value.seconds)))
    if kind is ListValue or kind is ClassAd:
        return Constant(value)
    return Literal(value)


def _project(env: Environment, ad: ClassAd | None, members: ListValue, key: str, depth: int) -> ListValue:
    """``list.name``: the name's value in each member."""
    out: list[Expression] = []
    for expression in members.expressions:
        value = _select(env, ad, member(env, ad, members, expression), key, depth)
        if type(value) is ListValue:
            out.append(ListExpression(tuple(value.expressions)))
        elif type(value) is ClassAd:
            out.append(AdExpression(value._cells))
        else:
            out.append(as_expression(value))
    return ListValue(out, None)


def _select(env: Environment, ad: ClassAd | None, base: Any, key: str, depth: int) -> Any:
    """``base.name``: looked up from the ad ``base`` outwards; never in the other ad of the match."""
    kind = type(base)
    if kind is ClassAd:
        found = lookup(env, base, key)
        return UNDEFINED if found is None else enter(env, found[0], found[1], key, depth)
    if kind is ListValue:
        return _project(env, ad, base, key, depth)
    return UNDEFINED if base is UNDEFINED else ERROR


# -- the compiler ------------------------------------------------------------------------------------------------------


def _compile(root: Expression, checking: bool) -> tuple[Evaluator, int]:
    """The evaluator of a tree, and its height in operators. Loops rather than recursion: chains may be long."""
    order: list[tuple[Expression, int, tuple[Expression, ...]]] = []
    pending: list[tuple[Expression, int]] = [(root, 0)]
    height = 0
    while pending:
        node, depth = pending.pop()
        kind = type(node)
        if kind is Binary and node.op in ("&&", "||"):  # type: ignore[attr-defined]
            parts, depths = chain(node, depth)  # type: ignore[arg-type]
            order.append((node, depth + 1, parts))
            pending.extend(zip(parts, depths, strict=True))
            height = max(height, max(depths))
            continue
        if kind is Binary or kind is Unary or kind is Parentheses or kind is Conditional:
            depth += 1
            height = max(height, depth)
        elif kind is Attribute:
            height = max(height, depth + 1)
        # The members of lists and ads are evaluated on their own, if ever.
        parts = () if kind is ListExpression or kind is AdExpression else children(node)
        order.append((node, depth, parts))
        below = depth + 1 if kind is Attribute else depth  # the scope of a name is a step of its own
        pending.extend((part, below) for part in parts)
    moving = any(type(node) is Call and node.key in LEAVERS for node, _, _ in order)
    builders = _CAREFUL_BUILDERS if checking else _BUILDERS
    done: dict[int, Evaluator] = {}
    for node, depth, parts in reversed(order):
        evaluator = builders[type(node)](node, depth, [done[id(part)] for part in parts])
        if moving and type(node) is Attribute:
            evaluator = _moved(evaluator)
        if checking and type(node) in _STEPS:
            evaluator = _checked(evaluator, _needed(node, depth))
        done[id(node)] = evaluator
    return done[id(root)], height


# Functions which leave the reference's evaluation in the ad where they found their first argument: what is evaluated
# after them, in the same expression, is looked up there. (A fault of the reference on which results depend.)
LEAVERS = frozenset({"unresolved", "countmatches", "evalineachcontext"})


def strays(expression: Expression, has: Callable[[str], object]) -> bool:
    """Whether an expression cannot be taken apart, what its parts mean depending on what was evaluated before them.

    So it is where a call of ``LEAVERS`` may leave the ad in which the expression stands, which has the attributes
    ``has``; with random numbers; and where it is so tall that only the whole tells whether it is too tall.
    """
    found = survey(expression)
    if found.draws or found.height > MAX_DEPTH - 100:
        return True
    for reference in found.leaving:
        base = reference.base
        own = base is None or (type(base) is Attribute and base.base is None and base.key == "my" and not base.absolute)
        if not own or reference.absolute or not has(reference.key) or has("my"):
            return True
    return False


def survey(expression: Expression) -> Survey:
    """What an expression is made of; kept on it."""
    compiled = expression._compiled
    if compiled is None:
        compiled = expression._compiled = Compiled()
    if compiled.survey is None:
        compiled.survey = _survey(expression)
    return compiled.survey


def _survey(expression: Expression) -> Survey:
    leaving: list[Attribute] = []
    draws = False
    height = nesting = 0
    pending: list[tuple[Expression, int, int]] = [(expression, 0, 0)]
    while pending:
        node, depth, nested = pending.pop()
        kind = type(node)
        if depth > height:
            height = depth
        if nested > nesting:
            nesting = nested
        if kind is Literal:
            continue
        if kind is Attribute:
            if node.base is not None:  # type: ignore[attr-defined]
                pending.append((node.base, depth + 1, nested + 1))  # type: ignore[attr-defined]
            continue
        if kind is Binary and node.op in ("&&", "||"):  # type: ignore[attr-defined]
            parts, depths = chain(node, depth)  # type: ignore[arg-type]
            pending.extend((part, below, nested + 1) for part, below in zip(parts, depths, strict=True))
            continue
        if kind is Call:
            if node.key == "random":  # type: ignore[attr-defined]
                draws = True
            elif node.key in LEAVERS:  # type: ignore[attr-defined]
                leaving += [part for part in children(node)[:1] if isinstance(part, Attribute)]
        elif kind in _STEPS:
            depth += 1
        elif kind is AdExpression:
            continue
        pending.extend((part, depth, nested + 1) for part in children(node))
    return Survey(tuple(leaving), draws, height, nesting)


def _moved(evaluator: Evaluator) -> Evaluator:
    return lambda env, ad: evaluator(env, ad if env.moved is None else env.moved)


_STEPS = frozenset({Binary, Unary, Parentheses, Conditional, Attribute})


def chain(node: Binary, depth: int) -> tuple[tuple[Expression, ...], list[int]]:
    """The operands of ``a && b && c``, and how deep each lies."""
    op = node.op
    operands: list[Expression] = []
    depths: list[int] = []
    here: Expression = node
    while type(here) is Binary and here.op == op:
        depth += 1
        operands.append(here.right)
        depths.append(depth)
        here = here.left
    operands.append(here)
    depths.append(depth)
    operands.reverse()
    depths.reverse()
    return tuple(operands), depths


def _needed(node: Expression, depth: int) -> int:
    """How much depth a node needs: an attribute a step into it; a chain as much as its innermost, which comes first."""
    if isinstance(node, Attribute):
        return depth + (1 if node.base is None else 2)
    chained = isinstance(node, Binary) and node.op in ("&&", "||")
    return max(chain(node, depth - 1)[1]) if chained else depth  # type: ignore[arg-type]


def _checked(evaluator: Evaluator, depth: int) -> Evaluator:
    def run(env: Environment, ad: ClassAd | None) -> Any:
        if env.depth < depth:
            raise EvaluationFailed(f"the expression nests more deeply than {MAX_DEPTH} levels")
        return evaluator(env, ad)

    return run


def _literal(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    value = node.value
    return lambda env, ad: value


def _time_literal(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    time = node.time
    if type(time) is RelTime:
        seconds = time.seconds
        return lambda env, ad: seconds
    if not node.zoneless:
        return lambda env, ad: time

    def local(env: Environment, ad: ClassAd | None) -> Any:
        offset = env.context.offset(env.context.standard(time.seconds))
        return AbsTime(time.seconds - offset, offset)

    return local


def _list(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    members = node.members
    return lambda env, ad: ListValue(members, ad)


def _ad(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    cells = node.cells
    return lambda env, ad: ClassAd._nested(cells, ad)


def _parentheses(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    return parts[0]


def _unary(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    compute = UNARY[node.op]
    (operand,) = parts
    return lambda env, ad: compute(operand(env, ad))


def _conditional(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    condition, then, otherwise = parts

    def run(env: Environment, ad: ClassAd | None) -> Any:
        chosen = condition(env, ad)
        if chosen is not True and chosen is not False:
            if chosen is UNDEFINED or chosen is ERROR:
                return chosen
            chosen = truth(chosen)
            if chosen is None:
                # Not lazy then, in the reference: what fails in a branch fails here.
                then(env, ad)
                otherwise(env, ad)
                return ERROR
        return then(env, ad) if chosen else otherwise(env, ad)

    return run


def _binary(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    return _subscript(*parts) if node.op == "[]" else operation(node.op, parts, settled(node.right))


def _careful_binary(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    # Every operator is to check its depth: none is computed beforehand.
    return _subscript(*parts) if node.op == "[]" else operation(node.op, parts, settled(node.right, 0))


def _subscript(left: Evaluator, right: Evaluator) -> Evaluator:
    """A list by an integer, an ad by a string; out of range is an error, a missing attribute undefined."""

    def run(env: Environment, ad: ClassAd | None) -> Any:
        base = left(env, ad)
        index = right(env, ad)
        if base is ERROR or index is ERROR:
            return ERROR
        if base is UNDEFINED or index is UNDEFINED:
            return UNDEFINED
        if type(base) is ListValue and type(index) is int:
            place = low32(index)
            if not 0 <= place < len(base.expressions):
                return ERROR
            try:
                return evaluate_in(base.expressions[place], env, base.scope)
            except EvaluationFailed:
                return ERROR
        if type(base) is ClassAd and type(index) is str:
            cell = base._find(lower(index))
            try:
                return UNDEFINED if cell is None else enter(env, cell[1], base, lower(index), 0)
            except EvaluationFailed:
                return ERROR
        return ERROR

    return run


def _attribute(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    key = node.key
    if node.base is None:
        return _absolute(key, depth) if node.absolute else _unscoped(key, depth)
    base = node.base
    if type(base) is Attribute and base.base is None and not base.absolute:
        if base.key == "my":
            return _in_my(key, depth, parts[0])
        if base.key == "target":
            return _in_target(key, depth, parts[0])
    (value_of_base,) = parts
    return lambda env, ad: _select(env, ad, value_of_base(env, ad), key, depth)


def _unscoped(key: str, depth: int) -> Evaluator:
    def run(env: Environment, ad: ClassAd | None) -> Any:
        if ad is None:
            return UNDEFINED
        cell = ad._cells.get(key)
        if cell is not None:
            thing = cell[1]
            return thing.value if type(thing) is Literal else enter(env, thing, ad, key, depth)
        if ad._chain is not None:
            cell = ad._chain._cells.get(key)
            if cell is not None:
                thing = cell[1]
                return thing.value if type(thing) is Literal else enter(env, thing, ad, key, depth)
        found = lookup(env, ad, key)
        if found is None:
            other = env.other(ad)
            if other is None:
                return UNDEFINED
            cell = other._cells.get(key)
            if cell is not None:
                thing = cell[1]
                return thing.value if type(thing) is Literal else enter(env, thing, other, key, depth)
            found = lookup(env, other, key)
            if found is None:
                return UNDEFINED
        return enter(env, found[0], found[1], key, depth)

    return run


def _absolute(key: str, depth: int) -> Evaluator:
    def run(env: Environment, ad: ClassAd | None) -> Any:
        if env.root is None:
            if ad is None:
                raise EvaluationFailed(f".{key} needs an ad to be evaluated in")
            return UNDEFINED
        found = lookup(env, env.root, key)
        return UNDEFINED if found is None else enter(env, found[0], found[1], key, depth)

    return run


def _in_my(key: str, depth: int, my: Evaluator) -> Evaluator:
    def run(env: Environment, ad: ClassAd | None) -> Any:
        if ad is None or "my" in ad._cells or (ad._chain is not None and ad._chain._find("my") is not None):
            return _select(env, ad, my(env, ad), key, depth)
        cell = ad._cells.get(key)
        if cell is None and ad._chain is not None:
            cell = ad._chain._find(key)
        if cell is None:
            return _select(env, ad, ad, key, depth)
        thing = cell[1]
        return thing.value if type(thing) is Literal else enter(env, thing, ad, key, depth)

    return run


def _in_target(key: str, depth: int, target: Evaluator) -> Evaluator:
    def run(env: Environment, ad: ClassAd | None) -> Any:
        if ad is None:
            return UNDEFINED
        other = env.other(ad)
        if other is None or "target" in ad._cells or (ad._chain is not None and ad._chain._find("target") is not None):
            return _select(env, ad, target(env, ad), key, depth)
        cell = other._cells.get(key)
        if cell is None and other._chain is not None:
            cell = other._chain._find(key)
        if cell is None:
            return _select(env, ad, other, key, depth)
        thing = cell[1]
        return thing.value if type(thing) is Literal else enter(env, thing, other, key, depth)

    return run


def _call(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    from .functions import bind

    return bind(node, parts)


_BUILDERS: dict[type, Callable[[Any, int, list[Evaluator]], Evaluator]] = {
    Literal: _literal,
    Constant: _literal,
    TimeLiteral: _time_literal,
    Attribute: _attribute,
    Parentheses: _parentheses,
    Unary: _unary,
    Binary: _binary,
    Conditional: _conditional,
    Call: _call,
    ListExpression: _list,
    AdExpression: _ad,
}
_CAREFUL_BUILDERS = {**_BUILDERS, Binary: _careful_binary}

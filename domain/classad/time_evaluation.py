"""Following an expression: compiled as ``scalar`` does it, but what comes out are ``courses`` in place of values.

A follower takes the passage (one following of one expression, from an instant on) and the ad in which the expression
stands. Names mean what they mean in ``scalar``. What cannot be followed - nested ads, functions that look at
expressions rather than values - is looked through for the clock: if nothing of it, nor of the attributes that it may
read, depends on the time, it has the value that ``scalar`` gives it; else nobody knows, and ``Unknown`` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .ad import ClassAd
from .context import Context
from .environment import MAX_DEPTH, Environment, Evaluator, lookup
from .function_registry import FUNCTIONS, Function, Needs
from .node_compilers import bind
from .operator_compilers import NOT_CONSTANT, constant_value
from .operators import BINARY, UNARY
from .scalar import evaluate_in
from .survey import LEAVERS, chain, survey
from .syntax import ClassAdSyntaxError, parse_evaluated
from .time_dependence import OF_NOW, sees_the_clock
from .time_functions import (
    COURSES,
    END,
    Curve,
    Held,
    Line,
    Moving,
    combined,
    condition,
    curve,
    held,
    limited,
    mapped,
    negated,
    value_at,
)
from .tree import (
    AdExpression,
    Attribute,
    Binary,
    Call,
    Conditional,
    Expression,
    ListExpression,
    ListValue,
    Literal,
    Parentheses,
    TimeLiteral,
    Unary,
    children,
)
from .unparse import to_string
from .values import ERROR, UNDEFINED, truth

# Trees that nest more deeply than this are not followed; nor are attributes that lead through more than this.
_DEEPEST = 100
_MOST_ENTERED = 40


class Unknown(Exception):
    """What stands here cannot be followed."""


class Passage(Environment):
    """One following of an expression, from an instant on."""

    # Until when the values are good that ``_value`` has handed out.
    until = END
    entered = 0
    courses: dict[str, Any] | None = None

    def __init__(
        self, my: ClassAd | None, target: ClassAd | None, context: Context, now: int, moving: Mapping[str, Moving]
    ) -> None:
        super().__init__(my, target, context)
        self.now = now
        self.mine = my
        self.moving = moving
        self.clock = Line(0, 1, 1, 0, END)

    def course(self, key: str) -> Any:
        """The course of a moving attribute."""
        if self.courses is None:
            self.courses = {}
        known = self.courses.get(key)
        if known is None:
            known = self.moving[key].course(self.now)
            if known is None:
                raise Unknown
            self.courses[key] = known
        return known

    def of_now(self) -> Environment:
        """An environment for the functions that ask for nothing but the time: that from which on is followed."""
        context = self.context if self.context.now == self.now else self.context.replace(now=self.now)
        return Environment(None, None, context)


# -- names -------------------------------------------------------------------------------------------------------------


def follower_of(expression: Expression) -> Evaluator:
    """What follows an expression; kept on it."""
    compiled = expression._compiled
    if compiled is None or compiled.time_evaluator is None:
        found = survey(expression)
        compiled = expression._compiled
        assert compiled is not None
        whole = found.nesting > _DEEPEST or found.height > MAX_DEPTH // 2 or _leaves(expression)
        compiled.time_evaluator = _opaque(expression) if whole else _follow(expression)
    return compiled.time_evaluator


def _leaves(expression: Expression) -> bool:
    """Whether what is evaluated after some part of an expression may be looked up elsewhere (see ``LEAVERS``)."""
    pending = [expression]
    while pending:
        node = pending.pop()
        if type(node) is Call and node.key in LEAVERS:
            return True
        pending.extend(children(node))
    return False


def _enter(env: Any, thing: Any, ad: ClassAd, key: str) -> Any:
    """The course of what a name stands for in an ad, as ``scalar.enter`` has it for the value."""
    kind = type(thing)
    if kind is Literal:
        return thing.value
    if kind is ClassAd:
        raise Unknown  # MY itself, as a value
    env.entered += 1
    if env.entered > _MOST_ENTERED:
        raise Unknown
    active = env.active
    if active is None:
        active = env.active = set()
    mark = (id(ad._cells), key)
    if mark in active:
        env.entered -= 1
        return UNDEFINED
    active.add(mark)
    try:
        return follower_of(thing)(env, ad)
    finally:
        active.discard(mark)
        env.entered -= 1


def _named(env: Any, ad: ClassAd, key: str) -> Any:
    """The course of a name from an ad outwards; ``_Missing`` where it is not found."""
    if ad is env.mine and key in env.moving:
        return env.course(key)
    cell = ad._find(key)
    if cell is not None:
        thing = cell[1]
        return thing.value if type(thing) is Literal else _enter(env, thing, ad, key)
    found = lookup(env, ad, key)
    return _MISSING if found is None else _enter(env, found[0], found[1], key)


_MISSING = object()


def _attribute(node: Attribute) -> Evaluator:
    key = node.key
    base = node.base
    if node.absolute:
        return _opaque(node)
    if base is None:

        def unscoped(env: Any, ad: ClassAd | None) -> Any:
            if ad is None:
                return UNDEFINED
            course = _named(env, ad, key)
            if course is _MISSING:
                other = env.other(ad)
                course = _MISSING if other is None else _named(env, other, key)
            return UNDEFINED if course is _MISSING else course

        return unscoped
    opaque = _opaque(node)
    if type(base) is not Attribute or base.base is not None or base.absolute or base.key not in ("my", "target"):
        return opaque
    scope, mine = base.key, base.key == "my"

    def scoped(env: Any, ad: ClassAd | None) -> Any:
        if ad is None:
            return UNDEFINED
        if ad._find(scope) is not None or ad._outer is not None:
            return opaque(env, ad)
        place = ad if mine else env.other(ad)
        if place is None:
            return UNDEFINED
        course = _named(env, place, key)
        return UNDEFINED if course is _MISSING else course

    return scoped


# -- operators ---------------------------------------------------------------------------------------------------------


def _follow(node: Any) -> Evaluator:
    kind = type(node)
    if kind is Parentheses:
        return _follow(node.inner)
    rule = _RULES.get(kind)
    return _opaque(node) if rule is None else rule(node)


def _literal(node: Literal) -> Evaluator:
    value = node.value
    return lambda env, ad: value


def _opaque(node: Expression) -> Evaluator:
    """The value of now of what cannot be followed, if the time does not touch it."""

    def run(env: Any, ad: ClassAd | None) -> Any:
        if sees_the_clock(env, env.moving, node):
            raise Unknown
        return evaluate_in(node, env, ad)

    return run


def _unary(node: Unary) -> Evaluator:
    op, compute, operand = node.op, UNARY[node.op], _follow(node.operand)

    def run(env: Any, ad: ClassAd | None) -> Any:
        course = operand(env, ad)
        return negated(op, course, env.now) if type(course) in COURSES else compute(course)

    return run


def _binary(node: Binary) -> Evaluator:
    op = node.op
    if op == "&&" or op == "||":
        return _connective([_follow(part) for part in chain(node, 0)[0]], op == "||")
    if op == "[]":
        return _opaque(node)
    if op == "?:":
        return _elvis(_follow(node.left), _follow(node.right))
    left, compute = _follow(node.left), BINARY[op]
    constant = constant_value(node.right)
    if constant is not NOT_CONSTANT:

        def with_constant(env: Any, ad: ClassAd | None) -> Any:
            a = left(env, ad)
            return combined(op, a, constant, env.now) if type(a) in COURSES else compute(a, constant)

        return with_constant
    right = _follow(node.right)

    def run(env: Any, ad: ClassAd | None) -> Any:
        a, b = left(env, ad), right(env, ad)
        if type(a) in COURSES or type(b) in COURSES:
            return combined(op, a, b, env.now)
        return compute(a, b)

    return run


def _connective(parts: list[Evaluator], decisive: bool) -> Evaluator:
    """``&&`` and ``||``: what stands to the right of a deciding part does not matter as long as that part decides."""
    neutral = not decisive

    def run(env: Any, ad: ClassAd | None) -> Any:
        result: Any = neutral
        until = END
        for part in parts:
            value = part(env, ad)
            if value is neutral:
                continue
            if type(value) in COURSES:
                value = condition(value, env.now)
                until = min(until, value.until)
                value = value.value
            if value is UNDEFINED:
                result = UNDEFINED
                continue
            value = truth(value)
            if value is None:
                value = ERROR
            if value is not neutral:
                result = value
                break
        return result if until >= END else Held(result, until)

    return run


def _elvis(left: Evaluator, right: Evaluator) -> Evaluator:
    def run(env: Any, ad: ClassAd | None) -> Any:
        course = left(env, ad)
        if course is UNDEFINED:
            return right(env, ad)
        if type(course) is Held and course.value is UNDEFINED:
            return limited(right(env, ad), course.until)
        return course

    return run


def _choice(test: Evaluator, then: Evaluator, otherwise: Evaluator) -> Evaluator:
    """``c ? a : b`` and ``ifThenElse(c, a, b)``."""

    def run(env: Any, ad: ClassAd | None) -> Any:
        until = END
        chosen = test(env, ad)
        if type(chosen) in COURSES:
            chosen = condition(chosen, env.now)
            until, chosen = chosen.until, chosen.value
        if chosen is not UNDEFINED:
            chosen = truth(chosen)
        course = UNDEFINED if chosen is UNDEFINED else ERROR
        if chosen is True or chosen is False:
            course = then(env, ad) if chosen else otherwise(env, ad)
        return course if until >= END else limited(course, until)

    return run


def _conditional(node: Conditional) -> Evaluator:
    return _choice(_follow(node.condition), _follow(node.then), _follow(node.otherwise))


# -- functions ---------------------------------------------------------------------------------------------------------

# Functions of one number that never fall.
_NEVER_FALL = frozenset({"int", "real", "floor", "ceil", "ceiling", "round"})


def _call(node: Call) -> Evaluator:
    key, count = node.key, len(node.arguments)
    if key in OF_NOW and count == 0:
        return _clock if key == "time" else _of_now(node)
    function = FUNCTIONS.get(key)
    if function is None or key == "random":
        return _unknown
    if not function.least <= count <= function.most:
        return lambda env, ad: ERROR
    if key == "eval":
        return _evaluated(_follow(node.arguments[0]))
    if key == "debug":
        return _follow(node.arguments[0])
    if key == "ifthenelse":
        return _choice(*(_follow(argument) for argument in node.arguments))
    if function.needs is Needs.PLACE:
        return _opaque(node)
    if key in _NEVER_FALL:
        return _never_falling(node, [])
    if key == "quantize" and type(unit := constant_value(node.arguments[1])) in (int, float) and unit > 0:
        return _never_falling(node, [unit])
    if key in ("min", "max") and type(node.arguments[0]) is ListExpression:
        return _extreme(node, function, node.arguments[0])
    return _stepwise(node, function)


def _clock(env: Any, ad: ClassAd | None) -> Any:
    return env.clock


def _unknown(env: Any, ad: ClassAd | None) -> Any:
    raise Unknown


def _evaluated(argument: Evaluator) -> Evaluator:
    """``eval(text)``: what the text says is followed, as long as the text stays the same."""

    def run(env: Any, ad: ClassAd | None) -> Any:
        course = held(argument(env, ad), env.now)
        text = to_string(value_at(course, env.now))
        try:
            expression = parse_evaluated(text) if type(text) is str else None
        except ClassAdSyntaxError:
            expression = None
        result = ERROR
        if expression is not None:
            env.entered += 1
            if env.entered > _MOST_ENTERED:
                raise Unknown
            result = follower_of(expression)(env, ad)
            env.entered -= 1
        return limited(result, course.until) if type(course) is Held else result

    return run


def _of_now(node: Call) -> Evaluator:
    compute = bind(node, [])

    def run(env: Any, ad: ClassAd | None) -> Any:
        return Held(compute(env.of_now(), ad), env.now + 1)

    return run


def _value(follower: Evaluator) -> Evaluator:
    """The value of now, for a function that takes values. Until when it is good, the passage keeps."""

    def run(env: Any, ad: ClassAd | None) -> Any:
        course = held(follower(env, ad), env.now)
        if type(course) is not Held:
            return course
        env.until = min(env.until, course.until)
        return course.value

    return run


def _stepwise(node: Call, function: Function) -> Evaluator:
    """A function of values: it yields what it does of those of now, until one of them changes."""
    members = function.members.get(len(node.arguments))
    arguments = [
        _members(argument) if place == members and type(argument) is ListExpression else _value(_follow(argument))
        for place, argument in enumerate(node.arguments)
    ]
    compute = bind(node, arguments)

    def run(env: Any, ad: ClassAd | None) -> Any:
        before, env.until = env.until, END
        try:
            value = compute(env, ad)
            return value if env.until >= END else Held(value, env.until)
        finally:
            env.until = before

    return run


def _members(node: ListExpression) -> Evaluator:
    """A list whose members the function evaluates: those of now."""
    if any(type(part) in (ListExpression, AdExpression) for part in node.members):
        return _value(_opaque(node))
    parts = [_value(_follow(part)) for part in node.members]
    return lambda env, ad: ListValue(tuple(Literal(part(env, ad)) for part in parts), ad)


def _never_falling(node: Call, others: list[Any]) -> Evaluator:
    """A function of one number that never falls, its other arguments being known."""
    operand = _follow(node.arguments[0])
    function = FUNCTIONS[node.key].eager
    assert function is not None
    nowhere = Environment(None, None, Context())
    keeps_integers = node.key not in ("real", "quantize")

    def compute(value: Any) -> Any:
        return function(nowhere, None, [value, *others])

    def run(env: Any, ad: ClassAd | None) -> Any:
        course = operand(env, ad)
        if type(course) not in COURSES:
            return compute(course)
        return course if keeps_integers and type(course) is Line else mapped(compute, course, env.now)

    return run


def _extreme(node: Call, function: Function, members: ListExpression) -> Evaluator:
    """``min({a, b})``, ``max({a, b})``: where all numbers that move go the same way, so does the one of them."""
    stepwise = _stepwise(node, function)
    if any(type(part) in (ListExpression, AdExpression) for part in members.members):
        return stepwise
    parts = [_follow(part) for part in members.members]
    compute = function.eager
    assert compute is not None

    def run(env: Any, ad: ClassAd | None) -> Any:
        courses = [part(env, ad) for part in parts]
        moving = [course for course in courses if type(course) in (Line, Curve)]
        if not moving or len({course.rising for course in moving}) > 1:
            return stepwise(env, ad)
        until = min(course.until for course in courses if type(course) in COURSES)
        still = [course.value if type(course) is Held else course for course in courses]

        def at(t: int) -> Any:
            values = tuple(Literal(value_at(course, t)) for course in still)
            return compute(env, ad, [ListValue(values, ad)])

        course = curve(at, moving[0].rising, env.now, until)
        return stepwise(env, ad) if course is None else course

    return run


_RULES: dict[type, Callable[[Any], Evaluator]] = {
    Literal: _literal,
    TimeLiteral: lambda node: lambda env, ad: evaluate_in(node, env, ad),
    Attribute: _attribute,
    Unary: _unary,
    Binary: _binary,
    Conditional: _conditional,
    Call: _call,
}

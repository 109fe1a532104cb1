"""The expression tree: what the parser makes, and the compilers, the unparser and the analysis read.

Nodes are immutable and know nothing of the ad in which they stand: one parsed text serves any number of ads.
``Expression`` is at once the public face of an expression and the base of all nodes, so that a part of an
expression is an expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .values import AbsTime, RelTime, Value, lower

if TYPE_CHECKING:
    from .ad import ClassAd
    from .analysis import References
    from .context import Context
    from .scalar import Environment

Evaluator: TypeAlias = "Callable[[Environment, ClassAd | None], Any]"

# Operators, loosest first. The parser, the unparser and the evaluators all key on these texts.
BINARY_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "is", "isnt"),
    ("<", "<=", ">", ">="),
    ("<<", ">>", ">>>"),
    ("+", "-"),
    ("*", "/", "%"),
)
PRECEDENCE: dict[str, int] = {op: n for n, level in enumerate(BINARY_LEVELS, 1) for op in level}
UNARY = frozenset("+-!~")


class Survey(NamedTuple):
    """What an expression is made of: the attributes for which it searches without evaluating them, whether it draws
    random numbers, its height in the steps that the reference counts, and how deep it nests (chains counting once).
    """

    leaving: tuple[Attribute, ...]
    draws: bool
    height: int
    nesting: int


class Compiled:
    """What is known of an expression by those who evaluate it; see scalar.py, and horizon.py for ``follower``."""

    __slots__ = ("careful", "evaluator", "follower", "height", "survey")

    def __init__(self) -> None:
        self.evaluator: Evaluator | None = None
        self.careful: Evaluator | None = None
        self.follower: Evaluator | None = None
        self.height = 0
        self.survey: Survey | None = None


class _Compiler:
    """Set by scalar.py, which is built upon this module."""

    evaluate: Callable[[Expression, ClassAd | None, ClassAd | None, Context | None], Any]


compiler = _Compiler()


class Expression:
    """An expression of the ClassAd language; made by ``parse``."""

    __slots__ = ("_compiled",)

    # What the scalar compiler made of it, kept for the next time.
    _compiled: Compiled | None

    def evaluate(
        self,
        my: ClassAd | None = None,
        target: ClassAd | None = None,
        context: Context | None = None,
    ) -> Value:
        """The expression's value in the ad ``my``, matched with ``target``.

        A name without scope is looked up in ``my``, then in ``target``; an attribute found in ``target`` is evaluated
        there, MY and TARGET swapped. A ``target`` without a ``my`` is not looked at, as in the reference.

        :param context: the outside world (now, time zone, functions ...); ``DEFAULT`` knows none of it.
        :raises EvaluationError: where the evaluation fails rather than yield ``ERROR``.
        """
        return compiler.evaluate(self, my, target, context)  # type: ignore[no-any-return]

    def references(self, ad: ClassAd | None = None) -> References:
        """The attributes that the expression reads: ``internal`` to ``ad``, and ``external`` to it."""
        from .analysis import references

        return references(self, ad)

    def simplify(self, my: ClassAd) -> Expression:
        """What remains of the expression once ``my`` is known: equal to it against every target."""
        from .simplify import simplify

        return simplify(self, my)

    def __str__(self) -> str:
        from .unparse import unparse

        return unparse(self)

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return self is other or self._exact_text() == other._exact_text()

    def __hash__(self) -> int:
        return hash(self._exact_text())

    def __reduce__(self) -> Any:
        from .syntax import parse

        return (parse, (self._exact_text(),))

    def _exact_text(self) -> str:
        from .unparse import unparse_exactly

        return unparse_exactly(self)


class Literal(Expression):
    """A constant: int, float, str, bool, ``UNDEFINED`` or ``ERROR``."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self._compiled = None
        self.value = value


class TimeLiteral(Expression):
    """``absTime("...")`` or ``relTime("...")``, read by the parser.

    A relTime literal evaluates to a real number of seconds: the reference's behaviour. An absTime literal that names no
    zone means the zone of the context in which it is evaluated; ``zoneless`` then holds its seconds as if in UTC.
    """

    __slots__ = ("time", "zoneless")

    def __init__(self, time: AbsTime | RelTime, zoneless: bool = False) -> None:
        self._compiled = None
        self.time = time
        self.zoneless = zoneless


class Attribute(Expression):
    """``name``, ``base.name``, or ``.name`` from the root."""

    __slots__ = ("absolute", "base", "key", "name")

    def __init__(self, base: Expression | None, name: str, absolute: bool = False) -> None:
        self._compiled = None
        self.base = base
        self.name = name
        self.key = lower(name)
        self.absolute = absolute


class Parentheses(Expression):
    __slots__ = ("inner",)

    def __init__(self, inner: Expression) -> None:
        self._compiled = None
        self.inner = inner


class Unary(Expression):
    __slots__ = ("op", "operand")

    def __init__(self, op: str, operand: Expression) -> None:
        self._compiled = None
        self.op = op
        self.operand = operand


class Binary(Expression):
    """A binary operator of ``BINARY_LEVELS``, the elvis operator ``?:``, or the subscript ``[]``."""

    __slots__ = ("left", "op", "right")

    def __init__(self, op: str, left: Expression, right: Expression) -> None:
        self._compiled = None
        self.op = op
        self.left = left
        self.right = right


class Conditional(Expression):
    __slots__ = ("condition", "otherwise", "then")

    def __init__(self, condition: Expression, then: Expression, otherwise: Expression) -> None:
        self._compiled = None
        self.condition = condition
        self.then = then
        self.otherwise = otherwise


class Call(Expression):
    __slots__ = ("arguments", "key", "name")

    def __init__(self, name: str, arguments: tuple[Expression, ...]) -> None:
        self._compiled = None
        self.name = name
        self.key = lower(name)
        self.arguments = arguments


class ListExpression(Expression):
    __slots__ = ("members",)

    def __init__(self, members: tuple[Expression, ...]) -> None:
        self._compiled = None
        self.members = members


class AdExpression(Expression):
    """``[a = 1; b = a + 1]``: ``cells`` maps a name in lower case to the name as written and its expression."""

    __slots__ = ("cells",)

    def __init__(self, cells: dict[str, tuple[str, Expression]]) -> None:
        self._compiled = None
        self.cells = cells


class Constant(Expression):
    """A list or an ad already bound to its scope, where an expression is wanted (members of computed lists)."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self._compiled = None
        self.value = value


def children(node: Expression) -> tuple[Expression, ...]:
    """The direct parts of a node, from left to right."""
    parts = _PARTS.get(type(node))
    return () if parts is None else parts(node)


_PARTS: dict[type, Callable[[Any], tuple[Expression, ...]]] = {
    Binary: lambda node: (node.left, node.right),
    Attribute: lambda node: () if node.base is None else (node.base,),
    Parentheses: lambda node: (node.inner,),
    Unary: lambda node: (node.operand,),
    Conditional: lambda node: (node.condition, node.then, node.otherwise),
    Call: lambda node: node.arguments,
    ListExpression: lambda node: node.members,
    AdExpression: lambda node: tuple(expression for _, expression in node.cells.values()),
}


def shape(node: Any, depth: int = 0) -> Any:
    """Something hashable, equal for expressions that mean the same wherever they stand; cheaper to make than a text."""
    kind = type(node)
    if kind is Literal:
        value = node.value
        # 1, 1.0 and true are equal in Python, and so are 0.0 and -0.0.
        return (type(value), str(value) if type(value) is float else value)
    if kind is Parentheses:
        return shape(node.inner, depth)
    if depth > 50:
        return node._exact_text()
    depth += 1
    if kind is Attribute:
        return (node.absolute, node.key, None if node.base is None else shape(node.base, depth))
    if kind is Binary:
        return (node.op, shape(node.left, depth), shape(node.right, depth))
    if kind is Call:
        return (node.key, *(shape(argument, depth) for argument in node.arguments))
    return node._exact_text()

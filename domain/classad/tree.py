"""Define the expression tree, which the parser builds and the compilers, the unparser and the analysis read.

Nodes are immutable and do not refer to an ad, so many ads can share a tree. ``Expression`` is the public interface of
expressions and the base class of all nodes, so each part of an expression is an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

from .context import Context
from .values import AbsTime, Exceptional, RelTime, lower

# Operators in increasing order of precedence. The parser, the unparser and the evaluators use these texts as keys.
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
PRECEDENCE: dict[str, int] = {op: precedence for precedence, level in enumerate(BINARY_LEVELS, 1) for op in level}
UNARY_SIGNS = frozenset("+-!~")


class Compiled:
    """The compiled form of an expression, which is cached on the expression."""

    __slots__ = ("careful", "evaluator", "height", "size", "survey", "time_evaluator")

    def __init__(self) -> None:
        self.evaluator: Callable[..., Any] | None = None
        self.careful: Callable[..., Any] | None = None  # the evaluator that checks the depth at every operator
        self.time_evaluator: Callable[..., Any] | None = None
        self.height = 0
        self.size = 1  # the number of nodes, without the members of lists and ads, which are separate expressions
        self.survey: Any = None


class _Operations:
    """The operations on expressions. The modules that implement them register them here."""

    evaluate: Callable[..., Any]
    references: Callable[..., References]
    simplify: Callable[..., Expression]
    parse: Callable[[str], Expression]
    unparse: Callable[[Any], str]
    unparse_exactly: Callable[[Expression], str]


operations = _Operations()


class Scope:
    """The scope of an expression: names mapped to expressions, with a chained parent. ``ClassAd`` is a scope."""

    __slots__ = ("_cells", "_chain", "_outer")

    _cells: dict[str, Cell]
    _chain: Scope | None
    _outer: Scope | None


class Expression:
    """An expression of the ClassAd language. ``parse`` returns one."""

    __slots__ = ("_compiled",)

    # The scalar compiler's result, cached.
    _compiled: Compiled | None

    def evaluate(self, my: Scope | None = None, target: Scope | None = None, context: Context | None = None) -> Value:
        """Return the expression's value in the ad ``my``, matched with ``target``.

        A name without a scope is looked up in ``my``, then in ``target``. An attribute found in ``target`` is evaluated
        there, with MY and TARGET swapped. As in HTCondor, a ``target`` without a ``my`` is ignored.

        :param context: the outside world (now, time zone, functions ...); empty by default
        :raises EvaluationError: if the evaluation fails instead of returning ``ERROR``
        """
        return operations.evaluate(self, my, target, context)  # type: ignore[no-any-return]

    def references(self, ad: Scope | None = None) -> References:
        """Return the attributes that the expression reads: those ``internal`` to ``ad`` and the ``external`` ones."""
        return operations.references(self, ad)

    def simplify(self, my: Scope) -> Expression:
        """Return the expression, simplified with the attributes of ``my``; for every target, the value is the same."""
        return operations.simplify(self, my)

    def __str__(self) -> str:
        return operations.unparse(self)

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return self is other or self._exact_text() == other._exact_text()

    def __hash__(self) -> int:
        return hash(self._exact_text())

    def __reduce__(self) -> Any:
        return (operations.parse, (self._exact_text(),))

    def _exact_text(self) -> str:
        return operations.unparse_exactly(self)


class Literal(Expression):
    """A constant: int, float, str, bool, ``UNDEFINED`` or ``ERROR``."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self._compiled = None
        self.value = value


class TimeLiteral(Expression):
    """``absTime("...")`` or ``relTime("...")`` with a literal string.

    As in HTCondor, a relTime literal evaluates to a real number of seconds. An absTime literal without a zone
    (``zoneless``) is in the time zone of the evaluation's context; ``time`` then has its seconds as if it were in UTC.
    """

    __slots__ = ("time", "zoneless")

    def __init__(self, time: AbsTime | RelTime, zoneless: bool = False) -> None:
        self._compiled = None
        self.time = time
        self.zoneless = zoneless


class Attribute(Expression):
    """A reference: ``name``, ``base.name``, or ``.name``, which is looked up in the root ad."""

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
    """``[a = 1; b = a + 1]``. ``cells`` maps each lower-case name to the original name and the expression."""

    __slots__ = ("cells",)

    def __init__(self, cells: dict[str, tuple[str, Expression]]) -> None:
        self._compiled = None
        self.cells = cells


class Constant(Expression):
    """A list or an ad together with its scope, as an expression (in a computed list)."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self._compiled = None
        self.value = value


class ListValue(Sequence[Any]):
    """A list with unevaluated members.

    ``expressions`` are the members. Indexing and iteration evaluate a member, each time, in the ad of the list. As in
    HTCondor, a list taken out of a match no longer sees ``TARGET``.
    """

    __slots__ = ("context", "expressions", "scope", "shared")

    def __init__(
        self,
        expressions: Sequence[Expression],
        scope: Scope | None = None,
        shared: bool = False,
        context: Context | None = None,
    ) -> None:
        self.expressions = expressions
        self.scope: Any = scope
        # For HTCondor's `is`, a list that a function returned and a literal list have different types.
        self.shared = shared
        self.context = context

    def __len__(self) -> int:
        return len(self.expressions)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._member(expression) for expression in self.expressions[index]]
        return self._member(self.expressions[index])

    def _member(self, expression: Expression) -> Any:
        return expression.evaluate(self.scope, None, self.context)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ListValue):
            return list(self.expressions) == list(other.expressions)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ListValue({operations.unparse(self)})"


Cell: TypeAlias = tuple[str, Expression]  # the original name, and its expression
Value: TypeAlias = int | float | str | bool | Exceptional | AbsTime | RelTime | ListValue | Scope


class References(NamedTuple):
    """The attributes that an expression reads, in alphabetical order.

    They include the references in these attributes' expressions. A name with a scope that the ad cannot resolve
    includes the scope (``TARGET.Memory``).
    """

    internal: tuple[str, ...]  # names that the ad has
    external: tuple[str, ...]  # all others


def scope_of(node: Attribute) -> str | None:
    """Return an attribute's scope in lower case: ``my`` for ``MY.Cpus``, "" for no scope, None if it is not a name."""
    base = node.base
    if base is None:
        return ""
    return base.key if type(base) is Attribute and base.base is None and not base.absolute else None


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the direct parts of a node, from left to right."""
    parts = _CHILDREN.get(type(node))
    return () if parts is None else parts(node)


_CHILDREN: dict[type, Callable[[Any], tuple[Expression, ...]]] = {
    Binary: lambda node: (node.left, node.right),
    Attribute: lambda node: () if node.base is None else (node.base,),
    Parentheses: lambda node: (node.inner,),
    Unary: lambda node: (node.operand,),
    Conditional: lambda node: (node.condition, node.then, node.otherwise),
    Call: lambda node: node.arguments,
    ListExpression: lambda node: node.members,
    AdExpression: lambda node: tuple(expression for _, expression in node.cells.values()),
}


def equality_key(node: Any, depth: int = 0) -> Any:
    """Return a key that is equal only for expressions with the same meaning in every ad; faster than their text."""
    kind = type(node)
    if kind is Literal:
        value = node.value
        # 1, 1.0 and true are equal in Python, and so are 0.0 and -0.0.
        return (type(value), str(value) if type(value) is float else value)
    if kind is Parentheses:
        return equality_key(node.inner, depth)
    if depth > 50:
        return node._exact_text()
    depth += 1
    if kind is Attribute:
        return (node.absolute, node.key, None if node.base is None else equality_key(node.base, depth))
    if kind is Binary:
        return (node.op, equality_key(node.left, depth), equality_key(node.right, depth))
    if kind is Call:
        return (node.key, *(equality_key(argument, depth) for argument in node.arguments))
    return node._exact_text()

"""Define ClassAds, which map names to expressions, and convert them from and to text and JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from .context import Context
from .syntax import ClassAdSyntaxError, parse_evaluated, parse_new_ad, parse_new_ads, parse_old_value
from .tree import AdExpression, Cell, Constant, Expression, ListExpression, ListValue, Literal, Scope, TimeLiteral
from .unparse import format_real, quote_name, sort_attributes, unparse, unparse_old, unparse_with_blank
from .values import (
    INT_MAX,
    INT_MIN,
    UNDEFINED,
    AbsTime,
    EvaluationError,
    Exceptional,
    RelTime,
    from_bytes,
    lower,
    to_bytes,
    truncate32,
    wrap64,
)


class ClassAd(Scope, MutableMapping[str, Any]):
    """A mapping of case-insensitive attribute names to expressions, in the order of insertion.

    ``ClassAd({"Cpus": 4, "Start": parse("KeyboardIdle > 900")})`` takes values and expressions. ``ad["Cpus"]`` is the
    expression, ``ad.eval("Cpus")`` its value. An ad inherits from its ``chained`` parent (a proc's ad from its
    cluster's): look-up, iteration and printing include both ads, but changes affect only the ad itself.
    """

    __slots__ = ()

    _chain: ClassAd | None
    _outer: ClassAd | None

    def __init__(self, attributes: Mapping[str, Any] | None = None, chained: ClassAd | None = None) -> None:
        self._cells = {}
        self._chain = chained
        self._outer = None
        if attributes is not None:
            self._set_all(attributes)

    @classmethod
    def from_new(cls, text: str) -> ClassAd:
        """Parse an ad such as ``[a = 1; b = a + 1]``. Like HTCondor, ignore text after the closing bracket.

        :raises ClassAdSyntaxError: if the text is not an ad
        """
        ad = cls()
        ad._cells = parse_new_ad(text).cells
        return ad

    @classmethod
    def all_from_new(cls, text: str) -> list[ClassAd]:
        """Parse a sequence of ads such as ``[a = 1] [a = 2]``. Commas between the ads are optional.

        :raises ClassAdSyntaxError: if the text contains anything else
        """
        return [cls._nested(expression.cells, None) for expression in parse_new_ads(text)]

    @classmethod
    def from_old(cls, text: str, *, strict: bool = False) -> ClassAd:
        """Parse lines such as ``Name = expression``, as ``condor_status -l`` prints them.

        Lines that begin with # are comments. A blank line ends an ad, and later ads are merged into the first one. As
        in HTCondor, an invalid line ends its ad without a warning; with ``strict``, it is an error.

        :raises ClassAdSyntaxError: with ``strict``, for the first invalid line
        """
        ad = cls()
        cells = ad._cells
        find_cached = ({} if strict else _RECENT_LINES).get
        skipping = False
        # A carriage return before a line feed belongs to the line's end; at the end of the text it is white space.
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n")):
            key_and_cell = find_cached(line)
            if key_and_cell is None:
                if not line or line.isspace():
                    skipping = False
                    continue
                if skipping or line.lstrip(" \t").startswith("#"):
                    continue
                try:
                    key_and_cell = _read_line(line, strict)
                except ClassAdSyntaxError as error:
                    if strict:
                        raise error.in_text(text, line, number) from None
                    skipping = True
                    continue
            if skipping:
                continue
            key, cell = key_and_cell
            if key in cells and cells[key][0] != cell[0]:
                cell = (cells[key][0], cell[1])
            cells[key] = cell
        return ad

    def to_new(self) -> str:
        """Return the ad as ``[ a = 1; b = a + 1 ]``, with the attributes in HTCondor's order."""
        return unparse(self)

    def to_old(self) -> str:
        """Return one line per attribute, each ending in a line feed, in HTCondor's order (by length of name)."""
        attributes = sort_attributes(self._all().values())
        return "\n".join(f"{quote_name(name, True)} = {unparse_old(value)}" for name, value in attributes) + "\n"

    def to_json(self) -> str:
        """Return HTCondor's JSON form, with plain values as JSON and expressions as ``"/Expr(...)/"``. As with -json,
        the lines are indented by two blanks and sorted by the length of names."""
        return _json_object(self._all().values(), "")

    @classmethod
    def from_json(cls, text: str) -> ClassAd:
        """Parse HTCondor's JSON form; raise ClassAdSyntaxError if the text is not JSON or not an ad."""
        ad = cls()
        ad._cells = _parse_json(text)
        return ad

    @classmethod
    def from_xml(cls, text: str) -> ClassAd:
        """Parse the first ad in HTCondor's XML form; raise ClassAdSyntaxError if it is not valid."""
        from .xml_reader import read_xml  # few programs need it, and the XML parser is slow to import

        return cls._nested(read_xml(text), None)

    def eval(self, name: str, target: ClassAd | None = None, context: Context | None = None) -> Any:
        """Return the value of an attribute when the ad is matched with ``target``; ``UNDEFINED`` if the ad lacks it."""
        cell = self._find(lower(name))
        return UNDEFINED if cell is None else cell[1].evaluate(self, target, context)

    def text(self, name: str, context: Context | None = None) -> str:
        """Return the value of an attribute if it is a string; otherwise, or if it cannot be evaluated, an empty one."""
        try:
            value = self.eval(name, None, context)
        except EvaluationError:
            return ""
        return value if isinstance(value, str) else ""

    def _find(self, key: str) -> Cell | None:
        ad: ClassAd | None = self
        while ad is not None:
            cell = ad._cells.get(key)
            if cell is not None:
                return cell
            ad = ad._chain
        return None

    def __getitem__(self, name: str) -> Expression:
        cell = self._find(_key(name))
        if cell is None:
            raise KeyError(name)
        return cell[1]

    def __setitem__(self, name: str, value: Any) -> None:
        key = _key(name)
        if not name:
            raise ValueError("an attribute's name cannot be empty")
        old = self._cells.get(key)
        try:
            expression = to_expression(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") if type(error) in (TypeError, ValueError) else error from None
        self._cells[key] = (name if old is None else old[0], expression)

    @classmethod
    def from_expressions(cls, attributes: Iterable[tuple[str, Expression]], model: ClassAd | None = None) -> ClassAd:
        """Build an ad from names and expressions, and the other attributes of ``model``; if names differ only in case,
        keep the first spelling."""
        ad = cls() if model is None else model.copy()
        cells = ad._cells
        for name, expression in attributes:
            key = name.lower() if name.isascii() else lower(name)
            cells[key] = (name if key not in cells else cells[key][0], expression)
        return ad

    def _set_all(self, attributes: Mapping[str, Any]) -> None:
        cells = self._cells
        for name, value in attributes.items():
            kind = type(value)
            if (
                type(name) is str
                and name.isascii()
                and name
                and (
                    kind is bool
                    or kind is float
                    or (kind is int and INT_MIN <= value <= INT_MAX)
                    or (kind is str and value.isascii() and "\0" not in value)
                )
            ):
                key = name.lower()
                if key not in cells:
                    cells[key] = (name, Literal(value))
                    continue
            self[name] = value

    def __delitem__(self, name: str) -> None:
        key = _key(name)
        inherited = self._chain is not None and self._chain._find(key) is not None
        if key not in self._cells and not inherited:
            raise KeyError(name)
        self._cells.pop(key, None)
        if inherited:
            # As in HTCondor, deleting an attribute of the chained parent only hides it.
            self._cells[key] = (name, Literal(UNDEFINED))

    def clear(self) -> None:
        """Delete all attributes; hide a chained parent's attributes."""
        for name in list(self):
            del self[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(lower(name)) is not None

    def _all(self) -> dict[str, Cell]:
        if self._chain is None:
            return self._cells
        merged = dict(self._chain._all())
        merged.update(self._cells)
        return merged

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._all().values()])

    def __len__(self) -> int:
        return len(self._all())

    @property
    def chained(self) -> ClassAd | None:
        return self._chain

    def copy(self) -> ClassAd:
        """Return an ad with the same attributes and the same chained parent."""
        ad = ClassAd(chained=self._chain)
        ad._cells = dict(self._cells)
        return ad

    @classmethod
    def _nested(cls, cells: dict[str, Cell], outer: ClassAd | None) -> ClassAd:
        """Return an ad nested in another ad. It shares its cells with the expression, so callers must not change it."""
        ad = cls.__new__(cls)
        ad._cells = cells
        ad._chain = None
        ad._outer = outer
        return ad

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassAd):
            return NotImplemented
        cells, others = self._all(), other._all()
        return cells.keys() == others.keys() and all(others[key][1] == cell[1] for key, cell in cells.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ClassAd.from_new({unparse(self)!r})"

    def __str__(self) -> str:
        return unparse(self)

    def __reduce__(self) -> Any:
        return _restore, (list(self._cells.values()), self._chain)


def _key(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"an attribute's name must be a string, not {name!r}")
    return name.lower() if name.isascii() else lower(name)


def _restore(cells: list[Cell], chain: ClassAd | None) -> ClassAd:
    ad = ClassAd(chained=chain)
    ad._cells = {lower(name): (name, expression) for name, expression in cells}
    return ad


def to_expression(value: Any) -> Expression:
    """Return the expression of a Python value; raise TypeError for a type that ClassAds do not have."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("a string cannot contain a zero byte")
        to_bytes(value)  # raises UnicodeEncodeError for a lone surrogate
    if isinstance(value, bool | float | str | Exceptional):
        return Literal(float(value) if type(value) not in _EXACT_TYPES and isinstance(value, float) else value)
    if isinstance(value, int):
        return Literal(wrap64(int(value)))
    if value is None:
        return Literal(UNDEFINED)
    if isinstance(value, AbsTime):
        return TimeLiteral(value)
    if isinstance(value, RelTime):
        return Constant(value)  # its literal would be a real
    if isinstance(value, ListValue):
        return ListExpression(tuple(value.expressions))
    if isinstance(value, ClassAd):
        return AdExpression(dict(value._all()))  # a copy: an ad may be put into itself
    if isinstance(value, Mapping):
        return AdExpression(ClassAd(value)._cells)
    if isinstance(value, list | tuple):
        return ListExpression(tuple(to_expression(member) for member in value))
    raise TypeError(
        f"a {type(value).__name__} is not a ClassAd value: {value!r}. An ad holds numbers, strings, booleans, None,"
        " AbsTime, RelTime, lists, mappings and Expressions"
    )


def as_expression(value: Any) -> Expression:
    """Return the expression of a computed value in a list. As in HTCondor, a RelTime loses its fraction of a second."""
    kind = type(value)
    if kind is AbsTime:
        return TimeLiteral(value)
    if kind is RelTime:
        return TimeLiteral(RelTime(truncate32(value.seconds)))
    if kind is ListValue or kind is ClassAd:
        return Constant(value)
    return Literal(value)


_EXACT_TYPES = frozenset({bool, float, str, Exceptional})

# Most lines of a pool's ads recur, in other ads or in the next update, so parsed lines are cached in two generations.
# When the newer generation is full, it replaces the older one, which discards the lines that were not used recently.
_RECENT_LINES: dict[str, tuple[str, Cell]] = {}
_OLDER_LINES: dict[str, tuple[str, Cell]] = {}
_MAX_CACHED_LINES = 20_000
_MAX_CACHED_LENGTH = 1000


def _cache_line(line: str, key_and_cell: tuple[str, Cell]) -> None:
    if len(_RECENT_LINES) >= _MAX_CACHED_LINES:
        _OLDER_LINES.clear()
        _OLDER_LINES.update(_RECENT_LINES)
        _RECENT_LINES.clear()
    _RECENT_LINES[line] = key_and_cell


_SIMPLE_LINE = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*) *= *(?:([1-9][0-9]{0,17}|0)|\"([^\"\\]*)\"|([0-9]+\.[0-9]+)|(true|false)) *\r?"
)


def _read_line(line: str, strict: bool = False) -> tuple[str, Cell]:
    cached = _OLDER_LINES.get(line)
    if cached is not None and not strict:
        _cache_line(line, cached)
        return cached
    if not line.isascii():
        try:
            to_bytes(line)
        except UnicodeEncodeError as error:
            raise ClassAdSyntaxError("half of a surrogate pair is not a character", line, error.start) from None
    name: str
    expression: Expression
    simple_line = _SIMPLE_LINE.fullmatch(line)
    if simple_line is not None:
        name, integer, string, real, boolean = simple_line.groups()
        if integer is not None:
            expression = Literal(int(integer))
        elif string is not None:
            expression = Literal(string)
        elif real is not None:
            expression = Literal(float(real))
        else:
            expression = Literal(boolean == "true")
    else:
        stripped = line.lstrip(" \t\n\v\f\r")
        left_side, equals, right_side = stripped.partition("=")
        name = left_side.rstrip(" ")
        if not equals or not name:
            raise ClassAdSyntaxError("expected Name = expression", line, len(line) - len(stripped))
        offset = len(line) - len(right_side.lstrip(" "))
        try:
            expression = _normalize_times(parse_old_value(line[offset:], strict=strict))
        except ClassAdSyntaxError as error:
            raise ClassAdSyntaxError(error.message, line, offset + error.position) from None
    key = lower(name)
    result = key, (name, expression)
    if len(line) <= _MAX_CACHED_LENGTH and not isinstance(expression, AdExpression):
        _cache_line(line, result)
    return result


def _normalize_times(expression: Expression) -> Expression:
    if isinstance(expression, TimeLiteral):
        if isinstance(expression.time, RelTime):
            return Literal(expression.time.seconds)
        return expression if expression.zoneless else TimeLiteral(AbsTime(expression.time.seconds))
    if isinstance(expression, ListExpression):
        return ListExpression(tuple(_normalize_times(member) for member in expression.members))
    return expression


# HTCondor's JSON form: plain values as JSON, other expressions as strings ``"/Expr(...)/"``.

_ESCAPES = {8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 92: "\\\\", 34: '\\"'}
_ESCAPES |= {c: f"\\u{c:04X}" for c in range(1, 32) if c not in _ESCAPES}


def _json_string(value: str) -> str:
    return f'"{value.translate(_ESCAPES)}"'


def _json_object(attributes: Any, indent: str) -> str:
    inner = indent + "  "
    lines = [f"{inner}{_json_string(name)}: {_json_of(node, inner)}" for name, node in sort_attributes(attributes)]
    return "{" + ",".join("\n" + line for line in lines) + "\n" + indent + "}"


def _json_list(members: Any, indent: str) -> str:
    inner = indent + "  "
    return "[" + ",".join("\n" + inner + _json_of(member, inner) for member in members) + "\n" + indent + "]"


def _json_of(expression: Expression, indent: str) -> str:
    if isinstance(expression, AdExpression):
        return _json_object(expression.cells.values(), indent)
    if isinstance(expression, ListExpression):
        return _json_list(expression.members, indent)
    if isinstance(expression, Constant):
        value = expression.value
        if isinstance(value, ListValue):
            return _json_list(value.expressions, indent)
        if not isinstance(value, RelTime):
            return _json_object(value._all().values(), indent)
    if isinstance(expression, TimeLiteral) and isinstance(expression.time, RelTime):
        expression = Literal(expression.time.seconds)
    if isinstance(expression, Literal):
        value = expression.value
        kind = type(value)
        if value is UNDEFINED:
            return "null"
        if kind is bool:
            return "true" if value else "false"
        if kind is int:
            return str(value)
        if kind is str:
            return _json_string(value)
        if kind is float and math.isfinite(value):
            return format_real(value, old=True)
    return '"\\/Expr(' + unparse_with_blank(expression).translate(_ESCAPES) + ')\\/"'


_MAX_DEPTH = 160
_JSON_EXPRESSION = re.compile(r"/expr\((.*)\)/", re.IGNORECASE | re.DOTALL)


def _parse_json(text: str) -> dict[str, tuple[str, Expression]]:
    try:
        data = json.loads(text, parse_constant=_reject_constant)
        if not isinstance(data, dict):
            raise ClassAdSyntaxError("an ad in JSON must be an object", text, 0)
        return _cells_from_json(data)
    except json.JSONDecodeError as error:
        raise ClassAdSyntaxError(f"not JSON: {error.msg}", text, error.pos) from None
    except ClassAdSyntaxError:
        raise
    except RecursionError:
        raise ClassAdSyntaxError("nested too deeply", text, 0) from None
    except ValueError as error:
        raise ClassAdSyntaxError(f"not JSON: {error}", text, 0) from None


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _cells_from_json(data: dict[str, Any], levels: int = _MAX_DEPTH) -> dict[str, tuple[str, Expression]]:
    cells: dict[str, tuple[str, Expression]] = {}
    for name, value in data.items():
        name = from_bytes(to_bytes(name))
        if not name:
            raise ClassAdSyntaxError("an attribute's name cannot be empty", json.dumps(data), 0)
        cells[lower(name)] = (cells.get(lower(name), (name,))[0], _expression_from_json(value, levels))
    return cells


def _expression_from_json(value: Any, levels: int) -> Expression:
    if levels == 0:
        raise ClassAdSyntaxError(f"nested too deeply (more than {_MAX_DEPTH} levels)", json.dumps(value)[:100], 0)
    if value is None:
        return Literal(UNDEFINED)
    if isinstance(value, bool | float):
        return Literal(value)
    if isinstance(value, int):
        return Literal(value if wrap64(value) == value else 0)
    if isinstance(value, dict):
        return AdExpression(_cells_from_json(value, levels - 1))
    if isinstance(value, list):
        return ListExpression(tuple(_expression_from_json(member, levels - 1) for member in value))
    # Parsed JSON does not distinguish "\/" from "/", so any string of this form is an expression.
    match = _JSON_EXPRESSION.fullmatch(value)
    if match is not None:
        return parse_evaluated(match[1])
    to_bytes(value)  # raises UnicodeEncodeError for a lone surrogate
    return Literal(value)

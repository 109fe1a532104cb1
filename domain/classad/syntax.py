"""Parse text into a tree, in the dialect that HTCondor's daemons read ("old ClassAd" semantics).

One regular expression cuts the text into tokens, then one loop builds the tree with an explicit stack of operators.
HTCondor's recursive parser refuses text nested deeper than 500 of its calls; ``_nest`` counts alike, so that both
refuse the same texts. Source: docs/classads of the HTCondor manual, and HTCondor's behaviour where that is silent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from ..errors import PoolbookError
from .times import absolute_literal, relative_literal
from .tokens import (
    BINARY_SPELLINGS,
    KEYWORDS,
    MAX_TOKENS,
    NEW,
    OLD,
    SMALL,
    TOO_MUCH,
    UnreadableToken,
    ends,
    number_of,
    short,
    string_of,
)
from .tree import (
    UNARY_SIGNS,
    AdExpression,
    Attribute,
    Binary,
    Call,
    Conditional,
    Expression,
    ListExpression,
    Literal,
    Parentheses,
    TimeLiteral,
    Unary,
    operations,
)
from .values import lower, to_bytes

MAX_NESTING = 500
T = TypeVar("T")

_DIGITS = frozenset("0123456789")
_NAME_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
# Operators of other languages that people write.
_HINTS = {"=": "==", "and": "&&", "or": "||", "<": "<, or !=", "isnot": "isnt"}
_SELECTORS = frozenset({".", "..", "["})
_CONTINUES = frozenset(".[?(")
_WORD_LENGTHS = frozenset({2, 4, 5, 9})  # of is, isnt, true, false, error and undefined


class ClassAdSyntaxError(PoolbookError, ValueError):
    """A text that is no ClassAd expression, or no ad. The message says what was wrong, and where.

    :ivar text: the text as given
    :ivar position: the offset of the offending character in it
    """

    def __init__(self, message: str, text: str, position: int) -> None:
        self.message = message
        self.text = text
        self.position = position
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        line = text[start : len(text) if end < 0 else end]
        column = position - start
        shown_from = max(0, column - 60)
        shown = line[shown_from : shown_from + 100].replace("\t", " ")
        row = text.count("\n", 0, position) + 1
        place = f"line {row}, column {column + 1}" if row > 1 else f"column {column + 1}"
        super().__init__(f"{message} ({place})\n    {shown}\n    {' ' * (column - shown_from)}^")

    def within(self, text: str, line: str, number: int) -> ClassAdSyntaxError:
        """Return the same error placed in a text, of which ``line`` is the line of that number (from 0)."""
        start = 0
        for _ in range(number):
            start = text.index("\n", start) + 1
        return ClassAdSyntaxError(self.message, text, min(start + self.position, len(text)))

    def __reduce__(self) -> tuple[type[ClassAdSyntaxError], tuple[str, str, int]]:
        return ClassAdSyntaxError, (self.message, self.text, self.position)


class _Refused(Exception):
    """The parser's internal error: the fault and its token."""

    def __init__(self, message: str, index: int) -> None:
        self.message = message
        self.index = index


def parse(text: str) -> Expression:
    """Read an expression, perhaps with semicolons behind it as in an ad; raise ClassAdSyntaxError where it is none."""
    parser = _ExpressionParser(text)
    return parser.run(parser.expression_and_semicolons)


operations.parse = parse


def parse_evaluated(text: str) -> Expression:
    """Read an expression as the language's ``eval()`` does: HTCondor ignores the rest after ``a ? b : c``."""
    return _evaluated_often(text) if len(text) <= _SHORT else _evaluated(text)


def _evaluated(text: str) -> Expression:
    parser = _ExpressionParser(text)
    return parser.run(parser.evaluated)


_SHORT = 1000
"""Characters of a text that is kept with its meaning: most are evaluated again and again, in one ad after the other."""
_evaluated_often = lru_cache(maxsize=256)(_evaluated)


def parse_old_value(text: str, *, strict: bool = False) -> Expression:
    """Read the right side of an attribute in an old-form ad; ignore trailing text, or with ``strict`` refuse it."""
    parser = _ExpressionParser(text, old=True)
    return parser.run(parser.expression_and_end if strict else parser.expression)


def parse_new_ad(text: str) -> AdExpression:
    """Read an ad in square brackets. Like HTCondor, ignore text after its last bracket."""
    parser = _ExpressionParser(text)
    return parser.run(parser.whole_ad)


class _ExpressionParser:
    __slots__ = ("constant_strings", "depth", "i", "old", "pattern", "text", "tokens")

    def __init__(self, text: str, old: bool = False) -> None:
        if not isinstance(text, str):
            raise TypeError(f"a text is wanted, not {short(repr(text))}")
        self.text = text
        self.old = old
        self.pattern = OLD if old else NEW
        self.tokens: list[str] = self.pattern.findall(text)
        if len(self.tokens) > MAX_TOKENS:
            self.tokens[MAX_TOKENS:] = [TOO_MUCH, ""]
        if not text.isascii():
            self._check_characters()
        self.i = 0
        self.depth = 0

    def run(self, rule: Callable[[], T]) -> T:
        """Apply a rule of the grammar; raise ClassAdSyntaxError where the text does not follow it."""
        try:
            return rule()
        except _Refused as refused:
            raise self._error(refused) from None
        except UnreadableToken as error:  # of the token that was read last
            raise self._error(_Refused(str(error), self.i - 1)) from None

    def _check_characters(self) -> None:
        try:
            to_bytes(self.text)
        except UnicodeEncodeError as error:
            message = "half of a surrogate pair is no character, and no bytes stand for it"
            raise ClassAdSyntaxError(message, self.text, error.start) from None

    def _error(self, refused: _Refused) -> ClassAdSyntaxError:
        match = next(islice(self.pattern.finditer(self.text), refused.index, None), None)
        position = len(self.text) if match is None else match.start(1)
        return ClassAdSyntaxError(refused.message, self.text, min(position, len(self.text)))

    # -- the whole text ------------------------------------------------------------------------------------------

    def expression_and_semicolons(self) -> Expression:
        tree = self.expression()
        while self.tokens[self.i] == ";":
            self.i += 1
        if self.tokens[self.i]:
            raise self._unexpected("the end of the expression")
        return tree

    def expression_and_end(self) -> Expression:
        tree = self.expression()
        if self.tokens[self.i]:
            raise self._unexpected("the end of the line")
        return tree

    def evaluated(self) -> Expression:
        tree = self.expression()
        if self.tokens[self.i] and not isinstance(tree, Conditional):
            raise self._unexpected("the end of the expression")
        return tree

    def whole_ad(self) -> AdExpression:
        if self.tokens[0] != "[":
            raise self._unexpected("an ad in square brackets")
        self.i = 1
        return self._ad()

    # -- expressions ---------------------------------------------------------------------------------------------

    def expression(self) -> Expression:
        """Read operands and binary operators, then perhaps ``? :``."""
        self._nest(1)
        tokens = self.tokens
        tree = self._operand()
        entry = BINARY_SPELLINGS.get(tokens[self.i])
        if entry is None:
            entry = self._split_minus()
        if entry is not None:
            tree = self._operators(tree, entry)
        if tokens[self.i] == "?":
            self.i += 1
            then = self.expression()
            if tokens[self.i] != ":":
                raise self._unexpected("':' and what the condition chooses when it is false")
            self.i += 1
            tree = Conditional(tree, then, self.expression())
        self.depth -= 1
        return tree

    def _operators(self, left: Expression, entry: tuple[str, int]) -> Expression:
        tokens = self.tokens
        # Operators that wait for their right operand: tighter ones above looser ones.
        waiting: list[tuple[Expression, str, int]] = []
        following: tuple[str, int] | None = entry
        while following is not None:
            op, level = following
            while waiting and waiting[-1][2] >= level:
                operand, pending, _ = waiting.pop()
                left = Binary(pending, operand, left)
            waiting.append((left, op, level))
            self.i += 1
            left = self._operand()
            following = BINARY_SPELLINGS.get(tokens[self.i])
            if following is None:
                following = self._split_minus()
        while waiting:
            operand, pending, _ = waiting.pop()
            left = Binary(pending, operand, left)
        return left

    def _split_minus(self) -> tuple[str, int] | None:
        """Split ``-5`` in ``a -5``: the minus that the tokenizer left on the number is the operator."""
        token = self.tokens[self.i]
        if len(token) > 1 and token[0] == "-":
            # The operand stays at this index; stepping back lets the caller step over the operator as usual.
            self.tokens[self.i] = token[1:]
            self.i -= 1
            return BINARY_SPELLINGS["-"]
        return None

    def _operand(self) -> Expression:
        """Read a primary with its prefixes and postfixes: ``!a``, ``a.b``, ``a[b]``, ``a ?: b``."""
        i = self.i
        token = self.tokens[i]
        if token and self.tokens[i + 1][:1] not in _CONTINUES and self.depth < MAX_NESTING - 1:
            # Most operands are a name or a small number without a postfix.
            if token[0] in _NAME_START:
                if len(token) not in _WORD_LENGTHS:
                    self.i = i + 1
                    return Attribute(None, token)
            elif token in SMALL:
                self.i = i + 1
                return SMALL[token]
        prefixes: list[str] | None = None
        while token in UNARY_SIGNS:
            if prefixes is None:
                prefixes = []
            prefixes.append(token)
            self._nest(1)
            self.i += 1
            token = self.tokens[self.i]
        self._nest(2)
        tree = self._primary(token)
        following = self.tokens[self.i]
        if following in _SELECTORS or (following[:1] == "?" and len(following) > 1):
            tree = self._postfix(tree)
        self.depth -= 2
        if prefixes is not None:
            for op in reversed(prefixes):
                tree = Unary(op, tree)
            self.depth -= len(prefixes)
        return tree

    def _postfix(self, tree: Expression) -> Expression:
        # The right side of `?:` is an operand with its own postfixes, so chains of it group to the right.
        defaulted: list[Expression] = []
        tokens = self.tokens
        while True:
            token = tokens[self.i]
            if token == "." or token == "..":
                self.i += 1
                tree = Attribute(tree, self._name("the name of an attribute"))
            elif token == "[":
                self.i += 1
                index = self.expression()
                if tokens[self.i] != "]":
                    raise self._unexpected("']'")
                self.i += 1
                tree = Binary("[]", tree, index)
            elif token[:1] == "?" and len(token) > 1:
                self.i += 1
                defaulted.append(tree)
                self._nest(1)
                tree = self._primary(tokens[self.i])
            else:
                break
        self.depth -= len(defaulted)
        while defaulted:
            tree = Binary("?:", defaulted.pop(), tree)
        return tree

    def _primary(self, token: str) -> Expression:
        first = token[:1]
        if first in _NAME_START and first:
            self.i += 1
            if self.tokens[self.i] == "(" and token not in BINARY_SPELLINGS and lower(token) not in KEYWORDS:
                return self._call(token)
            if len(token) in (4, 5, 9) and lower(token) in KEYWORDS:
                return KEYWORDS[lower(token)]
            if token in BINARY_SPELLINGS:
                self.i -= 1
                raise self._unexpected("an operand")
            return Attribute(None, token)
        if first == '"':
            self.i += 1
            return Literal(string_of(token, self.old))
        if first in _DIGITS or (len(token) > 1 and first in "-." and token != ".."):
            self.i += 1
            return number_of(token)
        if first == "(":
            self.i += 1
            inner = self.expression()
            if self.tokens[self.i] != ")":
                raise self._unexpected("')'")
            self.i += 1
            return Parentheses(inner)
        if first == "'":
            name = self._name("a name")
            if self.tokens[self.i] == "(":
                return self._call(name)
            return Attribute(None, name)
        if first == ".":  # HTCondor takes two of them for one
            self.i += 1
            return Attribute(None, self._name("the name of an attribute"), absolute=True)
        if first == "{":
            return self._list()
        if first == "[":
            self.i += 1
            return self._ad()
        raise self._unexpected("an operand")

    def _call(self, name: str) -> Expression:
        self.i += 1
        arguments: list[Expression] = []
        tokens = self.tokens
        if tokens[self.i] != ")":
            while True:
                arguments.append(self.expression())
                if tokens[self.i] == ")":
                    break
                if tokens[self.i] not in (",", ";"):
                    raise self._unexpected("',' or ')' after an argument")
                self.i += 1
        self.i += 1
        if len(arguments) == 1 and isinstance(arguments[0], Literal):
            text = arguments[0].value
            if type(text) is str and lower(name) in _TIME_LITERALS:
                literal = _TIME_LITERALS[lower(name)](text)
                if literal is None:
                    raise _Refused(f"{short(text)!r} is no time that {name} can read", self.i - 2)
                return TimeLiteral(*literal)
        return Call(name, tuple(arguments))

    def _list(self) -> Expression:
        self.i += 1
        members: list[Expression] = []
        tokens = self.tokens
        if tokens[self.i] != "}":
            while True:
                members.append(self.expression())
                if tokens[self.i] == "}":
                    break
                if tokens[self.i] != ",":
                    raise self._unexpected("',' or '}' after a member of the list")
                self.i += 1
        self.i += 1
        return ListExpression(tuple(members))

    def _ad(self) -> AdExpression:
        """Read the attributes and the closing bracket; the opening one has been read."""
        cells: dict[str, tuple[str, Expression]] = {}
        tokens = self.tokens
        led = tokens[self.i] == ";"
        while tokens[self.i] == ";":
            self.i += 1
        while led or tokens[self.i] != "]":
            led = False
            name = self._name("the name of an attribute, or ']'")
            if not name:
                raise _Refused("an attribute needs a name", self.i - 1)
            if tokens[self.i] != "=":
                raise self._unexpected("'=' after the attribute's name")
            self.i += 1
            value = self.expression()
            cells[lower(name)] = (cells.get(lower(name), (name,))[0], value)
            if tokens[self.i] not in (";", "]"):
                raise self._unexpected("';' or ']' after an attribute")
            while tokens[self.i] == ";":
                self.i += 1
        self.i += 1
        return AdExpression(cells)

    # -- tokens --------------------------------------------------------------------------------------------------

    def _name(self, expected: str) -> str:
        token = self.tokens[self.i]
        first = token[:1]
        if first == "'":
            self.i += 1
            return string_of(token, self.old)
        if not first or first not in _NAME_START or token in BINARY_SPELLINGS or lower(token) in KEYWORDS:
            raise self._unexpected(expected)
        self.i += 1
        return token

    def _nest(self, levels: int) -> None:
        self.depth += levels
        if self.depth > MAX_NESTING:
            raise _Refused(f"nested more deeply than ClassAds may be ({MAX_NESTING} levels)", self.i)

    def _unexpected(self, expected: str) -> _Refused:
        token = self.tokens[self.i]
        if token == TOO_MUCH:
            return _Refused(f"longer than an expression may be ({MAX_TOKENS:,} words and signs)", self.i)
        if token == "":
            return _Refused(f"expected {expected}, but the text ends here", self.i)
        if token.startswith("/*"):
            return _Refused("this comment does not end", self.i)
        if token[0] in "\"'" and not ends(token, self.old):
            return _Refused(f"a string that starts with {token[0]} does not end", self.i)
        hint = _HINTS.get(token.lower())
        meant = "" if hint is None else f" (did you mean {hint} ?)"
        return _Refused(f"expected {expected}, but found {short(token)}{meant}", self.i)


_TIME_LITERALS = {"abstime": absolute_literal, "reltime": relative_literal}

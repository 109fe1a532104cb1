"""Parse text into a tree, in the dialect that HTCondor's daemons read ("old ClassAd" semantics).

A regular expression splits the text into tokens, then a loop builds the tree with an explicit stack of operators.
HTCondor's recursive parser rejects text that nests deeper than 500 of its calls; ``_nest`` counts the same levels.
Source: docs/classads of the HTCondor manual, and HTCondor's behaviour where the manual is incomplete.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from ..errors import PoolbookError
from .times import parse_abstime, parse_reltime
from .tokens import (
    BINARY_SPELLINGS,
    KEYWORDS,
    MAX_TOKENS,
    NEW_FORM,
    OLD_FORM,
    SMALL_INTEGERS,
    TOO_LONG,
    UnreadableToken,
    is_closed,
    parse_number,
    parse_string,
    shorten,
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
# Operators that users write by mistake, with what to write instead.
_HINTS = {"=": "==", "and": "&&", "or": "||", "<": "<, or !=", "isnot": "isnt"}
_SELECTORS = frozenset({".", "..", "["})
_POSTFIX_STARTS = frozenset(".[?(")
_WORD_LENGTHS = frozenset({2, 4, 5, 9})  # the lengths of is, isnt, true, false, error and undefined


class ClassAdSyntaxError(PoolbookError, ValueError):
    """A text is not a valid ClassAd expression or ad. The message names the problem and its position.

    >>> pool.jobs("JobPrio >")
    Traceback (most recent call last):
    ClassAdSyntaxError: ...

    :ivar text: the invalid text
    :ivar position: the offset of the error in the text
    """

    def __init__(self, message: str, text: str, position: int) -> None:
        self.message = message
        self.text = text
        self.position = position
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        line = text[start : len(text) if end < 0 else end]
        column = position - start
        excerpt_start = max(0, column - 60)
        excerpt = line[excerpt_start : excerpt_start + 100].replace("\t", " ")
        row = text.count("\n", 0, position) + 1
        location = f"line {row}, column {column + 1}" if row > 1 else f"column {column + 1}"
        super().__init__(f"{message} ({location})\n    {excerpt}\n    {' ' * (column - excerpt_start)}^")

    def in_text(self, text: str, line: str, number: int) -> ClassAdSyntaxError:
        """Return the same error with its position in a text whose line ``number`` (from 0) is ``line``."""
        start = 0
        for _ in range(number):
            start = text.index("\n", start) + 1
        return ClassAdSyntaxError(self.message, text, min(start + self.position, len(text)))

    def __reduce__(self) -> tuple[type[ClassAdSyntaxError], tuple[str, str, int]]:
        return ClassAdSyntaxError, (self.message, self.text, self.position)


class _ParseFailure(Exception):
    def __init__(self, message: str, index: int) -> None:
        self.message = message
        self.index = index


def parse(text: str) -> Expression:
    """Parse an expression, which semicolons may follow as in an ad; raise ClassAdSyntaxError if it is invalid."""
    return _parse_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse(text)


operations.parse = parse


def _parse(text: str) -> Expression:
    parser = _ExpressionParser(text)
    return parser.run(parser.expression_with_semicolons)


def parse_evaluated(text: str) -> Expression:
    """Parse an expression by the rules of the ClassAd function ``eval()``, which ignores text after ``a ? b : c``."""
    return _parse_evaluated_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse_evaluated(text)


def _parse_evaluated(text: str) -> Expression:
    parser = _ExpressionParser(text)
    return parser.run(parser.expression_of_eval)


_MAX_CACHED_LENGTH = 1000
"""The maximum length of texts whose trees are cached, because most short texts are evaluated in many ads."""
_parse_cached = lru_cache(maxsize=256)(_parse)
_parse_evaluated_cached = lru_cache(maxsize=256)(_parse_evaluated)


def parse_old_value(text: str, *, strict: bool = False) -> Expression:
    """Parse the right side of an attribute in an old-form ad; ignore trailing text, or reject it with ``strict``."""
    parser = _ExpressionParser(text, old=True)
    return parser.run(parser.expression_to_end if strict else parser.expression)


def parse_new_ad(text: str) -> AdExpression:
    """Parse an ad in square brackets. Like HTCondor, ignore text after the closing bracket."""
    parser = _ExpressionParser(text)
    return parser.run(parser.whole_ad)


def parse_new_ads(text: str) -> list[AdExpression]:
    """Parse ads in square brackets, which may be separated by commas, such as the files of metric definitions."""
    parser = _ExpressionParser(text)
    return parser.run(parser.ads_to_end)


class _ExpressionParser:
    __slots__ = ("depth", "index", "old", "pattern", "text", "tokens")

    def __init__(self, text: str, old: bool = False) -> None:
        if not isinstance(text, str):
            raise TypeError(f"an expression must be a string, not {shorten(repr(text))}")
        self.text = text
        self.old = old
        self.pattern = OLD_FORM if old else NEW_FORM
        self.tokens: list[str] = self.pattern.findall(text)
        if len(self.tokens) > MAX_TOKENS:
            self.tokens[MAX_TOKENS:] = [TOO_LONG, ""]
        if not text.isascii():
            self._check_characters()
        self.index = 0
        self.depth = 0

    def run(self, rule: Callable[[], T]) -> T:
        """Apply a rule of the grammar; raise ClassAdSyntaxError if the text does not match it."""
        try:
            return rule()
        except _ParseFailure as failure:
            raise self._error(failure) from None
        except UnreadableToken as error:  # in the last token
            raise self._error(_ParseFailure(str(error), self.index - 1)) from None

    def _check_characters(self) -> None:
        try:
            to_bytes(self.text)
        except UnicodeEncodeError as error:
            message = "half of a surrogate pair is not a character"
            raise ClassAdSyntaxError(message, self.text, error.start) from None

    def _error(self, failure: _ParseFailure) -> ClassAdSyntaxError:
        match = next(islice(self.pattern.finditer(self.text), failure.index, None), None)
        position = len(self.text) if match is None else match.start(1)
        return ClassAdSyntaxError(failure.message, self.text, min(position, len(self.text)))

    def expression_with_semicolons(self) -> Expression:
        tree = self.expression()
        while self.tokens[self.index] == ";":
            self.index += 1
        if self.tokens[self.index]:
            raise self._unexpected("the end of the expression")
        return tree

    def expression_to_end(self) -> Expression:
        tree = self.expression()
        if self.tokens[self.index]:
            raise self._unexpected("the end of the line")
        return tree

    def expression_of_eval(self) -> Expression:
        tree = self.expression()
        if self.tokens[self.index] and not isinstance(tree, Conditional):
            raise self._unexpected("the end of the expression")
        return tree

    def whole_ad(self) -> AdExpression:
        if self.tokens[0] != "[":
            raise self._unexpected("an ad in square brackets")
        self.index = 1
        return self._ad()

    def ads_to_end(self) -> list[AdExpression]:
        ads = []
        while self.tokens[self.index]:
            if self.tokens[self.index] == ",":
                self.index += 1
            elif self.tokens[self.index] == "[":
                self.index += 1
                ads.append(self._ad())
            else:
                raise self._unexpected("an ad in square brackets")
        return ads

    def expression(self) -> Expression:
        """Parse operands and binary operators, optionally followed by ``? :``."""
        self._nest(1)
        tokens = self.tokens
        tree = self._operand()
        entry = BINARY_SPELLINGS.get(tokens[self.index])
        if entry is None:
            entry = self._split_minus()
        if entry is not None:
            tree = self._binary_operators(tree, entry)
        if tokens[self.index] == "?":
            self.index += 1
            then = self.expression()
            if tokens[self.index] != ":":
                raise self._unexpected("':' and the value for a false condition")
            self.index += 1
            tree = Conditional(tree, then, self.expression())
        self.depth -= 1
        return tree

    def _binary_operators(self, left: Expression, entry: tuple[str, int]) -> Expression:
        tokens = self.tokens
        # Operators that wait for their right operands, in increasing order of precedence.
        operators: list[tuple[Expression, str, int]] = []
        next_operator: tuple[str, int] | None = entry
        while next_operator is not None:
            op, precedence = next_operator
            while operators and operators[-1][2] >= precedence:
                operand, operator, _ = operators.pop()
                left = Binary(operator, operand, left)
            operators.append((left, op, precedence))
            self.index += 1
            left = self._operand()
            next_operator = BINARY_SPELLINGS.get(tokens[self.index])
            if next_operator is None:
                next_operator = self._split_minus()
        while operators:
            operand, operator, _ = operators.pop()
            left = Binary(operator, operand, left)
        return left

    def _split_minus(self) -> tuple[str, int] | None:
        """Split the token ``-5`` in ``a -5``: the minus that the tokenizer attached to the number is an operator."""
        token = self.tokens[self.index]
        if len(token) > 1 and token[0] == "-":
            # The operand stays at this index, so step back, because the caller advances past the operator.
            self.tokens[self.index] = token[1:]
            self.index -= 1
            return BINARY_SPELLINGS["-"]
        return None

    def _operand(self) -> Expression:
        start = self.index
        token = self.tokens[start]
        if token and self.tokens[start + 1][:1] not in _POSTFIX_STARTS and self.depth < MAX_NESTING - 1:
            # Fast path: most operands are names or small numbers without a postfix.
            if token[0] in _NAME_START:
                if len(token) not in _WORD_LENGTHS:
                    self.index = start + 1
                    return Attribute(None, token)
            elif token in SMALL_INTEGERS:
                self.index = start + 1
                return SMALL_INTEGERS[token]
        prefixes: list[str] | None = None
        while token in UNARY_SIGNS:
            if prefixes is None:
                prefixes = []
            prefixes.append(token)
            self._nest(1)
            self.index += 1
            token = self.tokens[self.index]
        self._nest(2)
        tree = self._primary(token)
        next_token = self.tokens[self.index]
        if next_token in _SELECTORS or (next_token[:1] == "?" and len(next_token) > 1):
            tree = self._postfix(tree)
        self.depth -= 2
        if prefixes is not None:
            for op in reversed(prefixes):
                tree = Unary(op, tree)
            self.depth -= len(prefixes)
        return tree

    def _postfix(self, tree: Expression) -> Expression:
        # The right side of `?:` is an operand with its own postfixes, so `?:` groups to the right.
        defaulted_operands: list[Expression] = []
        tokens = self.tokens
        while True:
            token = tokens[self.index]
            if token == "." or token == "..":
                self.index += 1
                tree = Attribute(tree, self._name("the name of an attribute"))
            elif token == "[":
                self.index += 1
                subscript = self.expression()
                if tokens[self.index] != "]":
                    raise self._unexpected("']'")
                self.index += 1
                tree = Binary("[]", tree, subscript)
            elif token[:1] == "?" and len(token) > 1:
                self.index += 1
                defaulted_operands.append(tree)
                self._nest(1)
                tree = self._primary(tokens[self.index])
            else:
                break
        self.depth -= len(defaulted_operands)
        while defaulted_operands:
            tree = Binary("?:", defaulted_operands.pop(), tree)
        return tree

    def _primary(self, token: str) -> Expression:
        first = token[:1]
        if first in _NAME_START and first:
            self.index += 1
            if self.tokens[self.index] == "(" and token not in BINARY_SPELLINGS and lower(token) not in KEYWORDS:
                return self._call(token)
            if len(token) in (4, 5, 9) and lower(token) in KEYWORDS:
                return KEYWORDS[lower(token)]
            if token in BINARY_SPELLINGS:
                self.index -= 1
                raise self._unexpected("an operand")
            return Attribute(None, token)
        if first == '"':
            self.index += 1
            return Literal(parse_string(token, self.old))
        if first in _DIGITS or (len(token) > 1 and first in "-." and token != ".."):
            self.index += 1
            return parse_number(token)
        if first == "(":
            self.index += 1
            inner = self.expression()
            if self.tokens[self.index] != ")":
                raise self._unexpected("')'")
            self.index += 1
            return Parentheses(inner)
        if first == "'":
            name = self._name("a name")
            if self.tokens[self.index] == "(":
                return self._call(name)
            return Attribute(None, name)
        if first == ".":  # in HTCondor, two dots mean the same as one dot
            self.index += 1
            return Attribute(None, self._name("the name of an attribute"), absolute=True)
        if first == "{":
            return ListExpression(self._members("}", ",", "a member of the list"))
        if first == "[":
            self.index += 1
            return self._ad()
        raise self._unexpected("an operand")

    def _call(self, name: str) -> Expression:
        arguments = self._members(")", ",;", "an argument")
        if len(arguments) == 1 and isinstance(arguments[0], Literal):
            text = arguments[0].value
            if type(text) is str and lower(name) in _TIME_LITERALS:
                literal = _TIME_LITERALS[lower(name)](text)
                if literal is None:
                    raise _ParseFailure(f"{shorten(text)!r} is not a time for {name}", self.index - 2)
                return TimeLiteral(*literal)
        return Call(name, arguments)

    def _members(self, end: str, separators: str, kind: str) -> tuple[Expression, ...]:
        """Parse the separated expressions between brackets, and both brackets."""
        self.index += 1
        members: list[Expression] = []
        tokens = self.tokens
        while tokens[self.index] != end or members:
            members.append(self.expression())
            token = tokens[self.index]
            if token == end:
                break
            if not token or token not in separators:
                raise self._unexpected(f"',' or '{end}' after {kind}")
            self.index += 1
        self.index += 1
        return tuple(members)

    def _ad(self) -> AdExpression:
        cells: dict[str, tuple[str, Expression]] = {}
        tokens = self.tokens
        leading_semicolon = tokens[self.index] == ";"
        while tokens[self.index] == ";":
            self.index += 1
        while leading_semicolon or tokens[self.index] != "]":
            leading_semicolon = False
            name = self._name("the name of an attribute, or ']'")
            if not name:
                raise _ParseFailure("an attribute's name cannot be empty", self.index - 1)
            if tokens[self.index] != "=":
                raise self._unexpected("'=' after the attribute's name")
            self.index += 1
            value = self.expression()
            cells[lower(name)] = (cells.get(lower(name), (name,))[0], value)
            if tokens[self.index] not in (";", "]"):
                raise self._unexpected("';' or ']' after an attribute")
            while tokens[self.index] == ";":
                self.index += 1
        self.index += 1
        return AdExpression(cells)

    def _name(self, expected: str) -> str:
        token = self.tokens[self.index]
        first = token[:1]
        if first == "'":
            self.index += 1
            return parse_string(token, self.old)
        if not first or first not in _NAME_START or token in BINARY_SPELLINGS or lower(token) in KEYWORDS:
            raise self._unexpected(expected)
        self.index += 1
        return token

    def _nest(self, levels: int) -> None:
        self.depth += levels
        if self.depth > MAX_NESTING:
            raise _ParseFailure(f"nested too deeply (more than {MAX_NESTING} levels)", self.index)

    def _unexpected(self, expected: str) -> _ParseFailure:
        token = self.tokens[self.index]
        if token == TOO_LONG:
            return _ParseFailure(f"the expression is too long (more than {MAX_TOKENS:,} tokens)", self.index)
        if token == "":
            return _ParseFailure(f"expected {expected}, but the text ends here", self.index)
        if token.startswith("/*"):
            return _ParseFailure("this comment is not closed", self.index)
        if token[0] in "\"'" and not is_closed(token, self.old):
            return _ParseFailure(f"the string that starts with {token[0]} is not closed", self.index)
        hint = _HINTS.get(token.lower())
        suggestion = "" if hint is None else f" (did you mean {hint} ?)"
        return _ParseFailure(f"expected {expected}, but found {shorten(token)}{suggestion}", self.index)


_TIME_LITERALS = {"abstime": parse_abstime, "reltime": parse_reltime}

"""The results of the reference (classad2) and of Poolbook for the same text, in one comparable form.

Every answer is a tuple whose first item is its kind: `("integer", 5)`, `("error",)`, `("parse-error",)`, `("fail",)`
for an evaluation without any value, and so on. A Poolbook answer that names a Python exception (`("exception", ...)`)
equals none of the reference's.
"""

import math
import os
import re
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

# Local times are compared as well, so both sides get the same zone before either is loaded.
os.environ["TZ"] = "UTC"
time.tzset()

import classad2  # noqa: E402
import htcondor2  # noqa: E402, F401  (once imported, it makes classad2 speak the daemons' dialect)

from poolbook.domain.classad import (  # noqa: E402
    ERROR,
    UNDEFINED,
    AbsTime,
    ClassAd,
    ClassAdSyntaxError,
    EvaluationError,
    ListValue,
    RelTime,
    parse,
    symmetric_match,
    unparse,
)

Answer = tuple[object, ...]
P = ParamSpec("P")

_INTEGER = re.compile(r"-?\d+\Z")
_REAL = re.compile(r"-?\d\.|real\(")
_NAMED_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
# Only these may differ from the reference, and only in a real's last bit.
_INEXACT = re.compile(r"/|pow", re.IGNORECASE)


def string_bytes(literal: str) -> bytes:
    """Return the bytes of a string literal as the reference writes it."""

    def unescape(match: re.Match[bytes]) -> bytes:
        body = match[1].decode()
        if body[0] in "01234567":
            return bytes([int(body, 8)])
        return bytes([_NAMED_ESCAPES.get(body, ord(body))])

    return _ESCAPE.sub(unescape, literal[1:-1].encode())


def same(reference: Answer, answer: Answer, *texts: str) -> bool:
    """Return True if two answers are equal; the texts decide whether a real's last bit may differ."""
    if reference[0] == answer[0] == "real" and any(_INEXACT.search(text) for text in texts):
        reference_value, right = float(str(reference[1])), float(str(answer[1]))
        if math.isfinite(reference_value) and math.isfinite(right) and reference_value and right:
            return abs(reference_value - right) <= math.ulp(reference_value)
    return reference == answer


def _scalar(value: object) -> Answer:
    """Return a Python value of either side in the common form."""
    match value:
        case bool():
            return ("boolean", value)
        case int():
            return ("integer", value)
        case float():
            return ("real", repr(value))
    raise AssertionError(f"not a scalar: {value!r}")


# The reference ---------------------------------------------------------------------------------


def _tree(text: str) -> classad2.ExprTree | None:
    """Return the reference's tree of a text, or None if it is rejected."""
    try:
        return classad2.ExprTree(f"{text}\n")  # the line feed ends a // comment
    except classad2.ClassAdException:
        return None


def is_whole(text: str) -> bool:
    """Return True if all of a text that the reference reads as an expression belongs to the expression."""
    # classad2 parses `[expression = TEXT]` and never checks the text after the "]": `1; b = 2` and `1] x` pass. Only a
    # complete expression can also be put in parentheses.
    return _tree(text) is None or _tree(f"({text}\n)") is not None


def _reference_ad(text: str | None) -> classad2.ClassAd | None:
    return None if text is None else classad2.ClassAd(text)


def parsed(text: str) -> Answer:
    """Return `("text", one-line text)` or `("parse-error",)`, without the blank before a leading `-`."""
    tree = _tree(text)
    return ("parse-error",) if tree is None else ("text", repr(tree).strip())


def evaluate(text: str, my: str, target: str | None = None) -> Answer:
    """Return the reference's value of the text; `my` and `target` are ads in the new form."""
    tree = _tree(text)
    if tree is None:
        return ("parse-error",)
    try:
        ads = _reference_ad(my), _reference_ad(target)
    except classad2.ClassAdException:
        return ("bad-ad",)
    # eval() hides a reltime as a float, an abstime as a datetime, and raises for a string that is not UTF-8. simplify()
    # evaluates in the same way, but gives the value as a literal, whose text distinguishes them. For a real it has too
    # few digits, for a reltime no fraction.
    try:
        value = repr(tree.simplify(*ads))
        if value.startswith("relTime("):
            return ("reltime", value, repr(tree.eval(*ads)))
        if _REAL.match(value):
            return _scalar(tree.eval(*ads))
    except classad2.ClassAdException:
        return ("fail",)
    if value in ("undefined", "error"):
        return (value,)
    if value in ("true", "false"):
        return ("boolean", value == "true")
    if _INTEGER.match(value):
        return ("integer", int(value))
    if value.startswith('"'):
        return ("string", string_bytes(value))
    if value.startswith("absTime("):
        return ("abstime", value)
    return ("list" if value.startswith("{") else "classad", value)


def references(text: str, my: str) -> Answer:
    """Return `("references", internal, external)`; each is a tuple of names."""
    tree = _tree(text)
    try:
        ad = classad2.ClassAd(my)
    except classad2.ClassAdException:
        return ("parse-error",)
    if tree is None:
        return ("parse-error",)
    try:
        names = ad.internalRefs(tree), ad.externalRefs(tree)
    except ValueError:  # "Unable to determine"
        return ("fail",)
    return ("references", *(tuple(filter(None, group)) for group in names))


def match(first: str, right: str) -> Answer:
    """Return `("boolean", whether the two ads match each other)`."""
    try:
        ads = classad2.ClassAd(first), classad2.ClassAd(right)
    except classad2.ClassAdException:
        return ("parse-error",)
    try:
        is_match = ads[0].symmetricMatch(ads[1])
    except (UnicodeDecodeError, OverflowError, SystemError):
        return ("boolean", False)  # a string, time or list that Python cannot show: no match
    except classad2.ClassAdException:
        return ("fail",)
    if is_match:  # classad2 also takes a reltime for true: to Python it is a float
        kinds = evaluate("MY.Requirements", first, right), evaluate("MY.Requirements", right, first)
        is_match = "reltime" not in (kinds[0][0], kinds[1][0])
    return ("boolean", is_match)


def old_ad(text: str) -> Answer:
    """Return `("ad", new form, old form)` of an ad in the old form."""
    try:
        ad = classad2.parseOne(text, classad2.ParserType.Old)
    except ValueError:
        return ("parse-error",)
    return ("ad", repr(ad), ad.printOld())


def xml_ad(text: str) -> Answer:
    """Return `("ad", new form)` of the first ad in an XML text."""
    try:
        # The last of several ads is not copied, so its times remain as they were written.
        *_, ad = classad2.parseAds(text, classad2.ParserType.XML)
    except ValueError:
        return ("parse-error",)
    return ("ad", repr(ad))


# Poolbook --------------------------------------------------------------------------------------


def _answer(function: Callable[P, Answer]) -> Callable[P, Answer]:
    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Answer:
        try:
            return function(*args, **kwargs)
        except ClassAdSyntaxError:
            return ("parse-error",)
        except EvaluationError:
            return ("fail",)
        except Exception as problem:  # shown as a difference, next to the reference's answer
            return ("exception", type(problem).__name__, str(problem))

    return guarded


def _canonical(value: object) -> Answer:
    if value is UNDEFINED:
        return ("undefined",)
    if value is ERROR:
        return ("error",)
    match value:
        case str():
            return ("string", value.encode("utf-8", "surrogateescape"))
        case AbsTime():
            return ("abstime", unparse(value))
        case RelTime():
            return ("reltime", unparse(value), repr(float(value.seconds)))
        case ListValue():
            return ("list", unparse(value))
        case ClassAd():
            return ("classad", unparse(value))
    return _scalar(value)


@_answer
def our_parsed(text: str) -> Answer:
    return ("text", unparse(parse(text)).strip())


@_answer
def ours(text: str, my: str, target: str | None = None, *, simplified: bool = False) -> Answer:
    """Return Poolbook's value of the text, evaluated after `simplify` has seen only `my` if requested."""
    expression = parse(text)
    try:
        ad = ClassAd.from_new(my)
        other = None if target is None else ClassAd.from_new(target)
    except ClassAdSyntaxError:
        return ("bad-ad",)
    if simplified:
        expression = expression.simplify(ad)
    return _canonical(expression.evaluate(ad, other))


@_answer
def our_references(text: str, my: str) -> Answer:
    expression, ad = parse(text), ClassAd.from_new(my)
    try:
        names = expression.references(ad)
    except ValueError:
        return ("fail",)
    return ("references", tuple(names.internal), tuple(names.external))


@_answer
def our_match(first: str, right: str) -> Answer:
    return _scalar(symmetric_match(ClassAd.from_new(first), ClassAd.from_new(right)))


@_answer
def our_old_ad(text: str) -> Answer:
    ad = ClassAd.from_old(text)
    return ("ad", ad.to_new(), ad.to_old())

"""Parse ads in HTCondor's XML, which has an element for each type of value, and ``<e>`` for expressions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from .syntax import ClassAdSyntaxError, parse
from .times import parse_abstime, parse_reltime
from .tokens import UnreadableToken, resolve_escapes
from .tree import AdExpression, Cell, Expression, ListExpression, Literal, TimeLiteral
from .values import ERROR, INT_MAX, INT_MIN, UNDEFINED, lower, strtod

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

TAG = re.compile(r"<(/?)c\s*(/?)>")
_MAX_DEPTH = 160
_INTEGER = re.compile(r"-?[0-9]+")


def read_xml(text: str) -> dict[str, Cell]:
    """Return the attributes of the first element ``<c>``; raise ClassAdSyntaxError if it is not a valid ad. As in
    HTCondor, text before and after it is ignored, and a number's characters are read as far as they are a number."""
    begin = TAG.search(text)
    end = end_of_ad(text, begin.start()) if begin else None
    if begin is None or end is None:
        raise ClassAdSyntaxError("there is no complete element <c>", text, 0 if begin is None else len(text))
    try:
        return _cells(ElementTree.fromstring(text[begin.start() : end]), _MAX_DEPTH)
    except ElementTree.ParseError as error:
        raise ClassAdSyntaxError(f"not XML: {error}", text, begin.start()) from None
    except (UnreadableToken, RecursionError) as error:
        raise ClassAdSyntaxError(str(error), text, begin.start()) from None


def end_of_ad(text: str, begin: int) -> int | None:
    """Return the end of the element ``<c>`` that begins here, or None if the text does not contain it."""
    depth = 0
    for tag in TAG.finditer(text, begin):
        depth += 0 if tag[2] else -1 if tag[1] else 1
        if depth <= 0:
            return tag.end()
    return None


def _cells(element: Element, levels: int) -> dict[str, Cell]:
    if levels == 0:
        raise UnreadableToken(f"nested too deeply (more than {_MAX_DEPTH} levels)")
    cells: dict[str, Cell] = {}
    for attribute in element:
        name = resolve_escapes(attribute.get("n", ""))
        if attribute.tag != "a" or not name or len(attribute) != 1:
            raise UnreadableToken('an ad in XML consists of elements <a n="NAME"> with one value each')
        key = lower(name)
        cells[key] = (cells.get(key, (name,))[0], _expression(attribute[0], levels))
    return cells


def _expression(element: Element, levels: int) -> Expression:
    text = element.text or ""
    match element.tag:
        case "s":
            return Literal(resolve_escapes(text))
        case "b":
            return Literal(element.get("v") in ("t", "T"))
        case "i" | "r" if text.strip():
            return Literal(_number(element.tag, text))
        case "un" | "er":
            return Literal(UNDEFINED if element.tag == "un" else ERROR)
        case "e" if text.strip():
            return parse(text)
        case "at" | "rt":
            time = (parse_abstime if element.tag == "at" else parse_reltime)(text)
            if time is not None:
                return TimeLiteral(*time)
        case "l":
            return ListExpression(tuple(_expression(member, levels - 1) for member in element))
        case "c":
            return AdExpression(_cells(element, levels - 1))
    raise UnreadableToken(f"<{element.tag}>{text[:40]}</{element.tag}> is not a value")


def _number(tag: str, text: str) -> object:
    if tag == "r":
        real = strtod(text)
        return ERROR if real is None else real
    digits = _INTEGER.match(text.lstrip())
    number = int(digits[0]) if digits and len(digits[0]) < 40 else INT_MAX + 1
    return number if INT_MIN <= number <= INT_MAX else ERROR

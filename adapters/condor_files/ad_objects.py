"""Split a text into ads printed as JSON (an array, or one object per line) or XML; the text may end within an ad."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.etree import ElementTree

from ...domain.classad import ClassAd, ClassAdSyntaxError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class AdPiece(NamedTuple):
    """The position of an ad in the text, and either its text in old syntax or the error; both are empty between ads."""

    begin: int
    end: int
    ad: str
    wrong: str


_BETWEEN = re.compile(r"[\s,\[\]]*")
_NEXT_AD = re.compile(r"\n(?=\{)")


def split_json(text: str) -> Iterator[AdPiece]:
    """Yield the ads in a JSON text. An error extends to the next line that starts with an ad."""
    decoder = json.JSONDecoder()
    at = 0
    while True:
        separator = _BETWEEN.match(text, at)
        begin = separator.end() if separator else at
        if begin > at:
            yield AdPiece(at, begin, "", "")
        if begin == len(text):
            return
        try:
            value, end = decoder.raw_decode(text, begin)
            problem = "" if isinstance(value, dict) else "this is not an ad"
        except (ValueError, RecursionError) as error:
            next_ad = _NEXT_AD.search(text, begin + 1)
            if next_ad is None:
                return
            end, problem = next_ad.end(), f"this is not JSON: {error}"
        ad = ""
        if not problem:
            try:
                ad = _old_syntax(ClassAd.from_json(text[begin:end]))
            except (ClassAdSyntaxError, ValueError, RecursionError) as error:
                problem = f"this is not an ad: {error}"
        yield AdPiece(begin, end, ad, problem)
        at = end


_BEGIN = re.compile(r"^<c>", re.M)
_SKIPPED = re.compile(r"\s*(?:<\?xml[^>]*>|<!DOCTYPE[^>]*>|</?classads>)|\s+")


def split_xml(text: str) -> Iterator[AdPiece]:
    """Yield the ads in an XML text, each from a line ``<c>`` to a line ``</c>``."""
    at = 0
    while True:
        while skipped := _SKIPPED.match(text, at):
            yield AdPiece(at, skipped.end(), "", "")
            at = skipped.end()
        begin = _BEGIN.search(text, at)
        if begin is None:
            return
        if text[at : begin.start()].strip():
            yield AdPiece(at, begin.start(), "", "this is not an ad")
        end = text.find("\n</c>", begin.end())
        if end < 0:
            return
        end += len("\n</c>")
        ad, problem = "", ""
        try:
            ad = _xml_ad(ElementTree.fromstring(text[begin.start() : end]))
            ad = _old_syntax(ClassAd.from_new(f"[{ad}]"))
        except (ElementTree.ParseError, ClassAdSyntaxError, ValueError, RecursionError) as error:
            problem = f"this is not an ad: {error}"
        yield AdPiece(begin.start(), end, ad, problem)
        at = end


def _old_syntax(ad: ClassAd) -> str:
    return ad.to_old().rstrip("\n").encode("utf-8", "replace").decode()


def _xml_ad(element: Element) -> str:
    return "; ".join(f"{attribute.get('n', '')} = {_xml_value(attribute[0])}" for attribute in element)


def _xml_value(element: Element) -> str:
    text = element.text or ""
    match element.tag:
        case "s":
            return '"' + text.replace('"', '\\"') + '"'
        case "b":
            return "true" if element.get("v") == "t" else "false"
        case "r" if text.strip("-") in ("INF", "NaN"):
            return f'real("{text}")'
        case "at":
            return f'absTime("{text}")'
        case "rt":
            return f'relTime("{text}")'
        case "l":
            return "{" + ", ".join(map(_xml_value, element)) + "}"
        case "c":
            return f"[{_xml_ad(element)}]"
        case "un":
            return "undefined"
        case "er":
            return "error"
        case _:
            return text


FORMS: Final[dict[str, Callable[[str], Iterator[AdPiece]]]] = {"json": split_json, "xml": split_xml}
"""Format -> the function that splits a text in this format into ads."""

"""Split a text into ads in JSON (an array, or one object per line), XML or the new form. The text may end within an
ad."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ...domain.classad import ClassAd, ClassAdSyntaxError
from ...domain.classad.xml_reader import TAG, end_of_ad


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


_SKIPPED = re.compile(r"\s*(?:<\?xml[^>]*>|<!DOCTYPE[^>]*>|</?classads>)|\s+")
_NEXT_XML_AD = re.compile(r"^<c>", re.M)


def split_xml(text: str) -> Iterator[AdPiece]:
    """Yield the ads in an XML text: elements ``<c>``. An error extends to the next line that starts with an ad."""
    at = 0
    while True:
        while skipped := _SKIPPED.match(text, at):
            yield AdPiece(at, skipped.end(), "", "")
            at = skipped.end()
        begin = TAG.search(text, at)
        if begin is None:
            return
        if text[at : begin.start()].strip():
            yield AdPiece(at, begin.start(), "", "this is not an ad")
        end, next_ad = end_of_ad(text, begin.start()), _NEXT_XML_AD.search(text, begin.end())
        if next_ad is not None and (end is None or next_ad.start() < end):
            end = next_ad.start()
        if end is None:
            return
        ad, problem = "", ""
        try:
            ad = _old_syntax(ClassAd.from_xml(text[begin.start() : end]))
        except ClassAdSyntaxError as error:
            problem = f"this is not an ad: {error}"
        yield AdPiece(begin.start(), end, ad, problem)
        at = end


def _old_syntax(ad: ClassAd) -> str:
    return ad.to_old().rstrip("\n").encode("utf-8", "replace").decode()


_BETWEEN_NEW_ADS = re.compile(r"[\s,{}]+")
_STRING_OR_BRACKET = re.compile(r"""["']|[\[\]]|//[^\n]*|(?s:/\*.*?\*/)""")
_STRING_ENDS = {quote: re.compile(rf"(?:[^\\{quote}]|\\.)*{quote}", re.DOTALL) for quote in "\"'"}


def split_new(text: str) -> Iterator[AdPiece]:
    """Yield the ads in brackets; braces may enclose all of them."""
    at = 0
    while True:
        if between := _BETWEEN_NEW_ADS.match(text, at):
            yield AdPiece(at, between.end(), "", "")
            at = between.end()
        end = _end_of_new_ad(text, at)
        if end is None:
            return
        ad, problem = "", ""
        try:
            ad = _old_syntax(ClassAd.from_new(text[at:end]))
        except ClassAdSyntaxError as error:
            problem = f"this is not an ad: {error}"
        yield AdPiece(at, end, ad, problem)
        at = end


def _end_of_new_ad(text: str, begin: int) -> int | None:
    depth, at = 0, begin
    while token := _STRING_OR_BRACKET.search(text, at):
        at = token.end()
        if end_of_string := _STRING_ENDS.get(token[0]):
            closing = end_of_string.match(text, at)
            if closing is None:
                return None
            at = closing.end()
        else:
            depth += {"[": 1, "]": -1}.get(token[0], 0)
            if depth <= 0 and token[0] == "]":
                return at
    return None


FORMS: Final[dict[str, Callable[[str], Iterator[AdPiece]]]] = {
    "json": split_json, "xml": split_xml, "new": split_new,
}  # fmt: skip
"""Format -> the function that splits a text in this format into ads."""

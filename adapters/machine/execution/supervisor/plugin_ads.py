"""The ads that file transfer plugins read and write: ClassAds in the new form, one behind the other.

Only values that a plugin reports are understood: strings, numbers, true and false. An attribute with any other
expression, a list or an inner ad has no value here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | None
Ad: TypeAlias = Mapping[str, Value]  #: by the names in lower case

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<text>"(?:[^"\\]|\\.)*") | (?P<name>'(?:[^'\\]|\\.)*')
    | (?P<mark>[\[\]{}();=,]) | (?P<word>[^\s\[\]{}();=,"']+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS: Mapping[str, bool] = {"true": True, "false": False}
_OPENS, _CLOSES = "[{(", "]})"


def write_ads(ads: Sequence[Mapping[str, Value]]) -> str:
    return "".join(f"[ {'; '.join(f'{name} = {_written(value)}' for name, value in ad.items())} ]" for ad in ads)


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return "undefined" if value is None else str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def read_ads(text: str) -> list[Ad]:
    """Return the ads of a text, up to the first thing that belongs to none."""
    tokens = _tokens(text)
    ads: list[Ad] = []
    while next(tokens, ("", ""))[1] == "[":
        ad = _ad(tokens)
        if ad is None:
            break
        ads.append(ad)
    return ads


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each token; end at what is none."""
    place = 0
    while place < len(text) and (found := _TOKEN.match(text, place)):
        place = found.end()
        if found.lastgroup:
            yield found.lastgroup, found[found.lastgroup]


def _ad(tokens: Iterator[tuple[str, str]]) -> Ad | None:
    """Return the ad that has just been opened; None if it is not closed."""
    ad: dict[str, Value] = {}
    line: list[tuple[str, str]] = []
    depth = 0
    for kind, text in tokens:
        ends = kind == "mark" and not depth and text in ";]"
        if ends:
            if len(line) > 2 and line[1] == ("mark", "="):
                ad[line[0][1].strip("'").lower()] = _value(line[2:])
            line = []
            if text == "]":
                return ad
            continue
        depth += kind == "mark" and text in _OPENS
        depth -= kind == "mark" and text in _CLOSES
        line.append((kind, text))
    return None


def _value(tokens: Sequence[tuple[str, str]]) -> Value:
    kind, text = tokens[0]
    if len(tokens) > 1:
        return None
    if kind == "text":
        return _ESCAPE.sub(_unescaped, text[1:-1])
    if (lowered := text.lower()) in _WORDS:
        return _WORDS[lowered]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code, 8)) if code.isdigit() else _ESCAPED.get(code, code)

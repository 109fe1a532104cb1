"""What the code names, read from its text: each piece of it that could be the name of a setting or an attribute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "manual"
ROOMS = ("domain", "projections", "replay", "adapters")
TABLES = ("domain/coverage/", "domain/config/tables/")
"""What lists names without reading them."""
RECORDS = (
    "adapters/condor_files/",
    "adapters/condor_files/importing/",
    "replay/forensics/audit/",
    "domain/submit/",
)
"""What reads a name in records of real pools, or writes it into an ad, and follows nothing by that."""

_HOLE = "\0"
_TEXT = re.compile(r'"""|(f?)"((?:[^"\\\n]|\\.)*)"')


def _texts(source: str) -> Iterator[str]:
    """The texts of a module but its docstrings; what an f-string fills in is a hole. (Parsing takes seconds.)"""
    plain = re.sub(r'""".*?"""', "", source, flags=re.DOTALL)
    for filled, text in _TEXT.findall(plain):
        yield re.sub(r"\{[^{}]*\}", _HOLE, text) if filled else text


def _entries(data: str) -> Iterator[str]:
    """The words of a data file that stands beside a module, but for its comments."""
    for line in data.splitlines():
        if not line.startswith("#"):
            yield from line.split()


@cache
def texts(without: tuple[str, ...] = TABLES) -> frozenset[str]:
    """Every text in the code, in small letters, but for the files that begin with one of ``without``."""
    return frozenset(text for path, found in _by_file().items() if not path.startswith(without) for text in found)


@cache
def _by_file() -> dict[str, frozenset[str]]:
    paths = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    sources = ((path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in paths)
    found = {path: frozenset(map(str.lower, _texts(source))) for path, source in sources}
    data = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.txt"))
    tables = ((path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in data)
    return found | {path: frozenset(map(str.lower, _entries(table))) for path, table in tables}


@cache
def _words(without: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word for text in texts(without) for word in re.findall(r"\w+", text))


@cache
def _filled(without: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """The texts with holes and at least four letters beside them, as patterns."""
    found = [text for text in texts(without) if _HOLE in text and len(re.findall(r"[a-z]", text)) >= 4]
    named = [text for text in found if re.fullmatch(r"[\w\0]+", text)]
    return tuple(re.compile("\\w+".join(map(re.escape, text.split(_HOLE)))) for text in named)


def has_word(name: str, without: tuple[str, ...] = TABLES) -> bool:
    """Whether the code has a name as a whole word of a text."""
    return name.lower() in _words(without)


def names(name: str, without: tuple[str, ...] = TABLES) -> bool:
    """Whether the code has a name in a text, whole or filled in; parts in angle brackets are any word, and what stands
    before the first of them may stand alone."""
    plain = re.sub("<[^>]*>", "0", name.lower())
    before = name.lower().partition("<")[0]
    if before != name.lower() and before and any(text.startswith(before) for text in texts(without)):
        return True
    return has_word(plain, without) or any(pattern.fullmatch(plain) for pattern in _filled(without))

"""Find the names of settings and attributes in the string literals and data files of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "manual"
PACKAGES = ("domain", "projections", "replay", "adapters")
NAME_TABLES = ("domain/coverage/", "domain/config/tables/", "adapters/adstash/fields.txt")
"""Files that list names without using them."""
RECORD_READERS = (
    "adapters/condor_files/",
    "adapters/condor_files/importing/",
    "replay/forensics/audit/",
    "domain/submit/",
)
"""Code that reads a name in records of HTCondor pools or writes it into an ad, but does not implement it."""

_FIELD = "\0"
_TEXT = re.compile(r'"""|(f?)"((?:[^"\\\n]|\\.)*)"')


def _texts(source: str) -> Iterator[str]:
    """Yield the strings of a module except docstrings, with placeholders for f-string fields.

    This uses regular expressions, because parsing all modules takes seconds.
    """
    plain = re.sub(r'""".*?"""', "", source, flags=re.DOTALL)
    for is_f_string, text in _TEXT.findall(plain):
        yield re.sub(r"\{[^{}]*\}", _FIELD, text) if is_f_string else text


def _entries(data: str) -> Iterator[str]:
    """Yield the words of a data file, without its comments."""
    for line in data.splitlines():
        if not line.startswith("#"):
            yield from line.split()


@cache
def texts(without: tuple[str, ...] = NAME_TABLES) -> frozenset[str]:
    """Return the strings of the code in lower case; skip files whose path starts with one of ``without``."""
    return frozenset(text for path, texts in _texts_by_file().items() if not path.startswith(without) for text in texts)


@cache
def _texts_by_file() -> dict[str, frozenset[str]]:
    modules = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    sources = ((path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in modules)
    texts = {path: frozenset(map(str.lower, _texts(source))) for path, source in sources}
    data_files = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.txt"))
    tables = ((path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in data_files)
    return texts | {path: frozenset(map(str.lower, _entries(table))) for path, table in tables}


@cache
def _words(without: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word for text in texts(without) for word in re.findall(r"\w+", text))


@cache
def _patterns(without: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Return the f-strings with at least four letters as regular expressions."""
    templates = [text for text in texts(without) if _FIELD in text and len(re.findall(r"[a-z]", text)) >= 4]
    names = [text for text in templates if re.fullmatch(r"[\w\0]+", text)]
    return tuple(re.compile("\\w+".join(map(re.escape, text.split(_FIELD)))) for text in names)


def has_word(name: str, without: tuple[str, ...] = NAME_TABLES) -> bool:
    """Return True if a string of the code contains the name as a whole word."""
    return name.lower() in _words(without)


def contains_name(name: str, without: tuple[str, ...] = NAME_TABLES) -> bool:
    """Return True if a string of the code contains or generates the name.

    A part in angle brackets matches any word. A string that starts with the text before the first such part suffices.
    """
    plain = re.sub("<[^>]*>", "0", name.lower())
    prefix = name.lower().partition("<")[0]
    if prefix != name.lower() and prefix and any(text.startswith(prefix) for text in texts(without)):
        return True
    return has_word(plain, without) or any(pattern.fullmatch(plain) for pattern in _patterns(without))

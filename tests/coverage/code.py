"""What the code names, read from its text: each piece of it that could be the name of a setting or an attribute."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "manual"
ROOMS = ("domain", "projections", "replay", "adapters")
TABLES = ("domain/coverage/", "domain/config/tables/")
"""What lists names without reading them."""
RECORDS = ("adapters/htcondor/", "adapters/importing/", "replay/audit/", "replay/cycles/", "domain/submit/")
"""What reads a name in records of real pools, or writes it into an ad, and follows nothing by that."""

_HOLE = "\0"


def _texts(tree: ast.AST) -> list[str]:
    """The string constants of a module but its docstrings; what an f-string fills in is a hole."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else _HOLE for part in node.values)
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


@cache
def texts(without: tuple[str, ...] = TABLES) -> frozenset[str]:
    """Every text in the code, in small letters, but for the files that begin with one of ``without``."""
    found: set[str] = set()
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if not path.relative_to(ROOT).as_posix().startswith(without):
                found.update(text.lower() for text in _texts(ast.parse(path.read_text(encoding="utf-8"))))
    return frozenset(found)


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

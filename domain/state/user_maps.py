"""User maps: what ``userMap()`` looks names up in.

A map's lines are ``* NAME GROUPS``: a method (``*`` unless ``userMap("map.method", ...)`` names another), a name, what
it is mapped to. A name between slashes is a regular expression (``/.../i``: in any case of letters), in whose groups
``\\1`` stands for what the first bracket found. The first line that fits counts; names without an expression that
follow each other are looked up at once. A map with a prefix flag takes names as prefixes, the longest first.

Source: MapFile.cpp and classad_usermap.cpp of the reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from ..classad.functions_patterns import is_pattern, matched_groups

NAMES: Final = "CLASSAD_USER_MAP_NAMES"
DATA: Final = "CLASSAD_USER_MAPDATA_"
PREFIX: Final = "CLASSAD_USER_MAP_PREFIX_"
EVERY: Final = "*"
"""The method of most lines."""

Entry = Callable[[str], str | None]
"""Says what a name is mapped to; None: to nothing."""
UserMaps = Mapping[str, Entry]
_BLANKS = " \t\n"


NO_MAPS: UserMaps = MappingProxyType({})


def user_maps(settings: Mapping[str, str]) -> UserMaps:
    """The maps that a pool's settings have, by name."""
    given = [
        (name[len(DATA) :], text, settings.get(PREFIX + name[len(DATA) :], "").lower() == "true")
        for name, text in settings.items()
        if name.startswith(DATA)
    ]
    return _maps(tuple(given)) if given else NO_MAPS


@lru_cache(maxsize=16)
def _maps(given: tuple[tuple[str, str, bool], ...]) -> UserMaps:
    found: dict[str, Entry] = {}
    for name, text, is_prefix in given:
        methods = read_map(text, is_prefix=is_prefix)
        found |= {name if method == EVERY else f"{name}.{method}": lookup for method, lookup in methods.items()}
    return MappingProxyType(found)


def read_map(
    text: str, *, is_prefix: bool = False, warn: Callable[[int, str], None] = lambda line, words: None
) -> dict[str, Entry]:
    """The lookup of each method in a map's text; ``warn`` is told of lines that do not count."""
    methods: dict[str, list[tuple[str, str, str | None]]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        method, at, _ = _field(line, 0, False)
        if not method or method.startswith("#"):
            continue
        name, at, flags = _field(line, at, not is_prefix)
        groups, at, _ = _field(line, at, False)
        if not name or not groups:
            warn(number, f"{line.strip()[:60]!r} is no line of a map; write * NAME GROUPS")
            continue
        if flags is not None and not is_pattern(name, flags):
            warn(number, f"/{name[:60]}/ is no regular expression")
            continue
        methods.setdefault(method.lower(), []).append((name, groups, flags))
    return {method: _lookup(list(_entries(lines, is_prefix))) for method, lines in methods.items()}


def _entries(lines: Iterable[tuple[str, str, str | None]], is_prefix: bool) -> Iterator[Entry]:
    names: dict[str, str] = {}
    for name, groups, flags in lines:
        if flags is None:
            if not names:
                yield _by_prefix(names) if is_prefix else _by_name(names)  # it sees the names that follow
            names.setdefault(name, groups)
            continue
        names = {}
        yield _by_pattern(name, flags, groups)


def _lookup(entries: list[Entry]) -> Entry:
    def found(name: str) -> str | None:
        return next((groups for entry in entries if (groups := entry(name)) is not None), None)

    return found


def _by_name(names: Mapping[str, str]) -> Entry:
    def found(name: str) -> str | None:
        groups = names.get(name)
        return None if groups is None else _filled(groups, [name])

    return found


def _by_prefix(names: Mapping[str, str]) -> Entry:
    def found(name: str) -> str | None:
        prefix = max((prefix for prefix in names if name.startswith(prefix)), key=len, default=None)
        return None if prefix is None else _filled(names[prefix], [prefix])

    return found


def _by_pattern(pattern: str, options: str, groups: str) -> Entry:
    def found(name: str) -> str | None:
        matched = matched_groups(pattern, name, options)
        return None if matched is None else _filled(groups, matched)

    return found


def _filled(groups: str, matched: list[str]) -> str:
    """Fill ``\\0`` to ``\\9`` in."""
    if "\\" not in groups:
        return groups

    def part(found: re.Match[str]) -> str:
        number = int(found[1]) if found[1].isdecimal() and found[1].isascii() else len(matched)
        return matched[number] if number < len(matched) else found[0]

    return re.sub(r"\\(.)", part, groups, flags=re.DOTALL)


def _field(line: str, at: int, may_be_pattern: bool) -> tuple[str, int, str | None]:
    """The field of a line that begins at a place, where it ends, and its flags if it is a regular expression."""
    while at < len(line) and line[at] in _BLANKS:
        at += 1
    first = line[at : at + 1]
    end = first if first == '"' or (first == "/" and may_be_pattern) else ""
    if not end:
        stop = at
        while stop < len(line) and line[stop] not in _BLANKS:
            stop += 1
        return line[at:stop], stop, None
    out: list[str] = []
    at += 1
    while at < len(line) and line[at] != end:
        if line[at] == "\\" and at + 1 < len(line):
            at += 1
            out.append(line[at] if line[at] in (end, "\\") else "\\" + line[at])
        else:
            out.append(line[at])
        at += 1
    at += 1
    if end == '"':
        return "".join(out), at, None
    stop = at
    while stop < len(line) and line[stop] in "iU":
        stop += 1
    return "".join(out), stop, line[at:stop]

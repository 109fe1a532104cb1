"""User maps, for ``userMap()``.

A map's lines are ``* NAME GROUPS``: a method (``*``, unless ``userMap("map.method", ...)`` names another), a name, and
the value for this name. A name between slashes is a regular expression (``/.../i`` ignores case), whose first group
replaces ``\\1`` in the value. The first matching line applies; consecutive names that are not regular expressions are
looked up in one dict. In a map with a prefix flag, names are prefixes, and the longest match applies.

Source: MapFile.cpp and classad_usermap.cpp in HTCondor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from ..classad.functions_patterns import first_match, is_pattern

NAMES: Final = "CLASSAD_USER_MAP_NAMES"
DATA: Final = "CLASSAD_USER_MAPDATA_"
PREFIX: Final = "CLASSAD_USER_MAP_PREFIX_"
DEFAULT_METHOD: Final = "*"

Entry = Callable[[str], str | None]
"""A function that returns the value for a name, or None."""
UserMaps = Mapping[str, Entry]
_BLANKS = " \t\n"


NO_MAPS: UserMaps = MappingProxyType({})


def user_maps(settings: Mapping[str, str]) -> UserMaps:
    """Return the maps in a pool's settings, by name."""
    texts = {name[len(DATA) :]: text for name, text in settings.items() if name.startswith(DATA)}
    definitions = [(name, text, settings.get(PREFIX + name, "").lower() == "true") for name, text in texts.items()]
    return _maps(tuple(definitions)) if definitions else NO_MAPS


@lru_cache(maxsize=16)
def _maps(definitions: tuple[tuple[str, str, bool], ...]) -> UserMaps:
    maps: dict[str, Entry] = {}
    for name, text, is_prefix in definitions:
        methods = read_map(text, is_prefix=is_prefix)
        maps |= {name if method == DEFAULT_METHOD else f"{name}.{method}": lookup for method, lookup in methods.items()}
    return MappingProxyType(maps)


def read_map(
    text: str, *, is_prefix: bool = False, warn: Callable[[int, str], None] = lambda line, message: None
) -> dict[str, Entry]:
    """Parse a map and return a lookup function per method. Call ``warn`` for each invalid line."""
    methods: dict[str, list[tuple[str, str, str | None]]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        method, at, _ = _field(line, 0, False)
        if not method or method.startswith("#"):
            continue
        name, at, flags = _field(line, at, not is_prefix)
        groups, at, _ = _field(line, at, False)
        if not name or not groups:
            warn(number, f"{line.strip()[:60]!r} is not a valid line of a map; write * NAME GROUPS")
            continue
        if flags is not None and not is_pattern(name, flags):
            warn(number, f"/{name[:60]}/ is not a valid regular expression")
            continue
        methods.setdefault(method.lower(), []).append((name, groups, flags))
    return {method: _lookup(list(_entries(lines, is_prefix))) for method, lines in methods.items()}


def _entries(lines: Iterable[tuple[str, str, str | None]], is_prefix: bool) -> Iterator[Entry]:
    names: dict[str, str] = {}
    for name, groups, flags in lines:
        if flags is None:
            if not names:
                yield _by_prefix(names) if is_prefix else _by_name(names)  # the next lines add names to this dict
            names.setdefault(name, groups)
            continue
        names = {}
        yield _by_pattern(name, flags, groups)


def _lookup(entries: list[Entry]) -> Entry:
    def first_match(name: str) -> str | None:
        return next((groups for entry in entries if (groups := entry(name)) is not None), None)

    return first_match


def _by_name(names: Mapping[str, str]) -> Entry:
    def lookup(name: str) -> str | None:
        groups = names.get(name)
        return None if groups is None else _expand(groups, [name])

    return lookup


def _by_prefix(names: Mapping[str, str]) -> Entry:
    def lookup(name: str) -> str | None:
        prefix = max((prefix for prefix in names if name.startswith(prefix)), key=len, default=None)
        return None if prefix is None else _expand(names[prefix], [prefix])

    return lookup


def _by_pattern(pattern: str, options: str, groups: str) -> Entry:
    def lookup(name: str) -> str | None:
        matched = first_match(pattern, name, options)
        return None if matched is None else _expand(groups, matched)

    return lookup


def _expand(groups: str, matched: list[str]) -> str:
    """Replace ``\\0`` to ``\\9`` with the matched groups."""
    if "\\" not in groups:
        return groups

    def replacement(escape: re.Match[str]) -> str:
        number = int(escape[1]) if escape[1].isdecimal() and escape[1].isascii() else len(matched)
        return matched[number] if number < len(matched) else escape[0]

    return re.sub(r"\\(.)", replacement, groups, flags=re.DOTALL)


def _field(line: str, at: int, may_be_pattern: bool) -> tuple[str, int, str | None]:
    """Return the field of a line at an index, the index of its end, and its flags if it is a regular expression."""
    while at < len(line) and line[at] in _BLANKS:
        at += 1
    first = line[at : at + 1]
    end = first if first == '"' or (first == "/" and may_be_pattern) else ""
    if not end:
        stop = at
        while stop < len(line) and line[stop] not in _BLANKS:
            stop += 1
        return line[at:stop], stop, None
    letters: list[str] = []
    at += 1
    while at < len(line) and line[at] != end:
        if line[at] == "\\" and at + 1 < len(line):
            at += 1
            letters.append(line[at] if line[at] in (end, "\\") else "\\" + line[at])
        else:
            letters.append(line[at])
        at += 1
    at += 1
    if end == '"':
        return "".join(letters), at, None
    stop = at
    while stop < len(line) and line[stop] in "iU":
        stop += 1
    return "".join(letters), stop, line[at:stop]

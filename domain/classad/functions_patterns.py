"""Built-in functions on regular expressions: PCRE2's, on bytes, as in HTCondor."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from .environment import ENTERING, MAX_STEPS, Ad, Environment
from .function_registry import eager
from .functions_lists import exceptional, items_of, not_strings
from .scalar import member
from .tree import ListValue
from .values import ERROR, UNDEFINED, from_bytes, lower, to_bytes

# Where the binding differs from HTCondor's library: escapes that are errors there, and {,n}, which is text.
_REFUSED_ESCAPES = re.compile(rb"(?:[^\\]|\\[^uULlF])*+\\[uULlF]", re.DOTALL)
_UPPER_BOUND_ONLY = re.compile(rb"\\.|\{(?=,[0-9]+\})", re.DOTALL)


@lru_cache(maxsize=1000)
def _compiled(pattern: str, options: str) -> Any:
    """Compile a pattern; return None where it is invalid. Options: i, m, s, x; U: a repetition takes as little as it
    can."""
    import pcre2

    data = to_bytes(pattern)
    if b"\\" in data and _REFUSED_ESCAPES.match(data):
        return None
    if b"{," in data:
        data = _UPPER_BOUND_ONLY.sub(lambda found: rb"\{" if found[0] == b"{" else found[0], data)
    if "U" in options:
        data = b"(?U)" + data
    flags = 0
    for letter, flag in (("i", pcre2.I), ("m", pcre2.M), ("s", pcre2.S), ("x", pcre2.X)):
        if letter in options:
            flags |= flag
    try:
        return pcre2.compile(data, flags)
    except pcre2.LibraryError:
        return None


_EFFORTS = (("(*LIMIT_MATCH=2000)", 100), ("(*LIMIT_MATCH=100000)", MAX_STEPS // 200), ("", MAX_STEPS // 4))
"""How long to search, and what it costs: the library does not say how long it took. "" is its own limit."""


def _searched(env: Environment, pattern: str, options: str, data: bytes, at: int = 0, method: str = "search") -> Any:
    """Search bytes for a valid pattern; raise pcre2.LibraryError where it hits the library's own limit."""
    import pcre2

    for limit, steps in _EFFORTS:
        env.spend(steps)
        try:
            return getattr(_compiled(limit + pattern, options), method)(data, at)
        except pcre2.LibraryError:
            if not limit:
                raise
    raise AssertionError("the last effort returns or raises")


def matches(env: Environment, pattern: str, text: str, options: str) -> Any:
    """Return True if a pattern is found in a text, False if not, ``ERROR`` where that cannot be said."""
    if _compiled(pattern, options) is None:
        return ERROR
    import pcre2

    try:
        return _searched(env, pattern, options, to_bytes(text)) is not None
    except pcre2.LibraryError:
        return ERROR


def is_pattern(pattern: str, options: str = "") -> bool:
    """Return whether a text is a regular expression."""
    return _compiled(pattern, options) is not None


def matched_groups(pattern: str, text: str, options: str = "") -> list[str] | None:
    """Return what the first match of a pattern found: all of it, then what each bracket found, up to the last that took
    part. None: no match, or no pattern."""
    compiled = _compiled(pattern, options)
    if compiled is None:
        return None
    import pcre2

    try:
        match = compiled.search(to_bytes(text))
    except pcre2.LibraryError:
        return None
    if match is None:
        return None
    groups = match.groups()
    last = max((n for n, group in enumerate(groups, 1) if group is not None), default=0)
    return [from_bytes(group or b"") for group in (match.group(0), *groups[:last])]


def matches_something(env: Environment, pattern: str, text: str) -> bool:
    """Return whether a pattern is found in a text, without case, with a match that is not empty."""
    return matches(env, "(*NOTEMPTY)" + pattern, text, "i") is True


@eager("regexp", 2, 3)
def _regexp(env: Environment, ad: Ad, values: list[Any]) -> Any:
    if (unfit := not_strings(values)) is not None:
        return unfit
    return matches(env, values[0], values[1], values[2] if len(values) == 3 else "")


@eager("regexpmember", 2, 3, members={2: 1, 3: 1})
def _regexp_member(env: Environment, ad: Ad, values: list[Any]) -> Any:
    if (exception := exceptional(values)) is not None:
        return exception
    pattern, members = values[:2]
    options = values[2] if len(values) == 3 else ""
    if type(pattern) is not str or type(options) is not str or type(members) is not ListValue:
        return ERROR
    undefined = False
    for expression in members.expressions:
        text = member(env, ad, members, expression)
        if text is UNDEFINED:
            undefined = True
        elif type(text) is not str:
            return ERROR
        elif matches(env, pattern, text, options) is True:
            return True
    return UNDEFINED if undefined else False


@eager("stringlist_regexpmember", 2, 4)
def _string_list_member(env: Environment, ad: Ad, values: list[Any]) -> Any:
    if any(type(value) is not str for value in values):
        return ERROR
    pattern, text = values[:2]
    options = lower(values[3]) if len(values) == 4 else ""
    if _compiled(pattern, options) is None:
        return ERROR
    items = items_of(text, values[2] if len(values) > 2 else ", ")
    if not items:
        return UNDEFINED
    return any(matches(env, pattern, item, options) is True for item in items)


def _declare_substitution(name: str, always: str) -> None:
    @eager(name, 3, 4)
    def _substitution(env: Environment, ad: Ad, values: list[Any]) -> Any:
        if (unfit := not_strings(values)) is not None:
            return unfit
        pattern, text, replacement = values[:3]
        return substitute(env, pattern, text, replacement, (values[3] if len(values) == 4 else "") + always)


_declare_substitution("regexps", "")
_declare_substitution("replace", "f")
_declare_substitution("replaceall", "fg")


def substitute(env: Environment, pattern: str, text: str, replacement: str, options: str) -> Any:
    """Return the replacement of the first match (option g: of all), within the rest of the text with option f.

    Without f the result is the replacements alone, and each byte stepped over after an empty match. As in HTCondor, a
    global substitution with an empty match at the very end is an error.
    """
    if _compiled(pattern, options) is None:
        return ERROR
    import pcre2

    data, template = to_bytes(text), to_bytes(replacement)
    out: list[bytes] = []
    at, after_empty = 0, False
    while True:
        if at > len(data):
            return ERROR
        try:
            if after_empty:
                # After an empty match, only a non-empty one that begins right here counts.
                match = _searched(env, "(*NOTEMPTY_ATSTART)" + pattern, options, data, at, "match")
            else:
                match = _searched(env, pattern, options, data, at)
        except pcre2.LibraryError:
            return ERROR
        if match is None:
            if not after_empty:
                break
            env.spend(ENTERING)
            out.append(data[at : at + 1])
            at, after_empty = at + 1, False
            continue
        if "f" in options:
            out.append(data[at : match.start()])
        expanded = _expand(template, match)
        if expanded is None:
            return ERROR
        env.spend(ENTERING + len(expanded) // 4)
        out.append(expanded)
        at = match.end()
        after_empty = after_empty or match.start() == match.end()
        if "g" not in options:
            break
    if "f" in options:
        out.append(data[at:])
    return from_bytes(b"".join(out))


_GROUP = re.compile(rb"\\([0-9])")


def _expand(template: bytes, match: Any) -> bytes | None:
    """Fill ``\\0`` to ``\\9`` into the template; None where it names a group beyond the last that took part."""
    groups = match.groups()
    last = max((n for n, group in enumerate(groups, 1) if group is not None), default=0)
    parts = _GROUP.split(template)
    for place in range(1, len(parts), 2):
        number = int(parts[place])
        if number > last:
            return None
        parts[place] = (match.group(0) if number == 0 else groups[number - 1]) or b""
    return b"".join(parts)

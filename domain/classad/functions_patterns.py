"""Built-in functions on regular expressions: PCRE2 on bytes, as in HTCondor."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from .environment import ENTERING, MAX_STEPS, Ad, Environment
from .function_registry import eager
from .functions_lists import exceptional_argument, non_string_result, split_items
from .scalar import evaluate_member
from .tree import ListValue
from .values import ERROR, UNDEFINED, from_bytes, lower, to_bytes

# In HTCondor's version of the library, unlike the Python binding's, these escapes are errors, and {,n} is literal text.
_INVALID_ESCAPES = rb"(?s)(?:[^\\]|\\[^uULlF])*+\\[uULlF]"
_UPPER_BOUND_ONLY = rb"(?s)\\.|\{(?=,[0-9]+\})"


@lru_cache(maxsize=1000)
def _compile(pattern: str, options: str) -> Any:
    """Compile a pattern; return None if it is invalid. The options are i, m, s, x, and U for ungreedy repetition."""
    import pcre2

    data = to_bytes(pattern)
    if b"\\" in data and re.match(_INVALID_ESCAPES, data):
        return None
    if b"{," in data:
        data = re.sub(_UPPER_BOUND_ONLY, lambda match: rb"\{" if match[0] == b"{" else match[0], data)
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


_SEARCH_LIMITS = (("(*LIMIT_MATCH=2000)", 100), ("(*LIMIT_MATCH=100000)", MAX_STEPS // 200), ("", MAX_STEPS // 4))
"""Limits to try in turn for a search, with their costs in steps, because the library does not report its effort. "" is
the library's default limit."""


def _search(env: Environment, pattern: str, options: str, data: bytes, at: int = 0, method: str = "search") -> Any:
    """Search bytes for a valid pattern; raise pcre2.LibraryError if the library's own limit is reached."""
    import pcre2

    for limit, steps in _SEARCH_LIMITS:
        env.deduct_steps(steps)
        try:
            return getattr(_compile(limit + pattern, options), method)(data, at)
        except pcre2.LibraryError:
            if not limit:
                raise
    raise AssertionError("the last effort returns or raises")


def matches(env: Environment, pattern: str, text: str, options: str) -> Any:
    """Check whether a text contains a match of a pattern; return ``ERROR`` if the pattern is invalid or too slow."""
    if _compile(pattern, options) is None:
        return ERROR
    import pcre2

    try:
        return _search(env, pattern, options, to_bytes(text)) is not None
    except pcre2.LibraryError:
        return ERROR


def is_pattern(pattern: str, options: str = "") -> bool:
    """Check whether a text is a valid regular expression."""
    return _compile(pattern, options) is not None


def first_match(pattern: str, text: str, options: str = "") -> list[str] | None:
    """Return the first match of a pattern and its groups, up to the last group that matched; None without a match."""
    compiled = _compile(pattern, options)
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


def has_nonempty_match(env: Environment, pattern: str, text: str) -> bool:
    """Check whether a text contains a nonempty, case-insensitive match of a pattern."""
    return matches(env, "(*NOTEMPTY)" + pattern, text, "i") is True


@eager("regexp", 2, 3)
def _regexp(env: Environment, ad: Ad, values: list[Any]) -> Any:
    if (exception := non_string_result(values)) is not None:
        return exception
    return matches(env, values[0], values[1], values[2] if len(values) == 3 else "")


@eager("regexpmember", 2, 3, members={2: 1, 3: 1})
def _regexp_member(env: Environment, ad: Ad, values: list[Any]) -> Any:
    if (exception := exceptional_argument(values)) is not None:
        return exception
    pattern, members = values[:2]
    options = values[2] if len(values) == 3 else ""
    if type(pattern) is not str or type(options) is not str or type(members) is not ListValue:
        return ERROR
    undefined = False
    for expression in members.expressions:
        text = evaluate_member(env, ad, members, expression)
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
    if _compile(pattern, options) is None:
        return ERROR
    items = split_items(text, values[2] if len(values) > 2 else ", ")
    if not items:
        return UNDEFINED
    return any(matches(env, pattern, item, options) is True for item in items)


def _declare_substitution(name: str, fixed_options: str) -> None:
    @eager(name, 3, 4)
    def _substitution(env: Environment, ad: Ad, values: list[Any]) -> Any:
        if (exception := non_string_result(values)) is not None:
            return exception
        pattern, text, replacement = values[:3]
        return substitute(env, pattern, text, replacement, (values[3] if len(values) == 4 else "") + fixed_options)


_declare_substitution("regexps", "")
_declare_substitution("replace", "f")
_declare_substitution("replaceall", "fg")


def substitute(env: Environment, pattern: str, text: str, replacement: str, options: str) -> Any:
    """Replace the first match or, with option g, all matches; with option f, keep the text between the matches.

    Without f, the result contains only the replacements, and the bytes skipped after empty matches. As in HTCondor, a
    global substitution with an empty match at the end of the text is an error.
    """
    if _compile(pattern, options) is None:
        return ERROR
    import pcre2

    data, template = to_bytes(text), to_bytes(replacement)
    parts: list[bytes] = []
    position, after_empty = 0, False
    while True:
        if position > len(data):
            return ERROR
        try:
            if after_empty:
                # After an empty match, only a nonempty match at the same position counts.
                match = _search(env, "(*NOTEMPTY_ATSTART)" + pattern, options, data, position, "match")
            else:
                match = _search(env, pattern, options, data, position)
        except pcre2.LibraryError:
            return ERROR
        if match is None:
            if not after_empty:
                break
            env.deduct_steps(ENTERING)
            parts.append(data[position : position + 1])
            position, after_empty = position + 1, False
            continue
        if "f" in options:
            parts.append(data[position : match.start()])
        expanded = _expand(template, match)
        if expanded is None:
            return ERROR
        env.deduct_steps(ENTERING + len(expanded) // 4)
        parts.append(expanded)
        position = match.end()
        after_empty = after_empty or match.start() == match.end()
        if "g" not in options:
            break
    if "f" in options:
        parts.append(data[position:])
    return from_bytes(b"".join(parts))


_GROUP = rb"\\([0-9])"


def _expand(template: bytes, match: Any) -> bytes | None:
    """Replace ``\\0`` to ``\\9`` in the template; return None for a group after the last one that matched."""
    groups = match.groups()
    last = max((n for n, group in enumerate(groups, 1) if group is not None), default=0)
    parts = re.split(_GROUP, template)
    for index in range(1, len(parts), 2):
        number = int(parts[index])
        if number > last:
            return None
        parts[index] = (match.group(0) if number == 0 else groups[number - 1]) or b""
    return b"".join(parts)

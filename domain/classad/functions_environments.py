"""Built-in functions on environments and arguments, in HTCondor's two syntaxes, and on user maps and accounts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .argument_syntax import QuotingError, join, split, split_old_environment
from .environment import Ad, Environment
from .function_registry import UNLIMITED, FunctionInputs, eager, lazy
from .functions_lists import split_items, string_list
from .scalar import evaluate_member
from .tree import ListValue
from .values import ERROR, UNDEFINED, EvaluationFailed, lower, to_bytes

_BLANKS = " \t\n\r"
_DELIMITERS = "!#$%&*+,-/:;<>?@^`|~\x1f"


def _split_arguments(line: str) -> list[str] | None:
    try:
        return split(line)
    except QuotingError:
        return None


def _add_entries(table: dict[str, str], entries: Iterable[str]) -> bool:
    """Add NAME=VALUE entries to a table; return False at the first invalid entry."""
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals and "$$" in entry:
            table[entry] = ""  # a macro that is expanded later
            continue
        if not name or not equals:
            return False
        table[name] = equals + value
    return True


def _environment_line(table: dict[str, str]) -> str:
    return join(name + table[name] for name in sorted(table, key=to_bytes))


@eager("envv1tov2", 1)
def _env_v1_to_v2(env: Environment, ad: Ad, values: list[Any]) -> Any:
    (text,) = values
    if type(text) is not str:
        return UNDEFINED if text is UNDEFINED else ERROR
    delimiter = ";"
    if text and text[0] in _DELIMITERS:
        delimiter, text = text[0], text[1:]
    table: dict[str, str] = {}
    return _environment_line(table) if _add_entries(table, split_old_environment(text, delimiter)) else ERROR


@lazy("mergeenvironment", 0, UNLIMITED, needs=FunctionInputs.ARGUMENTS)
def _merge_environment(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    table: dict[str, str] = {}
    for argument in arguments:
        text = argument(env, ad)
        if text is UNDEFINED:
            continue
        entries = _split_arguments(text) if type(text) is str else None
        if entries is None or not _add_entries(table, entries):
            return ERROR
    return _environment_line(table)


def _syntax_version(env: Environment, ad: Ad, arguments: list[Any]) -> int | None:
    """Return the number of the requested syntax, the second argument (evaluated first), or None if it is invalid."""
    version = arguments[1](env, ad) if len(arguments) == 2 else 2
    return version if type(version) is int and version in (1, 2) else None


@lazy("argstolist", 1, 2, needs=FunctionInputs.ARGUMENTS)
def _args_to_list(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    version = _syntax_version(env, ad, arguments)
    if version is None:
        return ERROR
    line = arguments[0](env, ad)
    if type(line) is not str:
        return ERROR
    if version == 2:
        parts = _split_arguments(line)
        return ERROR if parts is None else string_list(parts)
    for blank in _BLANKS[1:]:
        line = line.replace(blank, " ")
    return string_list([argument for argument in line.split(" ") if argument])


@lazy("listtoargs", 1, 2, needs=FunctionInputs.ARGUMENTS)
def _list_to_args(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    version = _syntax_version(env, ad, arguments)
    if version is None:
        return ERROR
    members = arguments[0](env, ad)
    if type(members) is not ListValue:
        return ERROR
    words = [evaluate_member(env, ad, members, expression) for expression in members.expressions]
    if any(type(word) is not str for word in words):
        return ERROR
    if version == 2:
        return join(words)
    if any(blank in word for word in words for blank in _BLANKS):
        return ERROR
    return " ".join(words).lstrip(" ")


@eager("usermap", 2, 4, needs=FunctionInputs.CONTEXT)
def _user_map(env: Environment, ad: Ad, values: list[Any]) -> Any:
    """Evaluate userMap(map, user[, group[, default]]): all groups; with ``group``, that one if listed, or the first."""
    default = values[3] if len(values) == 4 else UNDEFINED
    name, user = values[:2]
    if type(name) is not str or type(user) is not str:
        return ERROR if name is ERROR or user is ERROR else default
    users = env.context.user_maps.get(lower(name))
    groups = None if users is None else users(user) if callable(users) else users.get(user)
    if groups is None:
        return default
    if len(values) == 2:
        return groups
    items = split_items(groups, ",")
    preferred = values[2]
    if type(preferred) is str:
        for item in items:
            if lower(item) == lower(preferred):
                return item
    return items[0] if items else default


@lazy("userhome", 0, UNLIMITED)
def _user_home(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    """Evaluate userHome(user[, default]): the default or undefined if the context has no ``user_home``."""
    if not 1 <= len(arguments) <= 2:
        raise EvaluationFailed("userHome() takes a user and an optional default")
    default: Any = arguments[1](env, ad) if len(arguments) == 2 else ""
    if type(default) is not str:
        default = ""
    user = arguments[0](env, ad)
    if type(user) is not str:
        return default or (UNDEFINED if user is UNDEFINED else ERROR)
    home = None if env.context.user_home is None else env.context.user_home(user)
    return home or default or UNDEFINED

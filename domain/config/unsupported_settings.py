"""Warn of settings of a person that HTCondor knows and Poolbook does not follow.

A file, a template that it uses, or the environment gives them a value other than the default, and no setting that
Poolbook follows refers to them by ``$(NAME)`` or lists them as attributes of slots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from ..coverage.attributes import ability, unadvertised
from ..coverage.settings import DAEMON_LIST, LIMIT_SUFFIX, Names, follower, is_followed, macros, subject, unenforced
from ..macros.macro_errors import MacroError
from ..macros.macros import Definition
from .config_errors import SettingSource
from .param_info import PREDEFINED, is_expression, without_prefix
from .setting_values import Values
from .tables import defaults, without_default


class UnsupportedSetting(Struct, frozen=True):
    """A setting that is not followed."""

    name: str  #: as it was written
    source: SettingSource
    about: str  #: what HTCondor does by it; of one that is ``unenforced``, what it is part of
    unenforced: bool  #: whether it keeps something out of a pool that is let in here


def unsupported_settings(values: Values) -> list[UnsupportedSetting]:
    """Return the settings that a person set and nothing follows, in the order in which they were written."""
    unsupported = []
    used = _used(values)
    for key, definition in _by_a_person(values):
        source = values.source(key)
        if not definition.value.strip() or key in used or without_prefix(key).lower() in used:
            continue
        about = _unenforced(key, values)
        if about:
            unsupported.append(UnsupportedSetting(definition.name, source, about, True))
        elif (not is_supported(key) and is_known(key)) or _lists_other_daemons(key, values):
            unsupported.append(UnsupportedSetting(definition.name, source, subject(without_prefix(key)), False))
    return unsupported


def _lists_other_daemons(key: str, values: Values) -> bool:
    """Return whether this is a DAEMON_LIST that asks for other daemons than a pool here has."""
    return without_prefix(key).upper() == DAEMON_LIST and not is_followed(_expanded(values, key))


def warning(values: Values) -> str:
    """Return one message that names all that a person set without effect; empty: there is nothing."""
    unsupported = unsupported_settings(values)
    idle = [setting for setting in unsupported if not setting.unenforced]
    unenforced = [setting for setting in unsupported if setting.unenforced]
    parts = []
    if idle:
        what = "is a setting" if len(idle) == 1 else "are settings"
        parts.append(f"{_names(idle)} {what} of HTCondor's that Poolbook does not follow yet (docs/coverage.md)")
    if unenforced:
        parts.append(f"{not_enforced(unenforced)}, so that `poolbook serve` asks for -ignore-unenforced")
    if promised := _promised(values):
        parts.append(f"{', '.join(promised)}: slots would advertise what Poolbook cannot do yet")
    parts += [f"{name} reads {', '.join(read)}, which no slot here has" for name, read in _read_in_vain(values)]
    return "; ".join(parts)


def _by_a_person(values: Values) -> list[tuple[str, Definition]]:
    """Return the definitions in files, in templates that these use, and in the environment."""
    definitions = ((key, definition, values.source(key)) for key, definition in values.definitions.items())
    return [
        (key, definition)
        for key, definition, source in definitions
        if source.kind in ("file", "environment") or (source.kind == "template" and source.line)
    ]


def _promised(values: Values) -> list[str]:
    """Return the abilities that a person lists among the slot attributes, and that slots here lack."""
    listed = {
        name.lower(): name
        for key, definition in _by_a_person(values)
        if without_prefix(key).lower() in _LISTS
        for name in _WORD.findall(definition.value)
    }
    defined = {without_prefix(key).lower() for key in values.definitions}
    return [name for key, name in listed.items() if ability(name) and key in defined]


def _read_in_vain(values: Values) -> Iterator[tuple[str, list[str]]]:
    """Yield the policy expressions that read attributes which no slot here has, with their names."""
    own = {without_prefix(key).lower() for key in values.definitions}
    for key, definition in _by_a_person(values):
        if is_expression(key) and is_supported(key):
            names = _WORD.findall(_TEXT.sub("", _expanded(values, key)))
            read = [name for word in dict.fromkeys(names) if (name := unadvertised(word)) and word.lower() not in own]
            if read:
                yield definition.name, read


def _expanded(values: Values, key: str) -> str:
    try:
        return values.value(key) or ""
    except MacroError:
        return values.lookup(key) or ""  # the one who asks for it gets the error


def not_enforced(unenforced: list[UnsupportedSetting]) -> str:
    """Describe settings all of which are ``unenforced``."""
    *first, last = dict.fromkeys(setting.about for setting in unenforced)
    about = f"{', '.join(first)} and {last}" if first else last
    return f"{_names(unenforced)}: Poolbook does not enforce {about} yet, and would let in what they keep out"


_OF_A_TEMPLATE = 2
"""The most settings named of one template."""


def _names(settings: list[UnsupportedSetting]) -> str:
    """Return the names, each once; a used template replaces the names that it defines."""
    by_template: dict[str, list[str]] = {}
    for setting in settings:
        by_template.setdefault(setting.source.used, []).append(setting.name)
    own = by_template.pop("", [])
    return ", ".join([*own, *(f"use {template} ({_shortened(names)})" for template, names in by_template.items())])


def _shortened(names: list[str]) -> str:
    more = len(names) - _OF_A_TEMPLATE
    return ", ".join(names[:_OF_A_TEMPLATE]) + (f" and {more} more" if more > 0 else "")


@lru_cache(maxsize=4096)
def is_supported(name: str) -> bool:
    """Return whether a setting has HTCondor's effect here, whatever daemon or slot its prefix names."""
    return is_limit(name) or any(follower(spelling) is not None for spelling in _spellings(name))


def is_limit(name: str) -> bool:
    """Return whether a setting is the concurrency limit of a resource that a site names."""
    return name.lower().endswith(LIMIT_SUFFIX) and not is_known(name)


@lru_cache(maxsize=4096)
def is_known(name: str) -> bool:
    return any(spelling in _plain_names() or _patterns().get(spelling) for spelling in _spellings(name.lower()))


def _spellings(name: str) -> Iterator[str]:
    """Yield a name as it stands, without its daemon, and without its slot."""
    yield name
    yield name.rpartition(".")[2]
    yield without_prefix(name)


def _unenforced(key: str, values: Values) -> str:
    bare = key.rpartition(".")[2]
    about = unenforced(key) or unenforced(bare)  # a group's name may have a dot, and so has a daemon's own setting
    default = values.defaults.get(bare)
    same = default is not None and default.value == values.definitions[key].value
    return "" if about is None or same else about


@lru_cache(maxsize=1)
def _plain_names() -> frozenset[str]:
    names = {key.rpartition(".")[2] for key in defaults()} | {name.lower() for name in (*PREDEFINED, *macros())}
    return frozenset(names | {name.lower() for name in without_default()})


@lru_cache(maxsize=1)
def _patterns() -> Names[str]:
    return Names({name: name for name in without_default() if "<" in name})


_REFERENCE = re.compile(r"\$\w*\(\s*([\w.]+)")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


def _used(values: Values) -> set[str]:
    """Return the names, in lower case, to which followed settings refer, directly or through others."""
    used: set[str] = set()
    waiting = [key for key in values.definitions if is_supported(key)]
    while waiting:
        key = waiting.pop()
        text = values.lookup(key) or ""
        named = _REFERENCE.findall(text)
        if without_prefix(key).lower() in _LISTS:
            named += _WORD.findall(text)
        fresh = {name.lower() for name in named} - used
        used |= fresh
        waiting += fresh
    return used


_LISTS = frozenset({"startd_attrs", "startd_latch_exprs", "startd_slot_attrs"})
"""Settings that list attributes, each of which is a setting of that name."""

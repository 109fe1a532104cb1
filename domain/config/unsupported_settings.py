"""Warn of HTCondor settings that the user changed but Poolbook does not implement.

A setting is reported if a file, a template that the file uses, or the environment sets it to a value other than the
default. It is not reported if an implemented setting refers to it by ``$(NAME)`` or lists it as a slot attribute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from ..coverage.attributes import absent_attribute, is_missing_capability
from ..coverage.settings import (
    DAEMON_LIST,
    LIMIT_SUFFIX,
    NameTable,
    describe_effect,
    implemented_by,
    is_possible,
    macros,
    restriction,
)
from ..macros.macro_errors import MacroError
from ..macros.macros import Definition
from .config_errors import SettingSource
from .param_info import PREDEFINED, is_expression, without_prefix
from .setting_values import SettingValues
from .tables import defaults, names_without_default


class UnsupportedSetting(Struct, frozen=True):
    """A user's setting that Poolbook does not implement."""

    name: str  #: in its original spelling
    source: SettingSource
    about: str  #: a description of what the setting controls in HTCondor
    unenforced: bool  #: whether HTCondor enforces a restriction by this setting that Poolbook does not


def unsupported_settings(values: SettingValues) -> list[UnsupportedSetting]:
    """Return the user's settings that have no effect, in the order of their definitions."""
    unsupported = []
    referenced = _referenced_names(values)
    for key, definition in _user_definitions(values):
        source = values.source(key)
        if not definition.value.strip() or key in referenced or without_prefix(key).lower() in referenced:
            continue
        about = _describe_restriction(key, values)
        if about:
            unsupported.append(UnsupportedSetting(definition.name, source, about, True))
        elif _is_without_effect(key, values) or _lists_other_daemons(key, values):
            unsupported.append(UnsupportedSetting(definition.name, source, describe_effect(without_prefix(key)), False))
    return unsupported


def _is_without_effect(key: str, values: SettingValues) -> bool:
    if without_prefix(key).lower() == "startd_job_attrs":
        return not set(_expand(values, key).lower().replace(",", " ").split()) <= _PUBLISHED_JOB_ATTRIBUTES
    return not is_supported(key) and is_known(key)


def _lists_other_daemons(key: str, values: SettingValues) -> bool:
    return without_prefix(key).upper() == DAEMON_LIST and not is_possible(_expand(values, key))


def unsupported_warning(values: SettingValues) -> str:
    """Return one message about all of the user's settings that have no effect, or an empty string if there are none."""
    unsupported = unsupported_settings(values)
    idle = [setting for setting in unsupported if not setting.unenforced]
    unenforced = [setting for setting in unsupported if setting.unenforced]
    parts = []
    if idle:
        verb = "has" if len(idle) == 1 else "have"
        parts.append(f"{_list_names(idle)} {verb} no effect: Poolbook does not implement this yet (docs/coverage.md)")
    if unenforced:
        parts.append(f"{describe_unenforced(unenforced)}. `poolbook serve` needs -ignore-unenforced")
    if capabilities := _falsely_advertised_capabilities(values):
        parts.append(f"{', '.join(capabilities)}: slots would advertise what Poolbook does not support")
    parts += [f"{name} reads {', '.join(missing)}, which no slot has" for name, missing in _missing_reads(values)]
    return "; ".join(parts)


def _user_definitions(values: SettingValues) -> list[tuple[str, Definition]]:
    definitions = ((key, definition, values.source(key)) for key, definition in values.definitions.items())
    return [
        (key, definition)
        for key, definition, source in definitions
        if source.kind in ("file", "environment") or (source.kind == "template" and source.line)
    ]


def _falsely_advertised_capabilities(values: SettingValues) -> list[str]:
    """Return the capabilities that the user's settings advertise in slot ads, but that Poolbook's slots do not have."""
    listed = {
        name.lower(): name
        for key, definition in _user_definitions(values)
        if without_prefix(key).lower() in _ATTRIBUTE_LISTS
        for name in _WORD.findall(definition.value)
    }
    defined = {without_prefix(key).lower() for key in values.definitions}
    return [name for key, name in listed.items() if is_missing_capability(name) and key in defined]


def _missing_reads(values: SettingValues) -> Iterator[tuple[str, list[str]]]:
    """Yield each policy expression that reads attributes which no slot has, with these attributes."""
    defined = {without_prefix(key).lower() for key in values.definitions}
    for key, definition in _user_definitions(values):
        if is_expression(key) and is_supported(key):
            names = _WORD.findall(_STRING.sub("", _expand(values, key)))
            missing = [
                name
                for word in dict.fromkeys(names)
                if (name := absent_attribute(word)) and word.lower() not in defined
            ]
            if missing:
                yield definition.name, missing


def _expand(values: SettingValues, key: str) -> str:
    try:
        return values.value(key) or ""
    except MacroError:
        return values.lookup(key) or ""  # the code that uses the setting raises the error


def describe_unenforced(settings: list[UnsupportedSetting]) -> str:
    """Describe settings that are all ``unenforced``."""
    *first, last = dict.fromkeys(setting.about for setting in settings)
    about = f"{', '.join(first)} and {last}" if first else last
    return f"{_list_names(settings)}: Poolbook does not enforce {about} yet, and would allow what HTCondor rejects"


_MAX_TEMPLATE_NAMES = 2
"""The maximum number of settings of one template that a message lists."""


def _list_names(settings: list[UnsupportedSetting]) -> str:
    by_template: dict[str, list[str]] = {}
    for setting in settings:
        by_template.setdefault(setting.source.used, []).append(setting.name)
    others = by_template.pop("", [])
    return ", ".join([*others, *(f"use {template} ({_shorten(names)})" for template, names in by_template.items())])


def _shorten(names: list[str]) -> str:
    hidden = len(names) - _MAX_TEMPLATE_NAMES
    return ", ".join(names[:_MAX_TEMPLATE_NAMES]) + (f" and {hidden} more" if hidden > 0 else "")


@lru_cache(maxsize=4096)
def is_supported(name: str) -> bool:
    """Check whether Poolbook implements a setting, regardless of its prefix for a daemon or slot."""
    return is_limit(name) or any(implemented_by(spelling) is not None for spelling in _spellings(name))


def is_limit(name: str) -> bool:
    """Check whether a setting is the concurrency limit of a custom resource."""
    return name.lower().endswith(LIMIT_SUFFIX) and not is_known(name)


@lru_cache(maxsize=4096)
def is_known(name: str) -> bool:
    return any(spelling in _plain_names() or _patterns().get(spelling) for spelling in _spellings(name.lower()))


def _spellings(name: str) -> Iterator[str]:
    yield name
    yield name.rpartition(".")[2]
    yield without_prefix(name)


def _describe_restriction(key: str, values: SettingValues) -> str:
    base_name = key.rpartition(".")[2]
    about = restriction(key) or restriction(base_name)  # a dot may be part of a group name
    default = values.defaults.get(base_name)
    is_default = default is not None and default.value == values.definitions[key].value
    return "" if about is None or is_default else about


@lru_cache(maxsize=1)
def _plain_names() -> frozenset[str]:
    names = {key.rpartition(".")[2] for key in defaults()} | {name.lower() for name in (*PREDEFINED, *macros())}
    return frozenset(names | {name.lower() for name in names_without_default()})


@lru_cache(maxsize=1)
def _patterns() -> NameTable[str]:
    return NameTable({name: name for name in names_without_default() if "<" in name})


_REFERENCE = re.compile(r"\$\w*\(\s*([\w.]+)")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def _referenced_names(values: SettingValues) -> set[str]:
    referenced: set[str] = set()
    pending = [key for key in values.definitions if is_supported(key)]
    while pending:
        key = pending.pop()
        text = values.lookup(key) or ""
        mentioned = _REFERENCE.findall(text)
        if without_prefix(key).lower() in _ATTRIBUTE_LISTS | _JOB_ATTRIBUTE_LISTS:
            mentioned += _WORD.findall(text)
        new_names = {name.lower() for name in mentioned} - referenced
        referenced |= new_names
        pending += new_names
    return referenced


_PUBLISHED_JOB_ATTRIBUTES = frozenset({"gpususage", "gpusmemoryusage"})
"""The job attributes that a slot publishes without STARTD_JOB_ATTRS, as far as jobs have them (none has GPUsUsage)."""
_ATTRIBUTE_LISTS = frozenset({"startd_attrs", "startd_latch_exprs", "startd_slot_attrs"})
"""Settings that list attributes of slots, each of which is also the name of a setting."""
_JOB_ATTRIBUTE_LISTS = frozenset({"submit_attrs", "submit_exprs", "system_submit_attrs"})
"""Settings that list attributes of jobs in the same way."""

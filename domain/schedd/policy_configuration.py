"""The schedd settings that are implemented: transforms and requirements, guarded attributes, limits, user maps.

A transform is stored as written, with the configuration's values of the macros that it refers to. User maps are stored
as lines, including the lines of included files.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

from ..classad import ClassAdSyntaxError
from ..classad.old_form import expression_text
from ..config import Configuration
from ..events import Ad
from ..macros.macros import macros_in
from ..state import user_maps
from ..state.pool_settings import (
    ATTRIBUTE_LISTS,
    JOB_LIMITS,
    MAIL_SETTINGS,
    PERIODIC_SETTINGS,
    SCHEDD_NUMBERS,
    SET_TO_EMPTY,
    START_SETTINGS,
    TRANSFER_LIMITS,
    invalid_value,
)
from .job_transforms import VARIABLES, TransformError, faults
from .submit_policy import transform_of

Warn = Callable[[str], None]
"""Is called with a warning for each setting without effect."""
DAEMONS = ("SCHEDD", "STARTD", "NEGOTIATOR", "COLLECTOR", "SUBMIT", "TOOL")
_FUNCTIONS = frozenset({"INT", "REAL", "STRING", "EVAL", "CHOICE", "SUBSTR", "BASENAME", "DIRNAME", "ENV"})
_OWN_TEMPLATE = "FEATURE:PelicanRetryPolicy"
"""HTCondor uses this template by default, for jobs that transfer files with Pelican (not supported here)."""

_OWN_COOL_DOWN = "? PelicanRetryDelay : ("
"""The start of the template's cool-down; the configured one, or 0, follows."""


def schedd_policy(configuration: Configuration, warn: Warn) -> Ad:
    """Return all of these settings that are set.

    :param configuration: as the schedd has it
    :raises ConfigError: an invalid value, with its place
    """
    return {
        **_transforms(configuration, warn),
        **_requirements(configuration, warn),
        **_guards(configuration),
        **_starts(configuration, warn),
        **_periodic(configuration, warn),
        **_most_moved(configuration, warn),
        **_maps(configuration, warn),
        **{name: text for name in MAIL_SETTINGS if (text := _set_text(configuration, name))},
    }


def _given(configuration: Configuration, name: str) -> bool:
    """Check whether a setting was set."""
    source = configuration.source(name)
    return source.kind != "default" and not (source.kind == "template" and _is_own(source.used, source.line))


def _is_own(used: str, line: int) -> bool:
    return used == _OWN_TEMPLATE and not line


def _set_text(configuration: Configuration, name: str) -> str:
    """Return what was set; empty: nothing."""
    return configuration.get(name).strip() if _given(configuration, name) else ""


def _words(configuration: Configuration, name: str) -> list[str]:
    return list(dict.fromkeys(configuration.get(name).replace(",", " ").split()))


# Transforms


def _transforms(configuration: Configuration, warn: Warn) -> Ad:
    if configuration.source("JOB_TRANSFORM_NAMES").kind == "default":
        return {}
    settings: Ad = {}
    names = []
    for name in _words(configuration, "JOB_TRANSFORM_NAMES"):
        setting = f"JOB_TRANSFORM_{name}"
        text = (configuration.raw(setting) or "").strip()
        if name.upper() == "NAMES" or not _given(configuration, setting):
            if not text:
                warn(f"{setting} is not defined: define it, or remove {name} from JOB_TRANSFORM_NAMES")
            continue
        try:
            for fault in faults(transform_of(name, text)):
                warn(f"{setting}: {fault}")
        except (TransformError, ClassAdSyntaxError) as error:
            _ignored(configuration, setting, "transform", error, warn)
            continue
        names.append(name)
        settings[setting] = text
    if names:
        settings |= {f"$({name})": text for name, text in _macros(configuration, list(settings.values())).items()}
        settings["JOB_TRANSFORM_NAMES"] = ", ".join(names)
    return settings


def _macros(configuration: Configuration, texts: list[str]) -> Ad:
    """Return the configuration's values of the macros that texts refer to, directly or not."""
    macros: Ad = {}
    pending = list(texts)
    while pending:
        for name in _referred(pending.pop()):
            key = name.lower()
            if key in macros or key in VARIABLES or key.startswith("my."):
                continue
            text = configuration.raw(name)
            if text:
                macros[key] = text
                pending.append(text)
    return {name: macros[name] for name in sorted(macros)}


def _referred(text: str) -> Iterator[str]:
    for macro in macros_in(text, _FUNCTIONS):
        if macro.default:
            yield from _referred(macro.default)
        yield from (part.strip() for part in macro.body.split(",")[:1] if re.fullmatch(r"[\w./]+", part.strip()))
    yield from re.findall(r"defined\s+([A-Za-z_][\w.]*)", text, re.IGNORECASE)


# Requirements, guarded attributes, limits


def _requirements(configuration: Configuration, warn: Warn) -> Ad:
    settings: Ad = {}
    names = []
    for name in _words(configuration, "SUBMIT_REQUIREMENT_NAMES"):
        setting = f"SUBMIT_REQUIREMENT_{name}"
        if name == "NAMES" or not configuration.get(setting).strip():
            warn(f"{setting} is not defined: define it, or remove {name} from SUBMIT_REQUIREMENT_NAMES")
            continue
        both = (setting, f"{setting}_REASON")
        texts = {one: _valid(configuration, one, configuration.get(one), warn) for one in both}
        if not texts[setting]:
            continue
        names.append(name)
        settings |= {one: expression_text(text) for one, text in texts.items() if text}
        if configuration.boolean(f"{setting}_IS_WARNING", False):
            settings[f"{setting}_IS_WARNING"] = "true"
    if names:
        settings["SUBMIT_REQUIREMENT_NAMES"] = ", ".join(names)
    return settings


def _guards(configuration: Configuration) -> Ad:
    settings = {
        name: configuration.get(name).strip() or SET_TO_EMPTY
        for name in ATTRIBUTE_LISTS
        if configuration.source(name).kind != "default"
    }
    if configuration.source("IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS").kind != "default":
        settings["IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS"] = (
            "true" if configuration.boolean("IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS", True) else "false"
        )
    for name in JOB_LIMITS:
        if configuration.source(name).kind != "default" and configuration.get(name).strip():
            number = configuration.integer(name, 0)
            if number < 0:
                raise configuration.error(name, f"{name}: {number} is no number of jobs")
            settings[name] = str(number)
    return settings


def _starts(configuration: Configuration, warn: Warn) -> Ad:
    """Return the conditions for the start of local and scheduler universe jobs."""
    given = ((name, _set_text(configuration, name)) for name, _ in START_SETTINGS.values())
    return {name: text for name, each in given if (text := _valid(configuration, name, each, warn))}


# Periodic policies


def _periodic(configuration: Configuration, warn: Warn) -> Ad:
    """Return the policies for all jobs, as written: HTCondor quotes them in its reasons."""
    settings: Ad = {}
    for policy in PERIODIC_SETTINGS:
        names = [name for name in _words(configuration, f"{policy}_NAMES") if name.upper() != "NAMES"]
        for setting in (*(f"{policy}_{name}" for name in names), policy):
            if not _given(configuration, setting) or not configuration.get(setting).strip():
                if setting != policy:
                    warn(f"{setting} is not defined: define it, or remove it from {policy}_NAMES")
                continue
            for each in (setting, f"{setting}_REASON", f"{setting}_SUBCODE"):
                if text := _valid(configuration, each, configuration.get(each), warn):
                    settings[each] = text
                elif each == setting:
                    break
        known = [name for name in names if f"{policy}_{name}" in settings]
        if known:
            settings[f"{policy}_NAMES"] = ", ".join(known)
    if text := _valid(configuration, "SYSTEM_ON_VACATE_COOL_DOWN", _cool_down(configuration), warn):
        settings["SYSTEM_ON_VACATE_COOL_DOWN"] = text
    return settings | _periodic_pace(configuration)


def _cool_down(configuration: Configuration) -> str:
    """Return what was set for the cool-down; empty: nothing. HTCondor's own template wraps that expression."""
    text = configuration.get("SYSTEM_ON_VACATE_COOL_DOWN").strip()
    if _given(configuration, "SYSTEM_ON_VACATE_COOL_DOWN"):
        return text
    behind = text.partition(_OWN_COOL_DOWN)[2].removesuffix("))").strip()
    return "" if behind == "0" else behind


def _valid(configuration: Configuration, name: str, text: str, warn: Warn) -> str:
    """Return the text of an expression; for an invalid one warn and return an empty text, since the schedd ignores
    it."""
    try:
        return text.strip() if text.strip() and expression_text(text.strip()) else ""
    except ClassAdSyntaxError as error:
        _ignored(configuration, name, "expression", error, warn)
        return ""


def _ignored(configuration: Configuration, name: str, kind: str, error: Exception, warn: Warn) -> None:
    source = configuration.source(name)
    reason = str(error).partition("\n")[0]
    place = f"{source.file}:{source.line}: " if source.line else ""
    warn(f"{place}{name} is not a valid {kind} and is ignored, as in HTCondor: {reason}")


def _periodic_pace(configuration: Configuration) -> Ad:
    paces: Ad = {}
    for name in SCHEDD_NUMBERS:
        text = configuration.get(name).strip()
        if configuration.source(name).kind == "default" or not text:
            continue
        paces[name] = text if name == "PERIODIC_EXPR_TIMESLICE" else str(configuration.integer(name, 0))
        if problem := invalid_value(name, paces[name]):
            rule = problem.partition(": ")[2]
            raise configuration.error(name, f"{name}: {rule}")
    if configuration.source("GRACEFULLY_REMOVE_JOBS").kind != "default":
        paces["GRACEFULLY_REMOVE_JOBS"] = "true" if configuration.boolean("GRACEFULLY_REMOVE_JOBS", True) else "false"
    return paces


# File transfer


def _most_moved(configuration: Configuration, warn: Warn) -> Ad:
    given = (
        (name, configuration.get(name)) for name in TRANSFER_LIMITS if configuration.source(name).kind != "default"
    )
    return {name: expression_text(text) for name, each in given if (text := _valid(configuration, name, each, warn))}


# User maps


def _maps(configuration: Configuration, warn: Warn) -> Ad:
    """Return the maps of all daemons: the pool is one program, and all of its expressions can use them."""
    lists = [user_maps.NAMES, *(f"{daemon}_{user_maps.NAMES}" for daemon in DAEMONS)]
    names = dict.fromkeys(name for setting in lists for name in _words(configuration, setting))
    maps: Ad = {}
    for name in names:
        file, data = f"CLASSAD_USER_MAPFILE_{name}", f"{user_maps.DATA}{name}"
        path = configuration.get(file).strip()
        if path:
            text = _file(configuration, file, path)
        else:
            text = configuration.get(data)
            if not text.strip():
                warn(f"the user map {name} has no lines: neither {file} nor {data} is set")
                continue
            text = _whole(configuration, data, text, "")
        if configuration.boolean(f"{user_maps.PREFIX}{name}", False):
            maps[f"{user_maps.PREFIX}{name}"] = "true"
        _check(file if path else data, text, warn)
        maps[data] = text.strip("\n")
    if maps:
        maps[user_maps.NAMES] = ", ".join(name for name in names if f"{user_maps.DATA}{name}" in maps)
    return maps


def _file(configuration: Configuration, setting: str, path: str) -> str:
    try:
        text = configuration.file(path)
    except OSError as error:
        message = f"the user map {path} cannot be read: {error.strerror or error}"
        raise configuration.error(setting, f"{setting}: {message}") from None
    return _whole(configuration, setting, text, path)


def _whole(configuration: Configuration, setting: str, text: str, path: str) -> str:
    """Return the lines of a map and of its included files; ``path``: the map's own file, if it has one."""
    try:
        return "\n".join(_lines(text, path, configuration.file))
    except OSError as error:
        message = f"{error.filename or 'a file'}, which it includes, cannot be read: {error.strerror or error}"
        raise configuration.error(setting, f"{setting}: {message}") from None


_INCLUDE = re.compile(r"[ \t]*@include[ \t]+(?:\"([^\"]*)\"|(\S+))\s*")


def _lines(text: str, path: str, read: Callable[[str], str]) -> Iterator[str]:
    """Yield the lines of a map and of its included files. Includes in included files are ignored."""
    for line in text.split("\n"):
        match = _INCLUDE.fullmatch(line)
        if match is None:
            yield line
            continue
        included = posixpath.join(posixpath.dirname(path), match[1] or match[2])
        yield from (each for each in read(included).split("\n") if not _INCLUDE.fullmatch(each))


def _check(setting: str, text: str, warn: Warn) -> None:
    user_maps.read_map(text, warn=lambda line, words: warn(f"{setting}, line {line}: {words}"))

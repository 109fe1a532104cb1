"""The settings of the schedd that are implemented: transforms, requirements, protected attributes, limits, user maps.

A transform is stored unchanged, together with the configuration's values of the macros it refers to. A user map is
stored as lines, with included files inserted.
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
    MACHINE_ATTRIBUTES,
    MAIL_SETTINGS,
    PERIODIC_SETTINGS,
    ROUNDING,
    SCHEDD_NUMBERS,
    SET_TO_EMPTY,
    START_SETTINGS,
    TRANSFER_LIMITS,
    USE_JOBSETS,
    invalid_value,
)
from .job_transforms import PREDEFINED_MACROS, TransformError, transform_problems
from .submit_policy import parse_transform

Warn = Callable[[str], None]
"""A function that is called with a warning for each setting without effect."""
DAEMONS = ("SCHEDD", "STARTD", "NEGOTIATOR", "COLLECTOR", "SUBMIT", "TOOL")
_FUNCTIONS = frozenset({"INT", "REAL", "STRING", "EVAL", "CHOICE", "SUBSTR", "BASENAME", "DIRNAME", "ENV"})
_DEFAULT_TEMPLATE = "FEATURE:PelicanRetryPolicy"
"""HTCondor's default template, for file transfers with Pelican, which Poolbook does not support."""

_DEFAULT_COOL_DOWN = "? PelicanRetryDelay : ("
"""The beginning of the template's cool-down; the configured expression, or 0, follows it."""


def schedd_policy(configuration: Configuration, warn: Warn) -> Ad:
    """Return those implemented settings that are set.

    :param configuration: the configuration of the schedd
    :raises ConfigError: if a value is invalid
    """
    return {
        **_transforms(configuration, warn),
        **_requirements(configuration, warn),
        **_attribute_lists(configuration),
        **_rounding_rules(configuration),
        **_start_conditions(configuration, warn),
        **_periodic_policies(configuration, warn),
        **_transfer_limits(configuration, warn),
        **_user_maps(configuration, warn),
        **{name: text for name in MAIL_SETTINGS if (text := _set_text(configuration, name))},
    }


def _is_set(configuration: Configuration, name: str) -> bool:
    source = configuration.source(name)
    if source.kind == "template":
        return source.used != _DEFAULT_TEMPLATE or bool(source.line)
    return source.kind != "default"


def _set_text(configuration: Configuration, name: str) -> str:
    return configuration.get(name).strip() if _is_set(configuration, name) else ""


def _list_of(configuration: Configuration, name: str) -> list[str]:
    return list(dict.fromkeys(configuration.get(name).replace(",", " ").split()))


# Transforms


def _transforms(configuration: Configuration, warn: Warn) -> Ad:
    if configuration.source("JOB_TRANSFORM_NAMES").kind == "default":
        return {}
    settings: Ad = {}
    names = []
    for name in _list_of(configuration, "JOB_TRANSFORM_NAMES"):
        setting = f"JOB_TRANSFORM_{name}"
        text = (configuration.raw_value(setting) or "").strip()
        if name.upper() == "NAMES" or not _is_set(configuration, setting):
            if not text:
                warn(f"{setting} is not defined: define it, or remove {name} from JOB_TRANSFORM_NAMES")
            continue
        try:
            for problem in transform_problems(parse_transform(name, text)):
                warn(f"{setting}: {problem}")
        except (TransformError, ClassAdSyntaxError) as error:
            _warn_ignored(configuration, setting, "transform", error, warn)
            continue
        names.append(name)
        settings[setting] = text
    if names:
        settings |= {f"$({name})": text for name, text in _macros(configuration, list(settings.values())).items()}
        settings["JOB_TRANSFORM_NAMES"] = ", ".join(names)
    return settings


def _macros(configuration: Configuration, texts: list[str]) -> Ad:
    macros: Ad = {}
    pending = list(texts)
    while pending:
        for name in _referenced_names(pending.pop()):
            key = name.lower()
            if key in macros or key in PREDEFINED_MACROS or key.startswith("my."):
                continue
            text = configuration.raw_value(name)
            if text:
                macros[key] = text
                pending.append(text)
    return {name: macros[name] for name in sorted(macros)}


def _referenced_names(text: str) -> Iterator[str]:
    for macro in macros_in(text, _FUNCTIONS):
        if macro.default:
            yield from _referenced_names(macro.default)
        yield from (part.strip() for part in macro.body.split(",")[:1] if re.fullmatch(r"[\w./]+", part.strip()))
    yield from re.findall(r"defined\s+([A-Za-z_][\w.]*)", text, re.IGNORECASE)


# Requirements, protected attributes, limits


def _requirements(configuration: Configuration, warn: Warn) -> Ad:
    settings: Ad = {}
    names = []
    for name in _list_of(configuration, "SUBMIT_REQUIREMENT_NAMES"):
        setting = f"SUBMIT_REQUIREMENT_{name}"
        if name == "NAMES" or not configuration.get(setting).strip():
            warn(f"{setting} is not defined: define it, or remove {name} from SUBMIT_REQUIREMENT_NAMES")
            continue
        setting_names = (setting, f"{setting}_REASON")
        texts = {key: valid_expression(configuration, key, configuration.get(key), warn) for key in setting_names}
        if not texts[setting]:
            continue
        names.append(name)
        settings |= {key: expression_text(text) for key, text in texts.items() if text}
        if configuration.boolean(f"{setting}_IS_WARNING", False):
            settings[f"{setting}_IS_WARNING"] = "true"
    if names:
        settings["SUBMIT_REQUIREMENT_NAMES"] = ", ".join(names)
    return settings


def _attribute_lists(configuration: Configuration) -> Ad:
    lists = (*ATTRIBUTE_LISTS, MACHINE_ATTRIBUTES)
    names = [name for name in lists if configuration.source(name).kind != "default"]
    settings = {name: configuration.get(name).strip() or SET_TO_EMPTY for name in names}
    if configuration.boolean(USE_JOBSETS, False):
        settings[USE_JOBSETS] = "true"
    if configuration.source("IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS").kind != "default":
        ignores = configuration.boolean("IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS", True)
        settings["IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS"] = "true" if ignores else "false"
    for name in JOB_LIMITS:
        if configuration.source(name).kind != "default" and configuration.get(name).strip():
            number = configuration.integer(name, 0)
            if number < 0:
                raise configuration.error(name, f"{name}: {number} is not a number of jobs; use 0 or more")
            settings[name] = str(number)
    return settings


def _rounding_rules(configuration: Configuration) -> Ad:
    rules: Ad = {}
    for name in configuration.assigned_names():
        attribute = re.sub(f"(?i)^(SCHEDD[.])?{ROUNDING}", "", name)
        if attribute == name:
            continue
        setting = f"{ROUNDING}{attribute}"
        rules[setting] = configuration.get(setting).strip() or SET_TO_EMPTY
        if problem := invalid_value(setting, rules[setting]):
            raise configuration.error(setting, problem)
    return rules


def _start_conditions(configuration: Configuration, warn: Warn) -> Ad:
    texts_set = ((name, _set_text(configuration, name)) for name, _ in START_SETTINGS.values())
    return {name: text for name, raw in texts_set if (text := valid_expression(configuration, name, raw, warn))}


# Periodic policies


def _periodic_policies(configuration: Configuration, warn: Warn) -> Ad:
    """Return the policies for all jobs. Their texts are unchanged, because HTCondor quotes them in hold reasons."""
    settings: Ad = {}
    for policy in PERIODIC_SETTINGS:
        names = [name for name in _list_of(configuration, f"{policy}_NAMES") if name.upper() != "NAMES"]
        for setting in (*(f"{policy}_{name}" for name in names), policy):
            if not _is_set(configuration, setting) or not configuration.get(setting).strip():
                if setting != policy:
                    warn(f"{setting} is not defined: define it, or remove it from {policy}_NAMES")
                continue
            for setting_name in (setting, f"{setting}_REASON", f"{setting}_SUBCODE"):
                if text := valid_expression(configuration, setting_name, configuration.get(setting_name), warn):
                    settings[setting_name] = text
                elif setting_name == setting:
                    break
        defined_names = [name for name in names if f"{policy}_{name}" in settings]
        if defined_names:
            settings[f"{policy}_NAMES"] = ", ".join(defined_names)
    if text := valid_expression(configuration, "SYSTEM_ON_VACATE_COOL_DOWN", _cool_down(configuration), warn):
        settings["SYSTEM_ON_VACATE_COOL_DOWN"] = text
    return settings | _policy_pace(configuration)


def _cool_down(configuration: Configuration) -> str:
    """Return the configured cool-down, which HTCondor's default template wraps; empty if none is configured."""
    text = configuration.get("SYSTEM_ON_VACATE_COOL_DOWN").strip()
    if _is_set(configuration, "SYSTEM_ON_VACATE_COOL_DOWN"):
        return text
    inner_text = text.partition(_DEFAULT_COOL_DOWN)[2].removesuffix("))").strip()
    return "" if inner_text == "0" else inner_text


def valid_expression(configuration: Configuration, name: str, text: str, warn: Warn) -> str:
    """Return an expression's text. If it is invalid, warn and return an empty string, because the schedd ignores it."""
    try:
        return text.strip() if text.strip() and expression_text(text.strip()) else ""
    except ClassAdSyntaxError as error:
        _warn_ignored(configuration, name, "expression", error, warn)
        return ""


def _warn_ignored(configuration: Configuration, name: str, kind: str, error: Exception, warn: Warn) -> None:
    source = configuration.source(name)
    reason = str(error).partition("\n")[0]
    place = f"{source.file}:{source.line}: " if source.line else ""
    warn(f"{place}{name} is not a valid {kind} and is ignored, as in HTCondor: {reason}")


def _policy_pace(configuration: Configuration) -> Ad:
    paces: Ad = {}
    for name in SCHEDD_NUMBERS:
        text = configuration.get(name).strip()
        if not configuration.is_assigned(name) or not text:
            continue
        paces[name] = text if name == "PERIODIC_EXPR_TIMESLICE" else str(configuration.integer(name, 0))
        if problem := invalid_value(name, paces[name]):
            rule = problem.partition(": ")[2]
            raise configuration.error(name, f"{name}: {rule}")
    if managers := _list_of(configuration, "FLOCK_TO"):
        paces["FLOCK_TO"] = " ".join(managers)
    for name in ("GRACEFULLY_REMOVE_JOBS", "FLOCK_BY_DEFAULT"):
        if configuration.source(name).kind != "default":
            paces[name] = "true" if configuration.boolean(name, True) else "false"
    return paces


# File transfer


def _transfer_limits(configuration: Configuration, warn: Warn) -> Ad:
    texts = ((key, configuration.get(key)) for key in TRANSFER_LIMITS if configuration.source(key).kind != "default")
    valid_texts = {key: valid_expression(configuration, key, raw, warn) for key, raw in texts}
    return {key: expression_text(text) for key, text in valid_texts.items() if text}


# User maps


def _user_maps(configuration: Configuration, warn: Warn) -> Ad:
    """Return the user maps of all daemons, because any expression in the pool can use them."""
    lists = [user_maps.NAMES, *(f"{daemon}_{user_maps.NAMES}" for daemon in DAEMONS)]
    names = dict.fromkeys(name for setting in lists for name in _list_of(configuration, setting))
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
            text = _complete_map(configuration, data, text, "")
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
    return _complete_map(configuration, setting, text, path)


def _complete_map(configuration: Configuration, setting: str, text: str, path: str) -> str:
    """Return the lines of a map, with included files inserted; ``path`` is the map's file, if it has one."""
    try:
        return "\n".join(_lines(text, path, configuration.file))
    except OSError as error:
        message = f"{error.filename or 'a file'}, which it includes, cannot be read: {error.strerror or error}"
        raise configuration.error(setting, f"{setting}: {message}") from None


_INCLUDE = re.compile(r"[ \t]*@include[ \t]+(?:\"([^\"]*)\"|(\S+))\s*")


def _lines(text: str, path: str, read: Callable[[str], str]) -> Iterator[str]:
    """Yield the lines of a map and its included files. Include lines in included files are ignored."""
    for line in text.split("\n"):
        match = _INCLUDE.fullmatch(line)
        if match is None:
            yield line
            continue
        included = posixpath.join(posixpath.dirname(path), match[1] or match[2])
        yield from (setting_name for setting_name in read(included).split("\n") if not _INCLUDE.fullmatch(setting_name))


def _check(setting: str, text: str, warn: Warn) -> None:
    user_maps.read_map(text, warn=lambda line, words: warn(f"{setting}, line {line}: {words}"))

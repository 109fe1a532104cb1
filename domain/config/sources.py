"""Read the sources of a configuration, in HTCondor's order.

Detected names come first; then the files, their local files, the environment (``_CONDOR_NAME``), names that nobody may
override (HOSTNAME ...), and ``AUTO_USE_CATEGORY_NAME``. Source: as ``config_reader``'s; for the order, HTCondor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..macros.macro_errors import MacroError
from ..macros.macros import CircleError
from .checks import misspelled, policy_errors
from .config_errors import DETECTED, ENVIRONMENT, ConfigError, SettingSource
from .config_reader import ConfigConditions, ConfigFiles, ConfigReader
from .configuration import Configuration
from .param_info import PREDEFINED, is_expression
from .setting_values import Values
from .tables import defaults, templates
from .unsupported_settings import warning


class NoConfigFiles:
    """An empty disk."""

    def read(self, path: str) -> str:
        raise FileNotFoundError(2, "No such file or directory", path)

    def listing(self, path: str) -> list[str]:
        return []

    def run(self, command: str) -> str:
        raise FileNotFoundError(2, "No commands can be run here", command)

    def write(self, path: str, text: str) -> None:
        raise PermissionError(1, "Nothing can be written here", path)


def read(
    text_or_sources: str | Sequence[tuple[str, str]],
    *,
    files: ConfigFiles | None = None,
    environment: Mapping[str, str] | None = None,
    detected: Mapping[str, str] | None = None,
    subsystem: str = "STARTD",
    local_name: str = "",
    seed: int = 0,
) -> Configuration:
    """Read a configuration.

    :param text_or_sources: a text, or several as (name, text), each later one overriding those before
    :param files: for ``include`` and LOCAL_CONFIG_FILE; without it there are none
    :param environment: for ``$ENV()`` and ``_CONDOR_NAME``
    :param detected: detected names: DETECTED_CPUS, DETECTED_MEMORY, HOSTNAME, FULL_HOSTNAME, ARCH, OPSYS ... If
        DETECTED_CPUS_LIMIT is among them, the environment does not limit the cores
    :param subsystem: whose ``SUBSYSTEM.NAME`` counts
    :param seed: for ``$RANDOM_INTEGER()`` and ``$RANDOM_CHOICE()``
    :raises ConfigError: for unreadable text, circular macros, or an invalid policy expression; with file and line
    """
    given = dict(environment or {})
    settings = {**(detected or {}), "SUBSYSTEM": subsystem, "LOCALNAME": local_name or subsystem}
    values = Values(given, subsystem, local_name, seed)
    warnings: list[str] = []
    reader = ConfigReader(values, files or NoConfigFiles(), warnings.append)
    for name, value in settings.items():
        values.put(name, value, DETECTED)
    physical = settings.get("DETECTED_PHYSICAL_CPUS", "")
    grants = {} if "DETECTED_CPUS_LIMIT" in settings else given
    _limit_cores(values, physical, grants)
    sources = [("<text>", text_or_sources)] if isinstance(text_or_sources, str) else text_or_sources
    for name, text in sources:
        reader.file(name, text)
    _read_local(reader, files or NoConfigFiles())
    _read_environment(values, given)
    for name, value in settings.items():
        if name.upper() in PREDEFINED:
            values.put(name, value, DETECTED)
    if Configuration(values, ()).boolean("COUNT_HYPERTHREAD_CPUS", True):
        _limit_cores(values, settings.get("DETECTED_CPUS", ""), grants)
    elif physical:
        values.put("DETECTED_CPUS", physical, DETECTED)
    _read_automatic(reader)
    _check(values)
    warnings += [*misspelled(values), *policy_errors(values), *filter(None, [warning(values)])]
    return Configuration(values, warnings, read_file=(files or NoConfigFiles()).read)


_LIMITS = ("OMP_THREAD_LIMIT", "SLURM_CPUS_ON_NODE")
"""Environment variables that limit the cores this process may use."""


def _limit_cores(values: Values, cores: str, environment: Mapping[str, str]) -> None:
    """Set DETECTED_CPUS_LIMIT, from which NUM_CPUS comes, where the environment grants fewer cores than there are."""
    given = [match for name in _LIMITS if (match := re.match(r"\s*([0-9]{1,9})", environment.get(name, "")))]
    least = min((int(match[1]) for match in given if int(match[1])), default=0)
    if least and cores.isdigit() and least < int(cores):
        values.put("DETECTED_CPUS_LIMIT", str(least), DETECTED)


def _read_environment(values: Values, environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        if name[:8].lower() == "_condor_" and len(name) > 8:
            try:
                values.put(name[8:].rstrip(), value.lstrip(), ENVIRONMENT)
            except MacroError as problem:
                raise ConfigError(f"{name}: {problem.message}", ENVIRONMENT.file) from None


def _value(values: Values, name: str) -> str:
    """Return a setting that is needed while others are read."""
    try:
        return values.value(name) or ""
    except MacroError as problem:
        raise _placed(values, name.lower(), problem) from None


def _placed(values: Values, key: str, problem: MacroError) -> ConfigError:
    source = values.source(key)
    return ConfigError(f"{values.spelled(key)}: {problem.message}", source.file, source.line)


def _read_local(reader: ConfigReader, files: ConfigFiles) -> None:
    """Read the files that the configuration itself names; the lists may change meanwhile."""
    required = _value(reader.values, "REQUIRE_LOCAL_CONFIG_FILE").lower() not in ("false", "f", "no", "0")
    excluded = _value(reader.values, "LOCAL_CONFIG_DIR_EXCLUDE_REGEXP")
    before = ""
    for directories in (True, False, True):
        listed = _value(reader.values, "LOCAL_CONFIG_DIR" if directories else "LOCAL_CONFIG_FILE")
        if directories and listed != before:
            before = listed
            for folder in re.split(r"[,\s]+", listed.strip()):
                paths = files.listing(folder) if folder else []
                included_paths = [path for path in paths if not (excluded and _matches(excluded, path))]
                _read_all(reader, files, included_paths, required)
        elif not directories:
            _read_listed(reader, files, listed, required)


def _matches(pattern: str, path: str) -> bool:
    try:
        return re.search(pattern, path.rsplit("/", 1)[-1]) is not None
    except re.error as problem:
        raise ConfigError(f"LOCAL_CONFIG_DIR_EXCLUDE_REGEXP: {pattern} is no pattern: {problem}") from None


def _read_listed(reader: ConfigReader, files: ConfigFiles, listed: str, required: bool) -> None:
    done: list[str] = []
    while waiting := [path for path in _list(listed) if path not in done]:
        done.append(waiting[0])
        _read_all(reader, files, waiting[:1], required)
        listed = _value(reader.values, "LOCAL_CONFIG_FILE")


def _list(listed: str) -> list[str]:
    return [listed] if "|" in listed else [path for path in re.split(r"[,\s]+", listed.strip()) if path]


def _read_all(reader: ConfigReader, files: ConfigFiles, paths: Sequence[str], required: bool) -> None:
    for path in paths:
        try:
            text = files.run(path.rstrip("| ")) if path.endswith("|") else files.read(path)
        except OSError as problem:
            if not required:
                continue
            problem_text = f"{problem.strerror or problem}; REQUIRE_LOCAL_CONFIG_FILE = false does without it"
            raise ConfigError(f"LOCAL_CONFIG_FILE: {path}: {problem_text}") from None
        reader.file(path, text, 1)


def _automatic(values: Values) -> Iterator[tuple[str, str, str]]:
    for key in (*values.definitions, *values.defaults):
        match = re.fullmatch(r"auto_use_([a-z]+)_(.+)", key)
        if match is not None:
            yield key, match[1], match[2]


def _read_automatic(reader: ConfigReader) -> None:
    values = reader.values
    for key, category, name in list(_automatic(values)):
        conditions = ConfigConditions(values, defaults()["condor_version"].value)
        trigger = _value(values, key)
        try:
            if trigger and conditions.take(f"if {trigger}", 0) and conditions.live:
                template = templates().get((category, name))
                if template is None:
                    raise MacroError(f"there is no template {category.upper()}:{name}")
                reader.template(template, "", SettingSource(values.spelled(key), 0, "template"), 1)
        except MacroError as problem:
            raise _placed(values, key, problem) from None


def _check(values: Values) -> None:
    """Refuse circular macros and invalid policy expressions."""
    configuration = Configuration(values, ())
    for key, definition in values.definitions.items():
        source = values.source(key)
        try:
            values.value(key)
        except CircleError as problem:
            way_out = "give one of them a value that does not use the others"
            message = f"{definition.name}: {problem.message}; {way_out}"
            raise ConfigError(message, source.file, source.line) from None
        except MacroError:
            continue  # an error when this name is looked up
        if source.kind != "detected" and is_expression(key):
            configuration.expression(key)

"""Read the sources of a configuration, in HTCondor's order.

The order is: detected names, the files and the local files that they name, the environment (``_CONDOR_NAME``),
predefined names that cannot be overridden (HOSTNAME ...), and ``AUTO_USE_CATEGORY_NAME``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..macros.macro_errors import MacroError
from ..macros.macros import CircularMacroError
from .checks import misspelling_warnings, policy_error_warnings
from .config_errors import DETECTED, ENVIRONMENT, ConfigError, SettingSource
from .config_reader import ConfigConditions, ConfigFiles, ConfigReader
from .configuration import Configuration
from .param_info import PREDEFINED, is_expression
from .setting_values import SettingValues
from .tables import defaults, templates
from .unsupported_settings import unsupported_warning


class NoConfigFiles:
    """A ``ConfigFiles`` for an empty disk, on which nothing can be read, run or written."""

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

    :param text_or_sources: a text, or several texts as (name, text) pairs; later texts override earlier ones
    :param files: reads the files of ``include`` and LOCAL_CONFIG_FILE; without it, no files exist
    :param environment: the variables for ``$ENV()`` and ``_CONDOR_NAME``
    :param detected: detected names: DETECTED_CPUS, DETECTED_MEMORY, HOSTNAME, FULL_HOSTNAME, ARCH, OPSYS ... If
        DETECTED_CPUS_LIMIT is among them, the environment does not limit the cores
    :param subsystem: the daemon for which ``SUBSYSTEM.NAME`` overrides ``NAME``
    :param seed: determines the results of ``$RANDOM_INTEGER()`` and ``$RANDOM_CHOICE()``
    :raises ConfigError: for an invalid line, circular macros, or an invalid policy expression; with file and line
    """
    variables = dict(environment or {})
    settings = {**(detected or {}), "SUBSYSTEM": subsystem, "LOCALNAME": local_name or subsystem}
    values = SettingValues(variables, subsystem, local_name, seed)
    warnings: list[str] = []
    reader = ConfigReader(values, files or NoConfigFiles(), warnings.append)
    for name, value in settings.items():
        values.set_value(name, value, DETECTED)
    physical_cores = settings.get("DETECTED_PHYSICAL_CPUS", "")
    limits = {} if "DETECTED_CPUS_LIMIT" in settings else variables
    _limit_cores(values, physical_cores, limits)
    sources = [("<text>", text_or_sources)] if isinstance(text_or_sources, str) else text_or_sources
    for name, text in sources:
        reader.read_file(name, text)
    _read_local(reader, files or NoConfigFiles())
    _read_environment(values, variables)
    for name, value in settings.items():
        if name.upper() in PREDEFINED:
            values.set_value(name, value, DETECTED)
    if Configuration(values, ()).boolean("COUNT_HYPERTHREAD_CPUS", True):
        _limit_cores(values, settings.get("DETECTED_CPUS", ""), limits)
    elif physical_cores:
        values.set_value("DETECTED_CPUS", physical_cores, DETECTED)
    _read_automatic(reader)
    _check(values)
    warnings += [
        *misspelling_warnings(values),
        *policy_error_warnings(values),
        *filter(None, [unsupported_warning(values)]),
    ]
    return Configuration(values, warnings, read_file=(files or NoConfigFiles()).read)


_CORE_LIMITS = ("OMP_THREAD_LIMIT", "SLURM_CPUS_ON_NODE")
"""Environment variables that limit the cores of this process."""


def _limit_cores(values: SettingValues, cores: str, environment: Mapping[str, str]) -> None:
    variables = [match for name in _CORE_LIMITS if (match := re.match(r"\s*([0-9]{1,9})", environment.get(name, "")))]
    lowest = min((int(match[1]) for match in variables if int(match[1])), default=0)
    if lowest and cores.isdigit() and lowest < int(cores):
        values.set_value("DETECTED_CPUS_LIMIT", str(lowest), DETECTED)


def _read_environment(values: SettingValues, environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        if name[:8].lower() == "_condor_" and len(name) > 8:
            try:
                values.set_value(name[8:].rstrip(), value.lstrip(), ENVIRONMENT)
            except MacroError as error:
                raise ConfigError(f"{name}: {error.message}", ENVIRONMENT.file) from None


def _current_value(values: SettingValues, name: str) -> str:
    try:
        return values.value(name) or ""
    except MacroError as error:
        raise _error_at(values, name.lower(), error) from None


def _error_at(values: SettingValues, key: str, error: MacroError) -> ConfigError:
    source = values.source(key)
    return ConfigError(f"{values.original_name(key)}: {error.message}", source.file, source.line)


def _read_local(reader: ConfigReader, files: ConfigFiles) -> None:
    required = _current_value(reader.values, "REQUIRE_LOCAL_CONFIG_FILE").lower() not in ("false", "f", "no", "0")
    exclude_pattern = _current_value(reader.values, "LOCAL_CONFIG_DIR_EXCLUDE_REGEXP")
    previous_directories = ""
    for directories in (True, False, True):
        file_list = _current_value(reader.values, "LOCAL_CONFIG_DIR" if directories else "LOCAL_CONFIG_FILE")
        if directories and file_list != previous_directories:
            previous_directories = file_list
            for folder in re.split(r"[,\s]+", file_list.strip()):
                paths = files.listing(folder) if folder else []
                included_paths = [path for path in paths if not (exclude_pattern and _matches(exclude_pattern, path))]
                _read_all(reader, files, included_paths, required)
        elif not directories:
            paths_read: list[str] = []
            while paths_left := [path for path in _split_list(file_list) if path not in paths_read]:
                paths_read.append(paths_left[0])
                _read_all(reader, files, paths_left[:1], required)
                file_list = _current_value(reader.values, "LOCAL_CONFIG_FILE")


def _matches(pattern: str, path: str) -> bool:
    try:
        return re.search(pattern, path.rsplit("/", 1)[-1]) is not None
    except re.error as error:
        raise ConfigError(f"LOCAL_CONFIG_DIR_EXCLUDE_REGEXP: {pattern} is not a pattern: {error}") from None


def _split_list(file_list: str) -> list[str]:
    return [file_list] if "|" in file_list else [path for path in re.split(r"[,\s]+", file_list.strip()) if path]


def _read_all(reader: ConfigReader, files: ConfigFiles, paths: Sequence[str], required: bool) -> None:
    for path in paths:
        try:
            text = files.run(path.rstrip("| ")) if path.endswith("|") else files.read(path)
        except OSError as error:
            if not required:
                continue
            reason = f"{error.strerror or error}; REQUIRE_LOCAL_CONFIG_FILE = false makes it optional"
            raise ConfigError(f"LOCAL_CONFIG_FILE: {path}: {reason}") from None
        reader.read_file(path, text, 1)


def _read_automatic(reader: ConfigReader) -> None:
    values = reader.values
    keys = [re.fullmatch(r"auto_use_([a-z]+)_(.+)", key) for key in (*values.definitions, *values.defaults)]
    for key, category, name in [(match[0], match[1], match[2]) for match in keys if match is not None]:
        conditions = ConfigConditions(values, defaults()["condor_version"].value)
        trigger = _current_value(values, key)
        try:
            if trigger and conditions.process(f"if {trigger}", 0) and conditions.selected:
                template = templates().get((category, name))
                if template is None:
                    raise MacroError(f"unknown template {category.upper()}:{name}")
                reader.read_template(template, "", SettingSource(values.original_name(key), 0, "template"), 1)
        except MacroError as error:
            raise _error_at(values, key, error) from None


def _check(values: SettingValues) -> None:
    configuration = Configuration(values, ())
    for key, definition in values.definitions.items():
        source = values.source(key)
        try:
            values.value(key)
        except CircularMacroError as error:
            advice = "give one of them a value that does not use the others"
            message = f"{definition.name}: {error.message}; {advice}"
            raise ConfigError(message, source.file, source.line) from None
        except MacroError:
            continue  # looking up this name raises the error
        if source.kind != "detected" and is_expression(key):
            configuration.expression(key)

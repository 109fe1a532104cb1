"""``poolbook config`` and condor_config_val: print settings, their sources and their values."""

from __future__ import annotations

import json
import os
import pwd
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..condor_tools.options import Arguments, ToolError, UsageError, command_table, parse
from ..condor_tools.tool_options import ToolEnded, parse_tool_arguments, tool, version
from ..machine.host import host_name, user_name
from .common import pool_log

if TYPE_CHECKING:
    from ...domain.config import Configuration

COMMAND = command_table("config")


def config(argv: Sequence[str]) -> int:
    arguments = parse(COMMAND, argv)
    if arguments.words[:1] == ("use",):
        return print_template(arguments.words[1:])
    from ...domain.config import ConfigError

    try:
        settings = _load(arguments)
        for warning in dict.fromkeys((*settings.warnings, *_pool_warnings(arguments))):
            print(f"poolbook config: warning: {warning}", file=sys.stderr)
        if arguments.has("dump"):
            return _print_dump(settings, arguments)
        if not arguments.words:
            return _print_summary(settings, arguments)
        if arguments.has("macro"):
            return _print_expanded_macros(settings, arguments)
        return _print_values(settings, arguments)
    except ConfigError as problem:
        raise ToolError(f"poolbook config: {problem}") from None


def _load(arguments: Arguments) -> Configuration:
    from ..runtime.configuration import load

    daemon, local_name = arguments.value("subsystem", "STARTD").upper(), arguments.value("local-name")
    settings = load(arguments.values("config"), subsystem=daemon, local_name=local_name)
    slot = arguments.last("slot")
    if slot is None:
        return settings
    numbers = re.fullmatch(r"([0-9]+)(?::([0-9]+))?", slot.values[0])
    if numbers is None:
        raise UsageError(f"poolbook config -slot {slot.values[0]}: give number or number:type, for example 2:1")
    return settings.for_slot(int(numbers[1]), int(numbers[2] or 1))


def _pool_warnings(arguments: Arguments) -> list[str]:
    """Return warnings about ignored settings, and the errors that prevent a pool from starting with this
    configuration."""
    from ...domain.config import ConfigError
    from ...domain.decide.pool_configuration import configured_pool_settings
    from ..runtime.configuration import load

    warnings: list[str] = []
    try:
        configured_pool_settings(lambda daemon: load(arguments.values("config"), subsystem=daemon), warnings.append)
    except ConfigError as problem:
        warnings.append(f"{problem}; no pool can start with this configuration")
    return warnings


def _print_values(settings: Configuration, arguments: Arguments) -> int:
    read_value, missing = _selected_value_reader(settings, arguments), 0
    entries = {}
    for name in arguments.words:
        value = read_value(name)
        if not value:
            missing = 1
            print(f"Not defined: {name}{_suggestion(settings, name)}", file=sys.stderr)
        if arguments.has("json"):
            entries[name] = _json_entry(settings, name, value or "")
        elif arguments.has("verbose"):
            is_set = settings.raw_value(name) is not None
            print(*(_lines_with_source(settings, name, value) if is_set else ()), "", sep="\n")
        elif value:
            print(value)
    if arguments.has("json"):
        print(json.dumps(entries, indent=2))
    return missing


def _suggestion(settings: Configuration, name: str) -> str:
    from ...domain.config import is_known, similar_setting

    similar_name = similar_setting(name) if settings.raw_value(name) is None and not is_known(name) else None
    return "" if similar_name is None else f"; did you mean {similar_name}?"


def _json_entry(settings: Configuration, name: str, value: str) -> dict[str, object]:
    source = settings.source(name)
    return {
        "name": settings.original_name(name),
        "value": value,
        "raw": settings.raw_value(name),
        "default": settings.default(name),
        "file": source.file,
        "line": source.line,
        "template": source.template,
    }


def _print_json_entries(settings: Configuration, names: Sequence[str]) -> int:
    print(json.dumps({name: _json_entry(settings, name, _value_or_error(settings, name)) for name in names}, indent=2))
    return 0


def _selected_value_reader(settings: Configuration, arguments: Arguments) -> Callable[[str], str | None]:
    raw, default = arguments.has("raw"), arguments.has("default")
    return settings.raw_value if raw else settings.default if default else settings.get


def _lines_with_source(settings: Configuration, name: str, value: str | None) -> Iterator[str]:
    if value:
        yield from setting_lines(settings.original_name(name), value)
    yield from source_lines(settings, name)


def source_lines(settings: Configuration, name: str) -> Iterator[str]:
    """Yield the source of a setting and its raw text, in the format of ``condor_config_val -verbose``."""
    raw_text, spelling = settings.raw_value(name) or "", settings.original_name(name)
    yield f" # at: {settings.source(name)}"
    if "\n" in raw_text:
        yield " # raw: "
        yield from (f" #   {line}" for line in f"{spelling} = {raw_text}".split("\n"))
    else:
        yield f" # raw: {spelling} = {raw_text}"


def setting_lines(name: str, value: str) -> Iterator[str]:
    """Yield the lines of a setting in the format of ``condor_config_val``."""
    if "\n" not in value:
        yield f"{name} = {value}"
        return
    yield f"{name} @=end"
    yield from (f"   {line}" for line in value.split("\n"))
    yield "@end"


def _print_dump(settings: Configuration, arguments: Arguments) -> int:
    patterns = list(map(_compiled_pattern, arguments.words or ("",)))
    names = [name for name in settings.all_names() if any(pattern.search(name) for pattern in patterns)]
    is_expanded = arguments.has("expanded")
    if arguments.has("json"):
        return _print_json_entries(settings, names)
    for name in names:
        raw_text = settings.raw_value(name) or ""
        print("\n".join(setting_lines(name, _value_or_error(settings, name) if is_expanded else raw_text)))
        if arguments.has("verbose"):
            print(f" # at: {settings.source(name)}")
            print(f" # expanded: {_value_or_error(settings, name)}")
            if settings.default(name):
                print(f" # default: {settings.default(name)}")
    return 0


def _compiled_pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as problem:
        raise UsageError(f"poolbook config -dump: {text} is not a valid regular expression: {problem}") from None


def _value_or_error(settings: Configuration, name: str) -> str:
    """Return the value, or the error message, so that one invalid setting does not hide the others."""
    from ...domain.config import ConfigError

    try:
        return settings.get(name)
    except ConfigError as problem:
        return f"(error: {problem.message})"


def _print_summary(settings: Configuration, arguments: Arguments) -> int:
    if arguments.has("json"):
        return _print_json_entries(settings, settings.names())
    settings_by_file: dict[str, list[str]] = {}
    for name in settings.names():
        settings_by_file.setdefault(settings.source(name).file, []).append(name)
    for file, names in settings_by_file.items():
        print(f"#\n# from {file}\n#")
        for name in names:
            print("\n".join(setting_lines(name, settings.raw_value(name) or "")))
    if not settings_by_file:
        print("# nothing is set: all settings have their defaults; `poolbook config -dump` lists them")
    return 0


def print_template(arguments: Sequence[str]) -> int:
    """Print a template's text, or a category's templates. Raise `UsageError` or `ToolError` if it does not exist."""
    from ...domain.config.tables import templates

    category, _, name = "".join(arguments).partition(":")
    known_templates = templates()
    chosen = [template for (kind, _), template in known_templates.items() if kind == category.lower()]
    if not chosen:
        kinds = ", ".join(sorted({template.category for template in known_templates.values()}))
        raise UsageError(f"poolbook config use {category}: unknown category; the categories of templates are {kinds}")
    if not name:
        print(f"use {chosen[0].category} accepts")
        print("\n".join(f"  {accepted}" for accepted in sorted((template.name for template in chosen), key=str.lower)))
        return 0
    template = known_templates.get((category.lower(), name.lower()))
    if template is None:
        raise ToolError(
            f"poolbook config use {category}:{name}: unknown template; `poolbook config use {category}` lists them"
        )
    print(f"use {template.category}:{template.name} is")
    print("\n".join(f"\t{line}" for line in template.lines if line != "#"))
    return 0


TOOL = tool("config_val")
_DAEMONS = ("master", "schedd", "startd", "collector", "negotiator")


def config_val(argv: Sequence[str]) -> int:
    arguments = parse_tool_arguments(TOOL, argv)
    if arguments.has("owner", "tilde"):
        print(user_name() if arguments.has("owner") else pwd.getpwnam(user_name()).pw_dir)
        return 0
    if arguments.has("pool") and not arguments.has("name"):
        raise ToolEnded(1, "Error: you must specify -name with -pool\n")
    url = pool_log(arguments, "condor_config_val: unknown host {name}\n")
    from ...domain.config import ConfigError
    from ..runtime.configuration import load
    from ..stores.log_paths import log_paths

    folder = log_paths(url).folder.absolute()
    daemon = arguments.last_name(*_DAEMONS) or "tool"
    try:
        settings = load(
            arguments.values("root-config"),
            subsystem=arguments.value("subsystem", daemon).upper(),
            local_name=arguments.value("local-name"),
            detected={"LOCAL_DIR": str(folder)},
        )
        exit_code = _print_tool_output(settings, arguments)
        _create_files_at_printed_paths(settings, arguments, url, folder)
        return exit_code
    except ConfigError as problem:
        raise ToolEnded(1, f"condor_config_val: {problem}\n") from None


def _print_tool_output(settings: Configuration, arguments: Arguments) -> int:
    if arguments.has("config"):
        print("Configuration source:\nLocal configuration sources:\n", file=sys.stderr)
        sys.stdout.writelines(f"\t{file}\n" for file in _configuration_files(settings))
        if not (arguments.words or arguments.has("dump")):
            return 0
    if arguments.has("summary"):
        return _tool_summary(settings)
    if arguments.has("dump"):
        return _print_tool_dump(settings, arguments)
    if not arguments.words:
        raise TOOL.usage_error("{usage}")
    if arguments.has("macro"):
        return _print_expanded_macros(settings, arguments)
    return _print_tool_values(settings, arguments)


def _create_files_at_printed_paths(settings: Configuration, arguments: Arguments, url: str, folder: Path) -> None:
    """Write the history file if its path or a parent directory was printed, because a caller may read it next. Warn
    about printed files that Poolbook does not write."""
    from ...domain.coverage.settings import describe_effect
    from ...domain.ports.log import LogError
    from ..runtime.history_file import begin_history_file
    from ..runtime.queries import Queries

    names = {name.upper() for name in arguments.words}
    if not names.isdisjoint(("HISTORY", "SPOOL", "LOCAL_DIR")) and os.access(folder, os.W_OK):
        try:
            with Queries(url) as queries:
                begin_history_file(folder, settings, queries.views)
        except (LogError, OSError) as error:
            print(f"condor_config_val: the history file cannot be written: {error}", file=sys.stderr)
    for name in sorted(names):
        value = settings.get(name) or ""
        if os.path.dirname(value).startswith(str(folder)) and folder.exists() and not os.path.exists(value):
            print(f"condor_config_val: {name}: Poolbook writes no such file ({describe_effect(name)})", file=sys.stderr)


def _configuration_files(settings: Configuration) -> list[str]:
    return list(dict.fromkeys(settings.source(name).file for name in settings.names() if settings.source(name).line))


def _print_expanded_macros(settings: Configuration, arguments: Arguments) -> int:
    option = arguments.last("macro")
    as_path = option is not None and (option.qualifier or "").startswith("path")
    for word in arguments.words:
        value = settings.expand_text(word)
        # Like HTCondor, collapse repeated slashes after the first letter.
        print(value[:1] + re.sub("/+", "/", value[1:]) if as_path else value)
    return 0


def _print_tool_values(settings: Configuration, arguments: Arguments) -> int:
    read_value, names, missing = _selected_value_reader(settings, arguments), list(arguments.words), 0
    while names:
        name = names.pop(0)
        if name.lower() == "use":
            _print_tool_template(names.pop(0) if names else "")
            continue
        value = read_value(name)
        if not value:
            missing = 1
            print(f"Not defined: {name}", file=sys.stderr)
            if arguments.has("verbose"):
                print(*(source_lines(settings, name) if settings.default(name) is not None else ()), "", sep="\n")
        elif arguments.has("verbose"):
            print(*_lines_with_source(settings, name, value), "", sep="\n")
        else:
            print(value)
    return missing


def _print_tool_template(word: str) -> None:
    if not word:
        print("use should be followed by a category or category:option argument", file=sys.stderr)
        return
    try:
        print_template([word])
    except (ToolError, UsageError):
        print(f"Not defined: use {word.upper()}")


def _print_tool_dump(settings: Configuration, arguments: Arguments) -> int:
    print(f"# Configuration from machine: {host_name()}")
    is_verbose, is_expanded = arguments.has("verbose"), arguments.has("expanded", "evaluate")
    for pattern in arguments.words or ("",):
        if pattern:
            print(f"\n# Parameters with names that match {pattern}:")
        try:
            pattern_regex = re.compile(pattern, re.IGNORECASE)
        except re.error:
            continue
        for name in filter(pattern_regex.search, settings.all_names()):
            read_value = (
                settings.default if arguments.has("default") else settings.get if is_expanded else settings.raw_value
            )
            print("\n".join(setting_lines(settings.original_name(name), read_value(name) or "")))
            if is_verbose:
                print(f" # at: {settings.source(name)}")
                print(f" # raw: {settings.raw_value(name)}" if is_expanded else f" # expanded: {settings.get(name)}")
                if settings.default(name):
                    print(f" # default: {settings.default(name)}")
    if not is_verbose:
        print("# Contributing configuration file(s):")
        sys.stdout.writelines(f"#\t{file}\n" for file in _configuration_files(settings))
    return 0


def _tool_summary(settings: Configuration) -> int:
    print(f"# condor_config_val {version().splitlines()[0]}")
    for file in _configuration_files(settings):
        print(f"\n#\n# from {file}\n#")
        for name in settings.names():
            if settings.source(name).file == file:
                print("\n".join(setting_lines(settings.original_name(name), settings.raw_value(name) or "")))
    return 0

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
from ..condor_tools.tool_options import ToolEnded, read, tool, version
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
        found = _loaded(arguments)
        for warning in dict.fromkeys((*found.warnings, *_pool_warnings(arguments))):
            print(f"poolbook config: warning: {warning}", file=sys.stderr)
        if arguments.has("dump"):
            return _dump(found, arguments)
        if not arguments.words:
            return _summary(found, arguments)
        if arguments.has("macro"):
            return _macros(found, arguments)
        return _values(found, arguments)
    except ConfigError as problem:
        raise ToolError(f"poolbook config: {problem}") from None


def _loaded(arguments: Arguments) -> Configuration:
    from ..runtime.configuration import load

    found = load(
        arguments.values("config"),
        subsystem=arguments.value("subsystem", "STARTD").upper(),
        local_name=arguments.value("local-name"),
    )
    slot = arguments.last("slot")
    if slot is None:
        return found
    numbers = re.fullmatch(r"([0-9]+)(?::([0-9]+))?", slot.values[0])
    if numbers is None:
        raise UsageError(f"poolbook config -slot {slot.values[0]}: write a slot's number, or number:type, as in 2:1")
    return found.for_slot(int(numbers[1]), int(numbers[2] or 1))


def _pool_warnings(arguments: Arguments) -> list[str]:
    """Return what a pool with this configuration ignores, and why it would not begin with it."""
    from ...domain.config import ConfigError
    from ...domain.decide.pool_configuration import followed
    from ..runtime.configuration import load

    warnings: list[str] = []
    try:
        followed(lambda daemon: load(arguments.values("config"), subsystem=daemon), warnings.append)
    except ConfigError as problem:
        warnings.append(f"{problem}; no pool begins with this")
    return warnings


# -- settings by name ------------------------------------------------------------------------------------------------


def _values(found: Configuration, arguments: Arguments) -> int:
    how, missing = _reader(found, arguments), 0
    told = {}
    for name in arguments.words:
        value = how(name)
        if not value:
            missing = 1
            print(f"Not defined: {name}{_near(found, name)}", file=sys.stderr)
        if arguments.has("json"):
            told[name] = _entry(found, name, value or "")
        elif arguments.has("verbose"):
            print("\n".join([*(_with_source(found, name, value) if found.raw(name) is not None else ()), ""]))
        elif value:
            print(value)
    if arguments.has("json"):
        print(json.dumps(told, indent=2))
    return missing


def _near(found: Configuration, name: str) -> str:
    from ...domain.config import is_known, similar_setting

    near = similar_setting(name) if found.raw(name) is None and not is_known(name) else None
    return "" if near is None else f"; did you mean {near}?"


def _entry(found: Configuration, name: str, value: str) -> dict[str, object]:
    source = found.source(name)
    return {
        "name": found.spelled(name),
        "value": value,
        "raw": found.raw(name),
        "default": found.default(name),
        "file": source.file,
        "line": source.line,
        "template": source.template,
    }


def _reader(found: Configuration, arguments: Arguments) -> Callable[[str], str | None]:
    """Return the function that reads a setting in the form that the options ask for."""
    return found.raw if arguments.has("raw") else found.default if arguments.has("default") else found.get


def _with_source(found: Configuration, name: str, value: str | None) -> Iterator[str]:
    """Yield a value, its source and its raw text as ``condor_config_val -verbose`` prints them."""
    if value:
        yield from setting_lines(found.spelled(name), value)
    yield from source_lines(found, name)


def source_lines(found: Configuration, name: str) -> Iterator[str]:
    """Yield where a setting comes from and its raw text, as ``condor_config_val -verbose`` prints them."""
    raw, spelled = found.raw(name) or "", found.spelled(name)
    yield f" # at: {found.source(name)}"
    if "\n" in raw:
        yield " # raw: "
        yield from (f" #   {line}" for line in f"{spelled} = {raw}".split("\n"))
    else:
        yield f" # raw: {spelled} = {raw}"


def setting_lines(name: str, value: str) -> Iterator[str]:
    """Yield the lines of a setting as ``condor_config_val`` prints them."""
    if "\n" not in value:
        yield f"{name} = {value}"
        return
    yield f"{name} @=end"
    yield from (f"   {line}" for line in value.split("\n"))
    yield "@end"


# -- many settings ---------------------------------------------------------------------------------------------------


def _dump(found: Configuration, arguments: Arguments) -> int:
    patterns = list(map(_pattern, arguments.words or ("",)))
    names = [name for name in found.all_names() if any(pattern.search(name) for pattern in patterns)]
    expanded = arguments.has("expanded")
    if arguments.has("json"):
        print(json.dumps({name: _entry(found, name, _safely(found, name)) for name in names}, indent=2))
        return 0
    for name in names:
        raw = found.raw(name) or ""
        print("\n".join(setting_lines(name, _safely(found, name) if expanded else raw)))
        if arguments.has("verbose"):
            print(f" # at: {found.source(name)}")
            print(f" # expanded: {_safely(found, name)}")
            if found.default(name):
                print(f" # default: {found.default(name)}")
    return 0


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as problem:
        raise UsageError(f"poolbook config -dump: {text} is no regular expression: {problem}") from None


def _safely(found: Configuration, name: str) -> str:
    """Return the value, or why there is none: one bad setting must not hide the others."""
    from ...domain.config import ConfigError

    try:
        return found.get(name)
    except ConfigError as problem:
        return f"(error: {problem.message})"


def _summary(found: Configuration, arguments: Arguments) -> int:
    if arguments.has("json"):
        names = found.names()
        print(json.dumps({name: _entry(found, name, _safely(found, name)) for name in names}, indent=2))
        return 0
    by_file: dict[str, list[str]] = {}
    for name in found.names():
        by_file.setdefault(found.source(name).file, []).append(name)
    for file, names in by_file.items():
        print(f"#\n# from {file}\n#")
        for name in names:
            print("\n".join(setting_lines(name, found.raw(name) or "")))
    if not by_file:
        print("# nothing is set: all settings have their defaults; `poolbook config -dump` lists them")
    return 0


# -- templates -------------------------------------------------------------------------------------------------------


def print_template(words: Sequence[str]) -> int:
    """Print a template's text, or a category's templates. Raise `UsageError` or `ToolError` if there is none."""
    from ...domain.config.tables import templates

    category, _, name = "".join(words).partition(":")
    known = templates()
    mine = [template for (kind, _), template in known.items() if kind == category.lower()]
    if not mine:
        kinds = ", ".join(sorted({template.category for template in known.values()}))
        raise UsageError(f"poolbook config use {category}: the categories of templates are {kinds}")
    if not name:
        print(f"use {mine[0].category} accepts")
        print("\n".join(f"  {template.name}" for template in sorted(mine, key=lambda one: one.name.lower())))
        return 0
    template = known.get((category.lower(), name.lower()))
    if template is None:
        raise ToolError(
            f"poolbook config use {category}:{name}: there is none; `poolbook config use {category}` lists them"
        )
    print(f"use {template.category}:{template.name} is")
    print("\n".join(f"\t{line}" for line in template.lines if line != "#"))
    return 0


TOOL = tool("config_val")
_DAEMONS = ("master", "schedd", "startd", "collector", "negotiator")


def config_val(argv: Sequence[str]) -> int:
    arguments = read(TOOL, argv)
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
    daemon = arguments.chosen(*_DAEMONS) or "tool"
    try:
        found = load(
            arguments.values("root-config"),
            subsystem=arguments.value("subsystem", daemon).upper(),
            local_name=arguments.value("local-name"),
            detected={"LOCAL_DIR": str(folder)},
        )
        done = _tool_output(found, arguments)
        _make_true(found, arguments, url, folder)
        return done
    except ConfigError as problem:
        raise ToolEnded(1, f"condor_config_val: {problem}\n") from None


def _tool_output(found: Configuration, arguments: Arguments) -> int:
    if arguments.has("config"):
        print("Configuration source:\nLocal configuration sources:\n", file=sys.stderr)
        sys.stdout.writelines(f"\t{file}\n" for file in _sources(found))
        if not (arguments.words or arguments.has("dump")):
            return 0
    if arguments.has("summary"):
        return _tool_summary(found)
    if arguments.has("dump"):
        return _tool_dump(found, arguments)
    if not arguments.words:
        raise TOOL.usage_error("{usage}")
    if arguments.has("macro"):
        return _macros(found, arguments)
    return _tool_values(found, arguments)


def _make_true(found: Configuration, arguments: Arguments, url: str, folder: Path) -> None:
    """Write the history file, if its path or a folder above it was printed. Name other files that are not written."""
    from ...domain.coverage.settings import subject
    from ...domain.ports.log import LogError
    from ..runtime.history_file import begin
    from ..runtime.queries import Queries

    names = {name.upper() for name in arguments.words}
    if not names.isdisjoint(("HISTORY", "SPOOL", "LOCAL_DIR")) and os.access(folder, os.W_OK):
        try:
            with Queries(url) as queries:
                begin(folder, found, queries.views)
        except (LogError, OSError) as error:
            print(f"condor_config_val: the history file cannot be written: {error}", file=sys.stderr)
    for name in sorted(names):
        value = found.get(name) or ""
        if os.path.dirname(value).startswith(str(folder)) and folder.exists() and not os.path.exists(value):
            print(f"condor_config_val: {name}: Poolbook writes no such file ({subject(name)})", file=sys.stderr)


def _sources(found: Configuration) -> list[str]:
    """Return the files that were read, each once, in the order of the settings that they end up with."""
    return list(dict.fromkeys(found.source(name).file for name in found.names() if found.source(name).line))


def _macros(found: Configuration, arguments: Arguments) -> int:
    given = arguments.last("macro")
    as_path = given is not None and (given.qualifier or "").startswith("path")
    for word in arguments.words:
        value = found.expanded(word)
        # Slashes beyond the first letter are written once; that is all that a path is made of.
        print(value[:1] + re.sub("/+", "/", value[1:]) if as_path else value)
    return 0


def _tool_values(found: Configuration, arguments: Arguments) -> int:
    how, words, missing = _reader(found, arguments), list(arguments.words), 0
    while words:
        name = words.pop(0)
        if name.lower() == "use":
            _template(words.pop(0) if words else "")
            continue
        value = how(name)
        if not value:
            missing = 1
            print(f"Not defined: {name}", file=sys.stderr)
            if arguments.has("verbose"):
                print(*(source_lines(found, name) if found.default(name) is not None else ()), "", sep="\n")
        elif arguments.has("verbose"):
            print("\n".join([*_with_source(found, name, value), ""]))
        else:
            print(value)
    return missing


def _template(word: str) -> None:
    if not word:
        print("use should be followed by a category or category:option argument", file=sys.stderr)
        return
    try:
        print_template([word])
    except (ToolError, UsageError):
        print(f"Not defined: use {word.upper()}")


def _tool_dump(found: Configuration, arguments: Arguments) -> int:
    print(f"# Configuration from machine: {host_name()}")
    verbose, expanded = arguments.has("verbose"), arguments.has("expanded", "evaluate")
    for pattern in arguments.words or ("",):
        if pattern:
            print(f"\n# Parameters with names that match {pattern}:")
        try:
            wanted = re.compile(pattern, re.IGNORECASE)
        except re.error:
            continue
        for name in filter(wanted.search, found.all_names()):
            how = found.default if arguments.has("default") else found.get if expanded else found.raw
            print("\n".join(setting_lines(found.spelled(name), how(name) or "")))
            if verbose:
                print(f" # at: {found.source(name)}")
                print(f" # raw: {found.raw(name)}" if expanded else f" # expanded: {found.get(name)}")
                if found.default(name):
                    print(f" # default: {found.default(name)}")
    if not verbose:
        print("# Contributing configuration file(s):")
        sys.stdout.writelines(f"#\t{file}\n" for file in _sources(found))
    return 0


def _tool_summary(found: Configuration) -> int:
    print(f"# condor_config_val {version().splitlines()[0]}")
    for file in _sources(found):
        print(f"\n#\n# from {file}\n#")
        for name in found.names():
            if found.source(name).file == file:
                print("\n".join(setting_lines(found.spelled(name), found.raw(name) or "")))
    return 0

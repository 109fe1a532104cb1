"""condor_config_val: settings as HTCondor's tool prints them (``poolbook config`` is the same in Poolbook's words)."""

from __future__ import annotations

import os
import pwd
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...condor_tools.options import Arguments, Refusal, UsageError
from ...condor_tools.tool_options import Form, Tool, ToolEnded, read, version
from ...machine.host import host_name, user_name
from ..common import pool_log

if TYPE_CHECKING:
    from ....domain.config import Configuration

_FILES = "nothing is configured but by files: change the file, then condor_reconfig"
TOOL = Tool(
    "config_val",
    {
        "name": Form(1, 1),
        "address": Form(1, 1, instead="a log is one pool, which POOLBOOK_LOG names"),
        "pool": Form(1, 1),
        "local-name": Form(2, 1),
        "subsystem": Form(3, 1),
        "owner": Form(1),
        "tilde": Form(1),
        **{daemon: Form(least) for daemon, least in (("master", 2), ("schedd", 2), ("startd", 2), ("collector", 3),
                                                      ("negotiator", 3))},
        **{edit: Form(least, 1, instead=_FILES) for edit, least in (("set", 2), ("unset", 3), ("rset", 3),
                                                                    ("runset", 5))},
        "mixedcase": Form(2),
        "diagnostic": Form(4, instead="-verbose says where a value comes from"),
        "raw": Form(3),
        "default": Form(3),
        "config": Form(2),
        "verbose": Form(1),
        "dump": Form(1),
        "trace": Form(2, instead="-verbose says where a value comes from"),
        "expanded": Form(2),
        "macro": Form(3, colon=True),
        "evaluate": Form(2),
        "unused": Form(4, instead="docs/coverage.md has who follows which"),
        "used": Form(2, instead="docs/coverage.md has who follows which"),
        "summary": Form(3, colon=True),
        "writeconfig": Form(3, 1, colon=True, instead="-summary prints what differs from the defaults"),
        "root-config": Form(4, 1),
        "debug": Form(2, colon=True, instead="-verbose says where a value comes from"),
        "help": Form(2),
        "version": Form(3),
    },
    lacking="{option} requires an argument\n",
    unknown="{option} is not a valid argument\n{usage}",
    helped=1,
)  # fmt: skip
_DAEMONS = ("master", "schedd", "startd", "collector", "negotiator")


def config_val(argv: Sequence[str]) -> int:
    arguments = read(TOOL, argv)
    if arguments.has("owner"):
        return _print(user_name())
    if arguments.has("tilde"):
        return _print(pwd.getpwnam(user_name()).pw_dir)
    if arguments.has("pool") and not arguments.has("name"):
        raise ToolEnded(1, "Error: you must specify -name with -pool\n")
    url = pool_log(arguments, "condor_config_val: unknown host {name}\n")
    from ....domain.config import ConfigError
    from ...runtime.configuration import load
    from ...stores.log_paths import log_paths

    folder = log_paths(url).folder.absolute()
    daemon = arguments.chosen(*_DAEMONS) or "tool"
    try:
        found = load(
            arguments.values("root-config"),
            subsystem=arguments.value("subsystem", daemon).upper(),
            local_name=arguments.value("local-name"),
            detected={"LOCAL_DIR": str(folder)},
        )
        done = _told(found, arguments)
        _make_true(found, arguments, url, folder)
        return done
    except ConfigError as problem:
        raise ToolEnded(1, f"condor_config_val: {problem}\n") from None


def _told(found: Configuration, arguments: Arguments) -> int:
    if arguments.has("config"):
        print("Configuration source:\nLocal configuration sources:\n", file=sys.stderr)
        sys.stdout.writelines(f"\t{file}\n" for file in _sources(found))
        if not (arguments.words or arguments.has("dump")):
            return 0
    if arguments.has("summary"):
        return _summary(found)
    if arguments.has("dump"):
        return _dump(found, arguments)
    if not arguments.words:
        raise TOOL.ended("{usage}")
    if arguments.has("macro"):
        return _macros(found, arguments)
    return _values(found, arguments)


def _make_true(found: Configuration, arguments: Arguments, url: str, folder: Path) -> None:
    """Write the history file, if its path or a folder above it was printed. Name other files that are not written."""
    from ....domain.coverage.settings import subject
    from ....domain.ports.log import LogError
    from ...runtime.history_file import begin
    from ...runtime.views import views_current

    names = {name.upper() for name in arguments.words}
    if not names.isdisjoint(("HISTORY", "SPOOL", "LOCAL_DIR")) and os.access(folder, os.W_OK):
        try:
            with views_current(url) as views:
                begin(folder, found, views)
        except (LogError, OSError) as error:
            print(f"condor_config_val: the history file cannot be written: {error}", file=sys.stderr)
    for name in sorted(names):
        value = found.get(name) or ""
        if os.path.dirname(value).startswith(str(folder)) and folder.exists() and not os.path.exists(value):
            print(f"condor_config_val: {name}: Poolbook writes no such file ({subject(name)})", file=sys.stderr)


def _print(line: str) -> int:
    print(line)
    return 0


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


def _values(found: Configuration, arguments: Arguments) -> int:
    from ..config import source_lines

    how = found.raw if arguments.has("raw") else found.default if arguments.has("default") else found.get
    words, missing = list(arguments.words), 0
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


def _with_source(found: Configuration, name: str, value: str) -> Iterator[str]:
    from ..config import setting_lines, source_lines

    yield from setting_lines(found.spelled(name), value)
    yield from source_lines(found, name)


def _template(word: str) -> None:
    from ..config import print_template

    if not word:
        print("use should be followed by a category or category:option argument", file=sys.stderr)
        return
    try:
        print_template([word])
    except (Refusal, UsageError):
        print(f"Not defined: use {word.upper()}")


def _dump(found: Configuration, arguments: Arguments) -> int:
    from ..config import setting_lines

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


def _summary(found: Configuration) -> int:
    from ..config import setting_lines

    print(f"# condor_config_val {version().splitlines()[0]}")
    for file in _sources(found):
        print(f"\n#\n# from {file}\n#")
        for name in found.names():
            if found.source(name).file == file:
                print("\n".join(setting_lines(found.spelled(name), found.raw(name) or "")))
    return 0

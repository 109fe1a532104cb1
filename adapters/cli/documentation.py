"""``poolbook doc, man, completion``: the documentation pages and examples, manual pages, and shell completion scripts.
Manual pages and scripts are generated from the commands' option tables."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path, PurePath
from typing import NamedTuple

from ..condor_tools.options import Help, Option, ToolError, ToolSyntax, UsageError, command_table, parse, synopsis
from ..condor_tools.terminal import width_of, wrap_text
from .main import COMMANDS, PREFIX, RENAMED_TOOLS, command_named

DOCS_FOLDER = Path(__file__).resolve().parents[2] / "docs"
"""The docs directory, next to the packages in a checkout and in an installation."""
CONTENTS = "README"

DOC = command_table("doc")


def documentation_files() -> Mapping[str, Path]:
    """Return the path of each page by its name, and of each example by its file name."""
    pages = {path.stem: path for path in sorted(DOCS_FOLDER.glob("*.md"))}
    return pages | {path.name: path for path in sorted((DOCS_FOLDER / "examples").iterdir()) if path.is_file()}


def doc(argv: Sequence[str]) -> int:
    arguments = parse(DOC, argv)
    if len(arguments.words) > 1:
        raise UsageError(f"poolbook doc: specify only one page, not {' and '.join(arguments.words)}")
    path = _page_file(arguments.words[0] if arguments.words else CONTENTS)
    if arguments.has("folder"):
        print(path if arguments.words else DOCS_FOLDER)
    elif arguments.has("json"):
        print(json.dumps({"name": path.name, "file": str(path), "text": path.read_text(encoding="utf-8")}, indent=2))
    elif sys.stdout.isatty():
        import pydoc

        pydoc.pager(wrap_text(path.read_text(encoding="utf-8"), width_of()))
    else:
        print(path.read_text(encoding="utf-8"), end="")
    return 0


def _page_file(word: str) -> Path:
    """Return the file of a page: ``play``, or ``docs/play.md`` as pages refer to each other."""
    from ...domain.suggestions import did_you_mean

    known_files = documentation_files()
    name = PurePath(word).name
    path = known_files.get(name) or known_files.get(name.removesuffix(".md"))
    if path is None:
        hint = did_you_mean(name, known_files, "`poolbook doc` lists the pages", min_similarity=0.55)
        raise UsageError(f"poolbook doc: unknown page or example {word!r}; {hint}")
    return path


_FILE_ARGUMENTS = re.compile(r"FILE|FOLDER|SCENARIO|\[LOG\]")
FILE_VALUES = frozenset({"<file>", "<folder>", "<url>"})
"""Placeholders of options whose value is a file name."""


def table_of(name: str) -> ToolSyntax:
    """Return the table from which a command's help is generated."""
    entry = COMMANDS[name]
    try:
        getattr(import_module(f".{entry.module}", __package__), entry.function)(["-help"])
    except Help as request:
        return request.command
    raise AssertionError(f"{name} has no help")


def options_of(command: ToolSyntax) -> Iterator[Option]:
    """Yield the options that the command accepts, without duplicates."""
    return (option for option in command.options if not option.refused)


def takes_files(command: ToolSyntax) -> bool:
    """Check whether the command's operands are files or directories."""
    return _FILE_ARGUMENTS.search(command.usage) is not None


COMPLETION = command_table("completion")


def completion(argv: Sequence[str]) -> int:
    arguments = parse(COMPLETION, argv)
    if len(arguments.words) != 1 or arguments.words[0] not in _SHELLS:
        raise UsageError(f"poolbook completion: specify the shell: {', '.join(_SHELLS)}")
    (shell,), tables = arguments.words, [table_of(name) for name in COMMANDS]
    print("\n".join(_fish_completion(tables)) if shell == "fish" else _completion_script(shell, tables))
    return 0


_SHELLS = ("bash", "zsh", "fish")
_COMMANDS_OF_COMMANDS = ("help", "man")
"""Commands whose argument is the name of a command."""


def _completed_values() -> dict[tuple[str, str], Sequence[str]]:
    from ...domain.state_machines import DIALECTS
    from ...replay.accounts.account import BY as ACCOUNT_KEYS
    from ...replay.usage.usage_sums import BY

    dialects = {(name, "dialect"): tuple(DIALECTS) for name in ("play", "run", "serve")}
    return {
        ("doc", ""): tuple(documentation_files()),
        ("completion", ""): _SHELLS,
        ("usage", "by"): BY,
        ("account", "by"): ACCOUNT_KEYS,
        **dialects,
    }


def _option_patterns(tables: Sequence[ToolSyntax], files: bool) -> str:
    """Return patterns for a shell's ``case`` that match calls in which an option's value comes next: options whose
    value is a file if `files`, else all other options with a value."""
    names = [
        f'"{table.name} -{option.name}"'
        for table in tables
        for option in options_of(table)
        if option.values and (option.values in FILE_VALUES) == files
    ]
    return " | ".join(names)


def _name_branches() -> Iterator[str]:
    """Yield the ``case`` branches that replace HTCondor's command names by Poolbook's, for bash and zsh."""
    yield "    case $command in"
    yield from (f"        ({alias}) command={name} ;;" for alias, name in RENAMED_TOOLS.items())
    yield "    esac"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"


class _CompletionWords(NamedTuple):
    """The syntax of a shell's script for a name with its purpose, for an option's values, and for a command."""

    described: Callable[[str, str], str]
    offer: str
    command: str


_WORDS = {
    "bash": _CompletionWords(
        lambda name, purpose: name,
        "        '{name} -{option}') offers='{words}' ;;",
        "                {name}) options='{options}' files={files} offers='{words}' ;;",
    ),
    "zsh": _CompletionWords(
        lambda name, purpose: _quoted(f"{name}:{purpose}"),
        "        ('{name} -{option}') compadd -- {words}; return ;;",
        "        ({name}) options=({options}) files={files} offers=({words}) ;;",
    ),
}


def _completion_script(shell: str, tables: Sequence[ToolSyntax]) -> str:
    completion_line, offer_line, command = _WORDS[shell]
    offers = {key: " ".join(offered) for key, offered in _completed_values().items()}
    fields = {
        "commands": [" ".join(completion_line(name, entry.words) for name, entry in COMMANDS.items())],
        "renamed": _name_branches(),
        "offers": [
            offer_line.format(name=name, option=flag, words=offered) for (name, flag), offered in offers.items() if flag
        ],
        "files": [_option_patterns(tables, True)],
        "values": [_option_patterns(tables, False)],
        "tables": [
            command.format(
                name=table.name,
                options=" ".join(completion_line(f"-{option.name}", option.help) for option in options_of(table)),
                files="1" if takes_files(table) else "",
                words=offers.get((table.name, ""), ""),
            )
            for table in tables
        ],
    }
    text = Path(__file__).with_name(f"completion.{shell}").read_text(encoding="utf-8")
    return re.sub(r"@([a-z]+)@", lambda match: "\n".join(fields[match[1]]), text).rstrip("\n")


def _fish_completion(tables: Sequence[ToolSyntax]) -> Iterator[str]:
    offered_words = _completed_values()
    yield "complete -c poolbook -f"
    for name, text in [*((name, entry.words) for name, entry in COMMANDS.items()), ("help", "the help of a command")]:
        yield f"complete -c poolbook -n __fish_use_subcommand -a {name} -d {_quoted(text)}"
    for name in _COMMANDS_OF_COMMANDS:
        yield f"complete -c poolbook -n '__fish_seen_subcommand_from {name}' -a '{' '.join(COMMANDS)}'"
    for table in tables:
        aliases = [alias for alias, name in RENAMED_TOOLS.items() if name == table.name]
        names = " ".join([*(f"{PREFIX}{alias}" for alias in (*aliases, table.name)), table.name])
        condition = f"complete -c poolbook -n '__fish_seen_subcommand_from {names}'"
        if (table.name, "") in offered_words:
            yield f"{condition} -a '{' '.join(offered_words[table.name, ''])}'"
        if takes_files(table):
            yield f"{condition} -F"
        for option in options_of(table):
            value = (" -r -F" if option.values in FILE_VALUES else " -x") if option.values else ""
            if (table.name, option.name) in offered_words:
                value += f" -a '{' '.join(offered_words[table.name, option.name])}'"
            yield f"{condition} -o {option.name}{value} -d {_quoted(option.help)}"


MAN = command_table("man")


def man(argv: Sequence[str]) -> int:
    import shutil
    import subprocess

    arguments = parse(MAN, argv)
    name = command_named(arguments.words[0]) if arguments.words else ""
    if len(arguments.words) > 1 or (arguments.words and not name):
        raise ToolError("poolbook man: specify one command; `poolbook -help` lists them")
    page = "\n".join(_page_of(table_of(name)) if name else _overview_page()) + "\n"
    reader = shutil.which("man")
    if reader is not None and sys.stdout.isatty():
        return subprocess.run([reader, "-l", "-"], input=page, text=True, check=False).returncode
    print(page, end="")
    return 0


def _escape_roff(text: str) -> str:
    escaped_text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped_text.split("\n"))


def _page_heading(name: str, purpose: str) -> Iterator[str]:
    from ..machine.host import VERSION

    yield f'.TH {name.upper()} 1 "" "Poolbook {VERSION}" "Poolbook"'
    yield from (".SH NAME", f"{_escape_roff(name)} \\- {_escape_roff(purpose)}")


def _term_list(head: str, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield f".SH {head}"
    for term, text in rows:
        yield from (".TP", f"\\fB{_escape_roff(term)}\\fR", _escape_roff(text) or "\\&")


def _page_of(command: ToolSyntax) -> Iterator[str]:
    yield from _page_heading(f"poolbook-{command.name}", COMMANDS[command.name].words)
    yield from (".SH SYNOPSIS", f"\\fBpoolbook {command.name}\\fR {_escape_roff(command.usage)}")
    yield from (".SH DESCRIPTION", _escape_roff(command.purpose))
    yield from _term_list("ARGUMENTS", command.words)
    yield from _term_list("OPTIONS", [(synopsis(option), option.help) for option in options_of(command)])
    yield from _term_list("EXAMPLES", command.examples)
    yield from (".SH EXIT STATUS", _escape_roff(EXITS), ".SH SEE ALSO", "\\fBpoolbook\\fR(1)")


def _overview_page() -> Iterator[str]:
    yield from _page_heading("poolbook", "an HTCondor pool that records every state change in an append-only log")
    yield from (".SH SYNOPSIS", "\\fBpoolbook\\fR COMMAND [options]")
    yield from _term_list("COMMANDS", [(name, entry.words) for name, entry in COMMANDS.items()])
    yield from (".SH ENVIRONMENT", ".TP", "\\fBPOOLBOOK_LOG\\fR", "the default log for commands without -log")
    yield from (".TP", "\\fBNO_COLOR\\fR", "if set, do not print colours", ".SH EXIT STATUS", _escape_roff(EXITS))


EXITS = "0: success. 1: rejected, or the answer is no. 2: invalid usage. 130: interrupted."

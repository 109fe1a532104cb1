"""``poolbook man``: print manual pages, made from the commands' tables on request."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence

from ..condor_tools.options import Command, Refusal, command_table, parse, spelling
from ..machine.host import VERSION
from .command_names import meant
from .command_tables import options_of, table_of
from .main import COMMANDS

MAN = command_table("man")


def man(argv: Sequence[str]) -> int:
    arguments = parse(MAN, argv)
    name = meant(arguments.words[0], COMMANDS) if arguments.words else ""
    if len(arguments.words) > 1 or (arguments.words and not name):
        raise Refusal("poolbook man: name one command; `poolbook -help` lists them")
    page = "\n".join(_page_of(table_of(name)) if name else _whole()) + "\n"
    reader = shutil.which("man")
    if reader is not None and sys.stdout.isatty():
        return subprocess.run([reader, "-l", "-"], input=page, text=True, check=False).returncode
    print(page, end="")
    return 0


def _text(text: str) -> str:
    """Escape a text so that roff shows it unchanged."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in plain.split("\n"))


def _head(name: str, words: str) -> Iterator[str]:
    yield f'.TH {name.upper()} 1 "" "Poolbook {VERSION}" "Poolbook"'
    yield from (".SH NAME", f"{_text(name)} \\- {_text(words)}")


def _rows(head: str, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield f".SH {head}"
    for left, right in rows:
        yield from (".TP", f"\\fB{_text(left)}\\fR", _text(right) or "\\&")


def _page_of(command: Command) -> Iterator[str]:
    yield from _head(f"poolbook-{command.name}", COMMANDS[command.name].words)
    yield from (".SH SYNOPSIS", f"\\fBpoolbook {command.name}\\fR {_text(command.usage)}")
    yield from (".SH DESCRIPTION", _text(command.purpose))
    yield from _rows("ARGUMENTS", command.words)
    yield from _rows("OPTIONS", [(spelling(option), option.help) for option in options_of(command)])
    yield from _rows("EXAMPLES", command.examples)
    yield from (".SH EXIT STATUS", _text(EXITS), ".SH SEE ALSO", "\\fBpoolbook\\fR(1)")


def _whole() -> Iterator[str]:
    yield from _head("poolbook", "runs HTCondor jobs, and writes every step to an append-only log")
    yield from (".SH SYNOPSIS", "\\fBpoolbook\\fR COMMAND [options]")
    yield from _rows("COMMANDS", [(name, entry.words) for name, entry in COMMANDS.items()])
    yield from (".SH ENVIRONMENT", ".TP", "\\fBPOOLBOOK_LOG\\fR", "the log, where no option names one")
    yield from (".TP", "\\fBNO_COLOR\\fR", "no colours", ".SH EXIT STATUS", _text(EXITS))


EXITS = "0: done. 1: refused, or the answer is no. 2: wrong usage. 130: interrupted."

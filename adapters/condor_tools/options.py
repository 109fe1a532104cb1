"""Options in the style of HTCondor tools: a single dash, long names, abbreviations down to a minimum length.

The file in ``commands/`` for a command defines its options: their parsing, help and error messages. The classes are
NamedTuples, not attrs classes, because importing attrs takes a third of a short command's time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .terminal import columns, wrap_text

if TYPE_CHECKING:
    from .cells import CellContext

MANY = -1
"""The arity of an option that takes all arguments up to the next option."""


class UsageError(Exception):
    """Invalid usage. The message contains the problem and the fix. The command exits with ``exit_code``."""

    exit_code = 2

    def __init__(
        self, message: str, option: str = "", tool_message: str | None = None, *, lacks_value: str = "",
        number: str = "", word: str = "", command: str = "",
    ) -> None:  # fmt: skip
        """``option``: an unknown option; ``lacks_value``: an option of ``command`` without its values; ``number``: an
        option whose value is not a valid number; ``word``: the option or value as typed; ``tool_message``: the message
        of the HTCondor tool before its help (None: unknown)."""
        super().__init__(message)
        self.option, self.tool_message, self.lacks_value = option, tool_message, lacks_value
        self.number, self.word, self.command = number, word, command


class ToolError(Exception):
    """A valid request that failed. The command exits with ``exit_code``."""

    exit_code = 1


class NotHere(ToolError):
    """A name that does not exist in this pool. ``tool_message`` is the message of HTCondor tools, with ``{tool}`` for
    the name of the tool."""

    def __init__(self, message: str, tool_message: str, tool_code: int = 1) -> None:
        super().__init__(message)
        self.tool_message, self.tool_code = tool_message, tool_code


class Help(Exception):
    """Not an error: requests the help of ``command`` on standard output."""

    exit_code = 0

    def __init__(self, command: ToolSyntax) -> None:
        self.command = command

    def __str__(self) -> str:
        return usage(self.command)


class Version(Exception):
    """Not an error: requests the HTCondor version that Poolbook implements."""

    exit_code = 0


class Option(NamedTuple):
    """A row of a command's table of options."""

    name: str  #: the long name without the dash
    least: int  #: the minimum length of an abbreviation
    values: str = ""  #: its values as shown in the help: ``<expr>``, ``<fmt> <attr>``, ``<attr>...``
    help: str = ""  #: the description in the help
    colon: str = ""  #: the qualifier after a colon, as shown in the help
    refused: str = ""  #: for an unsupported HTCondor option: the reason and the alternative
    also: str = ""  #: an alternative full name

    @property
    def arity(self) -> int:
        """Return the number of values; ``MANY`` for all arguments up to the next option."""
        return MANY if self.values.endswith("...") else len(self.values.split())


class ToolSyntax(NamedTuple):
    """A command's name, usage, purpose, options and examples."""

    name: str
    usage: str
    purpose: str
    options: tuple[Option, ...]
    examples: tuple[tuple[str, str], ...] = ()
    words: tuple[tuple[str, str], ...] = ()


class GivenOption(NamedTuple):
    """An option on a command line: its full name, the text after the colon, its values, and its original spelling."""

    name: str
    qualifier: str | None
    values: tuple[str, ...]
    spelling: str


class Arguments(NamedTuple):
    """A command's arguments: the options in order, and the remaining words."""

    options: tuple[GivenOption, ...]
    words: tuple[str, ...]

    def all_given(self, *names: str) -> Iterator[GivenOption]:
        """Return the options with these names, in the order of the command line."""
        return (option for option in self.options if option.name in names)

    def has(self, *names: str) -> bool:
        return any(True for _ in self.all_given(*names))

    def last(self, *names: str) -> GivenOption | None:
        """Return the last of these options that was given; it overrides the others."""
        return next((option for option in reversed(self.options) if option.name in names), None)

    def last_name(self, *names: str) -> str:
        """Return the name of the last of these options that was given, or an empty string if none was."""
        option = self.last(*names)
        return "" if option is None else option.name

    def value(self, name: str, default: str = "") -> str:
        option = self.last(name)
        return default if option is None else option.values[0]

    def values(self, name: str) -> list[str]:
        return [option.values[0] for option in self.all_given(name)]


def data_text(folder: str, name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), folder, f"{name}.txt"), encoding="utf-8") as file:
        return file.read()


def sections(name: str) -> dict[str, list[str]]:
    """Return the rows of each section of a data file, by the section's heading."""
    blocks = data_text("commands", name).replace("\n    ", " ").strip().split("\n\n")
    return {heading: rows for heading, *rows in (block.split("\n") for block in blocks)}


def texts_by_name(rows: Iterable[str]) -> dict[str, str]:
    """Return the text of each row by name; a row may have several names."""
    return {name: text for names, text in map(pair, rows) for name in names.split(", ")}


def pair(row: str) -> tuple[str, str]:
    left_part, _, right_part = row.partition("  ")
    return left_part, right_part


_SHARED_OPTIONS = sections("shared")
AUTOFORMAT_LETTERS = dict(map(pair, _SHARED_OPTIONS["letters after -af:"]))
"""The meanings of the letters after ``-af:``."""
OTHER_COMMANDS_OPTIONS = dict(map(pair, _SHARED_OPTIONS["names of options elsewhere:"]))
"""Full names of options of other commands, by name, which a command must not treat as an abbreviation for its own
option. They are listed here since a short command does not load the other tables; a test compares them."""
_UNSUPPORTED = "not supported: "


def command_table(name: str) -> ToolSyntax:
    """Return the table of a command, from its data file. ``commands/shared.txt`` documents the format."""
    sections_by_name = sections(name)
    (call, purpose), *_ = sections_by_name.items()
    return ToolSyntax(
        name,
        call.removeprefix(f"poolbook {name} "),
        "\n".join(purpose),
        option_rows(sections_by_name["options:"]),
        tuple(map(pair, sections_by_name.get("examples:", ()))),
        tuple(map(pair, sections_by_name.get("arguments:", ()))),
    )


def option_rows(rows: Iterable[str]) -> tuple[Option, ...]:
    return tuple(_parse_options(rows))


def _parse_options(rows: Iterable[str]) -> Iterator[Option]:
    for row in rows:
        if row.startswith("@"):
            yield from _parse_options(_SHARED_OPTIONS[f"{row[1:]}:"])
            continue
        spellings, help_text = pair(row)
        is_refused = help_text.startswith(_UNSUPPORTED)
        help, refusal = ("", help_text.removeprefix(_UNSUPPORTED)) if is_refused else (help_text, "")
        for spelling in spellings.split(", "):
            name, _, values = spelling.partition(" ")
            name, _, other_name = name.partition("/-")
            name, colon, qualifier = name.partition("[:")
            needed_part, _, optional_part = name.removeprefix("-").removesuffix("]").partition("[")
            colon = colon[1:] + qualifier.removesuffix("]")
            yield Option(needed_part + optional_part, len(needed_part), values, help, colon, refusal, other_name)


def parse(command: ToolSyntax, argv: Sequence[str]) -> Arguments:
    """Parse the arguments according to the command's table. Raise `Help` for -help, `Version` for -version, and
    `UsageError` if an option is unknown (with suggestions), is not supported, or lacks its values."""
    options_given: list[GivenOption] = []
    words: list[str] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        option, qualifier = find_option(command, word)
        if option.refused:
            raise UsageError(f"poolbook {command.name}: -{option.name} is not supported: {option.refused}")
        if option.name == "help":
            raise Help(command)
        if option.name == "version":
            raise Version
        values, at = _option_values(command, option, word, argv, at)
        options_given.append(GivenOption(option.name, qualifier, values, word))
    return Arguments(tuple(options_given), tuple(words))


def find_option(command: ToolSyntax, word: str) -> tuple[Option, str | None]:
    """Return the option for an argument such as ``-con``, ``-af:jh`` or ``--constraint``, and the text after its colon.

    With two dashes the name must be complete, as in HTCondor's tools. The full name of another command's option
    (``OTHER_COMMANDS_OPTIONS``) is not accepted as an abbreviation.

    :raises UsageError: the option is unknown; the message suggests similar ones
    """
    is_exact = word.startswith("--")
    name, colon, qualifier = word.lstrip("-").partition(":")
    options = [option for option in command.options if option.colon or not colon]
    match = next((option for option in options if name in (option.name, option.also)), None)
    if match is None and not is_exact:
        match = next((o for o in options if len(name) >= o.least and o.name.startswith(name)), None)
        if match is not None and not match.refused and name in OTHER_COMMANDS_OPTIONS:
            raise UsageError(
                f"poolbook {command.name}: unknown option {word}, an option of {OTHER_COMMANDS_OPTIONS[name]}; write "
                f"-{match.name} in full to use that one"
            )
    if match is not None:
        return match, qualifier if colon else None
    raise UsageError(
        f"poolbook {command.name}: unknown option {word}{_suggestions(command, name)}."
        f" `poolbook {command.name} -help` lists the options",
        option=word,
    )


def _suggestions(command: ToolSyntax, name: str) -> str:
    from ...domain.suggestions import close_names

    names = [option.name for option in command.options]
    close_matches = [other for other in names if name and other.startswith(name)] or close_names(name, names)
    return f" (near: {', '.join('-' + other for other in close_matches[:3])})" if close_matches else ""


def _option_values(
    command: ToolSyntax, option: Option, word: str, argv: Sequence[str], at: int
) -> tuple[tuple[str, ...], int]:
    end = at
    if option.arity == MANY:
        while end < len(argv) and not argv[end].startswith("-"):
            end += 1
        values = tuple(argv[at:end])
        if end < len(argv) and argv[end] == "-":
            end += 1  # a single dash ends a list, so that job ids can follow
        missing = not values
    else:
        end = at + option.arity
        values = tuple(argv[at:end])
        missing = len(values) < option.arity
    if missing:
        message = f"poolbook {command.name}: {word} needs {option.values}: {option.help}"
        raise UsageError(message, lacks_value=option.name, word=word, command=command.name)
    return values, end


def whole_number(command: ToolSyntax, option: GivenOption, least: int = 0) -> int:
    """Return an option's value as an integer. Raise `UsageError` if it is invalid or less than ``least``."""
    (value,) = option.values
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if number < least:
        message = f"poolbook {command.name}: -{option.name} must be a whole number, at least {least}, not {value!r}"
        raise UsageError(message, number=option.name, word=value, command=command.name)
    return number


def last_number(command: ToolSyntax, arguments: Arguments, *names: str, least: int = 0) -> int | None:
    """Return the last value of these options, parsed by `whole_number`, or None without these options."""
    option = arguments.last(*names)
    return None if option is None else whole_number(command, option, least)


def with_width(command: ToolSyntax, arguments: Arguments, display: CellContext) -> CellContext:
    """Return the context with the requested line width: None with -wide, 120 with ``-wide:120``. Raise `UsageError` if
    the text after the colon is not a valid width."""
    wide_option = arguments.last("wide")
    if wide_option is None:
        return display
    width = wide_option.qualifier
    number = None if width is None else whole_number(command, wide_option._replace(values=(width,)), 1)
    return display._replace(width=number)


def usage(command: ToolSyntax, width: int | None = None) -> str:
    """Format a command's help from its table, in lines of at most `width` columns."""
    shown_options = [option for option in command.options if not option.refused]
    refused_names = [option.name for option in command.options if option.refused]
    parts: list[tuple[str, Sequence[tuple[str, str]]]] = [("arguments:", command.words)] if command.words else []
    helps = [(synopsis(option), option.help) for option in shown_options]
    parts.append(("options (any unambiguous prefix is accepted):", helps))
    if any(option.name == "af" for option in shown_options):
        parts.append(("letters after -af:", list(AUTOFORMAT_LETTERS.items())))
    if refused_names:
        parts.append(("HTCondor options that are not supported: " + ", ".join(refused_names), ()))
    if command.examples:
        parts.append(("examples:", command.examples))
    lines = [f"usage: poolbook {command.name} {command.usage}", "", command.purpose]
    for head, rows in parts:
        lines += ["", head, *columns(rows, width)]
    return wrap_text("\n".join(lines), width) + "\n"


def synopsis(option: Option) -> str:
    """Return an option with its values, as shown in the help."""
    letters = f"[{option.colon}]" if option.colon else ""
    values = option.values.replace(">...", "> ...")
    other_spelling = f", -{option.also}" if option.also else ""
    return f"-{option.name}{letters}{other_spelling} {values}".rstrip()

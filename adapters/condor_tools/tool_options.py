"""Options of the tools that Poolbook has only under their HTCondor names; they are parsed and rejected as in HTCondor.

Each of these tools has its own messages and exit code for invalid usage, the fields of its ``Tool``. Its help is that
of the HTCondor tool, from a file in ``usages/``. `htcondor_message` gives the messages of condor_q, condor_history and
condor_status for options without their values. Source: HTCondor's queue.cpp, history.cpp and status.cpp, and their
output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .options import MANY, Arguments, GivenOption, Option, UsageError, data_text, option_rows, sections, texts_by_name


class ToolEnded(Exception):
    """A tool exits early; contains its exit code, and its output on standard error and standard output."""

    def __init__(self, exit_code: int, err: str = "", out: str = "") -> None:
        self.exit_code, self.err, self.out = exit_code, err, out


class Tool(NamedTuple):
    """A tool's syntax, from its file in ``tools/``.

    The texts contain Python escapes; ``{option}`` is the invalid argument, ``{usage}`` the tool's help,
    ``{needs}`` for the second column of the option's row. The options follow the texts, in rows as in ``commands/``."""

    name: str
    options: tuple[Option, ...]
    lacking: str  #: the message for an option without its value
    lacking_all: str = ""  #: the message for an option that takes any number of values, if it differs
    unknown: str = ""  #: the message for an unknown option; empty: it is treated as an argument
    usage_exit_code: str = "1"  #: the exit code for invalid usage
    help_exit_code: str = "0"  #: the exit code of -help
    help_out: str = ""  #: not empty if the help goes to standard output
    words_end_it: str = ""  #: not empty if no options may follow the first argument

    def usage_error(self, message: str, **values: str) -> ToolEnded:
        usage = usage_of(self.name) if "{usage}" in message else ""
        return ToolEnded(int(self.usage_exit_code), message.format(usage=usage, **values))

    def find(self, word: str) -> tuple[Option, str | None] | None:
        """Return the option that an argument names, and the text after its colon."""
        option_name, colon, qualifier = word.lstrip("-").partition(":")
        for option in self.options:
            if (option.colon or not colon) and len(option_name) >= option.least and option.name.startswith(option_name):
                return option, qualifier if colon else None
        return None


def tool(name: str) -> Tool:
    head, _, rows = data_text("tools", name).replace("\n    ", " ").partition("\n\n")
    tool_texts = dict(line.encode().decode("unicode_escape").split(": ", 1) for line in head.split("\n"))
    return Tool(name, option_rows(rows.strip().splitlines()), **tool_texts)


def usage_of(tool: str) -> str:
    return data_text("usages", tool)


def parse_tool_arguments(tool: Tool, argv: Sequence[str]) -> Arguments:
    """Parse a tool's arguments according to its table. Raise ``ToolEnded``, also for -help and -version."""
    options_given: list[GivenOption] = []
    words: list[str] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        match = None if word in ("-", "--") or not word.startswith("-") else tool.find(word)
        if match is None and word.startswith("-") and tool.unknown and word != "--":
            raise tool.usage_error(tool.unknown, option=word)
        if match is None:
            if tool.words_end_it:
                words += argv[at:] if word == "--" else argv[at - 1 :]
                break
            words.append(word)
            continue
        option, qualifier = match
        if option.name == "help":
            text = usage_of(tool.name)
            raise ToolEnded(int(tool.help_exit_code), *(("", text) if tool.help_out else (text,)))
        if option.name == "version":
            raise ToolEnded(0, out=version())
        if option.refused:
            raise ToolEnded(
                int(tool.usage_exit_code), f"condor_{tool.name}: {word} is not supported: {option.refused}\n"
            )
        takes_many = option.arity == MANY
        end = at + option.arity
        if takes_many:
            end = next((index for index in range(at, len(argv)) if argv[index].startswith("-")), len(argv))
        if end > len(argv) or (takes_many and end == at):
            lacking = (takes_many and tool.lacking_all) or tool.lacking
            raise tool.usage_error(lacking.replace("{needs}", option.help.replace("\\n", "\n")), option=word)
        options_given.append(GivenOption(option.name, qualifier, tuple(argv[at:end]), word))
        at = end
    return Arguments(tuple(options_given), tuple(words))


def version() -> str:
    """Return a tool's output for -version."""
    from ..machine.host import CONDOR_VERSION, condor_platform

    return f"{CONDOR_VERSION}\n{condor_platform()}\n"


def htcondor_message(error: UsageError) -> str | None:
    """Return the HTCondor tool's message for invalid usage of a command, or None if it is unknown."""
    if not error.lacks_value:
        return number_message(error) if (error.command, error.number) == ("q", "limit") else None
    text = texts_by_name(sections(error.command).get("lacking:", ())).get(error.lacks_value)
    if text is None:
        return None
    return text.encode().decode("unicode_escape").format(word=error.word, option=error.lacks_value)


def number_message(error: UsageError, noun: str = "") -> str:
    """Return a tool's message for an option whose value, described by ``noun``, is not a valid number."""
    if error.word.lstrip("+-").isdigit():
        return f"Error: {int(error.word)} is not a valid for -{error.number}."
    return f"Error: Unable to convert {noun}({error.word}) to a number for -{error.number}."

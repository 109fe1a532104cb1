"""The options of HTCondor's tools that Poolbook has under their own names alone, read and refused as each of them does.

Every such tool has its own words for wrong usage, and its own exit code: they are the columns of its ``Tool``. Its help
is what HTCondor's prints, a file of ``usages/``. Of condor_q, condor_history and condor_status the words for options
without their values are here, too (`in_the_tools_words`). Source: queue.cpp, history.cpp and status.cpp of the
reference, and what they printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .options import MANY, Arguments, Given, Option, UsageError, data_text, option_rows, sections, texts_by_name


class ToolEnded(Exception):
    """A tool's end before its work is done: its exit code, and what it prints on standard error and standard output."""

    def __init__(self, exit_code: int, err: str = "", out: str = "") -> None:
        self.exit_code, self.err, self.out = exit_code, err, out


class Tool(NamedTuple):
    """How a tool reads its words, as its file of ``tools/`` has it.

    The texts are written with Python's escapes; in them ``{option}`` is the word that is wrong, ``{usage}`` the tool's
    help. Below them are the options, in rows as those of ``commands/``."""

    name: str
    options: tuple[Option, ...]
    lacking: str  #: what is said of an option without its value
    lacking_all: str = ""  #: the same of one that takes any number of values, where it is something else
    unknown: str = ""  #: what is said of an option that there is not; empty: it counts as a word
    wrong: str = "1"  #: the exit code of wrong usage
    helped: str = "0"  #: the exit code of -help
    help_out: str = ""  #: whether the help goes to standard output
    words_end_it: str = ""  #: whether what follows the first word is no option

    def ended(self, words: str, **values: str) -> ToolEnded:
        """Return the end by wrong usage, with these words."""
        usage = usage_of(self.name) if "{usage}" in words else ""
        return ToolEnded(int(self.wrong), words.format(usage=usage, **values))

    def find(self, word: str) -> tuple[Option, str | None] | None:
        """Return the option that a word means, and the text after its colon."""
        spelled, colon, qualifier = word.lstrip("-").partition(":")
        for option in self.options:
            if (option.colon or not colon) and len(spelled) >= option.least and option.name.startswith(spelled):
                return option, qualifier if colon else None
        return None


def tool(name: str) -> Tool:
    """Return how a tool reads its words."""
    head, _, rows = data_text("tools", name).replace("\n    ", " ").partition("\n\n")
    texts = dict(line.encode().decode("unicode_escape").split(": ", 1) for line in head.split("\n"))
    return Tool(name, option_rows(rows.strip().splitlines()), **texts)


def usage_of(tool: str) -> str:
    """Return what a tool prints as its help."""
    return data_text("usages", tool)


def read(tool: Tool, argv: Sequence[str]) -> Arguments:
    """Read a tool's words by its table. Raise ``ToolEnded``, also for -help and -version."""
    given: list[Given] = []
    words: list[str] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        found = None if word in ("-", "--") or not word.startswith("-") else tool.find(word)
        if found is None and word.startswith("-") and tool.unknown and word != "--":
            raise tool.ended(tool.unknown, option=word)
        if found is None:
            if tool.words_end_it:
                words += argv[at:] if word == "--" else argv[at - 1 :]
                break
            words.append(word)
            continue
        option, qualifier = found
        if option.name == "help":
            text = usage_of(tool.name)
            raise ToolEnded(int(tool.helped), *(("", text) if tool.help_out else (text,)))
        if option.name == "version":
            raise ToolEnded(0, out=version())
        if option.refused:
            raise ToolEnded(int(tool.wrong), f"condor_{tool.name}: {word} is not supported: {option.refused}\n")
        many = option.arity == MANY
        end = at + option.arity
        if many:
            end = next((there for there in range(at, len(argv)) if argv[there].startswith("-")), len(argv))
        if end > len(argv) or (many and end == at):
            raise tool.ended((many and tool.lacking_all) or tool.lacking, option=word)
        given.append(Given(option.name, qualifier, tuple(argv[at:end]), word))
        at = end
    return Arguments(tuple(given), tuple(words))


def version() -> str:
    """Return what a tool prints with -version."""
    from ..machine.host import CONDOR_VERSION, condor_platform

    return f"{CONDOR_VERSION}\n{condor_platform()}\n"


def in_the_tools_words(wrong: UsageError) -> str | None:
    """Return what HTCondor's tool says of wrong usage of a command; None if it is not known."""
    if not wrong.lacks:
        return no_number(wrong) if (wrong.command, wrong.number) == ("q", "limit") else None
    text = texts_by_name(sections(wrong.command).get("lacking:", ())).get(wrong.lacks)
    return None if text is None else text.encode().decode("unicode_escape").format(word=wrong.word, option=wrong.lacks)


def no_number(wrong: UsageError, noun: str = "") -> str:
    """Return what a tool says of an option whose value, its ``noun``, is not such a number."""
    if wrong.word.lstrip("+-").isdigit():
        return f"Error: {int(wrong.word)} is not a valid for -{wrong.number}."
    return f"Error: Unable to convert {noun}({wrong.word}) to a number for -{wrong.number}."

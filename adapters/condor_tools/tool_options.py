"""The options of HTCondor's tools that Poolbook has under their own names alone, read and refused as each of them does.

Every such tool has its own words for wrong usage, and its own exit code: they are the columns of its ``Tool``. Its help
is what HTCondor's prints, a file of ``usages/``. Of condor_q, condor_history and condor_status the words for options
without their values are here, too (`in_the_tools_words`). Source: queue.cpp, history.cpp and status.cpp of the
reference, and what they printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from .options import MANY, Arguments, Given, Option, UsageError, data_text, option_rows


class ToolEnded(Exception):
    """A tool's end before its work is done: its exit code, and what it prints on standard error and standard output."""

    def __init__(self, exit_code: int, err: str = "", out: str = "") -> None:
        self.exit_code, self.err, self.out = exit_code, err, out


class Tool(NamedTuple):
    """How a tool reads its words. In the texts ``{option}`` is the word that is wrong, ``{usage}`` the tool's help."""

    name: str
    lacking: str  #: what is said of an option without its value
    lacking_all: str = ""  #: the same of one that takes any number of values, where it is something else
    unknown: str = ""  #: what is said of an option that there is not; empty: it counts as a word
    wrong: int = 1  #: the exit code of wrong usage
    helped: int = 0  #: the exit code of -help
    help_out: bool = False  #: whether the help goes to standard output
    words_end_it: bool = False  #: whether what follows the first word is no option

    def ended(self, words: str, **values: str) -> ToolEnded:
        """Return the end by wrong usage, with these words."""
        usage = usage_of(self.name) if "{usage}" in words else ""
        return ToolEnded(self.wrong, words.format(usage=usage, **values))

    @property
    def options(self) -> tuple[Option, ...]:
        """Return its options, from its file of ``tools/``, whose rows are written as those of ``commands/``."""
        return option_rows(data_text("tools", self.name).replace("\n    ", " ").splitlines())

    def find(self, word: str) -> tuple[Option, str | None] | None:
        """Return the option that a word means, and the text after its colon."""
        spelled, colon, qualifier = word.lstrip("-").partition(":")
        for option in self.options:
            if (option.colon or not colon) and len(spelled) >= option.least and option.name.startswith(spelled):
                return option, qualifier if colon else None
        return None


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
            raise ToolEnded(tool.helped, "", text) if tool.help_out else ToolEnded(tool.helped, text)
        if option.name == "version":
            raise ToolEnded(0, out=version())
        if option.refused:
            raise ToolEnded(tool.wrong, f"condor_{tool.name}: {word} is not supported: {option.refused}\n")
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


_ATTRIBUTES: Final = "Error: Argument {word} requires at least one attribute parameter"
_HELP: Final = '\nUse "condor_status -help" for details'
_NO_HOST: Final = "\n\t\te.g. condor_history -name submit.example.com "

_LACKING: Final[dict[str, dict[str, str]]] = {
    "condor_q": {
        "aaf": "Error: -aaf requires at least one attribute parameter",
        "af": "Error: -autoformat requires at least one attribute parameter",
        "attributes": "Error: -attributes requires a list of attributes to show",
        "autoformat": "Error: -autoformat requires at least one attribute parameter",
        "constraint": "Error: -constraint requires another parameter",
        "format": "Error: -format requires format and attribute parameters",
        "jobads": "Error: -jobads requires a filename",
        "limit": "Error: -limit requires the max number of results as an argument.",
        "name": "Error: -name requires the name of a schedd as an argument.",
        "print-format": "Error: -print-format requires a filename argument",
        "submitter": "Error: -submitter requires the name of a user.",
    },
    "condor_history": {
        "af": f"{_ATTRIBUTES}\n\t\te.g. condor_history {{word}} ClusterId",
        "attributes": "Error: Argument -attributes must be followed by a list of attributes",
        "autoformat": f"{_ATTRIBUTES}\n\t\te.g. condor_history {{word}} ClusterId",
        "completedsince": "Error: Argument -completedsince requires another parameter.",
        "constraint": "Error: Argument {word} requires another parameter",
        "format": "Error: Argument -format requires a spec and classad attribute name as parameters.\n"
        "\t\te.g. condor_history -format '%d' ClusterId",
        "limit": "Error: Argument -match requires a number value as a parameter.",
        "match": "Error: Argument -match requires a number value as a parameter.",
        "name": f"Error: Argument -name requires name of a remote schedd{_NO_HOST}",
        "print-format": "Error: Argument -print-format requires a filename argument",
        "scanlimit": "Error: Argument {word} requires a number value  as a parameter.",
        "since": "Error: Argument {word} requires another parameter",
    },
    "condor_status": {
        "aaf": _ATTRIBUTES + _HELP,
        "ads": f"condor_status: -ads requires a filename argument{_HELP}",
        "af": _ATTRIBUTES + _HELP,
        "attributes": f"condor_status: -attributes requires one additional argument{_HELP}",
        "autoformat": _ATTRIBUTES + _HELP,
        "constraint": f"condor_status: -constraint requires another argument{_HELP}",
        "direct": f"condor_status: -direct requires another argument{_HELP}",
        "format": f"condor_status: -format requires two other arguments{_HELP}",
        "limit": f"condor_status: -limit requires one additional argument{_HELP}",
        "print-format": "Error: Argument -print-format requires a filename argument",
        "sort": f"condor_status: -sort requires another argument{_HELP}",
    },
}


def in_the_tools_words(tool: str, wrong: UsageError) -> str | None:
    """Return what a tool says of wrong usage; None if it is not known."""
    if wrong.lacks:
        found = _LACKING.get(tool, {}).get(wrong.lacks)
        return None if found is None else found.format(word=wrong.word)
    if wrong.number == "limit" and tool == "condor_q":
        if wrong.word.lstrip("+-").isdigit():
            return f"Error: {int(wrong.word)} is not a valid for -limit."
        return f"Error: Unable to convert ({wrong.word}) to a number for -limit."
    return None

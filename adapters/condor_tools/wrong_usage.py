"""What condor_q, condor_history and condor_status say of options without their values, and of what is no number.

Under HTCondor's names of these commands it stands in place of Poolbook's words. Source: queue.cpp, history.cpp and
status.cpp of the reference, and what they printed.
"""

from __future__ import annotations

from typing import Final

from .options import UsageError

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

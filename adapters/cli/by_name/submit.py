"""condor_submit: ``poolbook submit``, in the words of HTCondor's tool.

Source: submit.cpp of the reference, and captures of what it prints.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from ....domain.errors import PoolbookError
from ...condor_tools.options import Arguments, Help, NotHere, Refusal, UsageError, parse
from ...condor_tools.tool_options import ToolEnded, usage_of
from ...runtime.requests import Refused
from ..submit import BY_POLICY, NOTHING_QUEUED, answered, asks, ended, queued, refused_by_policy, warned_by_policy
from ..submit_description import SUBMIT, print_warnings
from ..submit_dry_run import heading

_FAILURES = (
    (r"((?:Can't access executable|Executable) file .*)", r"\nERROR: \1"),
    (r"(?:line \d+: )?(\S+) = (.*?): this must (eval to an? \w+).*", r"ERROR: \1=\2 is invalid, must \3."),
    (r"(?:line \d+: )?(No 'executable' parameter was provided).*", r"ERROR: \1"),
    (r"(No such directory: .*)", r"ERROR: \1"),
    (
        r"(?:line \d+: )?universe = (.*?): .*; there is no such universe",
        r"ERROR: I don't know about the '\1' universe.",
    ),
    (r"((?s:.*))", r"\nERROR: \1"),
)
"""What is said of a submission that fails, by the pool's own words; the first that fits."""
_LACKING = dict.fromkeys(("queue", "iterate", "table"), "at least one argument")
"""What an option without its values lacks, where that is not `another argument`."""
_PLACE = re.compile(r"( was unused by condor_submit)(?:, line \d+)?\. Is it a typo\?.*")
"""Where in a submit file something stands that nothing reads, and what may have been meant."""


def submit(argv: Sequence[str]) -> int:
    usage = usage_of("submit")
    try:
        arguments = parse(SUBMIT, argv)
    except Help:
        raise ToolEnded(0, usage) from None
    except UsageError as wrong:
        told = str(wrong).removeprefix("poolbook submit: ")
        if wrong.lacks:
            told = f"-{wrong.lacks} requires {_LACKING.get(wrong.lacks, 'another argument')}"
        raise ToolEnded(1, usage if wrong.option else f"condor_submit: {told}\n") from None
    try:
        if asks(arguments):
            return answered(arguments)
        return _submit(arguments)
    except UsageError as wrong:
        words = _no_number(wrong.number, wrong.word) if wrong.number else wrong.told
        raise ToolEnded(1, words or f"\nERROR: {wrong}\n") from None
    except NotHere:
        raise
    except Refusal as refusal:
        raise ToolEnded(1, f"\n{refusal}\n") from None
    except (PoolbookError, Refused) as error:
        begun = heading(arguments)
        if not str(error).endswith(NOTHING_QUEUED):
            raise ToolEnded(1, _failed(error), begun) from None
        quiet = arguments.has("terse")
        raise ToolEnded(0, "" if quiet else f"\nWARNING: {error}\n", f"{begun}\n" if begun else "") from None


def _submit(arguments: Arguments) -> int:
    done, told = queued(arguments)
    print(told, end="", flush=True)
    if not arguments.has("terse", "json", "interactive") and told.endswith(f" to cluster {done.cluster}.\n"):
        print(f"To monitor your job(s), run: condor_watch_q -clusters {done.cluster}", file=sys.stderr)
    print_warnings(map(_placeless, (*done.warnings, *warned_by_policy(done.warning))))
    return ended(arguments, done)


def _no_number(option: str, value: str) -> str:
    if value.lstrip("+-").isdigit():
        return f"Error: {value} is not a valid for -{option}.\n"
    return f"Error: Unable to convert argument ({value}) to a number for -{option}.\n"


def _failed(error: PoolbookError | Refused) -> str:
    """Return what is written on standard error of a submission that failed."""
    said = str(error)
    if said.startswith(BY_POLICY):
        words = refused_by_policy(said)
    else:
        found = ((re.fullmatch(pattern, said), form) for pattern, form in _FAILURES)
        words = next(fits.expand(form) for fits, form in found if fits)
    return "".join(f"{line}\n" for line in (*map(_placeless, getattr(error, "warnings", ())), words))


def _placeless(line: str) -> str:
    """A warning without the place in the submit file, and without near names: condor_submit does not say them."""
    return _PLACE.sub(r"\1. Is it a typo?", line)

"""``poolbook doctor``: report what is wrong with this machine, its configuration and its log, and how to fix it.

``gathering`` reads the machine, the disk and the log, and changes none of them. It returns the `Facts`, which
``findings`` judges, reading nothing else.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...condor_tools.options import UsageError, command_table, parse
from ..common import log_of

if TYPE_CHECKING:
    from .findings import Finding

COMMAND = command_table("doctor")


def doctor(argv: Sequence[str]) -> int:
    arguments = parse(COMMAND, argv)
    if arguments.words:
        raise UsageError(
            f"poolbook doctor: {arguments.words[0]} is no option; a log is named by -log {arguments.words[0]}"
        )
    from .findings import Level, examined
    from .gathering import gathered

    found = examined(gathered(log_of(arguments), arguments.values("config")))
    if arguments.has("json"):
        print(json.dumps([one._asdict() for one in found], indent=2))
    else:
        shown = [one for one in found if one.level is not Level.OK or not arguments.has("quiet")]
        print("\n".join(_told(found, shown)))
    return int(any(one.level is Level.PROBLEM for one in found))


def _told(found: Sequence[Finding], shown: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings, the worst first, each with its remedy below."""
    from .findings import Level

    count = Counter(one.level for one in found)
    worst = [Level.PROBLEM, Level.WARNING, Level.OK]
    amounts = [f"{count[level]} {level}{'s' * (count[level] != 1)}" for level in worst[:-1] if count[level]]
    yield f"poolbook doctor: {', '.join([*amounts, f'{count[Level.OK]} in order'])}"
    width = max((len(one.check) for one in shown), default=0)
    for one in sorted(shown, key=lambda one: worst.index(one.level)):
        head = f"  {one.level:<7}  {one.check:<{width}}  "
        yield from _wrapped(head + one.words, len(head))
        if one.remedy:
            yield from _wrapped(f"{'':{len(head)}}-> {one.remedy}", len(head) + 3)


def _wrapped(text: str, indent: int) -> Iterator[str]:
    """Yield a text in lines of the terminal's width, if it has one; continuation lines are indented by ``indent``."""
    width = shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else 0
    for number, line in enumerate(text.split("\n")):
        begun = line if number == 0 else f"{'':{indent}}{line}"
        yield from textwrap.wrap(begun, max(width, indent + 30), subsequent_indent=" " * indent) if width else [begun]

"""``poolbook doctor``: report problems with this machine, its configuration and its log, and how to fix them.

``gathering`` reads the machine, the disk and the log without changing them, and returns `DoctorFacts`. ``findings``
checks only these facts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...condor_tools.options import UsageError, command_table, parse
from ...condor_tools.terminal import width_of, wrap_text
from ..common import selected_log

if TYPE_CHECKING:
    from .findings import Finding

COMMAND = command_table("doctor")


def doctor(argv: Sequence[str]) -> int:
    arguments = parse(COMMAND, argv)
    if arguments.words:
        raise UsageError(
            f"poolbook doctor: {arguments.words[0]} is not an option; specify a log with -log {arguments.words[0]}"
        )
    from .findings import Level, examine
    from .gathering import gather_facts

    findings = examine(gather_facts(selected_log(arguments), arguments.values("config")))
    if arguments.has("json"):
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        shown = [finding for finding in findings if finding.level is not Level.OK or not arguments.has("quiet")]
        print("\n".join(_report_lines(findings, shown)))
    return int(any(finding.level is Level.PROBLEM for finding in findings))


def _report_lines(findings: Sequence[Finding], shown_findings: Sequence[Finding]) -> Iterator[str]:
    from .findings import Level

    count = Counter(finding.level for finding in findings)
    worst = [Level.PROBLEM, Level.WARNING, Level.OK]
    amounts = [f"{count[level]} {level}{'s' * (count[level] != 1)}" for level in worst[:-1] if count[level]]
    yield f"poolbook doctor: {', '.join([*amounts, f'{count[Level.OK]} in order'])}"
    width = max((len(finding.check) for finding in shown_findings), default=0)
    for finding in sorted(shown_findings, key=lambda shown: worst.index(shown.level)):
        head = f"  {finding.level:<7}  {finding.check:<{width}}  "
        yield from _wrapped_lines(head + finding.words, len(head))
        if finding.remedy:
            yield from _wrapped_lines(f"{'':{len(head)}}-> {finding.remedy}", len(head) + 3)


def _wrapped_lines(text: str, indent: int) -> Iterator[str]:
    first, *others = text.split("\n")
    yield wrap_text(first, width_of(), indent - (len(first) - len(first.lstrip())))
    yield from (wrap_text(f"{'':{indent}}{line}", width_of()) for line in others)

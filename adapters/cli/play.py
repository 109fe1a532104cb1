"""``poolbook play SCENARIO``: run machines under a policy in virtual time and print each transition."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..bounded_text import read_input, read_text
from ..condor_tools.options import Arguments, Refusal, UsageError, command_table, last_number, parse
from ..condor_tools.terminal import folded, width_of

if TYPE_CHECKING:
    from ...domain.ports.log import Log
    from ...replay.scenario.transcript import Transcript
    from ..simulation import PlayEvent, Simulation

COMMAND = command_table("play")

_CONTINUED = 4  #: the indentation of a line's continuation on a narrow terminal
RECORDED = {
    "config": "it is played under the configuration that was recorded with it, and what would have come of it under "
    "another cannot be told yet: `poolbook play SCENARIO -config FILE` plays a scenario under any",
    "seed": "nothing of it is drawn by chance",
    "quiet": "only what differs is told of it anyway",
    "trust": "nothing is run or written for it",
    "audit": "it is compared with the records, not judged: `poolbook import FOLDER -log FILE` makes a log of them, and "
    "`poolbook audit FILE` judges that",
    "log": "it is compared, and not kept: `poolbook import FOLDER -log FILE` makes a log of the records",
}
"""Options that have no meaning for a recorded trace, and why: -trace refuses them."""


def play(argv: Sequence[str]) -> int:
    from ...domain.state_machines import DIALECTS

    arguments = parse(COMMAND, argv)
    dialect = arguments.value("dialect")
    if dialect and dialect not in DIALECTS:
        raise UsageError(f"poolbook play -dialect {dialect}: there are {', '.join(DIALECTS)}")
    trace = _trace(arguments)
    if trace is not None:
        compared = _cycles if arguments.has("cycles") else _compared
        return compared(trace, dialect, arguments)
    if len(arguments.words) != 1:
        raise UsageError("poolbook play: name one scenario; `poolbook play -help` tells more")
    from ...domain.config import ConfigError
    from ...replay.scenario import PlayError, read

    (name,) = arguments.words
    text = _text(name)
    log = _log(arguments)
    try:
        return _played(read(text), name, dialect, log, arguments)
    except PlayError as error:
        where = f"{name}:{error.line}" if error.line else name
        raise Refusal(f"poolbook play: {where}: {error.message}") from None
    except ConfigError as error:
        raise Refusal(f"poolbook play: {error}") from None
    finally:
        log.close()


def _trace(arguments: Arguments) -> Path | None:
    """Return the folder of the trace to be played, if one is named. Raise `UsageError` if another option would have no
    effect."""
    folders = arguments.values("trace")
    if not folders:
        if arguments.has("cycles"):
            raise UsageError("poolbook play -cycles: name the recorded pool whose cycles are meant: -trace FOLDER")
        return None
    others = [*folders[1:], *arguments.words]
    if others:
        raise UsageError(f"poolbook play -trace {folders[0]}: it is played alone, without {others[0]}")
    for given in arguments.every(*RECORDED):
        raise UsageError(f"poolbook play -trace {folders[0]}: -{given.name} is not for it: {RECORDED[given.name]}")
    return Path(folders[0])


def _text(name: str) -> str:
    try:
        return read_input() if name == "-" else read_text(name, "strict")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise Refusal(f"poolbook play: {name} cannot be read: {why}") from None


def _log(arguments: Arguments) -> Log:
    """Return a new log: in memory unless it is to be kept."""
    from ..stores import open_log

    url = arguments.value("log", "memory:")
    log = open_log(url, create=True)
    if log.head.position:
        log.close()
        raise Refusal(f"poolbook play: the log {url} has events already; name one that is not there yet")
    return log


def _played(scenario: Any, name: str, dialect: str, log: Log, arguments: Arguments) -> int:
    from ..runtime.disk import Disk, ReadOnlyDisk
    from ..simulation import ScenarioMachines, Simulation
    from ..simulation import play as perform

    machines = ScenarioMachines(
        scenario,
        name,
        Path(name).absolute().parent if name != "-" else Path.cwd(),
        list(map(Path, arguments.values("config"))),
        last_number(COMMAND, arguments, "seed") or 0,
        Disk() if arguments.has("trust") else ReadOnlyDisk(),
    )
    for warning in machines.new_warnings():
        print(f"poolbook play: warning: {warning}", file=sys.stderr)
    teller = _Json() if arguments.has("json") else _Lines(quiet=arguments.has("quiet"))
    stage = Simulation(scenario, machines, log, lambda told: teller.hear(told), dialect)
    teller.transcript = stage.transcript
    good = perform(stage)
    violations = _judged(stage) if arguments.has("audit") else None
    teller.end(good, violations)
    return 0 if good and not violations else 1


def _judged(stage: Simulation) -> list[str]:
    from ...replay.validation import examine

    return [str(violation) for violation in examine(stage.log.read()).violations]


class _Lines:
    """Prints a simulation in lines as it goes."""

    transcript: Transcript

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet

    def hear(self, told: PlayEvent) -> None:
        from ..simulation.transcript_lines import lines

        for line in lines(self.transcript, told, quiet=self._quiet):
            print(folded(line, width_of(), _CONTINUED))

    def end(self, good: bool, violations: list[str] | None) -> None:
        print("\n" * (not self._quiet) + folded("\n".join(self.transcript.summary()), width_of(), _CONTINUED))
        if violations is not None:
            print("\n".join(["audit: not allowed:", *violations]) if violations else "audit: all was allowed")
        if not good:
            print("some expectations were not met")


class _Json:
    """Prints a simulation as one JSON object at its end."""

    transcript: Transcript

    def __init__(self) -> None:
        self._told: list[dict[str, object]] = []
        self._failed: list[dict[str, object]] = []
        self._refused: list[dict[str, object]] = []
        self._warned: list[dict[str, object]] = []

    def hear(self, told: PlayEvent) -> None:
        from ...replay.scenario.transcript import TranscriptEntry, entry_dict
        from ..simulation import FailedExpectation, RefusedStep, StepWarning

        if isinstance(told, TranscriptEntry):
            self._told.append(entry_dict(told))
        elif isinstance(told, RefusedStep):
            self._refused.append({"line": told.step.line, "words": told.step.words, "why": told.why})
        elif isinstance(told, StepWarning):
            self._warned.append({"line": told.step.line, "words": told.step.words, "why": told.words})
        elif isinstance(told, FailedExpectation):
            self._failed.append({"line": told.step.line, "words": told.step.words, "found": told.found})

    def end(self, good: bool, violations: list[str] | None) -> None:
        whole = {"as_expected": good, "failed": self._failed, "refused": self._refused, "warnings": self._warned}
        whole["story"] = self._told
        if violations is not None:
            whole["violations"] = violations
        print(json.dumps({**whole, "summary": self.transcript.as_dict()}, indent=2))


def _compared(folder: Path, dialect: str, arguments: Arguments) -> int:
    """Play a trace of a real pool and print the differences."""
    from ...domain.config import ConfigError
    from ...replay.narration.wording import counted
    from ..conformance.golden_traces import COMPARISON_RULES, DIALECT, compare

    try:
        found = compare(folder, dialect or DIALECT)
    except (OSError, ConfigError) as error:
        raise Refusal(f"poolbook play -trace: {error}") from None
    if arguments.has("json"):
        told = {
            "folder": found.folder, "slots": found.slots, "entries": found.entries, "same": found.same,
            "equal": found.equal, "differences": list(map(str, found.differences)), "rewrites": found.rewrites,
        }  # fmt: skip
        print(json.dumps(told, indent=2))
        return 0 if found.equal else 1
    verdict = "all equal" if found.equal else f"{counted(len(found.differences), 'slot')} differ"
    print(f"{folder}: {counted(found.slots, 'slot')}, {counted(found.entries, 'transition')}: {verdict}")
    for difference in found.differences:
        print(f"  {difference}")
    why = {rewrite.name: rewrite.why for rewrite in COMPARISON_RULES}
    for name, count in found.rewrites.items():
        print(f"  rewritten, x{count}: {name}: {why.get(name, '')}")
    return 0 if found.equal else 1


def _cycles(folder: Path, dialect: str, arguments: Arguments) -> int:
    """Decide the cycles of a real negotiator again and print the differences."""
    from ...domain.config import ConfigError
    from ...replay.conformance import compare_cycles
    from ...replay.conformance.report import as_dict, lines
    from ..conformance.golden_traces import DIALECT
    from ..conformance.trace_cycles import record

    try:
        found = compare_cycles(record(folder, dialect or DIALECT))
    except (OSError, ConfigError) as error:
        raise Refusal(f"poolbook play -trace: {error}") from None
    print(json.dumps(as_dict(found), indent=2) if arguments.has("json") else "\n".join(lines(found)))
    return 0 if found.agrees else 1

"""``poolbook play SCENARIO``: simulate machines under a policy in virtual time, and print each transition."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...replay.narration.formatting import counted
from ..bounded_text import read_input, read_text
from ..condor_tools.options import Arguments, ToolError, UsageError, command_table, last_number, parse
from ..condor_tools.terminal import width_of, wrap_text

if TYPE_CHECKING:
    from ...domain.ports.log import EventStore
    from ...replay.scenario.transcript import Transcript
    from ..simulation import PlayEvent, Simulation

COMMAND = command_table("play")

_CONTINUED = 4  #: the indentation of continuation lines on a narrow terminal


def play(argv: Sequence[str]) -> int:
    from ...domain.state_machines import DIALECTS

    arguments = parse(COMMAND, argv)
    dialect = arguments.value("dialect")
    if dialect and dialect not in DIALECTS:
        raise UsageError(f"poolbook play -dialect {dialect}: unknown dialect; use {' or '.join(DIALECTS)}")
    if len(arguments.words) != (0 if arguments.has("swf") else 1):
        raise UsageError(
            "poolbook play: specify one scenario, or -swf with a workload; `poolbook play -help` shows more"
        )
    if arguments.has("slots") and not arguments.has("swf"):
        raise UsageError("poolbook play -slots: this option is only for -swf; use `machine NAME cores=N` in a scenario")
    from ...domain.config import ConfigError
    from ...replay.scenario import PlayError, parse_scenario

    name = arguments.value("swf") or arguments.words[0]
    text = _scenario_text(name)
    if arguments.has("swf"):
        text = _scenario_of_workload(name, text, arguments)
    log = _new_log(arguments)
    try:
        return _play(parse_scenario(text), name, dialect, log, arguments)
    except PlayError as error:
        where = f"{name}:{error.line}" if error.line else name
        raise ToolError(f"poolbook play: {where}: {error.message}") from None
    except ConfigError as error:
        raise ToolError(f"poolbook play: {error}") from None
    finally:
        log.close()


def _scenario_text(name: str) -> str:
    try:
        return read_input() if name == "-" else read_text(name, "strict")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ToolError(f"poolbook play: {name} cannot be read: {reason}") from None


def _scenario_of_workload(name: str, text: str, arguments: Arguments) -> str:
    from ..exports.swf import InvalidWorkload, scenario_of

    slots = last_number(COMMAND, arguments, "slots", least=1)
    if slots is None:
        raise UsageError("poolbook play -swf: give the number of slots, for example -slots 64")
    try:
        workload = scenario_of(text, slots)
    except InvalidWorkload as error:
        raise ToolError(f"poolbook play: {name}: {error}") from None
    if workload.left_out:
        left_out = counted(workload.left_out, "job")
        print(f"poolbook play: warning: {left_out} without a run time left out", file=sys.stderr)
    return workload.scenario


def _new_log(arguments: Arguments) -> EventStore:
    """Return a new log, in memory unless -log names a file."""
    from ..stores.opening import open_log

    url = arguments.value("log", "memory:")
    log = open_log(url, create=True)
    if log.head.position:
        log.close()
        raise ToolError(f"poolbook play: the log {url} already has events; use a new log")
    return log


def _play(scenario: Any, name: str, dialect: str, log: EventStore, arguments: Arguments) -> int:
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
    reporter = _Json() if arguments.has("json") else _Lines(is_quiet=arguments.has("quiet"))
    stage = Simulation(scenario, machines, log, reporter.report_event, dialect)
    reporter.transcript = stage.transcript
    is_good = perform(stage)
    violations = _verdict_lines(stage) if arguments.has("audit") else None
    reporter.report_result(is_good, violations)
    return 0 if is_good and not violations else 1


def _verdict_lines(stage: Simulation) -> list[str]:
    from ...replay.validation import examine

    return [str(violation) for violation in examine(stage.log.read()).violations]


class _Lines:
    """Prints a simulation line by line while it runs."""

    transcript: Transcript

    def __init__(self, is_quiet: bool) -> None:
        self._quiet = is_quiet

    def report_event(self, entry: PlayEvent) -> None:
        from ..simulation.runner import lines

        for line in lines(self.transcript, entry, quiet=self._quiet):
            print(wrap_text(line, width_of(), _CONTINUED))

    def report_result(self, is_good: bool, violations: list[str] | None) -> None:
        print("\n" * (not self._quiet) + wrap_text("\n".join(self.transcript.summary()), width_of(), _CONTINUED))
        if violations is not None:
            print("\n".join(["audit: not allowed:", *violations]) if violations else "audit: all events were allowed")
        if not is_good:
            print("some expectations were not met")


class _Json:
    """Prints a simulation as one JSON object when it ends."""

    transcript: Transcript

    def __init__(self) -> None:
        self._entries: list[dict[str, object]] = []
        self._failed: list[dict[str, object]] = []
        self._refused: list[dict[str, object]] = []
        self._warned: list[dict[str, object]] = []

    def report_event(self, entry: PlayEvent) -> None:
        from ...replay.scenario.transcript import TranscriptLine, entry_dict
        from ..simulation import FailedExpectation, RefusedStep, StepWarning

        if isinstance(entry, TranscriptLine):
            self._entries.append(entry_dict(entry))
        elif isinstance(entry, RefusedStep):
            self._refused.append({"line": entry.step.line, "words": entry.step.text, "why": entry.why})
        elif isinstance(entry, StepWarning):
            self._warned.append({"line": entry.step.line, "words": entry.step.text, "why": entry.text})
        elif isinstance(entry, FailedExpectation):
            self._failed.append({"line": entry.step.line, "words": entry.step.text, "found": entry.actual})

    def report_result(self, is_good: bool, violations: list[str] | None) -> None:
        report = {"as_expected": is_good, "failed": self._failed, "refused": self._refused, "warnings": self._warned}
        report["story"] = self._entries
        if violations is not None:
            report["violations"] = violations
        print(json.dumps({**report, "summary": self.transcript.as_dict()}, indent=2))

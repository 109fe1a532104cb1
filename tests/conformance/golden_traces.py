"""Compare golden traces: the transitions of a real startd with ours on the same stimuli. ``trace`` reads the stimuli
(``trace_startd``) and the configuration (``trace_settings``) from a folder. ``play`` feeds them to the live engine in
virtual time (``trace_play``). ``compare`` compares the slots' transitions with the StartLog's. If the two must differ
although the policy is the same, a rule of ``COMPARISON_RULES`` removes the difference, in every folder, and is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from poolbook.adapters.condor_files.startlog import StartLogReader
from poolbook.domain.events import SlotTransitioned
from poolbook.domain.state_machines import SlotRow

from .trace_files import TraceFiles, ended, source
from .trace_play import PlayedTransition, RefusedStimulus, TracePlay
from .trace_runs import startd_runs
from .trace_startd import MACHINE
from .trace_steps import StartdRun

DIALECT: Final = "htcondor-25"


@frozen
class Trace:
    """A folder's startds, and its files."""

    files: TraceFiles
    runs: tuple[StartdRun, ...]


Moves = list[PlayedTransition]


@frozen
class ComparisonRule:
    """A difference that the policy does not cause: ``apply`` removes it from a slot's real and our transitions."""

    name: str
    why: str
    apply: Callable[[Moves, Moves], tuple[Moves, Moves]]


@frozen
class TraceDifference:
    """The first difference of a slot: the entry's number from 1, the real transition and ours."""

    slot: str
    entry: int
    real: str
    ours: str

    def __str__(self) -> str:
        return f"{self.slot}, entry {self.entry}: really {self.real}; here {self.ours}"


@frozen
class TraceComparison:
    """The result of a folder."""

    folder: str
    slots: int
    entries: int  #: the real ones
    same: int  #: how many of these precede the first difference of each slot
    differences: tuple[TraceDifference, ...]
    rewrites: dict[str, int]  #: how often each rule was applied
    refused: tuple[RefusedStimulus, ...]

    @property
    def equal(self) -> bool:
        return not self.differences


_ECHO = (SlotRow.START_BENCHMARKS, SlotRow.END_BENCHMARKS)


def _without_echoes(real: Moves, ours: Moves) -> tuple[Moves, Moves]:
    remaining: Moves = []
    for move in real:
        if remaining and move.at == remaining[-1].at and (remaining[-1].row, move.row) == _ECHO:
            remaining.pop()
        else:
            remaining.append(move)
    return remaining, ours


COMPARISON_RULES: Final[tuple[ComparisonRule, ...]] = (
    ComparisonRule(
        "benchmarks elsewhere",
        "The real startd lets a second slot enter Benchmarking while the machine's benchmarks already run for a first "
        "one, finds that none can be started, and takes it out again in the same instant (3, 4). Ours asks whether "
        "they run before it lets a slot enter.",
        _without_echoes,
    ),
)
"""Every difference that a comparison removes, each by a rule for all folders; at most a dozen."""


def trace(folder: Path) -> Trace:
    """Read what happened to the startds of a folder. Raise FileNotFoundError if it has no StartLog, or one without a
    slot."""
    files = TraceFiles(folder)
    data = files.data("StartLog")
    if data is None:
        raise FileNotFoundError(f"{folder}: there is no StartLog, nor StartLog.gz: a trace is a folder that has one")
    runs = tuple(startd_runs(data, files.jobs, files.owner_told))
    if not any(run.slots for run in runs):
        raise FileNotFoundError(f"{folder}: its StartLog has no slot that a startd made: nothing can be compared")
    return Trace(files, runs)


def play(trace: Trace, dialect: str = DIALECT) -> list[tuple[Moves, list[RefusedStimulus]]]:
    """Return our transitions, and the refused stimuli, for each startd of the trace."""
    plays = (TracePlay(trace.files, run, dialect) if run.slots else None for run in trace.runs)
    return [(played.moves(), played.refused) if played else ([], []) for played in plays]


def recorded(trace: Trace) -> list[Moves]:
    """Return the recorded transitions for each startd of the trace."""
    reader = StartLogReader(source("StartLog", "startlog", MACHINE), None, 0)
    events, _ = reader.read(ended(trace.files.data("StartLog") or b""))
    moves: list[Moves] = [[] for _ in trace.runs]
    for event in events:
        if isinstance(event, SlotTransitioned):
            line = int(event.stimulus.partition(":")[2])
            for run, run_moves in zip(trace.runs, moves, strict=True):
                if run.first <= line <= run.last:
                    move = event.at, event.slot, event.source, event.target, event.row, event.reason
                    run_moves.append(PlayedTransition(*move))
    return moves


def compare(folder: Path, dialect: str = DIALECT) -> TraceComparison:
    """Compare the recorded transitions of a folder with ours."""
    trace_files = trace(folder)
    differences: list[TraceDifference] = []
    rewrites: dict[str, int] = defaultdict(int)
    slots = entries = equal = 0
    refused: list[RefusedStimulus] = []
    for real, (ours, run_refusals) in zip(recorded(trace_files), play(trace_files, dialect), strict=True):
        refused += run_refusals
        real_moves, our_moves = _by_slot(real), _by_slot(ours)
        for slot in sorted(real_moves.keys() | our_moves.keys()):
            real_rewritten, our_rewritten = _rewritten(real_moves.get(slot, []), our_moves.get(slot, []), rewrites)
            equal_count = _same(real_rewritten, our_rewritten)
            slots, entries, equal = slots + 1, entries + len(real_rewritten), equal + equal_count
            if equal_count < max(len(real_rewritten), len(our_rewritten)):
                differences.append(
                    TraceDifference(
                        slot, equal_count + 1, _entry(real_rewritten, equal_count), _entry(our_rewritten, equal_count)
                    )
                )
    return TraceComparison(folder.name, slots, entries, equal, tuple(differences), dict(rewrites), tuple(refused))


def _by_slot(moves: Sequence[PlayedTransition]) -> dict[str, Moves]:
    moves_by_slot: dict[str, Moves] = defaultdict(list)
    for move in moves:
        moves_by_slot[move.slot].append(move)
    return moves_by_slot


def _rewritten(real: Moves, ours: Moves, rewrites: dict[str, int]) -> tuple[Moves, Moves]:
    for rule in COMPARISON_RULES:
        before = len(real) + len(ours)
        real, ours = rule.apply(real, ours)
        if len(real) + len(ours) < before:
            rewrites[rule.name] += 1
    return real, ours


def _same(real: Moves, ours: Moves) -> int:
    """Return the number of equal entries before the first difference."""
    pairs = zip(real, ours, strict=False)
    different = (
        n
        for n, (real_move, our_move) in enumerate(pairs)
        if (real_move.source, real_move.target) != (our_move.source, our_move.target)
    )
    return next(different, min(len(real), len(ours)))


def _entry(moves: Moves, number: int) -> str:
    return f"{moves[number].source} -> {moves[number].target}" if number < len(moves) else "(none)"

"""Compare golden traces: the transitions of a real startd with ours on the same stimuli.

``trace`` reads the stimuli (``trace_startd``) and the configuration (``trace_settings``) from a folder. ``play`` feeds
them to the live engine in virtual time (``trace_play``). ``compare`` compares the slots' transitions with the
StartLog's. If the two must differ although the policy is the same, a rule of ``COMPARISON_RULES`` leaves the difference
out, in every folder, and is counted.
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
    """A difference that is not the policy's: ``apply`` removes it from a slot's real transitions and from ours."""

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
    same: int  #: of these, those before the first difference of each slot
    differences: tuple[TraceDifference, ...]
    rewrites: dict[str, int]  #: how often each rule was used
    refused: tuple[RefusedStimulus, ...]

    @property
    def equal(self) -> bool:
        return not self.differences


_ECHO = (SlotRow.START_BENCHMARKS, SlotRow.END_BENCHMARKS)


def _without_echoes(real: Moves, ours: Moves) -> tuple[Moves, Moves]:
    kept: Moves = []
    for move in real:
        if kept and move.at == kept[-1].at and (kept[-1].row, move.row) == _ECHO:
            kept.pop()
        else:
            kept.append(move)
    return kept, ours


COMPARISON_RULES: Final[tuple[ComparisonRule, ...]] = (
    ComparisonRule(
        "benchmarks elsewhere",
        "The real startd lets a second slot enter Benchmarking while the machine's benchmarks already run for a first "
        "one, finds that none can be started, and takes it out again in the same instant (3, 4). Ours asks whether "
        "they run before it lets a slot enter.",
        _without_echoes,
    ),
)
"""Every difference that a comparison leaves out, each by a rule for all folders; at most a dozen."""


def trace(folder: Path) -> Trace:
    """Read what happened to the startds of a folder. Raise FileNotFoundError if it has no StartLog, or one without a
    slot."""
    files = TraceFiles(folder)
    data = files.data("StartLog")
    if data is None:
        raise FileNotFoundError(f"{folder}: there is no StartLog, nor StartLog.gz: a trace is a folder that has one")
    found = tuple(startd_runs(data, files.jobs, files.owner_told))
    if not any(run.slots for run in found):
        raise FileNotFoundError(f"{folder}: its StartLog tells of no slot that a startd made: nothing can be compared")
    return Trace(files, found)


def play(found: Trace, dialect: str = DIALECT) -> list[tuple[Moves, list[RefusedStimulus]]]:
    """Return our transitions, and the refused stimuli, for each startd of the trace."""
    plays = (TracePlay(found.files, run, dialect) if run.slots else None for run in found.runs)
    return [(one.moves(), one.refused) if one else ([], []) for one in plays]


def recorded(found: Trace) -> list[Moves]:
    """Return the recorded transitions for each startd of the trace."""
    reader = StartLogReader(source("StartLog", "startlog", MACHINE), None, 0)
    events, _ = reader.read(ended(found.files.data("StartLog") or b""))
    moves: list[Moves] = [[] for _ in found.runs]
    for event in events:
        if isinstance(event, SlotTransitioned):
            line = int(event.stimulus.partition(":")[2])
            for run, some in zip(found.runs, moves, strict=True):
                if run.first <= line <= run.last:
                    move = event.at, event.slot, event.source, event.target, event.row, event.reason
                    some.append(PlayedTransition(*move))
    return moves


def compare(folder: Path, dialect: str = DIALECT) -> TraceComparison:
    """Compare the recorded transitions of a folder with ours."""
    found = trace(folder)
    differences: list[TraceDifference] = []
    rewrites: dict[str, int] = defaultdict(int)
    slots = entries = equal = 0
    refused: list[RefusedStimulus] = []
    for real, (ours, words) in zip(recorded(found), play(found, dialect), strict=True):
        refused += words
        theirs, mine = _by_slot(real), _by_slot(ours)
        for slot in sorted(theirs.keys() | mine.keys()):
            left, right = _rewritten(theirs.get(slot, []), mine.get(slot, []), rewrites)
            same = _same(left, right)
            slots, entries, equal = slots + 1, entries + len(left), equal + same
            if same < max(len(left), len(right)):
                differences.append(TraceDifference(slot, same + 1, _entry(left, same), _entry(right, same)))
    return TraceComparison(folder.name, slots, entries, equal, tuple(differences), dict(rewrites), tuple(refused))


def _by_slot(moves: Sequence[PlayedTransition]) -> dict[str, Moves]:
    found: dict[str, Moves] = defaultdict(list)
    for move in moves:
        found[move.slot].append(move)
    return found


def _rewritten(real: Moves, ours: Moves, rewrites: dict[str, int]) -> tuple[Moves, Moves]:
    for rewrite in COMPARISON_RULES:
        before = len(real) + len(ours)
        real, ours = rewrite.apply(real, ours)
        if len(real) + len(ours) < before:
            rewrites[rewrite.name] += 1
    return real, ours


def _same(real: Moves, ours: Moves) -> int:
    """Return the number of equal entries before the first difference."""
    pairs = zip(real, ours, strict=False)
    found = (n for n, (a, b) in enumerate(pairs) if (a.source, a.target) != (b.source, b.target))
    return next(found, min(len(real), len(ours)))


def _entry(moves: Moves, number: int) -> str:
    return f"{moves[number].source} -> {moves[number].target}" if number < len(moves) else "(none)"

"""Golden: the events of recorded HTCondor startds are replayed on Poolbook's machines, and their slots take the same
transitions.

Each folder of recorded runs is a case, and the same code reads each (``test_trace_stimuli``).
"""

from __future__ import annotations

import gzip
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.replay.validation import examine

from ..conformance.golden_traces import COMPARISON_RULES, TraceComparison, compare, recorded, trace
from ..conformance.trace_play import TracePlay
from ..conformance.trace_settings import configuration
from ..sampling import some

DATA = Path(__file__).resolve().parent.parent / "data"
TRACES = DATA / "traces"
RUNS = {path.parent.name.partition("-")[0]: path.parent for path in sorted(TRACES.glob("*/StartLog.gz"))}
"""The recorded runs by their short names; 02, 03, 04, 05, 07, 08a, 18b, 20b and 20c are about the owner's policy."""
POINTS = {path.parent.name: path.parent for path in sorted((DATA / "points").glob("*/StartLog.gz"))}
"""Further runs of an execution point, recorded after the code that takes them apart was written."""
WHOLE = {path.parent.name: path.parent for path in sorted((DATA / "recordings").glob("*/StartLog.gz"))}
"""Recordings of whole pools."""
HONEST = sorted((DATA / "honest").glob("one-*.tar.xz"))
"""Recordings of whole pools of one machine."""
BY_RUN = RUNS | POINTS | WHOLE
NAMES = list(BY_RUN)


@cache
def compared(run: str) -> TraceComparison:
    return compare(BY_RUN[run])


# The comparison


@pytest.mark.parametrize("run", NAMES)
def test_slots_take_the_recorded_transitions_entry_by_entry(run: str) -> None:
    comparison = compared(run)
    assert [str(difference) for difference in comparison.differences] == []
    assert comparison.equal
    assert comparison.same == comparison.entries > 0


@pytest.mark.parametrize("archive", HONEST, ids=lambda archive: archive.name.partition(".")[0])
def test_slots_of_audited_recordings_take_the_recorded_transitions(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    comparison = compare(folder)
    assert [str(difference) for difference in comparison.differences] == []
    assert comparison.same == comparison.entries > 0


def test_at_most_a_dozen_rewrites_are_needed_in_all_and_each_of_them_is() -> None:
    counted: Counter[str] = Counter()
    for run in NAMES:
        counted.update(compared(run).rewrites)
    assert set(counted) == {rewrite.name for rewrite in COMPARISON_RULES}
    assert sum(counted.values()) <= 12


@pytest.mark.parametrize("run", RUNS)
def test_the_compared_transitions_are_those_that_an_independent_count_finds(run: str) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    for line in (TRACES / "transitions.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        _, source, target, _, by_run = line.split("\t")
        counts = dict(entry.split(":") for entry in by_run.split())
        expected[source, target] += int(counts.get(run, 0))
    transitions = Counter((move.source, move.target) for moves in recorded(trace(BY_RUN[run])) for move in moves)
    assert transitions == +expected


@pytest.mark.parametrize("run", some(["02", "04", "07", "08a", "18b", "20b", "20c", *POINTS, *WHOLE], 14))
def test_the_validator_finds_the_log_of_a_replayed_trace_legal(run: str) -> None:
    golden = trace(BY_RUN[run])
    for golden_run in golden.runs:
        play = TracePlay(golden.files, golden_run, "htcondor-25")
        play.moves()
        assert [str(violation) for violation in examine(play.log.read()).violations] == []


@pytest.mark.parametrize(
    ("run", "line"),
    [
        ("02", "SUSPEND = False"),
        ("02", "CONTINUE = False"),
        ("02", "MAXJOBRETIREMENTTIME = 0"),
        ("03", "PREEMPT = False"),
        ("03", "WANT_VACATE = True"),
        ("03", "KILL = False"),
        ("04", "MAXJOBRETIREMENTTIME = 3600"),
        ("08a", "CLAIM_WORKLIFE = 1200"),
        ("18b", "StartIdleTime = 15 * 60 * 60"),
        ("20b", "MATCH_TIMEOUT = 120"),
        ("20b", "IS_OWNER = False"),
        ("20c", "KILL = False"),
    ],
)
def test_another_policy_would_give_other_transitions(run: str, line: str, tmp_path: Path) -> None:
    for path in filter(Path.is_file, BY_RUN[run].iterdir()):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / "scenario.conf").open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    assert not compare(tmp_path).equal


# What a folder shows of its configuration


def test_a_reconfiguration_uses_the_folders_file_for_it() -> None:
    golden = trace(BY_RUN["20c"])
    before, after = (configuration(golden.files, golden.runs[0], number).get("WANT_HOLD") for number in (0, 1))
    assert (before, after) == ("", "True")


def test_without_a_file_the_log_shows_which_constant_was_changed_and_when_it_was_restored() -> None:
    golden = trace(BY_RUN["07"])
    values = [configuration(golden.files, golden.runs[0], number).get("IS_OWNER").lower() for number in (0, 1, 2)]
    assert values == ["false", "true", "false"]


def test_without_a_file_a_snapshot_shows_which_expression_was_changed() -> None:
    golden = trace(BY_RUN["04"])
    values = [configuration(golden.files, golden.runs[0], number).get("MAXJOBRETIREMENTTIME") for number in (0, 1)]
    assert values == ["20", "600"]


def test_a_folder_without_a_startlog_is_refused_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "scenario.conf").write_text("START = True\n", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="there is no StartLog"):
        compare(tmp_path)


def test_a_log_and_a_configuration_are_enough_zipped_or_not(tmp_path: Path) -> None:
    (tmp_path / "StartLog").write_bytes(gzip.decompress((BY_RUN["01"] / "StartLog.gz").read_bytes()))
    (tmp_path / "scenario.conf").write_bytes((BY_RUN["01"] / "scenario.conf").read_bytes())
    comparison = compare(tmp_path)
    assert (comparison.equal, comparison.entries) == (True, compared("01").entries)


@settings(max_examples=6, deadline=None)
@given(deleted_lines=st.sets(st.integers(0, 90), max_size=40))
def test_a_log_with_missing_lines_is_still_compared(deleted_lines: set[int]) -> None:
    lines = gzip.decompress((BY_RUN["18b"] / "StartLog.gz").read_bytes()).split(b"\n")
    begins = (b"STARTING UP", b"New Slot")  # without these lines no slot exists
    lines_kept = [
        line for number, line in enumerate(lines) if number not in deleted_lines or any(word in line for word in begins)
    ]
    with TemporaryDirectory() as folder:
        (Path(folder) / "StartLog").write_bytes(b"\n".join(lines_kept))
        (Path(folder) / "scenario.conf").write_bytes((BY_RUN["18b"] / "scenario.conf").read_bytes())
        comparison = compare(Path(folder))
    assert comparison.same <= comparison.entries

"""Golden: a job that exceeds its limits is killed, and the limit is named."""

from __future__ import annotations

import signal

from poolbook.adapters.machine.execution.activation import VIOLATION_HOLD_CODES, ResourceLimits

from .bench import Bench

FILLS_SCRATCH = "head -c 5000000 /dev/zero > file; sleep 1000"
FILLS_OUTPUT = "head -c 5000000 /dev/zero; sleep 1000"


# The job, the limits, the one that is exceeded, HoldReasonCode and HoldReasonSubCode.
BROKEN = [
    ("tail -f /dev/zero", ResourceLimits(memory_mb=50), "memory", (34, 102)),
    ("(setsid tail -f /dev/zero &); sleep 1000", ResourceLimits(memory_mb=50), "memory", (34, 102)),
    (FILLS_SCRATCH, ResourceLimits(disk_kb=1000), "disk", (34, 104)),
    (FILLS_OUTPUT, ResourceLimits(disk_kb=1000), "disk", (34, 104)),
]
KEPT = [
    ("sleep 2.2", ResourceLimits(memory_mb=1000, disk_kb=1000)),
    ("sleep 2.2; head -c 100000 /dev/zero", ResourceLimits(disk_kb=1000)),  # appends to a file that was larger before
    ("head -c 5000000 /dev/zero > file; sleep 2.2", ResourceLimits()),  # provisioned, not enforced
]


def test_the_exceeded_limit_is_named_and_gives_the_hold_code(bench: Bench) -> None:
    for number, (script, limits, _, _) in enumerate(BROKEN):
        bench.sh(str(number), script, limits=limits, stdout=f"out{number}")
    for number, (_, _, violated, hold) in enumerate(BROKEN):
        end = bench.end(str(number))
        assert (end.code, end.signal, end.violated) == (None, signal.SIGKILL, violated)
        assert VIOLATION_HOLD_CODES[end.violated] == hold


def test_an_immediate_write_counts_as_the_jobs_own(bench: Bench) -> None:
    """The output file is measured before the job starts. Otherwise a quick job's output would count as already
    there."""
    for number in range(12):
        bench.sh(str(number), FILLS_OUTPUT, limits=ResourceLimits(disk_kb=1000), stdout=f"out{number}")
    assert [bench.end(str(number)).violated for number in range(12)] == ["disk"] * 12


def test_a_limit_that_is_kept_or_not_enforced_ends_nothing(bench: Bench) -> None:
    for number, (script, limits) in enumerate(KEPT):
        (bench.home / f"out{number}").write_bytes(bytes(5_000_000))
        bench.sh(str(number), script, limits=limits, stdout=f"out{number}", append_stdout=True, memory_mb=1, disk_kb=1)
    for number in range(len(KEPT)):
        assert (bench.end(str(number)).code, bench.end(str(number)).violated) == (0, "")

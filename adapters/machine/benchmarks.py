"""Benchmark this machine: MIPS and KFLOPS.

``python -m poolbook.adapters.machine.benchmarks mips`` (or kflops) prints one, after about half a second, as
condor_mips and condor_kflops do. They measure numpy's loops on one core: millions of integer operations and thousands
of floating-point operations per second, comparable between machines that run this benchmark.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

SECONDS = 0.5  #: the shortest time that each kind of work is measured
_WORDS = 4096
_RANK = 200


def operations_per_second(work: Callable[[], int], seconds: float = SECONDS) -> float:
    """Return the operations per second of ``work``, which returns the number of operations it did. Repeat ``work`` for
    ``seconds`` and use the fastest repetition, since other processes may use the machine."""
    best_rate, end = 0.0, time.perf_counter() + seconds
    while True:
        began = time.perf_counter()
        work_done = work()
        now = time.perf_counter()
        best_rate = max(best_rate, work_done / max(now - began, 1e-9))
        if now >= end:
            return best_rate


def run_integer_work() -> int:
    """Run xorshift over a vector, sixteen times: shifts and exclusive ors of 32-bit integers that fit into a cache."""
    import numpy

    vector = numpy.arange(1, _WORDS + 1, dtype=numpy.uint32)
    for _ in range(16):
        vector ^= vector << numpy.uint32(13)
        vector ^= vector >> numpy.uint32(17)
        vector ^= vector << numpy.uint32(5)
    return 16 * 6 * _WORDS


def run_real_work() -> int:
    """Solve a system of linear equations, as LINPACK does."""
    import numpy

    matrix = numpy.add.outer(numpy.arange(_RANK), -numpy.arange(_RANK)).astype(float)
    matrix = 1.0 / (1.0 + matrix * matrix) + numpy.eye(_RANK)
    numpy.linalg.solve(matrix, numpy.ones(_RANK))
    return 2 * _RANK**3 // 3 + 2 * _RANK**2


_MEASUREMENTS: dict[str, tuple[str, Callable[[], int], float]] = {
    "mips": ("Mips", run_integer_work, 1e6),
    "kflops": ("KFlops", run_real_work, 1e3),
}


def mips(argv: Sequence[str] = ()) -> int:
    """condor_mips: measure the integer speed of this machine."""
    return _print_result("mips")


def kflops(argv: Sequence[str] = ()) -> int:
    """condor_kflops: measure the floating-point speed of this machine."""
    return _print_result("kflops")


def _print_result(name: str) -> int:
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # on one core
    attribute, work, unit = _MEASUREMENTS[name]
    print(f"{attribute} = {round(operations_per_second(work) / unit)}\n--")
    return 0


if __name__ == "__main__":
    _print_result(sys.argv[1])

"""Benchmark this machine: MIPS and KFLOPS.

``python -m poolbook.adapters.machine.benchmarks`` prints both, after about a second. They measure numpy's
loops on one core: millions of integer operations and thousands of floating-point operations per second, comparable
between machines that run this benchmark.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

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


def main() -> None:
    mips, kflops = operations_per_second(run_integer_work) / 1e6, operations_per_second(run_real_work) / 1e3
    print(round(mips), round(kflops))


def benchmark_command() -> tuple[list[str], dict[str, str]]:
    """Return the command and environment that run the benchmarks in a separate process, on one core."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return [sys.executable, "-m", __name__], {**os.environ, **threads}


def parse_result(printed_text: str) -> tuple[int, int]:
    """Return the MIPS and KFLOPS that the benchmarks printed, or (0, 0) if they did not finish."""
    numbers = printed_text.split()
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 and all(map(str.isdigit, numbers)) else (0, 0)


if __name__ == "__main__":
    main()

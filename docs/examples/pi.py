#!/usr/bin/env python3
"""Estimate pi by throwing darts at a square, as one job of pi.sub. `pi.py --sum FILES` combines the jobs' results."""

import random
import sys
from pathlib import Path


def hits(seed: int, darts: int) -> int:
    """Return the number of darts that land in the circle."""
    draw = random.Random(seed).random
    return sum(1 for _ in range(darts) if (x := draw()) * x + (y := draw()) * y < 1.0)


if sys.argv[1:2] == ["--sum"]:
    results = [tuple(map(int, Path(name).read_text().split())) for name in sys.argv[2:]]
    inside, thrown = (sum(column) for column in zip(*results, strict=True))
    print(f"pi is about {4 * inside / thrown:.5f}, by {len(results)} jobs of {results[0][1]:,} darts each")
else:
    number, darts = int(sys.argv[1]), int(sys.argv[2])
    print(hits(number, darts), darts)

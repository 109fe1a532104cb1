#!/usr/bin/env python3
"""Estimate pi by throwing darts at a square: one job of pi.sub. `pi.py --sum FILES` puts the jobs' results together."""

import random
import sys

DARTS = 8_000_000


def throw(seed: int) -> int:
    """How many of the darts land in the circle."""
    rng = random.Random(seed)
    draw = rng.random
    return sum(1 for _ in range(DARTS) if (x := draw()) * x + (y := draw()) * y < 1.0)


if sys.argv[1:2] == ["--sum"]:
    results = [int(open(name).read()) for name in sys.argv[2:]]
    print(f"pi is about {4 * sum(results) / (DARTS * len(results)):.5f}, by {len(results)} jobs of {DARTS:,} darts each")
else:
    print(throw(int(sys.argv[1])))

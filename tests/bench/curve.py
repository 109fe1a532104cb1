"""Measure and draw how the cost grows with the size of a pool: `python -m tests.bench.curve docs/curve.svg`.

One number grows from 10 to 1,000,000 while the others stay the same. For slots, kinds (autoclusters), users, clusters
and jobs, the cost is a negotiation cycle after 1 % of the ads changed; the other numbers are 10,000 slots, and one of
everything else. For events, it is a cold start: reading, decoding and folding a log without a snapshot. Times are CPU
seconds, each in a separate process. A curve ends when
its next point would take more than `_LIMIT` seconds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from math import log10
from pathlib import Path
from time import process_time

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.state import State

from .bench_negotiation import REQUIREMENTS, add_jobs, add_slots, change_ads, cycle, empty_pool
from .long_log import LIFE_EVENTS, write_long_log

SLOTS = 10_000
COUNTS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
_LIMIT = 30  #: seconds


def cycle_seconds(slots: int, fill: Callable[[State], None]) -> float:
    """Return the CPU seconds of the first cycle in which these jobs wait, in a pool that has held one before."""
    state, caches = empty_pool(), Caches()
    add_slots(state, slots)
    add_jobs(state, 1, 1, REQUIREMENTS + " && TARGET.Disk + TARGET.Memory == 9")
    cycle(state, caches, 1)
    change_ads(state, 2)
    fill(state)
    began = process_time()
    cycle(state, caches, 2)
    return process_time() - began


def with_clusters(count: int) -> Callable[[State], None]:
    def fill(state: State) -> None:
        for _ in range(count):
            add_jobs(state, 1, 1)

    return fill


def load_seconds(events: int) -> float:
    """Return the CPU seconds of reading and folding a log with about this many events."""
    with tempfile.TemporaryDirectory() as folder:
        log = open_log(f"{folder}/pool.db", create=True)
        write_long_log(log, max(1, events // LIFE_EVENTS))
        state = State()
        began = process_time()
        for _, event in log.read():
            evolve(state, event)
        seconds = process_time() - began
        log.close()
    return seconds


SERIES: Mapping[str, Callable[[int], float]] = {
    "slots": lambda n: cycle_seconds(n, lambda state: add_jobs(state, max(1, n // 2), 1)),
    "kinds": lambda n: cycle_seconds(SLOTS, lambda state: add_jobs(state, n, n, attribute="RequestDisk")),
    "users": lambda n: cycle_seconds(SLOTS, lambda state: add_jobs(state, n, 1, submitters=n)),
    "clusters": lambda n: cycle_seconds(SLOTS, with_clusters(n)),
    "jobs": lambda n: cycle_seconds(SLOTS, lambda state: add_jobs(state, n, 1)),
    "events": load_seconds,
}
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#555555")


def measure(name: str, count: int) -> float:
    """Run a measurement in a separate process."""
    command = [sys.executable, "-m", "tests.bench.curve", name, str(count)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(process.stderr)
    return float(process.stdout)


def svg(lines: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """Return the curves as an SVG image with logarithmic axes."""
    left, top, width, height = 70, 20, 480, 320
    low, high = -4, 2

    def coordinates(count: float, seconds: float) -> tuple[float, float]:
        x = left + width * (log10(count) - 1) / 5
        return x, top + height * (high - log10(max(seconds, 10.0**low))) / (high - low)

    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 130}" height="{top + height + 50}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for power in range(low, high + 1):
        y = coordinates(10, 10.0**power)[1]
        elements.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
        elements.append(f'<text x="{left - 8}" y="{y + 4:.0f}" text-anchor="end">{10.0**power:g} s</text>')
    for count in COUNTS:
        x = coordinates(count, 1)[0]
        elements.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{top}" y2="{top + height}" stroke="#ddd"/>')
        elements.append(f'<text x="{x:.0f}" y="{top + height + 18}" text-anchor="middle">{count:,}</text>')
    lowest_label = float(top + height)
    for (name, points), colour in sorted(zip(lines.items(), COLOURS, strict=True), key=lambda line: line[0][1][-1][1]):
        positions = [coordinates(*point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in positions)
        elements.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lowest_label = min(positions[-1][1], lowest_label - 14)  # labels must not overlap
        label = f'<text x="{left + width + 8}" y="{lowest_label + 4:.0f}" fill="{colour}">{name}</text>'
        elements.append(label)
    return "\n".join([*elements, "</svg>"]) + "\n"


def main() -> None:
    if len(sys.argv) == 3:
        print(SERIES[sys.argv[1]](int(sys.argv[2])))
        return
    lines: dict[str, list[tuple[int, float]]] = {}
    for name in SERIES:
        lines[name] = []
        for count in COUNTS:
            seconds = measure(name, count)
            lines[name].append((count, seconds))
            print(f"{name:10} {count:>9,}  {seconds:10.4f} s", flush=True)
            if seconds > _LIMIT / 10:  # the next point would take more than the limit
                break
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(svg(lines))


if __name__ == "__main__":
    main()

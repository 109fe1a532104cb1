"""Jobs that record on their machines when they run, so that no two runs of a job at the same time go unnoticed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from .machines import Machine

BEAT_S: Final = 0.5
_FOLDER: Final = "runs"  #: in /srv; jobs of all users write there, also jobs that run as nobody
BEATS: Final = f"""\
# Writes the time BEATS times (usage: TAG BEATS), in seconds since the kernel started, which is one for all machines.
beats=$2 record=/srv/{_FOLDER}/$1.$$
beat() {{ read -r uptime _ < /proc/uptime; echo "$uptime" >> "$record"; }}
while [ "$beats" -gt 0 ]; do beat; sleep {BEAT_S}; beats=$((beats - 1)); done
"""
"""The first part of a job's program, a shell script."""


class Run(NamedTuple):
    """A run of a job: its first and last beat, and its machine."""

    begin: float
    end: float
    machine: str


def prepare(machine: Machine) -> None:
    """Make the directory to which the jobs on a machine write."""
    folder = machine.home(_FOLDER)
    folder.mkdir()
    folder.chmod(0o1777)


def runs_of(machines: Iterable[Machine]) -> dict[str, list[Run]]:
    """Return the runs of each job, by its tag and in order."""
    runs = defaultdict[str, list[Run]](list)
    for machine in machines:
        for path in machine.home(_FOLDER).iterdir():
            beats = [float(line) for line in path.read_text().split()]
            runs[path.name.partition(".")[0]].append(Run(beats[0], beats[-1], machine.name))
    return {tag: sorted(each) for tag, each in runs.items()}


def assert_no_two_runs_at_once(runs: dict[str, list[Run]]) -> None:
    for tag, each in runs.items():
        for before, after in pairwise(each):
            assert before.end < after.begin, f"{tag} ran twice at once: {before}, {after}"

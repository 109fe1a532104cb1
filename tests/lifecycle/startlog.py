"""The slots' transitions in a StartLog, read in the simplest way. "Changing state: A -> B" keeps the activity,
"Changing activity: a -> b" keeps the state, "Changing state and activity: A/a -> B/b" names both. Every slot is in
Owner/Idle when its startd begins, and a dynamic one when it is first named."""

import gzip
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data" / "traces"

_LINE = re.compile(
    r"^\S+ \S+ (?P<slot>\S+): "
    r"(?:Changing (?P<what>state and activity|state|activity): (?P<old>\S+) -> (?P<new>\S+)|Slot \S+ no longer needed)"
)


def runs() -> list[str]:
    """Return the runs with logs here, by their short names."""
    return [folder.name.partition("-")[0] for folder in sorted(DATA.iterdir()) if folder.is_dir()]


def steps(run: str) -> Iterator[tuple[str, str]]:
    """Yield each transition of a run; fail if the log's own "from" contradicts the previous line."""
    (folder,) = DATA.glob(f"{run}-*")
    states: dict[str, str] = {}
    with gzip.open(folder / "StartLog.gz", "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if "STARTING UP" in line:
                states.clear()
            elif match := _LINE.match(line):
                slot, changed, old_name, new = match.groups()
                source = states.get(slot, "Owner/Idle")
                state, activity = source.split("/")
                logged_source, target = {
                    "state and activity": (old_name, new),
                    "state": (f"{old_name}/{activity}", f"{new}/{activity}"),
                    "activity": (f"{state}/{old_name}", f"{state}/{new}"),
                    None: (source, "Deleted"),
                }[changed]
                assert logged_source == source, f"run {run}: {slot} was in {source}: {line}"
                yield source, target
                states[slot] = target
                if target == "Deleted":
                    del states[slot]


def recorded_counts() -> Counter[tuple[str, str, str, str]]:
    """Return (run, number, from, to) -> count, as in transitions.tsv, for all runs."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for line in (DATA / "transitions.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        number, source, target, count, by_run = line.split("\t")
        for run, in_run in (entry.split(":") for entry in by_run.split()):
            counts[run, number, source, target] = int(in_run)
        assert int(count) == sum(n for (_, *step), n in counts.items() if step == [number, source, target])
    return counts

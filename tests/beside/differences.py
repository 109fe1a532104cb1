"""Compares the records of the same jobs in two pools, and reads the table of known differences. The table is
tests/data/beside/differences.txt, which describes its own format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from pathlib import Path

from attrs import frozen

from .cases import FOLDER
from .stories import Outcome

ABSENT = "-"
MEASURED = "006"  #: an event that comes at each measurement: only whether it came at all is compared


@frozen
class Difference:
    """A difference between one job's logs, ads or files."""

    job: str  #: the case, or CASE.PROC
    what: str  #: an attribute; ``event NNN``; ``file NAME``
    there: str  #: in HTCondor
    here: str

    def __str__(self) -> str:
        return f"{self.job} | {self.what} | {self.there!r} | {self.here!r}"


@frozen
class Known:
    """A row of the table: known differences. All fields but the reason are patterns, like those for file names."""

    owner: str
    why: str
    jobs: tuple[str, ...]
    whats: tuple[str, ...]
    there: str
    here: str
    always: bool  #: False: a race in HTCondor decides

    def covers(self, difference: Difference) -> bool:
        """Return True if this row covers the difference."""
        return (
            any(fnmatchcase(difference.job, job) or fnmatchcase(difference.job, f"{job}.[0-9]") for job in self.jobs)
            and any(fnmatchcase(difference.what, pattern) for pattern in self.whats)
            and fnmatchcase(difference.there.replace("[", "("), self.there.replace("[", "("))
            and fnmatchcase(difference.here.replace("[", "("), self.here.replace("[", "("))
        )


def known_differences(path: Path = FOLDER / "differences.txt") -> list[Known]:
    """Return the table, or another in its format."""
    rows, owner, why = [], "", ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            owner, _, why = line.strip("[]").partition(": ")
        elif line and not line.startswith("#"):
            jobs, names, there_column, here_column, *chance_columns = (column.strip() for column in line.split(" | "))
            name_patterns = tuple(name_pattern.strip() for name_pattern in names.split(","))
            rows.append(
                Known(
                    owner,
                    why,
                    tuple(jobs.split()),
                    name_patterns,
                    there_column,
                    here_column,
                    chance_columns != ["sometimes"],
                )
            )
    return rows


def other_status_cases(rows: Iterable[Known]) -> set[str]:
    """Return the cases whose jobs have another final status in Poolbook: waiting for their end takes long."""
    return {job for row in rows if "JobStatus" in row.whats for job in row.jobs}


def all_differences(there: Mapping[str, Outcome], here: Mapping[str, Outcome]) -> list[Difference]:
    """Return all differences between the outcomes of the same jobs."""
    differences = [
        Difference(job, "job", *("there" if job in outcomes else ABSENT for outcomes in (there, here)))
        for job in sorted(there.keys() ^ here.keys())
    ]
    for job in sorted(there.keys() & here.keys()):
        pairs = [*_events(there[job].events, here[job].events), *_ads(there[job], here[job])]
        differences += [Difference(job, *pair) for pair in pairs]
    return differences


Pair = tuple[str, str, str]


def _ads(there: Outcome, here: Outcome) -> Iterator[Pair]:
    for kind, there_values, here_values in (("", there.ad, here.ad), ("file ", there.files, here.files)):
        for name in sorted(there_values.keys() | here_values.keys()):
            there_value, here_value = (
                ABSENT if values.get(name) in (None, "undefined") else values[name]
                for values in (there_values, here_values)
            )
            if there_value != here_value:
                yield kind + name, there_value, here_value


def _events(there: tuple[str, ...], here: tuple[str, ...]) -> Iterator[Pair]:
    """Compare two logs, aligned by the events' numbers."""
    measured_events = [next((text for text in events if text.startswith(MEASURED)), ABSENT) for events in (there, here)]
    if measured_events[0] != measured_events[1]:
        yield f"event {MEASURED}", measured_events[0], measured_events[1]
    there_events, here_events = ([text for text in events if not text.startswith(MEASURED)] for events in (there, here))
    matcher = SequenceMatcher(
        None, [text[:3] for text in there_events], [text[:3] for text in here_events], autojunk=False
    )
    for kind, there_begin, there_end, here_begin, here_end in matcher.get_opcodes():
        if kind == "equal":
            pairs = zip(there_events[there_begin:there_end], here_events[here_begin:here_end], strict=True)
            yield from (
                (f"event {there_event[:3]}", there_event[4:], here_event[4:])
                for there_event, here_event in pairs
                if there_event != here_event
            )
            continue
        yield from ((f"event {text[:3]}", text[4:], ABSENT) for text in there_events[there_begin:there_end])
        yield from ((f"event {text[:3]}", ABSENT, text[4:]) for text in here_events[here_begin:here_end])


def unlisted_differences(differences: Iterable[Difference], rows: Iterable[Known]) -> list[str]:
    """Return the differences that no row of the table covers."""
    table = list(rows)
    return [str(difference) for difference in differences if not any(row.covers(difference) for row in table)]


def unmatched_rows(differences: Iterable[Difference], rows: Iterable[Known], jobs: Iterable[str]) -> list[str]:
    """Return the rows of the table that cover no difference, although ``jobs`` should show one."""
    all_differences, tried_cases = list(differences), {job.partition(".")[0] for job in jobs}
    return [
        f"{' '.join(row.jobs)} | {', '.join(row.whats)}"
        for row in rows
        if row.always
        and not any(row.covers(difference) for difference in all_differences)
        and any(fnmatchcase(name, job) for name in tried_cases for job in row.jobs)
    ]

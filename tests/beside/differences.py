"""What the two pools say of the same job, held against each other, and the table of what is known to differ.

The table is tests/data/beside/differences.txt, which tells its own form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from pathlib import Path

from attrs import frozen

from .cases import FOLDER
from .stories import Told

ABSENT = "-"
MEASURED = "006"  #: an event that comes whenever something was measured: whether it came at all is compared


@frozen
class Difference:
    """What one job's log, ad or files say otherwise."""

    job: str  #: the case, or CASE.PROC
    what: str  #: an attribute; ``event NNN``; ``file NAME``
    there: str  #: in the real pool
    here: str

    def __str__(self) -> str:
        return f"{self.job} | {self.what} | {self.there!r} | {self.here!r}"


@frozen
class Known:
    """A row of the table: differences that are known. All but the reason are patterns, as of file names."""

    owner: str
    why: str
    jobs: tuple[str, ...]
    whats: tuple[str, ...]
    there: str
    here: str
    always: bool  #: False: a race in the real pool decides

    def covers(self, one: Difference) -> bool:
        """Whether this is one of them."""
        return (
            any(fnmatchcase(one.job, job) or fnmatchcase(one.job, f"{job}.[0-9]") for job in self.jobs)
            and any(fnmatchcase(one.what, what) for what in self.whats)
            and fnmatchcase(one.there.replace("[", "("), self.there.replace("[", "("))
            and fnmatchcase(one.here.replace("[", "("), self.here.replace("[", "("))
        )


def known(path: Path = FOLDER / "differences.txt") -> list[Known]:
    """The table, or another of its form."""
    rows, owner, why = [], "", ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            owner, _, why = line.strip("[]").partition(": ")
        elif line and not line.startswith("#"):
            jobs, whats, there, here, *often = (cell.strip() for cell in line.split(" | "))
            each = tuple(what.strip() for what in whats.split(","))
            rows.append(Known(owner, why, tuple(jobs.split()), each, there, here, often != ["sometimes"]))
    return rows


def elsewhere(rows: Iterable[Known]) -> set[str]:
    """The cases whose jobs end up in another status here: waiting for their end takes long."""
    return {job for row in rows if "JobStatus" in row.whats for job in row.jobs}


def compared(there: Mapping[str, Told], here: Mapping[str, Told]) -> list[Difference]:
    """All differences between what became of the same jobs."""
    found = [
        Difference(job, "job", *("there" if job in side else ABSENT for side in (there, here)))
        for job in sorted(there.keys() ^ here.keys())
    ]
    for job in sorted(there.keys() & here.keys()):
        pairs = [*_events(there[job].events, here[job].events), *_ads(there[job], here[job])]
        found += [Difference(job, *pair) for pair in pairs]
    return found


Pair = tuple[str, str, str]


def _ads(there: Told, here: Told) -> Iterator[Pair]:
    for kind, theirs, ours in (("", there.ad, here.ad), ("file ", there.files, here.files)):
        for name in sorted(theirs.keys() | ours.keys()):
            a, b = (ABSENT if side.get(name) in (None, "undefined") else side[name] for side in (theirs, ours))
            if a != b:
                yield kind + name, a, b


def _events(there: tuple[str, ...], here: tuple[str, ...]) -> Iterator[Pair]:
    """Two logs, aligned by the events' numbers."""
    sized = [next((text for text in side if text.startswith(MEASURED)), ABSENT) for side in (there, here)]
    if sized[0] != sized[1]:
        yield f"event {MEASURED}", sized[0], sized[1]
    theirs, ours = ([text for text in side if not text.startswith(MEASURED)] for side in (there, here))
    matcher = SequenceMatcher(None, [text[:3] for text in theirs], [text[:3] for text in ours], autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            pairs = zip(theirs[a:b], ours[c:d], strict=True)
            yield from ((f"event {x[:3]}", x[4:], y[4:]) for x, y in pairs if x != y)
            continue
        yield from ((f"event {text[:3]}", text[4:], ABSENT) for text in theirs[a:b])
        yield from ((f"event {text[:3]}", ABSENT, text[4:]) for text in ours[c:d])


def unlisted(differences: Iterable[Difference], rows: Iterable[Known]) -> list[str]:
    """The differences that no row of the table covers."""
    table = list(rows)
    return [str(one) for one in differences if not any(row.covers(one) for row in table)]


def gone(differences: Iterable[Difference], rows: Iterable[Known], jobs: Iterable[str]) -> list[str]:
    """The rows of the table that nothing shows any more, although ``jobs`` would."""
    found, tried = list(differences), {job.partition(".")[0] for job in jobs}
    return [
        f"{' '.join(row.jobs)} | {', '.join(row.whats)}"
        for row in rows
        if row.always
        and not any(row.covers(one) for one in found)
        and any(fnmatchcase(name, job) for name in tried for job in row.jobs)
    ]

"""Golden: recorded HTCondor cycles in which one match was forged. The comparison must detect each forgery and excuse
none.

Each forgery changes the NegotiatorLog and the MatchLog alike: a match's job, user, slot or time; an invented match for
a user without a job; a missing match. It affects the first match of a recording, or a late one.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from ..conformance.compare import Report, compare_cycles
from ..conformance.trace_cycles import record
from ..sampling import some

DATA: Final = Path(__file__).resolve().parent.parent / "data"
RECORDINGS: Final = (
    ("recordings/consumption", False),  # everything that a pool stored, with a consumption policy and nice users
    ("traces/09a-quota-static-nosurplus", False),
    ("recordings/consumption", True),
    ("cycles/weights", True),
    ("traces/11-concurrency", False),
    ("traces/13-deferral-crontab", False),
    ("cycles/weights", False),
    ("traces/10-fairshare", False),
)
"""The folders, and whether a late match is forged in them. Their negotiators log their matches in different detail."""
ENDS: Final = {"NegotiatorLog": "Successfully matched with ", "MatchLog": "Matched "}
BEGINS: Final = {"NegotiatorLog": " Request ", "MatchLog": "Matched "}

Lines = list[str]
"""A match's lines, from its request on; in a MatchLog they are one."""


def _each(change: Callable[[str], str]) -> Callable[[Lines], Lines]:
    return lambda lines: [change(line) for line in lines]


def _other_slot(line: str) -> str:
    return re.sub(r"slot(\d+)@", lambda match: f"slot{1 + int(match[1]) % 2}@", line)


def _other_job(line: str) -> str:
    return re.sub(r"Matched (\d+)\.", lambda match: f"Matched {int(match[1]) % 2 + 1}.", line)


def _other_request(line: str) -> str:
    return re.sub(r"(Matched |Request 0*)(\d+)\.(0*\d+)", lambda match: f"{match[1]}{match[2]}.777", line)


def _later(line: str) -> str:
    return re.sub(r":(\d\d) ", lambda match: f":{(int(match[1]) + 7) % 60:02} ", line, count=1)


def _doubled(change: Callable[[str], str]) -> Callable[[Lines], Lines]:
    return lambda lines: [*lines, *map(change, lines)]


def _user(name: str) -> Callable[[str], str]:
    return lambda line: re.sub(r"(Matched \S+) [^@]+@", rf"\1 {name}@", line)


def _nice(line: str) -> str:
    """Change an owner's match to the nice user's, and the other way round."""
    return re.sub(r"(Matched \S+ )(nice-user\.)?", lambda match: match[1] + ("" if match[2] else "nice-user."), line)


def _added(line: str) -> str:
    """Add a match of the next slot for a user who has no job, with its own request."""
    line = re.sub(r"slot(\d+)@", lambda match: f"slot{int(match[1]) + 1}@", _user("mallory")(line))
    return re.sub(r"(Matched |Request 0*)(\d+)\.", r"\g<1>99.", line)


FORGERIES: Final[dict[str, Callable[[Lines], Lines]]] = {
    "another slot": _each(_other_slot),
    "another job": _each(_other_job),
    "a job that is not there": _each(_other_request),
    "a user without a job": _each(_user("mallory")),
    "another user": _each(_user("dave")),
    "seven seconds later": _each(_later),
    "another account of the user": _each(_nice),
    "once more": _doubled(lambda line: line),
    "one more, for a user without a job": _doubled(_added),
    "one more, for another job": _doubled(_other_job),
    "one less": lambda lines: [],
}


def forged(source: Path, folder: Path, forgery: Callable[[Lines], Lines], late: bool) -> Report:
    """Compare a folder whose first match, or a late one, was forged in both logs."""
    for path in source.iterdir():
        (folder / path.name).symlink_to(path)
    for name, ends in ENDS.items():
        for path in (source / name, source / f"{name}.gz"):
            if path.is_file():
                data = gzip.decompress(path.read_bytes()) if path.suffix else path.read_bytes()
                lines = data.decode().split("\n")
                places = [place for place, line in enumerate(lines) if ends in line]
                last = places[len(places) * 2 // 3 if late else 0]
                first = next(place for place in range(last, -1, -1) if BEGINS[name] in lines[place])
                lines[first : last + 1] = forgery(lines[first : last + 1])
                (folder / path.name).unlink()
                (folder / name).write_text("\n".join(lines))
    return compare_cycles(record(folder))


@cache
def honest_differences(source: Path) -> set[str]:
    return {difference.reason for difference in compare_cycles(record(source)).differences}


def test_a_match_of_another_account_is_detected_where_users_are_nice(tmp_path: Path) -> None:
    source = DATA / "recordings/consumption"
    assert forged(source, tmp_path, FORGERIES["another account of the user"], False).unexplained


@pytest.mark.parametrize(("source", "late"), some(RECORDINGS, 0, RECORDINGS[1:2]))
@pytest.mark.parametrize("forgery", some(FORGERIES, 6))
def test_a_forged_match_is_detected_and_not_excused(source: str, late: bool, forgery: str, tmp_path: Path) -> None:
    comparison = forged(DATA / source, tmp_path, FORGERIES[forgery], late)
    assert comparison.unexplained, [str(difference) for difference in comparison.differences]
    assert not comparison.agrees
    assert {difference.reason for difference in comparison.differences} - {""} <= honest_differences(DATA / source)

"""Golden: recorded cycles of a real negotiator, in which one match was forged. None is excused, or goes unnoticed.

Each forgery changes the NegotiatorLog and the MatchLog alike: a match's job, user, slot or instant; a match that never
was, for a user without a job; a match that is left out. It is done to the first match of a recording, or a late one.
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
    ("recordings/consumption", False),  # all that a pool kept, with a consumption policy and nice users
    ("traces/09a-quota-static-nosurplus", False),
    ("recordings/consumption", True),
    ("cycles/weights", True),
    ("traces/11-concurrency", False),
    ("traces/13-deferral-crontab", False),
    ("cycles/weights", False),
    ("traces/10-fairshare", False),
)
"""The folders, and whether a late match is forged in them. Their negotiators told more and less of their matches."""
ENDS: Final = {"NegotiatorLog": "Successfully matched with ", "MatchLog": "Matched "}
BEGINS: Final = {"NegotiatorLog": " Request ", "MatchLog": "Matched "}

Lines = list[str]
"""A match's lines, from its request on; in a MatchLog they are one."""


def _each(change: Callable[[str], str]) -> Callable[[Lines], Lines]:
    return lambda lines: [change(line) for line in lines]


def _other_slot(line: str) -> str:
    return re.sub(r"slot(\d+)@", lambda found: f"slot{1 + int(found[1]) % 2}@", line)


def _other_job(line: str) -> str:
    return re.sub(r"Matched (\d+)\.", lambda found: f"Matched {int(found[1]) % 2 + 1}.", line)


def _other_request(line: str) -> str:
    return re.sub(r"(Matched |Request 0*)(\d+)\.(0*\d+)", lambda found: f"{found[1]}{found[2]}.777", line)


def _later(line: str) -> str:
    return re.sub(r":(\d\d) ", lambda found: f":{(int(found[1]) + 7) % 60:02} ", line, count=1)


def _doubled(change: Callable[[str], str]) -> Callable[[Lines], Lines]:
    return lambda lines: [*lines, *map(change, lines)]


def _user(name: str) -> Callable[[str], str]:
    return lambda line: re.sub(r"(Matched \S+) [^@]+@", rf"\1 {name}@", line)


def _nice(line: str) -> str:
    """Of an owner's match one of the nice user, and the other way round."""
    return re.sub(r"(Matched \S+ )(nice-user\.)?", lambda found: found[1] + ("" if found[2] else "nice-user."), line)


def _added(line: str) -> str:
    """A match of the next slot for a user who has no job, with a request of its own."""
    line = re.sub(r"slot(\d+)@", lambda found: f"slot{int(found[1]) + 1}@", _user("mallory")(line))
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
    """The comparison of a folder whose first match, or a late one, was forged in both logs."""
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
def honest(source: Path) -> set[str]:
    return {one.reason for one in compare_cycles(record(source)).differences}


def test_a_match_of_another_account_is_noticed_where_users_are_nice(tmp_path: Path) -> None:
    source = DATA / "recordings/consumption"
    assert forged(source, tmp_path, FORGERIES["another account of the user"], False).unexplained


@pytest.mark.parametrize(("source", "late"), some(RECORDINGS, 0, RECORDINGS[1:2]))
@pytest.mark.parametrize("forgery", some(FORGERIES, 6))
def test_a_forged_match_is_neither_excused_nor_unnoticed(source: str, late: bool, forgery: str, tmp_path: Path) -> None:
    found = forged(DATA / source, tmp_path, FORGERIES[forgery], late)
    assert found.unexplained, [str(one) for one in found.differences]
    assert not found.agrees
    assert {one.reason for one in found.differences} - {""} <= honest(DATA / source)

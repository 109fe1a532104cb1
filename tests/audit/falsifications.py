"""Falsifications of a recorded pool: each is one change of one file, as somebody would make it who wants to hide
something."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

Files = dict[str, str]


class Falsification(NamedTuple):
    """One lie: its kind, the file and the line (from 1) that it changes, and the file's text then."""

    kind: str
    file: str
    line: int
    text: str


_STAMP = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d/\d\d \d\d:\d\d:\d\d")
_FORMATS = {17: "%m/%d/%y %H:%M:%S", 19: "%Y-%m-%d %H:%M:%S", 14: "%m/%d %H:%M:%S"}
"""The forms of instants in the daemons' logs and in job event logs, by their lengths."""


def _lines(files: Files, name: str, pattern: str) -> Iterator[tuple[str, list[str], int, re.Match[str]]]:
    """The lines of the files of a name that have a pattern."""
    for file, text in files.items():
        if re.fullmatch(name, file):
            lines = text.splitlines(keepends=True)
            for number, line in enumerate(lines):
                found = re.search(pattern, line)
                if found is not None:
                    yield file, lines, number, found


Lies = Callable[[Files], Iterator[tuple[str, int, str]]]
Change = Callable[[re.Match[str]], str]


def _edited(name: str, pattern: str, change: Change) -> Callable[[Files], Iterator[tuple[str, int, str]]]:
    """Change what a pattern finds in one line."""

    def lies(files: Files) -> Iterator[tuple[str, int, str]]:
        for file, lines, number, found in _lines(files, name, pattern):
            line = lines[number][: found.start()] + change(found) + lines[number][found.end() :]
            if line != lines[number]:
                yield file, number + 1, "".join([*lines[:number], line, *lines[number + 1 :]])

    return lies


def _dropped(name: str, pattern: str) -> Callable[[Files], Iterator[tuple[str, int, str]]]:
    def lies(files: Files) -> Iterator[tuple[str, int, str]]:
        for file, lines, number, _ in _lines(files, name, pattern):
            yield file, number + 1, "".join(lines[:number] + lines[number + 1 :])

    return lies


def _within(lies: Lies) -> Lies:
    """Only lies of instants between the file's first and last: a log that lacks those may have been cut."""

    def kept(files: Files) -> Iterator[tuple[str, int, str]]:
        for file, number, text in lies(files):
            stamps = [line[:17] for line in files[file].splitlines()]
            if stamps[number - 1] not in (stamps[0], stamps[-1]):
                yield file, number, text

    return kept


def _doubled(name: str, pattern: str) -> Callable[[Files], Iterator[tuple[str, int, str]]]:
    def lies(files: Files) -> Iterator[tuple[str, int, str]]:
        for file, lines, number, _ in _lines(files, name, pattern):
            yield file, number + 1, "".join(lines[: number + 1] + lines[number:])

    return lies


def _moved(name: str, pattern: str, seconds: int) -> Callable[[Files], Iterator[tuple[str, int, str]]]:
    """Another instant in one line, which stays where it is."""

    def later(found: re.Match[str]) -> str:
        stamp = _STAMP.search(found[0])
        assert stamp is not None
        form = _FORMATS[len(stamp[0])]
        year = "2000 " if len(stamp[0]) == 14 else ""  # a leap year
        at = datetime.strptime(year + stamp[0], ("%Y " if year else "") + form) + timedelta(seconds=seconds)
        return found[0][: stamp.start()] + at.strftime(form) + found[0][stamp.end() :]

    return _edited(name, pattern, later)


def _ads(text: str) -> Iterator[tuple[int, int]]:
    """Where each ad of a history begins and ends, its banner included."""
    begin = 0
    for banner in re.finditer(r"^\*\*\*.*\n", text, re.MULTILINE):
        yield begin, banner.end()
        begin = banner.end()


def _ad_dropped(name: str, such: str = "") -> Callable[[Files], Iterator[tuple[str, int, str]]]:
    def lies(files: Files) -> Iterator[tuple[str, int, str]]:
        for file, text in files.items():
            if re.fullmatch(name, file):
                for begin, end in _ads(text):
                    if re.search(such, text[begin:end], re.MULTILINE):
                        yield file, text.count("\n", 0, begin) + 1, text[:begin] + text[end:]

    return lies


def _event_dropped(name: str, number: str, last: bool = False) -> Callable[[Files], Iterator[tuple[str, int, str]]]:
    """One event of a job event log is missing; with `last`, the last of its kind alone."""

    def lies(files: Files) -> Iterator[tuple[str, int, str]]:
        for file, text in files.items():
            if re.fullmatch(name, file):
                found = list(re.finditer(rf"^{number} \([\s\S]*?^\.\.\.\n", text, re.MULTILINE))
                for event in found[-1:] if last else found:
                    yield file, text.count("\n", 0, event.start()) + 1, text[: event.start()] + text[event.end() :]

    return lies


_STAMPED = {
    "StartLog": r"^\S+ \S+ .*Changing .*",
    "SchedLog": r"^\S+ \S+ .*(Started shadow|exited with status|Shadow pid).*",
    "MatchLog": r"^\S+ \S+ .*Matched .*",
    "NegotiatorLog": r"^\S+ \S+ .*Matched .*",
    "EventLog": r"^(001|005|012|013|009|004) \(.*",
    ".*job.log": r"^(001|005|012|013|009|004) \(.*",
}


def _up(found: re.Match[str]) -> str:
    return (
        found[0][: found.start(1) - found.start()] + str(int(found[1]) + 1) + found[0][found.end(1) - found.start() :]
    )


def _other_slot(found: re.Match[str]) -> str:
    return found[0].replace("slot1", "slot7") if "slot1" in found[0] else re.sub(r"slot\d+", "slot1", found[0], count=1)


KINDS: dict[str, Callable[[Files], Iterator[tuple[str, int, str]]]] = {
    "a job is dropped from the history": _ad_dropped("history.*"),
    "a run is dropped from startd_history": _ad_dropped("startd_history.*"),
    "a run's end is dropped from epoch_history": _ad_dropped("epoch_history.*|.*epoch.*", 'EpochAdType = "EPOCH"'),
    "a match is duplicated": _doubled("MatchLog", r"\sMatched "),
    "a match is deleted": _within(_dropped("MatchLog", r"\sMatched ")),
    "a match is deleted from the NegotiatorLog": _dropped("NegotiatorLog", r"\sMatched "),
    "a match is of another slot": _edited("MatchLog", r"slot\d+\S*$", _other_slot),
    "a match is of another job": _edited("MatchLog", r"Matched (\d+)\.", _up),
    "a shadow's start is deleted": _dropped("SchedLog", r"Started shadow"),
    "the shadow's exit status": _edited("SchedLog", r"exited with status (\d+)", _up),
    "the starter's exit status": _edited("StartLog", r"[Ss]tarter pid \d+ exited with status (\d+)", _up),
    "the last 005 is missing in the user's log": _event_dropped(".*job.log", "005", last=True),
    "a 005 is missing in the EventLog": _event_dropped("EventLog", "005"),
    "a 001 is missing in the user's log": _event_dropped(".*job.log", "001"),
    "a 012 is missing in the EventLog": _event_dropped("EventLog", "012"),
    "another exit code in the EventLog": _edited("EventLog", r"return value (\d+)", _up),
    "another exit code in the user's log": _edited(".*job.log", r"return value (\d+)", _up),
    "a changed reason in the StartLog": _edited(
        "StartLog", r"State change: (?!PREEMPT).*$", lambda found: "State change: PREEMPT is TRUE"
    ),
    "a reason in other words in the StartLog": _edited(
        "StartLog", r"State change: .*$", lambda found: "State change: somebody wanted it"
    ),
    "the owner's reason in the StartLog": _edited(
        "StartLog", r"State change: (?!IS_OWNER is TRUE).*$", lambda found: "State change: IS_OWNER is TRUE"
    ),
    "how a shadow says that its job exited": _edited("SchedLog", r"reports job exit reason (\d+)", _up),
    "a 004 is missing in the EventLog": _event_dropped("EventLog", "004"),
    "a 009 is missing in the user's log": _event_dropped(".*job.log", "009"),
    "a 000 is missing in the user's log": _event_dropped(".*job.log", "000"),
    "a run's beginning is dropped from epoch_history": _ad_dropped(
        "epoch_history.*|.*epoch.*", 'EpochAdType = "SPAWN"'
    ),
    "a transition is deleted": _dropped("StartLog", r"Changing (state|activity)"),
    "a transition is duplicated": _doubled("StartLog", r"Changing (state|activity)"),
    "a transition stands under another slot": _edited("StartLog", r"slot\d+\S*: Changing", _other_slot),
    "a transition ends elsewhere": _edited(
        "StartLog", r"Busy$|Idle$|Owner$|Unclaimed$|Claimed/Idle$", lambda f: "Killing"
    ),
    "the job's owner in the history": _edited("history.*", r'^Owner = "(\w+)"', lambda found: 'Owner = "mallory"'),
    "the job's exit code in the history": _edited("history.*", r"^ExitCode = (\d+)", _up),
    "the CPU time in the history": _edited("history.*", r"^RemoteUserCpu = (\d+)", _up),
    "the wall clock in the history": _edited("history.*", r"^RemoteWallClockTime = (\d+)", _up),
    "the owner in startd_history": _edited("startd_history.*", r'^Owner = "(\w+)"', lambda found: 'Owner = "mallory"'),
    "usage in Accountantnew.log": _edited(
        "Accountantnew.log.*", r"(?<=WeightedAccumulatedUsage )([1-9]\d*)", lambda found: str(int(found[1]) + 1000)
    ),
    **{
        f"a line of {name.replace('.*', 'a ')} moved by {said}": _moved(name, pattern, seconds)
        for name, pattern in _STAMPED.items()
        for said, seconds in (("an hour", 3600), ("20 s", 20), ("-20 s", -20))
    },
}


def falsified(files: Files, most: int = 3) -> Iterator[Falsification]:
    """Lies about a recorded pool: of each kind at most so many, spread over the places where it can be told."""
    for kind, lies in KINDS.items():
        found = list(lies(files))
        step = max(1, len(found) / most)
        for number in range(min(most, len(found))):
            file, line, text = found[int(number * step)]
            yield Falsification(kind, file, line, text)


def read(folder: Path) -> Files:
    """The files of a recorded pool, as text (Latin-1, so that each byte is kept)."""
    found = {}
    for path in sorted(filter(Path.is_file, folder.iterdir())):
        data = path.read_bytes()
        found[path.name.removesuffix(".gz")] = (gzip.decompress(data) if path.suffix == ".gz" else data).decode(
            "latin-1"
        )
    return found

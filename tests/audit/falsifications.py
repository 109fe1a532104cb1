"""Falsifications of a recorded pool: each is one change of one file, as a person would make it who hides something."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..sampling import spread

Files = dict[str, str]


class Span(NamedTuple):
    """A part of a file's text, and what replaces it."""

    begin: int
    end: int
    text: str = ""


class Falsification(NamedTuple):
    """One falsification: its kind, the file, and the parts of it that it changes."""

    kind: str
    file: str
    spans: tuple[Span, ...]

    def line(self, files: Files) -> int:
        return files[self.file].count("\n", 0, self.spans[0].begin) + 1

    def text(self, files: Files) -> str:
        parts, done = [], 0
        for span in self.spans:
            parts += [files[self.file][done : span.begin], span.text]
            done = span.end
        return "".join([*parts, files[self.file][done:]])


Place = tuple[str, tuple[Span, ...]]
Places = Callable[[Files], Iterator[Place]]
Change = Callable[[re.Match[str]], str]

_STAMP = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d/\d\d \d\d:\d\d:\d\d")
_FORMATS = {17: "%m/%d/%y %H:%M:%S", 19: "%Y-%m-%d %H:%M:%S", 14: "%m/%d %H:%M:%S"}
"""The forms of instants in the daemons' logs and in job event logs, by their lengths."""
_ENTRY = r"^\d{3} \((\d+)\.(\d+)\.\d+\)[\s\S]*?^\.\.\.\n"

USER_LOGS = r"(?!EventLog|job_queue|Accountant|.*\.dagman\.log).*\.log|u\.log"
EVENT_LOGS = r"EventLog(\.\d)?"
START_LOGS = r"StartLog.*"
SCHED_LOGS = r"SchedLog.*"
QUEUES = r"job_queue\.log.*"
ACCOUNTANTS = r"Accountantnew\.log.*"
HISTORIES = r"history(\.\d{8}T\d{6})?"
EPOCHS = r"epoch_history.*"
STARTD_HISTORIES = r"startd_history.*"
QUEUE_DUMPS = r"q(-.*)?\.(long|ads)"
SLOT_DUMPS = r"(slots|status)\.long|machine-ads-.*\.txt"


def _texts(files: Files, name: str) -> Iterator[tuple[str, str]]:
    for file, text in files.items():
        if re.fullmatch(name, Path(file).name):
            yield file, text


def _found(name: str, pattern: str) -> Callable[[Files], Iterator[tuple[str, str, re.Match[str]]]]:
    def found(files: Files) -> Iterator[tuple[str, str, re.Match[str]]]:
        for file, text in _texts(files, name):
            for match in re.finditer(pattern, text, re.MULTILINE):
                yield file, text, match

    return found


def _edited(name: str, pattern: str, change: Change) -> Places:
    """Change what a pattern finds."""

    def places(files: Files) -> Iterator[Place]:
        for file, _, match in _found(name, pattern)(files):
            if (text := change(match)) != match[0]:
                yield file, (Span(match.start(), match.end(), text),)

    return places


def _line(text: str, match: re.Match[str]) -> Span:
    end = text.find("\n", match.end())
    return Span(text.rfind("\n", 0, match.start()) + 1, len(text) if end < 0 else end + 1)


def _dropped(name: str, pattern: str) -> Places:
    """Delete a line."""

    def places(files: Files) -> Iterator[Place]:
        for file, text, match in _found(name, pattern)(files):
            yield file, (_line(text, match),)

    return places


def _doubled(name: str, pattern: str) -> Places:
    """Repeat a line."""

    def places(files: Files) -> Iterator[Place]:
        for file, text, match in _found(name, pattern)(files):
            begin, end, _ = _line(text, match)
            yield file, (Span(end, end, text[begin:end]),)

    return places


def _within(places: Places) -> Places:
    """Keep what lies between the file's first and last instant: a log that lacks those may have been cut."""

    def kept(files: Files) -> Iterator[Place]:
        for file, spans in places(files):
            lines = files[file].splitlines()
            begin = spans[0].begin
            if files[file][begin : begin + 17] not in (lines[0][:17], lines[-1][:17]):
                yield file, spans

    return kept


def _tied(places: Places) -> Places:
    """Keep what lies in the file's first second, but for the first line."""

    def kept(files: Files) -> Iterator[Place]:
        for file, spans in places(files):
            begin = spans[0].begin
            if begin and files[file][begin : begin + 17] == files[file][:17]:
                yield file, spans

    return kept


def _later(text: str, seconds: int) -> str:
    stamp = _STAMP.search(text)
    assert stamp is not None
    form = _FORMATS[len(stamp[0])]
    year = "2000 " if len(stamp[0]) == 14 else ""  # a leap year
    at = datetime.strptime(year + stamp[0], ("%Y " if year else "") + form) + timedelta(seconds=seconds)
    return text[: stamp.start()] + at.strftime(form) + text[stamp.end() :]


def _moved(name: str, pattern: str, seconds: int) -> Places:
    """Change the instant in one line, which stays where it is."""
    return _edited(name, pattern, lambda found: _later(found[0], seconds))


@lru_cache(64)
def _ads(text: str) -> list[tuple[int, int]]:
    """Return where each ad of a history begins and ends, its banner included."""
    begin, found = 0, []
    for banner in re.finditer(r"^\*\*\*.*\n", text, re.MULTILINE):
        found.append((begin, banner.end()))
        begin = banner.end()
    return found


def _ad_dropped(name: str, such: str = "") -> Places:
    """Take an ad out between two others: a file without its first or last one may have been cut, or copied early."""

    def places(files: Files) -> Iterator[Place]:
        for file, text in _texts(files, name):
            for begin, end in _ads(text):
                if begin > 0 and end < len(text) and re.search(such, text[begin:end], re.MULTILINE):
                    yield file, (Span(begin, end),)

    return places


def _entry_dropped(name: str, number: str, last: bool = False) -> Places:
    """One entry of a job event log is missing; with `last`, only the last of its kind."""

    def places(files: Files) -> Iterator[Place]:
        for file, text in _texts(files, name):
            found = list(re.finditer(rf"^{number} \([\s\S]*?^\.\.\.\n", text, re.MULTILINE))
            for entry in found[-1:] if last else found:
                yield file, (Span(entry.start(), entry.end()),)

    return places


def _job_entries(name: str, change: Callable[[str], str]) -> Places:
    """All entries of one job in one file are changed, or deleted."""

    def places(files: Files) -> Iterator[Place]:
        for file, text in _texts(files, name):
            jobs: dict[tuple[str, str], list[Span]] = {}
            for entry in re.finditer(_ENTRY, text, re.MULTILINE):
                jobs.setdefault((entry[1], entry[2]), []).append(Span(entry.start(), entry.end(), change(entry[0])))
            for spans in jobs.values():
                if len(jobs) > 1 and len(spans) > 1:  # of one entry alone, another kind tells
                    yield file, tuple(spans)

    return places


def _up(found: re.Match[str]) -> str:
    return _by(1)(found)


def _by(amount: int) -> Change:
    """Add to the number in the pattern's group."""

    def change(found: re.Match[str]) -> str:
        begin, end = (at - found.start() for at in found.span(1))
        return f"{found[0][:begin]}{int(found[1]) + amount}{found[0][end:]}"

    return change


def _other(*texts: str) -> Change:
    """Put another text into the pattern's group."""

    def change(found: re.Match[str]) -> str:
        begin, end = (at - found.start() for at in found.span(1))
        text = next(text for text in texts if text != found[1])
        return found[0][:begin] + text + found[0][end:]

    return change


def _other_slot(found: re.Match[str]) -> str:
    return found[0].replace("slot1", "slot7") if "slot1" in found[0] else re.sub(r"slot\d+", "slot1", found[0], count=1)


STAMPED = {
    "StartLog": (START_LOGS, r"^\S+ \S+ .*Changing .*"),
    "SchedLog": (SCHED_LOGS, r"^\S+ \S+ .*(Started shadow|exited with status|Shadow pid).*"),
    "MatchLog": ("MatchLog.*", r"^\S+ \S+ .*Matched .*"),
    "NegotiatorLog": ("NegotiatorLog.*", r"^\S+ \S+ .*Matched .*"),
    "EventLog": (EVENT_LOGS, r"^(001|005|012|013|009|004) \(.*"),
    "a job.log": (USER_LOGS, r"^(001|005|012|013|009|004) \(.*"),
}
_EVICTION = (
    "preempting claim based on user priority", "preempting claim based on machine rank", "PREEMPT is TRUE",
    "claim retirement ended/expired.", "received RELEASE_CLAIM command", "received VACATE_ALL_CLAIMS command",
)  # fmt: skip
_REASON = rf"State change: ({'|'.join(map(re.escape, _EVICTION))})\.?$"
_MATCHES = {"MatchLog": r"MatchLog.*", "the NegotiatorLog": r"NegotiatorLog.*"}
ADS = {
    "the history": HISTORIES, "epoch_history": EPOCHS, "startd_history": STARTD_HISTORIES,
    "a printed queue": QUEUE_DUMPS,
}  # fmt: skip
OF_ADS: dict[str, tuple[str, Change]] = {
    "JobStartDate": (r"(\d+)", _by(600)),
    "NumHolds": (r"(\d+)", _up),
    "HoldReasonCode": (r"(\d+)", _up),
    "JobPrio": (r"(-?\d+)", _by(5)),
    "Cmd": (r'"(.*)"', _other("/bin/true", "/bin/false")),
}
"""Attributes that copies of a job's ad have, too, and their changes."""
OF_PRINTED: dict[str, tuple[str, Change]] = {
    "JobStatus": (r"(\d)", _other("2", "1")),
    "NumJobStarts": (r"(\d+)", _up),
    "QDate": (r"(\d+)", _by(300)),
    "Args": (r'"(.*)"', _other("-v", "-q")),
    "RequestMemory": (r"(\d+)", _by(100)),
}

KINDS: dict[str, Places] = {
    "a job is dropped from the history": _ad_dropped(HISTORIES),
    "a run is dropped from startd_history": _ad_dropped(STARTD_HISTORIES),
    "a run's end is dropped from epoch_history": _ad_dropped(EPOCHS, 'EpochAdType = "EPOCH"'),
    "a match is duplicated": _doubled("MatchLog.*", r"\sMatched "),
    "a match is deleted": _within(_dropped("MatchLog.*", r"\sMatched ")),
    "a match is deleted in the log's first second": _tied(_dropped("MatchLog", r"\sMatched ")),
    "a match is deleted from the NegotiatorLog": _dropped("NegotiatorLog.*", r"\sMatched "),
    "a match is of another slot": _edited("MatchLog.*", r"Matched .* slot\d+\S*$", _other_slot),
    "a match is of another job": _edited("MatchLog.*", r"Matched (\d+)\.", _up),
    "a shadow's start is deleted": _dropped(SCHED_LOGS, r"Started shadow"),
    "the shadow's exit status": _edited(SCHED_LOGS, r"exited with status (\d+)", _up),
    "the starter's exit status": _edited(START_LOGS, r"[Ss]tarter pid \d+ exited with status (\d+)", _up),
    "the last 005 is missing in the user's log": _entry_dropped(USER_LOGS, "005", last=True),
    "a 005 is missing in the EventLog": _entry_dropped(EVENT_LOGS, "005"),
    "a 001 is missing in the user's log": _entry_dropped(USER_LOGS, "001"),
    "a 012 is missing in the EventLog": _entry_dropped(EVENT_LOGS, "012"),
    "another exit code in the EventLog": _edited(EVENT_LOGS, r"return value (\d+)", _up),
    "another exit code in the user's log": _edited(USER_LOGS, r"return value (\d+)", _up),
    "a changed reason in the StartLog": _edited(
        START_LOGS, r"State change: (?!PREEMPT).*$", lambda found: "State change: PREEMPT is TRUE"
    ),
    "a reason in other words in the StartLog": _edited(
        START_LOGS, r"State change: .*$", lambda found: "State change: somebody wanted it"
    ),
    "the owner's reason in the StartLog": _edited(
        START_LOGS, r"State change: (?!IS_OWNER is TRUE).*$", lambda found: "State change: IS_OWNER is TRUE"
    ),
    "another eviction reason in the StartLog": _edited(START_LOGS, _REASON, _other(*_EVICTION)),
    "an eviction reason is deleted from the StartLog": _dropped(START_LOGS, _REASON),
    "how a shadow says that its job exited": _edited(SCHED_LOGS, r"reports job exit reason (\d+)", _up),
    "a 004 is missing in the EventLog": _entry_dropped(EVENT_LOGS, "004"),
    "a 009 is missing in the user's log": _entry_dropped(USER_LOGS, "009"),
    "a 009 is missing in the EventLog": _entry_dropped(EVENT_LOGS, "009"),
    "a 000 is missing in the user's log": _entry_dropped(USER_LOGS, "000"),
    "a run's beginning is dropped from epoch_history": _ad_dropped(EPOCHS, 'EpochAdType = "SPAWN"'),
    "a transition is deleted": _dropped(START_LOGS, r"Changing (state|activity)"),
    "a transition is duplicated": _doubled(START_LOGS, r"Changing (state|activity)"),
    "a transition stands under another slot": _edited(START_LOGS, r"slot\d+\S*: Changing", _other_slot),
    "a transition ends elsewhere": _edited(
        START_LOGS, r"(Changing .*)(Busy|Idle|Owner|Unclaimed|Claimed/Idle)$", lambda f: f"{f[1]}Killing"
    ),
    "the claim's number in the StartLog": _edited(START_LOGS, r"Received ClaimId .*#(\d+)#\.\.\.", _up),
    "the job's owner in the history": _edited(HISTORIES, r'^Owner = "(\w+)"', _other("mallory")),
    "the job's exit code in the history": _edited(HISTORIES, r"^ExitCode = (\d+)", _up),
    "the job's number in the history": _edited(HISTORIES, r"^ProcId = (\d+)", _by(40)),
    "the CPU time in the history": _edited(HISTORIES, r"^RemoteUserCpu = (\d+)", _up),
    "the wall clock in the history": _edited(HISTORIES, r"^RemoteWallClockTime = (\d+)", _up),
    "the wall clock in the history, by an hour": _edited(HISTORIES, r"^RemoteWallClockTime = (\d+)", _by(3600)),
    "the owner in startd_history": _edited(STARTD_HISTORIES, r'^Owner = "(\w+)"', _other("mallory")),
    "usage in Accountantnew.log": _edited(ACCOUNTANTS, r"WeightedAccumulatedUsage ([1-9]\d*)", _by(1000)),
    "the user of a slot in Accountantnew.log": _edited(
        ACCOUNTANTS, r' RemoteUser "(\w+)', _other("mallory")
    ),
    "another user of a slot in Accountantnew.log": _edited(ACCOUNTANTS, r' RemoteUser "(\w+)', _other("alice", "bob")),
    "since when a slot is used in Accountantnew.log": _edited(ACCOUNTANTS, r" StartTime ([1-9]\d+)", _by(600)),
    "the slots in use in Accountantnew.log": _edited(ACCOUNTANTS, r" ResourcesUsed (\d+)", _up),
    "the total of jobs in job_queue.log": _edited(QUEUES, r"^103 \S+ Total\w+Jobs (\d+)", _up),
    "the shadow's pid at its start": _edited(SCHED_LOGS, r"\(shadow pid = (\d+)\)", _up),
    "the shadow's pid at its exit": _edited(SCHED_LOGS, r"Shadow pid (\d+) for job \S+ exited", _up),
    "a cycle's start is deleted": _dropped("NegotiatorLog.*", r"Started Negotiation Cycle"),
    "a cycle's end is deleted": _dropped("NegotiatorLog.*", r"Finished Negotiation Cycle"),
    **{
        f"a rejection is deleted from {log}": _within(_dropped(name, r"\sRejected "))
        for log, name in _MATCHES.items()
    },
    **{
        f"a rejection's reason in {log}": _edited(
            name, r"\sRejected .*>: (.*)$", _other("no match found", "submitter limit exceeded")
        )
        for log, name in _MATCHES.items()
    },
    **{
        f"{attribute} in {of}": _edited(name, rf"^{attribute} = {pattern}", change)
        for attribute, (pattern, change) in OF_ADS.items()
        for of, name in ADS.items()
    },
    **{
        f"{attribute} in a printed queue": _edited(QUEUE_DUMPS, rf"^{attribute} = {pattern}", change)
        for attribute, (pattern, change) in OF_PRINTED.items()
    },
    **{
        f"{attribute} of a printed slot": _edited(SLOT_DUMPS, rf'^{attribute} = "({pattern})', _other(*others))
        for attribute, pattern, others in (
            ("RemoteOwner", r"\w+", ("mallory",)), ("RemoteUser", r"\w+", ("mallory",)),
            ("State", r"\w+", ("Claimed", "Unclaimed")), ("Activity", r"\w+", ("Busy", "Idle")),
            ("JobId", r"[\d.]+", ("77.0",)),
        )
    },
    **{
        f"a job is {said} in {of}": _job_entries(name, change)
        for of, name in (("the user's log", USER_LOGS), ("the EventLog", EVENT_LOGS))
        for said, change in (
            ("missing", lambda entry: ""),
            ("2 minutes later", lambda entry: _later(entry, 120)),
            ("10 minutes earlier", lambda entry: _later(entry, -600)),
        )
    },
    **{
        f"a line of {log} moved by {by}": _moved(name, pattern, seconds)
        for log, (name, pattern) in STAMPED.items()
        for by, seconds in (("an hour", 3600), ("20 s", 20), ("-20 s", -20))
    },
}  # fmt: skip


def falsified(files: Files, most: int = 3, seed: int | None = None, kinds: str = "") -> Iterator[Falsification]:
    """Yield falsifications of a recorded pool: of each kind at most so many, spread evenly, or at random by a seed."""
    for kind, places in KINDS.items():
        if kinds in kind:
            found = list(places(files))
            chosen = random.Random(f"{seed} {kind}") if seed is not None else None
            for file, spans in chosen.sample(found, min(most, len(found))) if chosen else spread(found, most):
                yield Falsification(kind, file, spans)


def read(folder: Path) -> Files:
    """Return the files of a recorded pool, as text (Latin-1, so that each byte is kept), by their paths in it."""
    found = {}
    for path in sorted(filter(Path.is_file, folder.rglob("*"))):
        data = path.read_bytes()
        name = str(path.relative_to(folder)).removesuffix(".gz")
        found[name] = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1")
    return found

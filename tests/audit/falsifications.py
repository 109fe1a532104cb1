"""Falsifications of a recorded pool: each changes one file, as a person would who hides something."""

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
    """One falsification: its kind, the file, and the changed parts of it."""

    kind: str
    file: str
    spans: tuple[Span, ...]

    def line(self, files: Files) -> int:
        return files[self.file].count("\n", 0, self.spans[0].begin) + 1

    def text(self, files: Files) -> str:
        parts, end = [], 0
        for span in self.spans:
            parts += [files[self.file][end : span.begin], span.text]
            end = span.end
        return "".join([*parts, files[self.file][end:]])


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


def _matches(name: str, pattern: str) -> Callable[[Files], Iterator[tuple[str, str, re.Match[str]]]]:
    def found(files: Files) -> Iterator[tuple[str, str, re.Match[str]]]:
        for file, text in _texts(files, name):
            for match in re.finditer(pattern, text, re.MULTILINE):
                yield file, text, match

    return found


def _edit(name: str, pattern: str, change: Change) -> Places:
    """Change each match of a pattern."""

    def places(files: Files) -> Iterator[Place]:
        for file, _, match in _matches(name, pattern)(files):
            if (text := change(match)) != match[0]:
                yield file, (Span(match.start(), match.end(), text),)

    return places


def _line(text: str, match: re.Match[str]) -> Span:
    end = text.find("\n", match.end())
    return Span(text.rfind("\n", 0, match.start()) + 1, len(text) if end < 0 else end + 1)


def _drop_line(name: str, pattern: str) -> Places:
    """Delete a line."""

    def places(files: Files) -> Iterator[Place]:
        for file, text, match in _matches(name, pattern)(files):
            yield file, (_line(text, match),)

    return places


def _double_line(name: str, pattern: str) -> Places:
    """Repeat a line."""

    def places(files: Files) -> Iterator[Place]:
        for file, text, match in _matches(name, pattern)(files):
            begin, end, _ = _line(text, match)
            yield file, (Span(end, end, text[begin:end]),)

    return places


def _inside_file(places: Places) -> Places:
    """Keep matches between the file's first and last instant: a log that lacks those may have been cut."""

    def kept(files: Files) -> Iterator[Place]:
        for file, spans in places(files):
            lines = files[file].splitlines()
            begin = spans[0].begin
            if files[file][begin : begin + 17] not in (lines[0][:17], lines[-1][:17]):
                yield file, spans

    return kept


def _in_first_second(places: Places) -> Places:
    """Keep matches in the file's first second, except the first line."""

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


def _move_instant(name: str, pattern: str, seconds: int) -> Places:
    """Change the instant in one line, without moving the line."""
    return _edit(name, pattern, lambda found: _later(found[0], seconds))


@lru_cache(64)
def _ads(text: str) -> list[tuple[int, int]]:
    """Return where each ad of a history begins and ends, including its banner."""
    begin, spans = 0, []
    for banner in re.finditer(r"^\*\*\*.*\n", text, re.MULTILINE):
        spans.append((begin, banner.end()))
        begin = banner.end()
    return spans


def _drop_ad(name: str, such: str = "") -> Places:
    """Delete an ad between two others: a file without its first or last one may have been cut, or copied early."""

    def places(files: Files) -> Iterator[Place]:
        for file, text in _texts(files, name):
            for begin, end in _ads(text):
                if begin > 0 and end < len(text) and re.search(such, text[begin:end], re.MULTILINE):
                    yield file, (Span(begin, end),)

    return places


def _drop_entry(name: str, number: str, last: bool = False) -> Places:
    """Delete one entry of a job event log; with `last`, only the last of its kind."""

    def places(files: Files) -> Iterator[Place]:
        for file, text in _texts(files, name):
            entries = list(re.finditer(rf"^{number} \([\s\S]*?^\.\.\.\n", text, re.MULTILINE))
            for entry in entries[-1:] if last else entries:
                yield file, (Span(entry.start(), entry.end()),)

    return places


def _change_job_entries(name: str, change: Callable[[str], str]) -> Places:
    """Change or delete all entries of one job in one file."""

    def places(files: Files) -> Iterator[Place]:
        for file, text in _texts(files, name):
            jobs: dict[tuple[str, str], list[Span]] = {}
            for entry in re.finditer(_ENTRY, text, re.MULTILINE):
                jobs.setdefault((entry[1], entry[2]), []).append(Span(entry.start(), entry.end(), change(entry[0])))
            for spans in jobs.values():
                if len(jobs) > 1 and len(spans) > 1:  # another kind covers jobs with one entry
                    yield file, tuple(spans)

    return places


def _increment(match: re.Match[str]) -> str:
    return _add(1)(match)


def _add(amount: int) -> Change:
    """Add to the number in the pattern's group."""

    def change(match: re.Match[str]) -> str:
        begin, end = (at - match.start() for at in match.span(1))
        return f"{match[0][:begin]}{int(match[1]) + amount}{match[0][end:]}"

    return change


def _replace_text(*texts: str) -> Change:
    """Replace the text in the pattern's group."""

    def change(match: re.Match[str]) -> str:
        begin, end = (at - match.start() for at in match.span(1))
        text = next(text for text in texts if text != match[1])
        return match[0][:begin] + text + match[0][end:]

    return change


def _replace_slot(match: re.Match[str]) -> str:
    return match[0].replace("slot1", "slot7") if "slot1" in match[0] else re.sub(r"slot\d+", "slot1", match[0], count=1)


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
KINDS_OF_ADS: dict[str, tuple[str, Change]] = {
    "JobStartDate": (r"(\d+)", _add(600)),
    "NumHolds": (r"(\d+)", _increment),
    "HoldReasonCode": (r"(\d+)", _increment),
    "JobPrio": (r"(-?\d+)", _add(5)),
    "Cmd": (r'"(.*)"', _replace_text("/bin/true", "/bin/false")),
}
"""Attributes that copies of a job's ad also have, and their changes."""
KINDS_OF_COPIES: dict[str, tuple[str, Change]] = {
    "JobStatus": (r"(\d)", _replace_text("2", "1")),
    "NumJobStarts": (r"(\d+)", _increment),
    "QDate": (r"(\d+)", _add(300)),
    "Args": (r'"(.*)"', _replace_text("-v", "-q")),
    "RequestMemory": (r"(\d+)", _add(100)),
}

KINDS: dict[str, Places] = {
    "a job is dropped from the history": _drop_ad(HISTORIES),
    "a run is dropped from startd_history": _drop_ad(STARTD_HISTORIES),
    "a run's end is dropped from epoch_history": _drop_ad(EPOCHS, 'EpochAdType = "EPOCH"'),
    "a match is duplicated": _double_line("MatchLog.*", r"\sMatched "),
    "a match is deleted": _inside_file(_drop_line("MatchLog.*", r"\sMatched ")),
    "a match is deleted in the log's first second": _in_first_second(_drop_line("MatchLog", r"\sMatched ")),
    "a match is deleted from the NegotiatorLog": _drop_line("NegotiatorLog.*", r"\sMatched "),
    "a match is of another slot": _edit("MatchLog.*", r"Matched .* slot\d+\S*$", _replace_slot),
    "a match is of another job": _edit("MatchLog.*", r"Matched (\d+)\.", _increment),
    "a shadow's start is deleted": _drop_line(SCHED_LOGS, r"Started shadow"),
    "the shadow's exit status": _edit(SCHED_LOGS, r"exited with status (\d+)", _increment),
    "the starter's exit status": _edit(START_LOGS, r"[Ss]tarter pid \d+ exited with status (\d+)", _increment),
    "the last 005 is missing in the user's log": _drop_entry(USER_LOGS, "005", last=True),
    "a 005 is missing in the EventLog": _drop_entry(EVENT_LOGS, "005"),
    "a 001 is missing in the user's log": _drop_entry(USER_LOGS, "001"),
    "a 012 is missing in the EventLog": _drop_entry(EVENT_LOGS, "012"),
    "another exit code in the EventLog": _edit(EVENT_LOGS, r"return value (\d+)", _increment),
    "another exit code in the user's log": _edit(USER_LOGS, r"return value (\d+)", _increment),
    "a changed reason in the StartLog": _edit(
        START_LOGS, r"State change: (?!PREEMPT).*$", lambda found: "State change: PREEMPT is TRUE"
    ),
    "a reason in other words in the StartLog": _edit(
        START_LOGS, r"State change: .*$", lambda found: "State change: a user wanted it"
    ),
    "the owner's reason in the StartLog": _edit(
        START_LOGS, r"State change: (?!IS_OWNER is TRUE).*$", lambda found: "State change: IS_OWNER is TRUE"
    ),
    "another eviction reason in the StartLog": _edit(START_LOGS, _REASON, _replace_text(*_EVICTION)),
    "an eviction reason is deleted from the StartLog": _drop_line(START_LOGS, _REASON),
    "how a shadow says that its job exited": _edit(SCHED_LOGS, r"reports job exit reason (\d+)", _increment),
    "a 004 is missing in the EventLog": _drop_entry(EVENT_LOGS, "004"),
    "a 009 is missing in the user's log": _drop_entry(USER_LOGS, "009"),
    "a 009 is missing in the EventLog": _drop_entry(EVENT_LOGS, "009"),
    "a 000 is missing in the user's log": _drop_entry(USER_LOGS, "000"),
    "a run's beginning is dropped from epoch_history": _drop_ad(EPOCHS, 'EpochAdType = "SPAWN"'),
    "a transition is deleted": _drop_line(START_LOGS, r"Changing (state|activity)"),
    "a transition is duplicated": _double_line(START_LOGS, r"Changing (state|activity)"),
    "a transition names another slot": _edit(START_LOGS, r"slot\d+\S*: Changing", _replace_slot),
    "a transition ends elsewhere": _edit(
        START_LOGS, r"(Changing .*)(Busy|Idle|Owner|Unclaimed|Claimed/Idle)$", lambda f: f"{f[1]}Killing"
    ),
    "the claim's number in the StartLog": _edit(START_LOGS, r"Received ClaimId .*#(\d+)#\.\.\.", _increment),
    "the job's owner in the history": _edit(HISTORIES, r'^Owner = "(\w+)"', _replace_text("mallory")),
    "the job's exit code in the history": _edit(HISTORIES, r"^ExitCode = (\d+)", _increment),
    "the job's number in the history": _edit(HISTORIES, r"^ProcId = (\d+)", _add(40)),
    "the CPU time in the history": _edit(HISTORIES, r"^RemoteUserCpu = (\d+)", _increment),
    "the wall clock in the history": _edit(HISTORIES, r"^RemoteWallClockTime = (\d+)", _increment),
    "the wall clock in the history, by an hour": _edit(HISTORIES, r"^RemoteWallClockTime = (\d+)", _add(3600)),
    "the owner in startd_history": _edit(STARTD_HISTORIES, r'^Owner = "(\w+)"', _replace_text("mallory")),
    "usage in Accountantnew.log": _edit(ACCOUNTANTS, r"WeightedAccumulatedUsage ([1-9]\d*)", _add(1000)),
    "the user of a slot in Accountantnew.log": _edit(
        ACCOUNTANTS, r' RemoteUser "(\w+)', _replace_text("mallory")
    ),
    "another user of a slot in Accountantnew.log": _edit(
        ACCOUNTANTS, r' RemoteUser "(\w+)', _replace_text("alice", "bob")
    ),
    "since when a slot is used in Accountantnew.log": _edit(ACCOUNTANTS, r" StartTime ([1-9]\d+)", _add(600)),
    "the slots in use in Accountantnew.log": _edit(ACCOUNTANTS, r" ResourcesUsed (\d+)", _increment),
    "the total of jobs in job_queue.log": _edit(QUEUES, r"^103 \S+ Total\w+Jobs (\d+)", _increment),
    "the shadow's pid at its start": _edit(SCHED_LOGS, r"\(shadow pid = (\d+)\)", _increment),
    "the shadow's pid at its exit": _edit(SCHED_LOGS, r"Shadow pid (\d+) for job \S+ exited", _increment),
    "a cycle's start is deleted": _drop_line("NegotiatorLog.*", r"Started Negotiation Cycle"),
    "a cycle's end is deleted": _drop_line("NegotiatorLog.*", r"Finished Negotiation Cycle"),
    **{
        f"a rejection is deleted from {log}": _inside_file(_drop_line(name, r"\sRejected "))
        for log, name in _MATCHES.items()
    },
    **{
        f"a rejection's reason in {log}": _edit(
            name, r"\sRejected .*>: (.*)$", _replace_text("no match found", "submitter limit exceeded")
        )
        for log, name in _MATCHES.items()
    },
    **{
        f"{attribute} in {of}": _edit(name, rf"^{attribute} = {pattern}", change)
        for attribute, (pattern, change) in KINDS_OF_ADS.items()
        for of, name in ADS.items()
    },
    **{
        f"{attribute} in a printed queue": _edit(QUEUE_DUMPS, rf"^{attribute} = {pattern}", change)
        for attribute, (pattern, change) in KINDS_OF_COPIES.items()
    },
    **{
        f"{attribute} of a printed slot": _edit(SLOT_DUMPS, rf'^{attribute} = "({pattern})', _replace_text(*others))
        for attribute, pattern, others in (
            ("RemoteOwner", r"\w+", ("mallory",)), ("RemoteUser", r"\w+", ("mallory",)),
            ("State", r"\w+", ("Claimed", "Unclaimed")), ("Activity", r"\w+", ("Busy", "Idle")),
            ("JobId", r"[\d.]+", ("77.0",)),
        )
    },
    **{
        f"a job is {said} in {of}": _change_job_entries(name, change)
        for of, name in (("the user's log", USER_LOGS), ("the EventLog", EVENT_LOGS))
        for said, change in (
            ("missing", lambda entry: ""),
            ("2 minutes later", lambda entry: _later(entry, 120)),
            ("10 minutes earlier", lambda entry: _later(entry, -600)),
        )
    },
    **{
        f"a line of {log} moved by {by}": _move_instant(name, pattern, seconds)
        for log, (name, pattern) in STAMPED.items()
        for by, seconds in (("an hour", 3600), ("20 s", 20), ("-20 s", -20))
    },
}  # fmt: skip


def falsified(files: Files, most: int = 3, seed: int | None = None, kinds: str = "") -> Iterator[Falsification]:
    """Yield falsifications of a recorded pool: at most so many of each kind, spread evenly, or chosen at random with a
    seed."""
    for kind, places in KINDS.items():
        if kinds in kind:
            kind_places = list(places(files))
            generator = random.Random(f"{seed} {kind}") if seed is not None else None
            for file, spans in (
                generator.sample(kind_places, min(most, len(kind_places))) if generator else spread(kind_places, most)
            ):
                yield Falsification(kind, file, spans)


def read(folder: Path) -> Files:
    """Return the files of a recorded pool by path, as text (Latin-1, which keeps each byte)."""
    texts = {}
    for path in sorted(filter(Path.is_file, folder.rglob("*"))):
        data = path.read_bytes()
        name = str(path.relative_to(folder)).removesuffix(".gz")
        texts[name] = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1")
    return texts

"""Runs the stories of submit files in a pool, and records the outcome of each job. All are submitted together. A job's
outcome is its log's events, its final ad, and the files that it wrote. Values that differ between any two runs
(instants, measurements, addresses, ids, places) are replaced by a word for their kind."""

from __future__ import annotations

import gzip
import hashlib
import re
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import msgspec
from attrs import define, field, frozen

from ..servers import ftp, web
from .cases import FILES, FOLDER, FOLDERS, LINKS, Case
from .pools import Pool, create_folder

EVENT = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.\d+\) \S+ \S+ (.*?)^\.\.\.\n", re.MULTILINE | re.DOTALL)
RECORD = FOLDER / "real.json.gz"
_SHOWN = 4096  #: how many bytes of a file are recorded unchanged
_ENDED = {"005": "34", "009": "34", "012": "5"}


@frozen
class Outcome:
    """The outcome of a job."""

    events: tuple[str, ...]  #: of its log: the number and the text of each
    ad: dict[str, str]
    files: dict[str, str]  #: of the case, recorded with its first job


def recorded_outcomes() -> dict[str, Outcome]:
    """Return the recorded outcomes of the jobs in HTCondor (``record.py``)."""
    return msgspec.json.decode(gzip.decompress(RECORD.read_bytes()), type=dict[str, Outcome])


def write_outcomes(outcomes: Mapping[str, Outcome]) -> None:
    """Write the recorded outcomes."""
    text = msgspec.json.format(msgspec.json.encode(dict(sorted(outcomes.items())), order="deterministic"))
    RECORD.write_bytes(gzip.compress(text, mtime=0))


@define
class _Story:
    case: Case
    folder: Path
    cluster: int = 0
    refused: str = ""
    step: int = 0
    seen: int = 0  #: how many events of the log the steps so far have used
    length: int = 0
    events: list[tuple[str, int, str]] = field(factory=list)
    jobs: int = 0

    def read(self) -> bool:
        """Read the log; return True if it has grown."""
        text = "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("job*.log")))
        if len(text) == self.length:
            return False
        self.length = len(text)
        self.events = [(number, int(proc), body) for number, _, proc, body in EVENT.findall(text)]
        return True

    def due(self) -> tuple[str, ...] | None:
        """Return the words of the next step if it is due."""
        if self.step == len(self.case.steps):
            return None
        step = self.case.steps[self.step]
        if step.sign.isdigit():
            for place in range(self.seen, len(self.events)):
                if self.events[place][0] == step.sign:
                    self.seen = place + 1
                    break
            else:
                return None
        elif step.sign != "-" and not ((self.folder / step.sign).exists() and (self.folder / step.sign).stat().st_size):
            return None
        self.step += 1
        return step.words

    def over(self) -> bool:
        """Return True if the story is complete."""
        if self.refused:
            return True
        if self.step < len(self.case.steps):
            return False
        last = self.seen if self.case.steps and self.jobs == 1 else 0
        ended = {proc for number, proc, _ in self.events[last:] if number in self.case.ends}
        return len(ended) >= (self.case.jobs or self.jobs) or (self.case.ends == {"000"} and self.jobs > 0)


def run_stories(pool: Pool, cases: Sequence[Case], quiet: float = 60.0) -> dict[str, Outcome]:
    """Return the outcome of each job, under ``NAME`` or, for a case with several, ``NAME.PROC``. After ``quiet``
    seconds without a log entry, unfinished jobs are recorded in their present state. Meanwhile servers serve the
    folders."""
    with web(pool.home) as pages, ftp(pool.home) as files:
        servers = {"web": pages, "ftp": files}
        stories = [_submit(pool, case, servers) for case in cases]
        _run_to_the_end(pool, stories, quiet)
    ads = _ads(pool, stories)
    outcomes: dict[str, Outcome] = {}
    for story in stories:
        outcomes.update(_outcome(pool, story, ads, servers))
    return outcomes


def _submit(pool: Pool, case: Case, servers: Mapping[str, str]) -> _Story:
    story = _Story(case, pool.home / case.name)
    create_folder(story.folder, pool.uid)
    (story.folder / "job.sub").write_text(case.text)
    places = {"here": f"{pool.shown}/{case.name}", **{name: f"{at}/{case.name}" for name, at in servers.items()}}
    arguments = [f"{name}={place}" for name, place in places.items()]
    output = pool.command("submit", *arguments, "job.sub", folder=case.name)
    match = re.search(r"(\d+) job\(s\) submitted to cluster (\d+)", output)
    if match is None:
        story.refused = output
    else:
        story.jobs, story.cluster = int(match[1]), int(match[2])
    return story


def _run_to_the_end(pool: Pool, stories: Sequence[_Story], quiet: float) -> None:
    changed = time.monotonic()
    while not all(story.over() for story in stories) and time.monotonic() <= changed + quiet:
        for story in stories:
            if story.read():
                changed = time.monotonic()
            step_words = story.due()
            if step_words is not None:
                _act(pool, story, step_words)
                changed = time.monotonic()
        time.sleep(0.05)


def _act(pool: Pool, story: _Story, step_words: tuple[str, ...]) -> None:
    name, *arguments = step_words
    if name == "sh":
        subprocess.run(arguments, cwd=story.folder, check=True)
    elif name != "nothing":
        procs = list(takewhile(re.compile(r"\.\d+").fullmatch, arguments))
        pool.command(name, *arguments[len(procs) :], *(f"{story.cluster}{proc}" for proc in procs or [""]))


Ads = dict[tuple[int, int], dict[str, str]]


def _ads(pool: Pool, stories: Sequence[_Story]) -> Ads:
    """Return the jobs' ads, once they agree with the logs."""
    end = time.monotonic() + 60
    while True:
        ads: Ads = {}
        for command, options in (("history", ("-long",)), ("q", ("-long",))):
            for text in re.split(r"\n\s*\n", pool.command(command, *options)):
                pairs = [line.partition(" = ") for line in text.split("\n") if " = " in line]
                ad = {name: value for name, _, value in pairs}
                if ad.keys() >= {"ClusterId", "ProcId"}:
                    ads[int(ad["ClusterId"]), int(ad["ProcId"])] = ad
        for story in stories:
            story.read()
        if time.monotonic() > end or all(_agrees(story, ads) for story in stories):
            return ads
        time.sleep(0.2)


def _agrees(story: _Story, ads: Ads) -> bool:
    last = {proc: number for number, proc, _ in story.events}
    return all(
        (story.cluster, proc) in ads and ads[story.cluster, proc].get("JobStatus", "") in _ENDED.get(number, "1234567")
        for proc, number in last.items()
    )


def _outcome(pool: Pool, story: _Story, ads: Ads, servers: Mapping[str, str]) -> Iterator[tuple[str, Outcome]]:
    plain = _Plain(pool, story, servers)
    if story.refused:
        yield story.case.name, Outcome((), {}, {"refused": plain.text(story.refused)})
        return
    procs = sorted({proc for _, proc, _ in story.events})
    files = dict(_files(story.folder, plain))
    for proc in procs:
        events = [plain.event(number, body) for number, job_proc, body in story.events if job_proc == proc]
        ad = {name: plain.value(name, value) for name, value in ads.get((story.cluster, proc), {}).items()}
        name = story.case.name if len(procs) == 1 else f"{story.case.name}.{proc}"
        yield name, Outcome(tuple(events), ad, files if proc == procs[0] else {})


def _files(folder: Path, plain: _Plain) -> Iterator[tuple[str, str]]:
    """Return the changes in a job's folder: each file's permissions and text (of a large or binary file its digest),
    and each directory's permissions."""
    for path in sorted(folder.rglob("*")):
        name, mode = str(path.relative_to(folder)), stat.S_IMODE(path.lstat().st_mode)
        if path.is_dir() and not path.is_symlink() and name not in FOLDERS:
            yield f"{name}/", f"{mode:o}"
        if not path.is_file() or re.fullmatch(r"job.*\.(log|sub)", name) or name in LINKS:
            continue
        data = path.read_bytes()
        if (mode, data) == (FILES.get(name, (0, ""))[0], FILES.get(name, (0, ""))[1].encode()):
            continue
        try:
            text = plain.text(data.decode()) if len(data) <= _SHOWN else hashlib.sha256(data).hexdigest()
        except UnicodeDecodeError:
            text = hashlib.sha256(data).hexdigest()
        yield name, f"{mode:o} {text}"


MEASURED = re.compile(
    r"(Cumulative|Recent|Remote)*(User|Sys)Cpu|Activation\w*Duration|\w*(WallClockTime|SlotTime|SuspensionTime|Usage)"
    r"|CommittedTime|InitialWaitDuration|DiskProvisioned|(\w+Size|DiskUsage)(_RAW)?|(Recent)?StatsLifetime\w*|Bytes\w+"
    r"|ScratchDirFileCount|(Recent)?Block\w+"
)
"""Attributes that are measurements, in seconds or bytes."""
NAMED = {
    "AutoClusterAttrs": "ATTRIBUTES",
    "AutoClusterId": "NUMBER",
    "ClusterId": "CLUSTER",
    "CondorPlatform": "VERSION",
    "CondorVersion": "VERSION",
    "FileSystemDomain": "DOMAIN",
    "GlobalJobId": "HOST#CLUSTER#INSTANT",
    "LastPublicClaimId": "CLAIM",
    "LastRejMatchNegotiator": "HOST",
    "Owner": "USER",
    "PublicClaimId": "CLAIM",
    "SubmitVersion": "VERSION",
    "User": "USER@DOMAIN",
}
"""Attributes whose values differ between the pools, with the values."""


def word(name: str, value: str) -> str:
    """Return the kind of an attribute's value if it differs between any two runs, or an empty string."""
    if name in NAMED:
        return NAMED[name]
    if MEASURED.fullmatch(name) and re.fullmatch(r"[\d.]+(E[-+]\d+)?", value):
        return "MEASURED"
    return "INSTANT" if re.fullmatch(r"1[6-9]\d{8}(\.\d+)?", value) else ""


class _Plain:
    """Replaces the parts of texts that differ between any two runs."""

    def __init__(self, pool: Pool, story: _Story, servers: Mapping[str, str]) -> None:
        home = f"{pool.shown}/{story.case.name}"
        self._words = [
            (re.compile(pattern), word)
            for pattern, word in (
                *((re.escape(f"{at}/{story.case.name}"), name.upper()) for name, at in servers.items()),
                (re.escape(home), "HOME"),
                (r"<(\d+\.\d+\.\d+\.\d+|\[[\da-f:]+\]):\d+[^>]*>", "ADDRESS"),
                (r"\bslot\d+(_\d+)?(@[\w-]+(\.[\w-]+)*)?", "SLOT"),
                (r"/\S*/dir_[\w-]+/scratch", "SCRATCH"),
                (rf"(?<![\d.]){story.cluster}\.(\d)(?![\d.])", r"CLUSTER.\1"),
                (rf"\(by user {pool.user}\)", "(by user USER)"),
                (r"access point [\w-]+(\.[\w-]+)*", "access point HOST"),
            )
        ]

    def text(self, text: str) -> str:
        """Replace them in any text."""
        for pattern, word in self._words:
            text = pattern.sub(word, text)
        return text

    def value(self, name: str, value: str) -> str:
        """Replace them in an attribute's value."""
        return word(name, value) or self.text(value)

    def event(self, number: str, body: str) -> str:
        """Replace them in an event of a job's log."""
        text = self.text(body.rstrip())
        text = re.sub(r"Usr \d+ \d\d:\d\d:\d\d, Sys \d+ \d\d:\d\d:\d\d", "USAGE", text)
        text = re.sub(r"(actually suspended): \d+", r"\1: NUMBER", text)
        text = re.sub(r"^\t   (\w+(?: \(\w+\))?) +:.*", r"\t   \1 : NUMBERS", text, flags=re.MULTILINE)
        return f"{number} {re.sub(r'[0-9]+', 'N', text) if number == '006' else text}"

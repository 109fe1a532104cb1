"""What real condor_defrags did: their log, and what each poll saw (tests/data/recordings/defrag-*)."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from attrs import define, field, frozen

from poolbook.domain.classad import ClassAd, Context
from poolbook.domain.config import read
from poolbook.domain.coverage.settings import DEFRAG
from poolbook.domain.defrag.defrag_settings import DefragPolicy, followed, policy_in_force
from poolbook.domain.defrag.drain_candidates import CandidateSlot, Questions, questions
from poolbook.domain.state_machines import HTCONDOR_25

DATA = Path(__file__).resolve().parent.parent / "data" / "recordings"
FOLDERS = sorted(path.parent for path in DATA.glob("defrag-*/polls.txt.gz"))
_WHEN = re.compile(r"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d)\.\d+ (.*)")


@define
class RealPoll:
    """A poll, as the daemon's log tells it."""

    at: int  #: the second
    draining: set[str] = field(factory=set)
    whole: set[str] = field(factory=set)
    canceled: list[str] = field(factory=list)  #: slots
    drained: list[str] = field(factory=list)  #: slots
    matched: dict[str, int] = field(factory=dict)  #: setting -> of how many slots it was true
    stopped: str = ""  #: why it drained nothing, in its words
    wanted: int | None = None  #: how many machines it looked for


@frozen
class Seen:
    """A poll, the slots' ads right before it, and the daemon's own ad right behind it."""

    real: RealPoll
    slots: list[CandidateSlot]
    ages: list[int]  #: for each slot, how long its startd ran when it was heard last
    daemon: ClassAd | None


@cache
def policy_of(folder: Path) -> DefragPolicy:
    """Return the policy of the recorded configuration."""
    text = (folder / "scenario.conf").read_text()
    configuration = read(text, detected={"FULL_HOSTNAME": "localhost", "HOSTNAME": "localhost"}, subsystem=DEFRAG)
    found = policy_in_force(followed(configuration))
    assert found is not None
    return found


def asked(policy: DefragPolicy) -> Questions:
    return questions(policy, HTCONDOR_25.defrag_joins_whole_machine_expr)


def _text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def real_polls(folder: Path) -> list[RealPoll]:
    """Return what the daemon's log tells of each poll."""
    found: list[RealPoll] = []
    listed: set[str] | None = None
    for line in _text(folder / "DefragLog.gz").splitlines():
        match = _WHEN.match(line)
        if match is None:
            continue
        at = int(datetime.strptime(match[1], "%m/%d/%y %H:%M:%S").replace(tzinfo=UTC).timestamp())
        words = match[2]
        if words.startswith("Evaluating"):
            found.append(RealPoll(at))
        if not found:
            continue
        poll = found[-1]
        if words.startswith("\t"):
            if listed is not None:
                listed.add(words.strip())
            continue
        listed = _listed(poll, words)
        _tell(poll, words)
    return found


def _listed(poll: RealPoll, words: str) -> set[str] | None:
    if words.startswith("Set of current whole"):
        return poll.whole
    return poll.draining if words.startswith("Set of current draining") else None


def _tell(poll: RealPoll, words: str) -> None:
    if match := re.match(r"Initiating \w+ draining of (.+)\.", words):
        poll.drained.append(match[1])
    elif match := re.match(r"Cancel draining of (.+)\.", words):
        poll.canceled.append(match[1])
    elif match := re.match(r"Doing nothing, because (.+)", words):
        poll.stopped = match[1]
    elif match := re.match(r"Looking for (\d+) machines", words):
        poll.wanted = int(match[1])
    elif match := re.match(r"Got (\d+) startd ads matching ([^=]+)=", words):
        poll.matched[match[2]] = int(match[1])


@cache
def recorded(folder: Path) -> list[Seen]:
    """Return the polls of a recording with what they saw."""
    text = _text(folder / "polls.txt.gz")
    parts = re.findall(r"^=== (\w+) [\d.]+\n(.*?)(?=^=== |\Z)", text, re.M | re.S)
    snapshots = [number for number, (kind, _) in enumerate(parts) if kind == "slots"]
    polls = real_polls(folder)
    assert len(snapshots) == len(polls)
    found = []
    for poll, number in zip(polls, snapshots, strict=True):
        ads = [ClassAd.from_old(part) for part in parts[number][1].split("\n\n") if part.strip()]
        slots = [CandidateSlot(name, name.partition("@")[2], ad) for ad in ads for name in [str(ad.eval("Name"))]]
        ages = [int(ad.eval("LastHeardFrom")) - int(ad.eval("DaemonStartTime")) for ad in ads]
        own = parts[number + 1][1] if number + 1 < len(parts) and parts[number + 1][0] == "defrag" else ""
        found.append(Seen(poll, slots, ages, ClassAd.from_old(own) if own else None))
    return found


def instant(poll: RealPoll) -> Context:
    return Context(now=poll.at, seed=poll.at, timezone=UTC)

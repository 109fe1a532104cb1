"""Read recordings of condor_defrag: its log and the ads of each poll (tests/data/recordings/defrag-*)."""

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
from poolbook.domain.defrag.defrag_settings import DefragPolicy, configured_settings, policy_in_force
from poolbook.domain.defrag.drain_candidates import CandidateSlot, PolicyConditions, policy_conditions
from poolbook.domain.state_machines import HTCONDOR_25

DATA = Path(__file__).resolve().parent.parent / "data" / "recordings"
ALL_FOLDERS = sorted(path.parent for path in DATA.glob("defrag-*/DefragLog.gz"))
FOLDERS = sorted(path.parent for path in DATA.glob("defrag-*/polls.txt.gz"))
_WHEN = re.compile(r"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d)(?:\.\d+)? (.*)")


@define
class LoggedPoll:
    """A poll in the daemon's log."""

    at: int  #: in seconds
    draining: set[str] = field(factory=set)
    whole: set[str] = field(factory=set)
    canceled: list[str] = field(factory=list)  #: slots
    drained: list[str] = field(factory=list)  #: slots
    matched: dict[str, int] = field(factory=dict)  #: setting -> number of slots for which it was true
    stopped: str = ""  #: the logged reason why it drained nothing
    wanted: int | None = None  #: the number of machines it looked for


@frozen
class RecordedPoll:
    """A poll, the slots' ads right before it, and the daemon's ad right after it."""

    logged: LoggedPoll
    slots: list[CandidateSlot]
    ages: list[int]  #: for each slot, how long its startd had run at its last update
    daemon: ClassAd | None


@cache
def policy_of(folder: Path) -> DefragPolicy:
    """Return the policy of the recorded configuration."""
    text = (folder / "scenario.conf").read_text()
    configuration = read(text, detected={"FULL_HOSTNAME": "localhost", "HOSTNAME": "localhost"}, subsystem=DEFRAG)
    policy = policy_in_force(configured_settings(configuration))
    assert policy is not None
    return policy


def questions_of(policy: DefragPolicy) -> PolicyConditions:
    return policy_conditions(policy, HTCONDOR_25.defrag_joins_whole_machine_expr)


def _text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def logged_polls(folder: Path) -> list[LoggedPoll]:
    """Return the polls in the daemon's log."""
    polls: list[LoggedPoll] = []
    listed: set[str] | None = None
    text = _text(folder / "DefragLog.gz")
    first_words = "Evaluating" if "Evaluating" in text else "There are currently"  # the first is a verbose line
    for line in text.splitlines():
        match = _WHEN.match(line)
        if match is None:
            continue
        at = int(datetime.strptime(match[1], "%m/%d/%y %H:%M:%S").replace(tzinfo=UTC).timestamp())
        message = match[2]
        if message.startswith(first_words):
            polls.append(LoggedPoll(at))
        if not polls:
            continue
        poll = polls[-1]
        if message.startswith("\t"):
            if listed is not None:
                listed.add(message.strip())
            continue
        listed = _set_that_follows(poll, message)
        _add_message(poll, message)
    return polls


def _set_that_follows(poll: LoggedPoll, message: str) -> set[str] | None:
    if message.startswith("Set of current whole"):
        return poll.whole
    return poll.draining if message.startswith("Set of current draining") else None


def _add_message(poll: LoggedPoll, message: str) -> None:
    if match := re.match(r"Initiating \w+ draining of (.+)\.", message):
        poll.drained.append(match[1])
    elif match := re.match(r"Cancel draining of (.+)\.", message):
        poll.canceled.append(match[1])
    elif match := re.match(r"Doing nothing, because (.+)", message):
        poll.stopped = match[1]
    elif match := re.match(r"Looking for (\d+) machines", message):
        poll.wanted = int(match[1])
    elif match := re.match(r"Got (\d+) startd ads matching ([^=]+)=", message):
        poll.matched[match[2]] = int(match[1])


@cache
def recorded_polls(folder: Path) -> list[RecordedPoll]:
    """Return the polls of a recording, with the ads."""
    text = _text(folder / "polls.txt.gz")
    parts = re.findall(r"^=== (\w+) [\d.]+\n(.*?)(?=^=== |\Z)", text, re.M | re.S)
    snapshots = [number for number, (kind, _) in enumerate(parts) if kind == "slots"]
    logged = logged_polls(folder)
    assert len(snapshots) == len(logged)
    polls = []
    for poll, number in zip(logged, snapshots, strict=True):
        ads = [ClassAd.from_old(part) for part in parts[number][1].split("\n\n") if part.strip()]
        slots = [CandidateSlot(name, name.partition("@")[2], ad) for ad in ads for name in [str(ad.eval("Name"))]]
        ages = [int(ad.eval("LastHeardFrom")) - int(ad.eval("DaemonStartTime")) for ad in ads]
        daemon_ad = parts[number + 1][1] if number + 1 < len(parts) and parts[number + 1][0] == "defrag" else ""
        polls.append(RecordedPoll(poll, slots, ages, ClassAd.from_old(daemon_ad) if daemon_ad else None))
    return polls


def context_of(poll: LoggedPoll) -> Context:
    return Context(now=poll.at, seed=poll.at, timezone=UTC)

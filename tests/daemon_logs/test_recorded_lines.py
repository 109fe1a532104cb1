"""Golden: the lines that Poolbook writes compared with the lines of recorded HTCondor pools: the StartLog of replayed
startds by transition, and the table of lines with all logs."""

from __future__ import annotations

import gzip
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from poolbook.adapters.runtime.daemon_logs.facts import banner
from poolbook.adapters.runtime.daemon_logs.line_table import MOVE, TABLE, LineTemplate
from poolbook.adapters.runtime.daemon_logs.writer import DaemonLogWriter

from ..conformance.golden_traces import Trace, trace
from ..conformance.trace_play import TracePlay
from .written import configured

DATA = Path(__file__).resolve().parent.parent / "data"
TRACES = sorted(path for path in (DATA / "traces").iterdir() if (path / "StartLog.gz").exists())
_HEADER = re.compile(r"(?:\d\d/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?) (?:\((?:pid:|cid:|D_)[^)]*\) )*(.*)")
_SLOT = re.compile(r"(slot\d+(?:_\d+)?)(?:\[[^\]]*\])?: (.*)")
MOVES = ("Changing ", "Reverting ")


def messages(text: str) -> Iterator[str]:
    """Yield the messages of a log, without times and the fields that flags add."""
    for line in text.splitlines():
        if match := _HEADER.fullmatch(line):
            yield match[1]


def by_slot(lines: Iterable[str]) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """Return each slot's transitions, and the messages about the slot between the transition before and this one."""
    transitions: dict[str, list[tuple[str, frozenset[str]]]] = {}
    waiting: dict[str, set[str]] = {}
    for line in lines:
        match = _SLOT.fullmatch(line)
        if match is None:
            continue
        slot, message = match[1], _general(match[2])
        if message.startswith(MOVES):
            transitions.setdefault(slot, []).append((message, frozenset(waiting.pop(slot, ()))))
        else:
            waiting.setdefault(slot, set()).add(message)
    return transitions


def _general(message: str) -> str:
    """Replace what differs between two pools with the same history: addresses, process ids and users."""
    message = re.sub(r"<[^>]*>|\d+\.\d+\.\d+\.\d+", "ADDRESS", message)
    message = re.sub(r"Starter \d+|ADDRESS#\S+", "ID", message)
    return re.sub(r"\S+@\S+", "USER", message)


@cache
def replayed(folder: Path) -> list[tuple[list[str], list[str]]]:
    """Return, for each startd of a recording, the messages of its StartLog, and of ours."""
    recorded: Trace = trace(folder)
    lines = (recorded.files.data("StartLog") or b"").decode("utf-8", "replace").splitlines()
    runs = []
    for run in recorded.runs:
        if not run.slots:
            continue
        play = TracePlay(recorded.files, run, "htcondor-25")
        play.moves()
        with TemporaryDirectory() as written:
            settings = configured("", written)
            assert settings is not None
            DaemonLogWriter(settings, zone=UTC).write(play.log.read())
            (path,) = Path(written).rglob("StartLog")
            runs.append((list(messages("\n".join(lines[run.first - 1 : run.last]))), list(messages(path.read_text()))))
    return runs


def compared(folder: Path) -> tuple[int, Counter[str], Counter[str]]:
    """Return how many lines about slots are equal, and the lines that only the recording and only Poolbook has, before
    the transitions that both have."""
    equal, missing, extra = 0, Counter[str](), Counter[str]()
    for real_lines, our_lines in replayed(folder):
        real, ours = by_slot(real_lines), by_slot(our_lines)
        for slot in real.keys() & ours.keys():
            pairs = SequenceMatcher(None, [move for move, _ in real[slot]], [move for move, _ in ours[slot]], False)
            for block in pairs.get_matching_blocks():
                for offset in range(block.size):
                    theirs, written = real[slot][block.a + offset][1], ours[slot][block.b + offset][1]
                    equal += 1 + len(theirs & written)
                    missing.update(theirs - written)
                    extra.update(written - theirs)
    return equal, missing, extra


LACKING = (
    "Could not read job ClassAd update from starter", "Received job ClassAd update from starter",
    "Called deactivate_claim", "Got RELEASE_CLAIM while in", "Got DEACTIVATE_CLAIM_JOB_DONE while in",
    "vacateJob() called", "Failed to vacate job", "Failed to open '/var/lib/condor", "Can't connect to schedd",
    "starter (pid", "New pSlot allocated", "\tCpus:",
)  # fmt: skip
"""The beginnings of the recorded messages about slots that Poolbook does not write, or writes before another
transition: steps of the startd and its starter that are not in the pool's log, and amounts of memory."""
ELSEWHERE = (
    "Called deactivate_claim_job_done", "\tCpus:", "New pSlot of type", "Received final job ClassAd update",
    "eval_policy state should be: Preempting/Retiring",
)  # fmt: skip
"""The beginnings of the messages that Poolbook writes, and HTCondor in another place, or with another number."""


def test_written_lines_about_slots_equal_the_recorded_ones() -> None:
    equal, missing, extra = 0, Counter[str](), Counter[str]()
    for folder in TRACES:
        equal_lines, missing_lines, extra_lines = compared(folder)
        equal, extra = equal + equal_lines, extra + extra_lines
        if not logs_everything(folder):
            missing += missing_lines
    assert sorted(line for line in extra if not line.startswith(ELSEWHERE)) == []
    assert sorted(line for line in missing if not line.startswith(LACKING)) == []
    assert (equal > 10_000, extra.total() < equal / 50) == (True, True)


def logs_everything(folder: Path) -> bool:
    """Return True if the recorded startd logged at the level D_FULLDEBUG."""
    return any(line.startswith("slot1: Alive interval") for lines, _ in replayed(folder) for line in lines)


# The table of lines

LOG_OF_KIND = {
    "start": "StartLog", "slot": "StartLog", "row": "StartLog", "starter": "StarterLog", "sched": "SchedLog",
    "shadow": "ShadowLog", "negotiator": "NegotiatorLog", "match": "MatchLog", "collector": "CollectorLog",
    "master": "MasterLog", "defrag": "DefragLog",
}  # fmt: skip
_NAME = r"slot[\d_]+"
MARKED = {"": f"{_NAME}: ", "@": f"{_NAME}: ", "+": rf"{_NAME}\[\d+\.\d+\]: ", "=": ""}
FACTS = {
    "slot": rf"{_NAME}@\S+", "slot_id": _NAME, "job": r"\d+\.\d+", "startd": "<.*>", "schedd": "<.*>",
    "submitter": r"\S+@\S+", "exit": r"(?:status|signal)=\d+",
}  # fmt: skip
"""What a recorded line has in the place of a fact; other facts may be any text."""
FACTS |= dict.fromkeys(("starter", "job_pid", "status", "slots", "submitters", "matched", "rejected"), r"\d+")
BEGINS = {
    "start": "STARTD", "starter": "STARTER", "sched": "SCHEDD", "shadow": "SHADOW", "negotiator": "NEGOTIATOR",
    "collector": "COLLECTOR", "master": "MASTER", "defrag": "DEFRAG",
}  # fmt: skip
UNRECORDED = {
    "DEFRAG_INTERVAL={interval}, so no pool defragmentation will be done.",
    "Failed to send request to drain {slot}: {refused}",
    "Unable to cancel draining on {slot}: {refused}",
    "Deleting accounting record of {submitter}",
    "All daemons are gone.",
    "Got SIGHUP.  Re-reading config files.",
    "{daemon} recovered",
    '\t\t**** Removing stale ad: "< {machine} >"',
    "Added ad to persistent store key=<{slot}>",
    "Removed ad from persistent store key=<{slot}>",
    "State change: Backfill starter exited",
    "State change: EVICT_BACKFILL is TRUE.",
    "State change: START_BACKFILL is TRUE.",
    "State change: preempting claim refused - START is false",
    "State change: preempting idle claim.",
    "State change: received VACATE_CLAIM_FAST command",
    "eval_policy state should be: Backfill/Idle 16 START_BACKFILL is TRUE",
    "eval_policy state should be: Owner/Idle 18 EVICT_BACKFILL is TRUE",
    "eval_policy state should be: Preempting/Idle 10 preempting idle claim",
}
"""The lines that no recording has. Their words are from HTCondor's source."""


@cache
def recorded_messages() -> dict[str, set[str]]:
    """Return the messages in the daemons' logs of all recorded pools, by the log's name."""
    logs: dict[str, set[str]] = {log: set() for log in LOG_OF_KIND.values()}
    for name, content in _recorded_files():
        log = name.partition(".")[0]
        if log in logs:
            logs[log].update(messages(content.decode("utf-8", "replace")))
    return logs


def _recorded_files() -> Iterator[tuple[str, bytes]]:
    for archive in (DATA / "honest").glob("*.tar.xz"):
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None:
                    yield Path(member.name).name, file.read()
    for path in (*(DATA / "traces").glob("*/*Log*"), *(DATA / "recordings").glob("defrag-*/DefragLog.gz")):
        yield path.name, gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _pattern(kind: str, template: LineTemplate) -> str:
    """Return the regular expression of a line of the table."""
    parts = re.split(r"\{(\w+)\}", template.text)
    texts = (FACTS.get(part, ".*") if number % 2 else re.escape(part) for number, part in enumerate(parts))
    return (MARKED[template.marker] if kind in ("slot", "row") else "") + "".join(texts)


def test_all_lines_of_the_table_are_like_recorded_ones() -> None:
    unlike = set()
    for (kind, _), templates in TABLE.items():
        recorded = recorded_messages()[LOG_OF_KIND[kind]]
        for template in templates:
            pattern = re.compile(_pattern(kind, template))
            if template.text not in (MOVE, "{banner}") and not any(map(pattern.fullmatch, recorded)):
                unlike.add(template.text)
    assert unlike == UNRECORDED


def test_daemons_begin_their_logs_like_recorded_ones() -> None:
    unlike = []
    for kind, daemon in BEGINS.items():
        recorded = recorded_messages()[LOG_OF_KIND[kind]]
        for line in banner(daemon, 12).splitlines():
            words = re.sub(r"\d+", r"\\d+", re.escape(line))
            if "$Condor" not in line and not any(re.match(words, message) for message in recorded):
                unlike.append(line)
    assert unlike == []

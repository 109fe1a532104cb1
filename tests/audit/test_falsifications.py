"""Golden: each kind of lie about a recorded pool (``falsifications``) is found, and the finding says what it is."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from poolbook.replay.forensics.audit.compared_facts import FACTS
from poolbook.replay.forensics.audit.examine import examine
from poolbook.replay.forensics.audit.rules import RULES

from ..importing.folders import recorded
from ..sampling import some, spread, thorough
from .falsifications import KINDS, falsified, read
from .find_falsifications import findings

RECORDINGS: Final = Path(__file__).resolve().parent.parent / "data" / "recordings"
MANY: Final = max(60, int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "20000")) // 40)
SHARE: Final = 0.98
"""Of the lies, how many are found at least."""

FOUND_BY: Final = {
    "a job is dropped from the history": ("displaced", "an ad was taken out"),
    "a run is dropped from startd_history": ("displaced", "an ad was taken out"),
    "a run's end is dropped from epoch_history": ("unpaired", "the end of a shadow's run is told by SchedLog"),
    "a match is duplicated": ("unpaired", "stands in MatchLog once more than in NegotiatorLog"),
    "a match is deleted": ("unpaired", "is told by NegotiatorLog, and MatchLog lacks it"),
    "a match is deleted from the NegotiatorLog": ("unpaired", "that of this one was taken out"),
    "a match is of another slot": ("matched_slot", "says NegotiatorLog"),
    "a match is of another job": ("matched_job", "says NegotiatorLog"),
    "a shadow's start is deleted": ("unpaired", "the start of a shadow is told by the epoch history, and SchedLog"),
    "the shadow's exit status": ("status", "its shadow exited with status"),
    "the starter's exit status": ("status", "and exited with 1: all others with 0"),
    "the last 005 is missing in the user's log": ("unpaired", "an entry 005 is told by the pool-wide EventLog"),
    "a 005 is missing in the EventLog": ("unpaired", "EventLog lacks it"),
    "a 001 is missing in the user's log": ("starts", "says alice-job.log"),
    "a 012 is missing in the EventLog": ("holds", "0, says the pool-wide EventLog"),
    "another exit code in the EventLog": ("exit", "code 1, says the pool-wide EventLog"),
    "another exit code in the user's log": ("exit", "code 1, says alice-job.log"),
    "a changed reason in the StartLog": ("said", "the reason was changed"),
    "a reason in other words in the StartLog": ("unsaid", "this startd tells of 'IS_OWNER is false' before"),
    "the owner's reason in the StartLog": ("said", "'IS_OWNER is TRUE' is said of it, which belongs to"),
    "how a shadow says that its job exited": ("status", "its shadow exited with status 101"),
    "a 004 is missing in the EventLog": ("unpaired", "an entry 004 is told by a user's job event log"),
    "a 009 is missing in the user's log": ("unpaired", "an entry 009 is told by the pool-wide EventLog"),
    "a 000 is missing in the user's log": ("unpaired", "an entry 000 is told by the pool-wide EventLog"),
    "a run's beginning is dropped from epoch_history": ("unpaired", "the start of a shadow is told by SchedLog"),
    "a transition is deleted": ("chain", "a line was taken out or changed"),
    "a transition is duplicated": ("chain", "a line was taken out or changed"),
    "a transition stands under another slot": ("unborn", "this startd did not tell of its beginning"),
    "a transition ends elsewhere": ("row", "no rule leads from Owner/Idle to Killing/Idle"),
    "the job's owner in the history": ("user", "mallory, says the job history"),
    "the job's exit code in the history": ("copied", "ExitCode is 1 in the job history, and was 0"),
    "the CPU time in the history": ("copied", "RemoteUserCpu is 1.0 in the job history, and was 0.0"),
    "the wall clock in the history": ("copied", "RemoteWallClockTime is 5.0 in the job history, and was 4.000000"),
    "the owner in startd_history": ("user", "mallory, says the startd's history"),
    "usage in Accountantnew.log": ("usage_falls", "its usage is 1001 s, between 0 s and 3 s"),
    "a line of StartLog moved by -20 s": ("backwards", "it lies 20 s before the record above it"),
    "a line of MatchLog moved by an hour": ("unpaired", "NegotiatorLog has it 3600 s before MatchLog"),
    "a line of MatchLog moved by 20 s": ("unpaired", "NegotiatorLog has it 20 s before MatchLog"),
    "a line of MatchLog moved by -20 s": ("unpaired", "NegotiatorLog has it 20 s after MatchLog"),
    **{
        f"a line of {log} moved by {by}": ("aside", f"it lies {said} the lines above and below it")
        for log in ("StartLog", "SchedLog", "NegotiatorLog")
        for by, said in (("an hour", "3600 s after"), ("20 s", "20 s after"), ("-20 s", "20 s before"))
        if (log, by) != ("StartLog", "-20 s")
    },
    **{
        f"a line of {log} moved by {by}": ("began", says)
        for log, says in (("EventLog", "says the pool-wide EventLog"), ("a job.log", "says alice-job.log"))
        for by in ("an hour", "20 s", "-20 s")
    },
}
"""By which rule, or as which fact, each kind of lie is found, and words of the finding."""


@pytest.mark.parametrize("name", some(sorted(path.parent.name for path in RECORDINGS.glob("*/StartLog.gz")), 5))
def test_an_honest_recording_is_accused_of_nothing(name: str) -> None:
    assert findings(read(RECORDINGS / name)) == set()


def test_what_a_killed_schedd_does_again_is_no_violation() -> None:
    """Job 3.0 is removed at 20:00:26; the schedd is killed, forgets it, begins at 20:00:40 and removes it again."""
    files = read(RECORDINGS / "kill-schedd")
    for name in ("EventLog", "alice-job.log"):
        (entry,) = re.findall(r"^009 \(003\.000\.000\)[\s\S]*?^\.\.\.\n", files[name], re.MULTILINE)
        assert "20:00:26" in entry
        later = re.search(r"^\d{3} \([\d.]+\) \S+ 20:00:4[1-9]", files[name], re.MULTILINE)
        assert later is not None
        again = entry.replace("20:00:26", "20:00:41")
        files[name] = files[name][: later.start()] + again + files[name][later.start() :]
    assert findings(files) == set()
    assert {one.rule for one in findings({name: text for name, text in files.items() if name != "SchedLog"})} >= {
        "ended_twice"
    }


def test_what_a_schedd_did_again_is_told_as_the_loss_of_its_table() -> None:
    """Its schedd was killed within a second after it removed 15.0, and as 13.0 ended: both entries stand in the
    EventLog and in bob's log, both ads in the history."""
    loss = ": the schedd had died, and lost the end of its job_queue.log"
    found = examine(recorded(RECORDINGS / "kill-schedd-again")[0])
    assert found.sound
    told = Counter((one.rule, one.thing, one.words) for one in found.repeated)
    assert told == {
        ("repeated", "13.0", f"it ended, though it was ended{loss}"): 2,
        ("repeated", "13.0", f"localhost#13.0#1795390450 left the queue 2 times{loss}"): 1,
        ("repeated", "15.0", f"it was removed, though it was removed{loss}"): 2,
        ("repeated", "15.0", f"localhost#15.0#1795390460 left the queue 2 times{loss}"): 1,
    }


DEATH_UNKNOWN: Final = {"ended", "ended_twice", "history_twice"}


@pytest.mark.parametrize(
    ("lacking", "expected"), [("SchedLog", set()), ("MasterLog", set()), ("SchedLog MasterLog", DEATH_UNKNOWN)]
)
def test_a_schedds_death_is_known_by_its_own_log_or_its_masters(lacking: str, expected: set[str]) -> None:
    files = read(RECORDINGS / "kill-schedd-again")
    found = findings({name: text for name, text in files.items() if name not in lacking.split()})
    assert {one.rule for one in found} == expected


@pytest.mark.parametrize("lacking", ["SchedLog", "SchedLog StartLog"])
def test_a_shadows_death_is_known_by_what_its_job_did_again(lacking: str) -> None:
    """A shadow of 5.0 is killed; the next one finds the slot busy, the third runs it on another one."""
    files = read(RECORDINGS / "kill-shadow-again")
    assert findings({name: text for name, text in files.items() if name not in lacking.split()}) == set()


def test_each_kind_of_lie_has_its_rule() -> None:
    assert FOUND_BY.keys() <= KINDS.keys()
    assert {rule for rule, _ in FOUND_BY.values()} <= {*RULES, *FACTS}
    assert {lie.kind for lie in falsified(read(RECORDINGS / "busy"), 1)} >= FOUND_BY.keys()


@pytest.mark.parametrize("of_a_rule", thorough(1))
def test_a_lie_is_found_by_its_rule(of_a_rule: int) -> None:
    """Of so many kinds of lie for each rule."""
    files, tried = read(RECORDINGS / "busy"), Counter[str]()
    for lie in falsified(files, 1):
        if lie.kind not in FOUND_BY:
            continue
        rule, words = FOUND_BY[lie.kind]
        tried[rule] += 1
        if tried[rule] <= of_a_rule:
            found = findings({**files, lie.file: lie.text(files)})
            assert any(one.rule == rule and words in one.words for one in found), (
                lie.kind,
                lie.file,
                lie.line(files),
                found,
            )
    assert tried.keys() == {rule for rule, _ in FOUND_BY.values()}


@pytest.mark.soak
def test_of_many_lies_few_are_missed() -> None:
    files = read(RECORDINGS / "busy")
    lies = spread(falsified(files, 5), MANY)
    missed = [
        (lie.kind, lie.file, lie.line(files)) for lie in lies if not findings({**files, lie.file: lie.text(files)})
    ]
    assert len(missed) <= (1 - SHARE) * len(lies), missed

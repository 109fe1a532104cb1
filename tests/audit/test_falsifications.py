"""Golden: each kind of lie about a recorded pool (``falsifications``) is detected, and the finding says what it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from poolbook.replay.forensics.audit.compared_facts import FACTS
from poolbook.replay.forensics.audit.examine import examine

from ..importing.folders import recorded
from ..sampling import some, spread, thorough
from .falsifications import KINDS, Falsification, Files, falsified, read
from .find_falsifications import findings
from .rules_page import RULES
from .test_honest_recordings import unpacked

RECORDINGS: Final = Path(__file__).resolve().parent.parent / "data" / "recordings"
UNPACKED: Final = ("mixed-20", "one-25-i-dag", "one-25-k-defrag-whole")
SEED: Final = 7
ABSENT: Final = {"HoldReasonCode in the history", "HoldReasonCode in startd_history"}
"""The kinds that have no place in the four recordings."""
OFTEN, OFTEN_OF_ALL = 0.9, 0.91
"""The lowest share of the lies of a kind, and of all, that is detected."""
LOWER_RATES: Final = {
    "the shadow's exit status": 3, "the last 005 is missing in the user's log": 1,
    "a 005 is missing in the EventLog": 2, "a 012 is missing in the EventLog": 2,
    "a reason in other words in the StartLog": 3, "another eviction reason in the StartLog": 3,
    "an eviction reason is deleted from the StartLog": 3, "a 009 is missing in the user's log": 2,
    "a 009 is missing in the EventLog": 3, "a 000 is missing in the user's log": 1,
    "usage in Accountantnew.log": 3,
    "since when a slot is used in Accountantnew.log": 3, "the slots in use in Accountantnew.log": 3,
    "JobStartDate in epoch_history": 3,
    "JobStartDate in a printed queue": 2, "NumHolds in a printed queue": 1, "HoldReasonCode in a printed queue": 0,
    "JobStatus in a printed queue": 2, "NumJobStarts in a printed queue": 0, "RemoteOwner of a printed slot": 2,
    "RemoteUser of a printed slot": 2, "State of a printed slot": 1, "Activity of a printed slot": 2,
    "JobId of a printed slot": 2, "a job is missing in the user's log": 3, "a job is missing in the EventLog": 3,
}  # fmt: skip
"""The kinds with a lower share, and the lowest number detected in the four recordings, with one lie in each."""

FOUND_BY: Final = {
    "a job is dropped from the history": ("displaced", "an ad was removed"),
    "a run is dropped from startd_history": ("displaced", "an ad was removed"),
    "a run's end is dropped from epoch_history": ("unpaired", "the end of a shadow's run is in SchedLog, but not in"),
    "a match is duplicated": ("unpaired", "is in MatchLog once more than in NegotiatorLog"),
    "a match is deleted": ("unpaired", "is in NegotiatorLog, but not in MatchLog"),
    "a match is deleted from the NegotiatorLog": ("unpaired", "the line for this one was removed"),
    "a match is of another slot": ("matched_slot", " in NegotiatorLog"),
    "a match is of another job": ("matched_job", " in NegotiatorLog"),
    "a shadow's start is deleted": ("unpaired", "the start of a shadow is in the epoch history, but not in"),
    "the shadow's exit status": ("status", "its shadow exited with status"),
    "the starter's exit status": ("status", "and exited with 1; all others exited with 0"),
    "the last 005 is missing in the user's log": ("unpaired", "an entry 005 is in the pool-wide EventLog, but"),
    "a 005 is missing in the EventLog": ("unpaired", "but not in EventLog"),
    "a 001 is missing in the user's log": ("starts", " in alice-job.log"),
    "a 012 is missing in the EventLog": ("holds", "0 in the pool-wide EventLog"),
    "another exit code in the EventLog": ("exit", "code 1 in the pool-wide EventLog"),
    "another exit code in the user's log": ("exit", "code 1 in alice-job.log"),
    "a changed reason in the StartLog": ("said", "the reason was changed"),
    "a reason in other words in the StartLog": ("unsaid", "this startd logged 'IS_OWNER is false' before"),
    "the owner's reason in the StartLog": ("said", "the startd logged 'IS_OWNER is TRUE', which belongs to"),
    "how a shadow says that its job exited": ("status", "its shadow exited with status 101"),
    "a 004 is missing in the EventLog": ("unpaired", "an entry 004 is in a user's job event log, but"),
    "a 009 is missing in the user's log": ("unpaired", "an entry 009 is in the pool-wide EventLog, but"),
    "a 000 is missing in the user's log": ("unpaired", "an entry 000 is in the pool-wide EventLog, but"),
    "a run's beginning is dropped from epoch_history": ("unpaired", "the start of a shadow is in SchedLog, but not in"),
    "a transition is deleted": ("chain", "a line was removed or changed"),
    "a transition is duplicated": ("chain", "a line was removed or changed"),
    "a transition names another slot": ("unborn", "this startd did not log its creation"),
    "a transition ends elsewhere": ("row", "no rule allows a transition from Owner/Idle to Killing/Idle"),
    "the claim's number in the StartLog": ("claim", " in StartLog"),
    "JobStartDate in startd_history": ("began", " in the startd's history"),
    "the job's owner in the history": ("user", "mallory in the job history"),
    "the job's exit code in the history": ("copied", "ExitCode is 1 in the job history, but was 0"),
    "the CPU time in the history": ("copied", "RemoteUserCpu is 1.0 in the job history, but was 0.0"),
    "the wall clock in the history": ("copied", "RemoteWallClockTime is 5.0 in the job history, but was 4.000000"),
    "the owner in startd_history": ("user", "mallory in the startd's history"),
    "the job's number in the history": ("displaced", "a value was changed"),
    "the user of a slot in Accountantnew.log": ("table_step", "it was given to mallory@localhost, but not counted"),
    "since when a slot is used in Accountantnew.log": ("table_step", "but was given to its user between"),
    "the total of jobs in job_queue.log": ("table_step", "TotalCompletedJobs is 2 after 0"),
    "the shadow's pid at its start": ("begun", "its shadow 24514 exited, but 24515 had been started"),
    "the shadow's pid at its exit": ("begun", "its shadow 24516 exited, but 24515 had been started"),
    "a cycle's start is deleted": ("begun", "a negotiation cycle ended that had not begun"),
    "a cycle's end is deleted": ("begun", "a negotiation cycle began before the previous one ended"),
    "a rejection is deleted from MatchLog": ("unpaired", "a rejection submitter limit exceeded is in Negotiator"),
    "a rejection's reason in MatchLog": ("unpaired", "submitter limit exceeded in NegotiatorLog, but no match found"),
    "NumHolds in epoch_history": ("holds", "2 in the epoch history"),
    "Cmd in startd_history": ("copied", 'Cmd is "/bin/true" in the startd\'s history, but never had this value'),
    "a job is 2 minutes later in the user's log": ("unpaired", "an entry 000 in the pool-wide EventLog is 120 s"),
    "a job is missing in the EventLog": ("unpaired", "an entry 001 is in a user's job event log, but"),
    "usage in Accountantnew.log": ("usage_falls", "its usage is 1001 s, but 0 s before and 3 s after"),
    "a line of StartLog moved by -20 s": ("backwards", "it is 20 s earlier than the record above it"),
    "a line of MatchLog moved by an hour": ("unpaired", "in NegotiatorLog is 3600 s before that in MatchLog"),
    "a line of MatchLog moved by 20 s": ("unpaired", "in NegotiatorLog is 20 s before that in MatchLog"),
    "a line of MatchLog moved by -20 s": ("unpaired", "in NegotiatorLog is 20 s after that in MatchLog"),
    **{
        f"a line of {log} moved by {by}": ("aside", f"it is {said} the lines above and below it")
        for log in ("StartLog", "SchedLog", "NegotiatorLog")
        for by, said in (("an hour", "3600 s after"), ("20 s", "20 s after"), ("-20 s", "20 s before"))
        if (log, by) != ("StartLog", "-20 s")
    },
    **{
        f"a line of {log} moved by {by}": ("began", says)
        for log, says in (("EventLog", " in the pool-wide EventLog"), ("a job.log", " in alice-job.log"))
        for by in ("an hour", "20 s", "-20 s")
    },
}
"""The rule or fact by which each kind of lie is detected, and part of the finding."""


@pytest.mark.parametrize("name", some(sorted(path.parent.name for path in RECORDINGS.glob("*/StartLog.gz")), 5))
def test_an_honest_recording_is_sound(name: str) -> None:
    assert findings(read(RECORDINGS / name)) == set()


def test_an_action_repeated_by_a_killed_schedd_is_not_a_violation() -> None:
    """Job 3.0 is removed at 20:00:26; the schedd is killed, forgets it, restarts at 20:00:40 and removes it again."""
    files = read(RECORDINGS / "kill-schedd")
    for name in ("EventLog", "alice-job.log"):
        (entry,) = re.findall(r"^009 \(003\.000\.000\)[\s\S]*?^\.\.\.\n", files[name], re.MULTILINE)
        assert "20:00:26" in entry
        later = re.search(r"^\d{3} \([\d.]+\) \S+ 20:00:4[1-9]", files[name], re.MULTILINE)
        assert later is not None
        later_entry = entry.replace("20:00:26", "20:00:41")
        files[name] = files[name][: later.start()] + later_entry + files[name][later.start() :]
    assert findings(files) == set()
    assert {
        finding.rule for finding in findings({name: text for name, text in files.items() if name != "SchedLog"})
    } >= {"ended_twice"}


def test_an_action_repeated_by_a_schedd_is_explained_by_the_loss_of_its_table() -> None:
    """Its schedd was killed within a second after it removed 15.0, and as 13.0 ended: both entries are in the EventLog
    and in bob's log, both ads in the history."""
    loss = ": the schedd had died, and lost the end of its job_queue.log"
    audit = examine(recorded(RECORDINGS / "kill-schedd-again")[0])
    assert audit.sound
    repeated = Counter((finding.rule, finding.thing, finding.words) for finding in audit.repeated)
    assert repeated == {
        ("repeated", "13.0", f"it ended, although it was already over{loss}"): 2,
        ("repeated", "13.0", f"localhost#13.0#1795390450 left the queue 2 times{loss}"): 1,
        ("repeated", "15.0", f"it was removed, although it was already removed{loss}"): 2,
        ("repeated", "15.0", f"localhost#15.0#1795390460 left the queue 2 times{loss}"): 1,
    }


DEATH_UNKNOWN: Final = {"ended", "ended_twice", "history_twice"}


@pytest.mark.parametrize(
    ("lacking", "expected"), [("SchedLog", set()), ("MasterLog", set()), ("SchedLog MasterLog", DEATH_UNKNOWN)]
)
def test_a_schedds_death_is_known_from_its_own_log_or_its_masters(lacking: str, expected: set[str]) -> None:
    files = read(RECORDINGS / "kill-schedd-again")
    rules_broken = findings({name: text for name, text in files.items() if name not in lacking.split()})
    assert {finding.rule for finding in rules_broken} == expected


@pytest.mark.parametrize("lacking", ["SchedLog", "SchedLog StartLog"])
def test_a_shadows_death_is_known_from_its_jobs_repeated_entries(lacking: str) -> None:
    """A shadow of 5.0 is killed; the next one finds the slot busy, the third runs the job on another slot."""
    files = read(RECORDINGS / "kill-shadow-again")
    assert findings({name: text for name, text in files.items() if name not in lacking.split()}) == set()


def test_each_kind_of_lie_has_its_rule() -> None:
    assert FOUND_BY.keys() <= KINDS.keys()
    assert {rule for rule, _ in FOUND_BY.values()} <= {*RULES, *FACTS}
    assert {lie.kind for lie in falsified(read(RECORDINGS / "busy"), 1)} >= FOUND_BY.keys()


@pytest.mark.parametrize("of_a_rule", thorough(1))
def test_a_lie_breaks_its_rule(of_a_rule: int) -> None:
    """Try so many kinds of lie for each rule. A file that lacks its first record may have been cut: so try one of
    three."""
    files, tried_counts = read(RECORDINGS / "busy"), Counter[str]()
    for kind, (rule, message) in FOUND_BY.items():
        tried_counts[rule] += 1
        if tried_counts[rule] <= of_a_rule:
            lies = [lie for lie in falsified(files, 3, kinds=kind) if lie.kind == kind]
            findings_of_lies = [findings({**files, lie.file: lie.text(files)}) for lie in lies[:1]]
            if len(lies) > 1 and not any(rule == finding.rule for finding in findings_of_lies[0]):
                findings_of_lies += [findings({**files, lie.file: lie.text(files)}) for lie in lies[1:]]
            assert any(
                finding.rule == rule and message in finding.words
                for lie_findings in findings_of_lies
                for finding in lie_findings
            ), (kind, findings_of_lies)


@pytest.mark.parametrize("most", thorough(12))
def test_few_of_many_lies_about_one_pool_are_undetected(most: int) -> None:
    files = read(RECORDINGS / "busy")
    lies = spread((lie for lie in falsified(files, 1, SEED) if lie.kind not in LOWER_RATES), most)
    undetected = [(kind, file) for kind, file, _ in undetected_lies(files, lies)]
    assert len(undetected) <= (1 - OFTEN) * len(lies), undetected


@pytest.mark.soak
def test_nine_of_ten_lies_of_each_kind_about_four_pools_are_detected(tmp_path: Path) -> None:
    pools = [read(RECORDINGS / "busy")]
    pools += [read(unpacked(RECORDINGS.parent / "honest" / f"{name}.tar.xz", tmp_path / name)) for name in UNPACKED]
    lie_counts, undetected = Counter[str](), Counter[str]()
    for files in pools:
        lies = list(falsified(files, 1, SEED))
        lie_counts.update(lie.kind for lie in lies)
        undetected.update(kind for kind, _, _ in undetected_lies(files, lies))
    assert lie_counts.keys() == KINDS.keys() - ABSENT
    shares = {kind: f"{lie_counts[kind] - number} of {lie_counts[kind]}" for kind, number in undetected.items()}
    for kind, number in undetected.items():
        least = LOWER_RATES.get(kind, OFTEN * lie_counts[kind])
        assert lie_counts[kind] - number >= least, shares
    assert undetected.total() <= (1 - OFTEN_OF_ALL) * lie_counts.total(), shares


def undetected_lies(files: Files, lies: Iterable[Falsification]) -> list[Falsification]:
    return [lie for lie in lies if not findings({**files, lie.file: lie.text(files)})]

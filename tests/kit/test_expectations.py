"""Specification: expectations about periods, in scenarios and as methods of a report."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest
from hypothesis.stateful import invariant

from poolbook import Log, events, testing
from poolbook.testing import ExpectationError, PlayError, Report, play

from ..together import together

DESKTOP = """\
machine desk
config
    use FEATURE : StaticSlots
    use POLICY : Desktop
    RUNBENCHMARKS = False
end
until 3h
at 0:20 submit alice run=1:00:00
at 30:00 KeyboardIdle=0
at 50:00 to 1:30:00 KeyboardIdle=0
"""
"""The job starts at 20:00, is suspended at 30:00 and 50:00, evicted at 1:00:05, and runs again from 1:50:00."""


EXAMPLES = """\
machine desk
config
    use FEATURE : StaticSlots
    RUNBENCHMARKS = False
end
until 30:00
at 0 submit alice run=10:00
"""


@pytest.mark.parametrize("name", sorted(set(testing.__all__) - {"BLOCKS"}))
def test_examples_in_the_docstrings_of_the_kit_are_true(name: str) -> None:
    thing = getattr(testing, name)
    members = (
        [getattr(thing, member) for member in dir(thing) if not member.startswith("_")] if name == "Report" else []
    )
    names = {"report": play(EXAMPLES), "Path": Path, "invariant": invariant} | vars(testing)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    for each in (thing, *members):
        runner.run(doctest.DocTestParser().get_doctest(inspect.getdoc(each) or "", dict(names), name, None, None))
    assert inspect.getdoc(thing)
    assert runner.failures == 0


@pytest.fixture(scope="module")
def report() -> Report:
    return play(DESKTOP)


MET = [
    "at 3h expect share alice >= 100%",
    "at 3h expect share alice of pool >= 55% <= 56%",
    "at 0:00 to 20:00 expect share alice of pool <= 0%",
    "at 3h expect wait alice >= 19:40 <= 19:40",
    "at 3h expect wait 1.0 <= 20:00",
    "at 3h expect wait all average <= 20min",
    "at 3h expect waste alice <= 25%",
    "at 3h expect waste <= 25min",
    "at 1h to 1:50:00 expect never slot1 Claimed/Busy",
    'at 3h expect never slot.Activity == "Busy" && KeyboardIdle < 60',
    "at 3h expect never job.JobStatus == 5",
    "at 3h expect never 1.0 Held",
    'at 3h expect never slot1 job.Owner == "bob"',
    "at 19:00 expect within 60 1.0 Running",
    "at 1:40:00 expect within 10min slot1 Claimed/Busy",
    'at 3h expect within 10:05 slot.Activity != "Suspended" after slot.Activity == "Suspended"',
    "at 1h expect within 2h 1.0 Completed",
    'at 1:49:59 to 1:50:00 expect never slot.State == "Claimed"',  # the end does not belong to the period
]
FAILED = [
    ("at 3h expect share alice <= 99%", "it was 100.0%: 1.67 of 1.67 core hours of used slot time"),
    ("at 3h expect share bob >= 1%", "it was 0.0%"),
    ("at 3h expect share alice of pool >= 60%", "it was 55.6%"),
    ("at 3h expect wait alice <= 10", "job 1.0 of alice@example.org waited 0:19:40"),
    ("at 3h expect wait bob <= 10", "no such job was submitted"),
    ("at 3h expect waste <= 24%", "0.42 of 1.67 core hours were wasted (24.9%)"),
    ("at 3h expect never slot1 Claimed/Busy", "it is true for slot1@desk at 0:20:00"),
    ("at 1h to 3h expect never slot1 Claimed/Busy", "it is true for slot1@desk at 1:50:00"),
    ("at 3h expect never KeyboardIdle > 1190", "it is true for slot1@desk at 0:19:51"),  # between two events
    ("at 3h expect never job.NumJobStarts > 1", "it is true for job 1.0 at 1:50:00"),
    ("at 18:00 expect within 60 1.0 Running", "it is still not true for job 1.0 at 0:19:00"),
    ("at 1h expect within 1:49:59 1.0 Completed", "it is still not true for job 1.0 at 2:49:59"),
    ("at 1h expect within 1h 2.0 Running", "job 2.0 does not exist at 2:00:00"),
    ("at 3h expect never slot9 Owner/Idle", "slot9@desk does not exist"),
    ("at 3h expect within 5:00 slot.Activity != \"Suspended\" after slot.Activity == \"Suspended\"",
     "it is still not true for slot1@desk at 0:35:00"),
    ("at 3h expect within 5:00 KeyboardIdle > 1 after KeyboardIdle < -5", "was never true, so nothing was checked"),
    ("at 3h expect never Owner == \"alice\"", "no slot has the attribute Owner; write job.Owner"),
    ("at 3h expect never KeybordIdle < 5", "no slot has the attribute KeybordIdle; did you mean KeyboardIdle?"),
]  # fmt: skip
INVALID = [
    ("at 1h expect share alice", "expected: expect share USER|GROUP"),
    ("at 1h expect share alice >= 140%", "'140%' is not a share"),
    ("at 1h expect share >= 40%", "expected: expect share"),
    ("at 1h expect share alice >= 40% >= 50%", "expected: expect share"),
    ("at 1h expect wait alice <= soon", "'soon' is not a duration"),
    ("at 1h expect never", "expected: expect never"),
    ("at 1h expect never slot1 Claimed/Bussy", "did you mean Claimed/Busy?"),
    ("at 1h expect never KeyboardIdle <", "is not a condition"),
    ("at 1h expect within soon 1.0 Running", "'soon' is not a duration"),
    ('at 1h expect within 10 1.0 Running after slot.State == "Owner"', "is about slots"),
    ("at 1h to 2h expect within 10 1.0 Running", "starts at one time"),
    ("at 2h expect within 2h 1.0 Running", "after the scenario's end"),
    ("at 1h to 2h expect 1.0 Running", "only readings, and expectations about a period"),
]


def test_expectations_that_are_met() -> None:
    assert play(DESKTOP + "\n".join(MET), check=False).failures == ()


def test_expectations_that_are_not_met_show_what_happened_and_the_story() -> None:
    failures = {each.line: each for each in play(DESKTOP + "\n".join(line for line, _ in FAILED), check=False).failures}
    first = len(DESKTOP.splitlines()) + 1
    for number, (line, message) in enumerate(FAILED, first):
        assert number in failures, line
        assert message in failures[number].text, line
    waited = failures[first + 3]
    assert "Job 1.0 was evicted once at 2026-11-02 09:00:05, because the machine's PREEMPT was true." in waited.story
    assert any("CONTINUE = (((LoadAvg" in line for line in waited.story), (
        "the evaluated expressions, as in why -verbose"
    )


@together(("line", "message"), INVALID)
def test_an_invalid_expectation_is_an_error_of_its_line(line: str, message: str) -> None:
    with pytest.raises(PlayError, match=f"line {len(DESKTOP.splitlines()) + 1}: ") as error:
        play(DESKTOP + line)
    assert message in str(error.value)


def test_play_raises_if_an_expectation_is_not_met() -> None:
    with pytest.raises(ExpectationError, match=r"line 11, at 0:01:00: expected job 1.0 Running, but it is Idle"):
        play(DESKTOP + "at 1:00 expect 1.0 Running")


def test_an_expectation_of_a_report_returns_what_it_measured(report: Report) -> None:
    assert report.expect_share("alice", at_least=1) == 1
    assert report.expect_share("alice", at_most=0.6, of_pool=True) == pytest.approx(6005 / 10800)
    assert report.expect_wait(at_most="20:00", between=(0, "1:00")) == 1180
    assert report.expect_waste("alice", at_most=0.25) == pytest.approx(1495 / 6005)
    assert report.expect_waste(at_most_time=1500) == 1495
    assert report.never('slot.Activity == "Busy"', between=("1:00:05", "1:50:00")) > 0
    assert report.within("10:05", 'Activity != "Suspended"', after='Activity == "Suspended"') == 2
    assert report.within(60, "JobStatus == 2", of="1.0", at="19:30") == 1
    assert report.within(60, "KeyboardIdle > 1", after="KeyboardIdle < -5") == 0


def test_an_expectation_of_a_report_that_is_not_met_raises_with_the_story(report: Report) -> None:
    with pytest.raises(ExpectationError, match=r"expected never .*, but it is true for slot1@desk at 0:20:00\nSlot "):
        report.never('slot.Activity == "Busy"')
    with pytest.raises(ExpectationError, match=r"expected wait alice <= 600, but job 1.0 .*0:19:40\nJob 1.0 "):
        report.expect_wait("alice", at_most=600)
    with pytest.raises(ValueError, match="no slot has the attribute KeybordIdle"):
        report.never("KeybordIdle < 5")
    with pytest.raises(ValueError, match="needs a bound"):
        report.expect_share("alice")


def test_results_of_a_report_are_typed_and_complete(report: Report, tmp_path: Path) -> None:
    job = report.jobs["1.0"]
    assert (job.user, job.group, job.status, job.runs, job.code) == ("alice@example.org", "", "Completed", 2, 0)
    assert (job.submitted, job.started, job.ended, job.wait, job.used) == (20, 1200, 10200, 1180, 6005)
    assert report.users["alice@example.org"].wasted == 1495
    assert sum(report.slots["slot1@desk"].times.values()) == 3 * 3600, "each second is in one state"
    assert report.slots["slot1@desk"].last == "Unclaimed/Idle"
    assert isinstance(report.events[0][1], events.PoolFounded)
    assert report.why("1.0", "45:00")[0].startswith("Job 1.0 has been running on slot1@desk")
    with Log.open(report.log) as log:
        assert log.verify().sound
        assert [job["ClusterId"] for job in log.history()] == [1]


def test_a_configuration_comes_before_the_scenarios_own(tmp_path: Path) -> None:
    folder = tmp_path / "condor_config.d"
    folder.mkdir()
    (folder / "10-start.conf").write_text("START = False\n")
    (folder / "20-start.conf").write_text('START = TARGET.Owner == "bob"\n')
    (folder / "20-start.conf.rpmsave").write_text("START = broken (\n")
    text = "until 10:00\nat 0:20 submit alice\nat 0:20 submit bob\n"
    for config in (folder, sorted(folder.glob("*.conf")), (folder / "20-start.conf").read_text()):
        assert [job.runs for job in play(text, config=config).jobs.values()] == [0, 1]
    (tmp_path / "a.play").write_text(f"config condor_config.d\n{text}at 9:00 expect 1.0 Idle\nexpect 2.0 Completed\n")
    play(tmp_path / "a.play")
    overridden = play(f"config\nSTART = True\nend\n{text}", config=folder, until="20:00")
    assert [job.runs for job in overridden.jobs.values()] == [1, 1]
    assert play(text, until="20:00").slots["slot1@ws1"].times.keys() >= {"Unclaimed/Idle"}

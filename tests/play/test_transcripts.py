"""Golden: what policies do, in transcripts: a scenario, and its events in each dialect. There is one for each example
of a policy in the manual, and for each of HTCondor's policy templates.

 After the scenario, ``==== manual`` precedes the events in that dialect, and ``==== htcondor-25`` those in the other:
instant, thing, row, source and target, the code of the cause in brackets, the evidence. The log is also validated, and
equals that of a play without jumps in time, which holds every evaluation.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from attrs import evolve

from poolbook.adapters.simulation import FailedExpectation, PlayEvent, ScenarioMachines, Simulation, play
from poolbook.adapters.simulation.runner import lines
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import ClusterSubmitted, SlotTransitioned
from poolbook.domain.ports.log import EventStore
from poolbook.domain.units import SECOND
from poolbook.replay.narration.sentence_tables import CAUSES
from poolbook.replay.narration.sentences import UnknownThingError
from poolbook.replay.scenario import parse_scenario
from poolbook.replay.scenario.transcript import Transcript, TranscriptLine
from poolbook.replay.validation import examine
from poolbook.replay.why.answer import why

from ..replay.read_aloud import check
from ..sampling import marked

FOLDER = Path(__file__).parent / "transcripts"
TRANSCRIPTS = sorted(path.stem for path in FOLDER.glob("*.txt"))
SIGN = "==== "


def scenario_of(name: str) -> tuple[str, list[str]]:
    """Return the scenario of a transcript, and the dialects in which it is played."""
    transcript_lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    heading_numbers = [number for number, line in enumerate(transcript_lines) if line.startswith(SIGN)]
    return "\n".join(transcript_lines[: heading_numbers[0]]) + "\n", [
        transcript_lines[number].removeprefix(SIGN) for number in heading_numbers
    ]


@cache
def play_transcript(name: str, dialect: str, steady: bool = True) -> tuple[Simulation, tuple[str, ...], bool]:
    """Return the final stage, the reported lines, and whether the scenario's expectations were met."""
    scenario = parse_scenario(scenario_of(name)[0])
    play_events: list[PlayEvent] = []
    log = open_log("memory:", create=True)
    stage = Simulation(
        scenario, ScenarioMachines(scenario, f"{name}.play", FOLDER), log, play_events.append, dialect, steady
    )
    good = play(stage)
    reported = [line for play_event in play_events for line in lines(stage.transcript, _coded(play_event))]
    assert good == (not any(isinstance(play_event, FailedExpectation) for play_event in play_events))
    return stage, (*reported, "", *stage.transcript.summary()), good


def _coded(play_event: PlayEvent) -> PlayEvent:
    """Return an event with its cause's code in place of the text: the wording of a cause is not part of a policy."""
    return (
        evolve(play_event, member=evolve(play_event.member, cause=f"[{play_event.member.cause}]"))
        if isinstance(play_event, TranscriptLine)
        else play_event
    )


def recorded_events(name: str) -> dict[str, str]:
    """Return the recorded events of a transcript, by dialect."""
    _, *parts = re.split(f"^{SIGN}", (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {section.partition("\n")[0]: section.partition("\n")[2] for section in parts}


CASES = [(name, dialect) for name in TRANSCRIPTS for dialect in scenario_of(name)[1]]


IN_TURN = {name: scenario_of(name)[1][number % len(scenario_of(name)[1])] for number, name in enumerate(TRANSCRIPTS)}
"""The one dialect in which `make test` plays each scenario; the soak plays it in both."""
PLAYED = [case if IN_TURN[case[0]] == case[1] else marked(case) for case in CASES]


@pytest.mark.parametrize(("name", "dialect"), PLAYED)
def test_a_policy_acts_as_in_its_transcript(name: str, dialect: str) -> None:
    """The scenario's expectations are also met, and every step is legal."""
    stage, reported, as_expected = play_transcript(name, dialect)
    assert "\n".join(reported) + "\n" == recorded_events(name)[dialect]
    assert as_expected, "\n".join(reported)
    assert examine(stage.log.read()).violations == []
    check_answers(stage.log)


def check_answers(log: EventStore) -> None:
    """Check the answers of `why` about each job and slot, at several moments."""
    events = [event for _, event in log.read()]
    things = {event.slot for event in events if isinstance(event, SlotTransitioned)}
    for event in events:
        if isinstance(event, ClusterSubmitted):
            things |= {str(event.cluster), *(f"{event.cluster}.{proc}" for proc in range(min(3, event.count)))}
    for thing in sorted(things):
        check(thing, why(log, thing))
        for at in (events[len(events) * quarter // 4].at for quarter in (1, 2, 3)):
            with suppress(UnknownThingError):
                check(thing, why(log, thing, at))


LONGEST_POLLED = 3 * 3600 * SECOND
"""A scenario of days has too many evaluations."""
POLLED = [
    (name, "manual" if number % 2 else "htcondor-25")
    for number, name in enumerate(TRANSCRIPTS)
    if parse_scenario(scenario_of(name)[0]).end <= LONGEST_POLLED
]
"""Each scenario in one dialect: the test is for the jump between evaluations."""


@pytest.mark.soak
@pytest.mark.parametrize(("name", "dialect"), POLLED)
def test_holding_every_evaluation_gives_the_same_events(name: str, dialect: str) -> None:
    assert play_transcript(name, dialect, steady=False)[1] == play_transcript(name, dialect)[1]


def test_printed_reports_have_the_cause_in_words() -> None:
    stage, _, _ = play_transcript("desktop", "manual")
    entries = list(Transcript(stage.scenario).lines_of_events(1, [event for _, event in stage.log.read()]))
    assert {entry.member.cause for entry in entries} >= {"suspend", "preempt", "claimed"}
    for entry in entries:
        coded = stage.transcript.line(_coded(entry))  # type: ignore[arg-type]
        assert stage.transcript.line(entry) == coded.replace(f"[{entry.member.cause}]", CAUSES[entry.member.cause])


def test_there_are_transcripts_in_both_dialects() -> None:
    assert len(TRANSCRIPTS) >= 20
    assert {dialect for _, dialect in CASES} == {"manual", "htcondor-25"}

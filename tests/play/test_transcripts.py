"""Golden: what policies do, in transcripts: a scenario, and how it is told in each dialect.

There is one for each example of a policy in the manual, and for each of HTCondor's policy templates. Behind the
scenario stands ``==== manual`` with what is told in that dialect, and ``==== htcondor-25`` with the other: instant,
thing, row, from where to where, the code of the cause in brackets, the evidence. What is told is judged, too; and it
is the same where time does not jump, but every round is held.
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
from poolbook.replay.scenario import read
from poolbook.replay.scenario.transcript import TranscriptEntry
from poolbook.replay.validation import examine
from poolbook.replay.why import UnknownThingError
from poolbook.replay.why.answer import why

from ..replay.read_aloud import check
from ..sampling import marked

FOLDER = Path(__file__).parent / "transcripts"
TRANSCRIPTS = sorted(path.stem for path in FOLDER.glob("*.txt"))
SIGN = "==== "


def scenario_of(name: str) -> tuple[str, list[str]]:
    """The scenario of a transcript, and the dialects in which it is told."""
    kept = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    told = [number for number, line in enumerate(kept) if line.startswith(SIGN)]
    return "\n".join(kept[: told[0]]) + "\n", [kept[number].removeprefix(SIGN) for number in told]


@cache
def played(name: str, dialect: str, steady: bool = True) -> tuple[Simulation, tuple[str, ...], bool]:
    """The stage when all is over, the lines that were told, and whether all was as the scenario expects."""
    scenario = read(scenario_of(name)[0])
    told: list[PlayEvent] = []
    log = open_log("memory:", create=True)
    stage = Simulation(scenario, ScenarioMachines(scenario, f"{name}.play", FOLDER), log, told.append, dialect, steady)
    good = play(stage)
    said = [line for one in told for line in lines(stage.transcript, _coded(one))]
    assert good == (not any(isinstance(one, FailedExpectation) for one in told))
    return stage, (*said, "", *stage.transcript.summary()), good


def _coded(one: PlayEvent) -> PlayEvent:
    """What is told, with the code of its cause in place of the words: how a cause is worded is no matter of policy."""
    return (
        evolve(one, member=evolve(one.member, cause=f"[{one.member.cause}]"))
        if isinstance(one, TranscriptEntry)
        else one
    )


def told_of(name: str) -> dict[str, str]:
    """What is kept of a transcript, by dialect."""
    _, *parts = re.split(f"^{SIGN}", (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


CASES = [(name, dialect) for name in TRANSCRIPTS for dialect in scenario_of(name)[1]]


IN_TURN = {name: scenario_of(name)[1][number % len(scenario_of(name)[1])] for number, name in enumerate(TRANSCRIPTS)}
"""The one dialect in which `make test` plays a scenario; the soak plays it in each."""
PLAYED = [case if IN_TURN[case[0]] == case[1] else marked(case) for case in CASES]


@pytest.mark.parametrize(("name", "dialect"), PLAYED)
def test_a_policy_does_what_its_transcript_says(name: str, dialect: str) -> None:
    """All is as the scenario expects, too; and the judge finds every step legal."""
    stage, said, good = played(name, dialect)
    assert "\n".join(said) + "\n" == told_of(name)[dialect]
    assert good, "\n".join(said)
    assert examine(stage.log.read()).violations == []
    can_be_read_aloud(stage.log)


def can_be_read_aloud(log: EventStore) -> None:
    """Check what `why` says of each job and slot, at several moments."""
    events = [event for _, event in log.read()]
    things = {event.slot for event in events if isinstance(event, SlotTransitioned)}
    for event in events:
        if isinstance(event, ClusterSubmitted):
            things |= {str(event.cluster), *(f"{event.cluster}.{proc}" for proc in range(min(3, event.count)))}
    for thing in sorted(things):
        check(thing, why(log, thing))
        for at in (events[len(events) * share // 4].at for share in (1, 2, 3)):
            with suppress(UnknownThingError):
                check(thing, why(log, thing, at))


LONGEST_POLLED = 3 * 3600 * SECOND
"""In a scenario of days there are too many rounds."""
POLLED = [
    (name, "manual" if number % 2 else "htcondor-25")
    for number, name in enumerate(TRANSCRIPTS)
    if read(scenario_of(name)[0]).end <= LONGEST_POLLED
]
"""Each scenario in one dialect: what is tested is the jump from round to round."""


@pytest.mark.soak
@pytest.mark.parametrize(("name", "dialect"), POLLED)
def test_the_same_happens_where_every_round_is_held(name: str, dialect: str) -> None:
    assert played(name, dialect, steady=False)[1] == played(name, dialect)[1]


def test_people_are_told_the_same_with_the_cause_in_words() -> None:
    stage, _, _ = played("desktop", "manual")
    told = [entry for story in stage.transcript.story.values() for entry in story]
    assert {entry.member.cause for entry in told} >= {"suspend", "preempt", "claimed"}
    for entry in told:
        coded = stage.transcript.line(_coded(entry))  # type: ignore[arg-type]
        assert stage.transcript.line(entry) == coded.replace(f"[{entry.member.cause}]", CAUSES[entry.member.cause])


def test_there_are_transcripts_in_both_dialects() -> None:
    assert len(TRANSCRIPTS) >= 20
    assert {dialect for _, dialect in CASES} == {"manual", "htcondor-25"}

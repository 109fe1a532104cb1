"""golden: two managers change their states as HTCondor's did in a recording, at the same seconds.

The recorded logs (HTCondor 25.14.1, HAD_CONNECTION_TIMEOUT 2, HAD_USE_PRIMARY) contain the steps and messages of
condor_had. The first manager is gone from 19:03:36 to 19:04:49, no packets pass between both from 19:06:20 to 19:08:05,
and condor_had of the first is killed at 19:08:46.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from poolbook.domain.had.election import Election, HadPolicy
from poolbook.domain.state_machines.had import ELECTION, LEADER, PRE
from poolbook.domain.state_machines.machine import had_machine
from poolbook.domain.units import SECOND

DATA = Path(__file__).parent.parent / "data" / "had"
MANAGERS = ("cm1", "cm2")
STATES = {"ALIVE": LEADER, "SEND_ID": ELECTION}


class Line(NamedTuple):
    second: int
    kind: str  #: start, step, sent or heard
    text: str
    target: str = ""


PATTERNS = {
    "start": re.compile(r"STARTING (UP)"),
    "step": re.compile(r"was <(\w+)> go to <(\w+)>"),
    "sent": re.compile(r"send command HAD_(\w+)_CMD"),
    "heard": re.compile(r"received HAD_(\w+)_CMD with id"),
}


def lines(manager: str) -> Iterator[Line]:
    for text in gzip.decompress((DATA / f"HADLog.{manager}.gz").read_bytes()).decode().splitlines():
        day = datetime.strptime(text[:17], "%m/%d/%y %H:%M:%S")
        for kind, pattern in PATTERNS.items():
            if found := pattern.search(text):
                yield Line(day.hour * 3600 + day.minute * 60 + day.second, kind, *found.groups())


def runs(manager: str) -> list[list[Line]]:
    """Return the lines of each process."""
    processes: list[list[Line]] = []
    for line in lines(manager):
        if line.kind == "start":
            processes.append([])
        processes[-1].append(line)
    return processes


def replay(manager: str, recorded: list[Line]) -> list[Line]:
    """Return the steps and sent messages of an election that hears what was recorded, with the time of each."""
    index = MANAGERS.index(manager)
    policy = HadPolicy(MANAGERS, index, True, 18 * SECOND)
    election, state, made, other = Election(), PRE, list[Line](), policy.number ^ 1
    step_lines = {line.second: position for position, line in enumerate(recorded) if line.kind == "step"}
    second, received = recorded[0].second, 0
    while second <= recorded[-1].second:
        # Of the messages in the second of a step, those before it in the log were received before it.
        until = step_lines.get(second, len(recorded))
        while received < until and (received < step_lines.get(second, 0) or recorded[received].second < second):
            line, received = recorded[received], received + 1
            if line.kind == "heard":
                election.receive(other, STATES[line.text], line.second * SECOND)
        source, is_decision = state, election.cycles % 2 == 0
        step = election.cycle(state, policy, second * SECOND)
        if step is not None:
            state = had_machine().fire(state, step.row)
        if is_decision:
            made.append(Line(second, "step", source, state))
        made += [Line(second, "sent", kind) for kind, sent in STATES.items() if sent == state]
        second = election.due // SECOND
    return made


@pytest.mark.parametrize("manager", MANAGERS)
def test_managers_step_and_send_as_recorded(manager: str) -> None:
    processes = runs(manager)
    steps = [line for recorded in processes for line in recorded if line.kind in ("step", "sent")]
    assert [line for recorded in processes for line in replay(manager, recorded)] == steps
    assert len([line for line in steps if line.kind == "step" and line.text != line.target]) > 5


def test_each_recorded_transition_is_in_the_table() -> None:
    recorded = {(line.text, line.target) for manager in MANAGERS for line in lines(manager) if line.kind == "step"}
    table = {step for row in had_machine().rows for step in row.steps}
    assert {step for step in recorded if step[0] != step[1]} == table

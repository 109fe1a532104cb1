"""Specification: a machine's backfill client, and its cost: none. (The slots' transitions are in ``cases``.)"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest

from poolbook.adapters.runtime.activations import client_activation
from poolbook.domain.config import ConfigError, read
from poolbook.domain.events import (
    BackfillExited,
    BackfillSignalled,
    BackfillStarted,
    Event,
    JobActivated,
    JobExited,
    SlotTransitioned,
)
from poolbook.domain.ports.world import ClientLaunch
from poolbook.domain.startd.provisioning import configured_settings
from poolbook.domain.state_machines import DIALECTS
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import Behaviour

from ..together import together
from .cases import EXEC, FILLED
from .points import BEGIN, Point, at

Kind = TypeVar("Kind", bound=Event)


def of(point: Point, kind: type[Kind]) -> list[Kind]:
    return [event for event in point.events() if isinstance(event, kind)]


def times_of(events: Iterable[Event]) -> list[float]:
    return [(event.at - BEGIN) / SECOND for event in events]


def backfilling_point(dialect: str, slots: int = 1, kind: str = "static", **policy: str) -> Point:
    point = Point(dialect)
    point.point(FILLED | policy, slots=slots, kind=kind, **EXEC)
    return point


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_client_runs_for_all_slots_and_ends_with_the_last(dialect: str) -> None:
    point = backfilling_point(dialect, slots=3)
    at(point, 30)
    (started_at,) = of(point, BackfillStarted)
    assert (started_at.slot, started_at.system, started_at.client) == (
        "slot1@h", "EXEC", {"Executable": "/bin/burn", "InitialDir": "/var/tmp"}
    )  # fmt: skip
    busy = [event.cause for event in of(point, SlotTransitioned) if event.target == "Backfill/Busy"]
    assert busy == ["client_started", "client_runs", "client_runs"]
    for number in (1, 2):
        point.claim(f"slot{number}@h")
        assert not of(point, BackfillSignalled)
        assert point.pair(f"slot{number}@h") == "Claimed/Idle"
    point.claim("slot3@h")
    at(point, 31)
    assert len(of(point, BackfillSignalled)) == len(of(point, BackfillExited)) == len(of(point, BackfillStarted)) == 1
    assert point.pair("slot3@h") == "Claimed/Idle"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_client_that_does_not_die_is_signalled_again_after_each_killing_timeout(dialect: str) -> None:
    point = backfilling_point(dialect)
    point.client(immortal="yes")
    at(point, 32)
    point.vacate_slot("slot1@h")
    at(point, 60)
    assert times_of(of(point, BackfillSignalled)) == [32, 42, 52]
    assert point.pair() == "Backfill/Killing"


@together(
    ("failures", "seconds"),
    [(1, 11), (2, 13), (3, 17), (4, 25), (8, 265), (11, 2057), (12, 3600), (13, 3600)],
)
def test_a_client_that_fails_repeatedly_is_restarted_later_and_later(failures: int, seconds: int) -> None:
    point = backfilling_point("manual")
    point.client(failure="no such file")
    while len(of(point, BackfillExited)) < failures:
        at(point, (point.world.clock - BEGIN) / SECOND + 60)
    event = of(point, BackfillExited)[failures - 1]
    assert (event.failures, event.retry - event.at) == (failures, seconds * SECOND)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_load_of_the_client_counts_as_the_pools_and_not_the_owners(dialect: str) -> None:
    less = 'Activity == "Busy" && CondorLoadAvg < 0.9'
    point = backfilling_point(dialect, slots=2, EVICT_BACKFILL=f"LoadAvg - CondorLoadAvg > 0.3 || ({less})")
    point.client(load="2")
    at(point, 100)
    assert [point.pair(f"slot{number}@h") for number in (1, 2)] == ["Backfill/Busy"] * 2
    assert not of(point, BackfillExited)
    point.read(load=1.0)
    at(point, 106)
    assert {event.cause for event in of(point, SlotTransitioned) if event.row == "28"} == {"evict_backfill"}


@pytest.mark.parametrize(("dialect", "kind"), [("manual", "static"), ("htcondor-25", "partitionable")])
def test_jobs_start_and_end_as_without_backfill(dialect: str, kind: str) -> None:
    """A hundred and fifty short ones, and the log is hardly longer."""
    ends = []
    for attributes in (EXEC, {}):
        point = Point(dialect)
        point.point(FILLED, slots=4, kind=kind, **attributes)
        at(point, 32)
        point.job(count=150, behaviour=Behaviour(0.25), RequestMemory="1024")
        at(point, 100)
        point.job(user="bob", behaviour=Behaviour(3))
        at(point, 120)
        ends.append((times_of(of(point, JobActivated)), times_of(of(point, JobExited)), len(list(point.events()))))
    with_backfill, without = ends
    assert with_backfill[:2] == without[:2]
    assert len(without[1]) == 151
    assert with_backfill[2] < 1.05 * without[2]


# Incomplete configurations

ON = "ENABLE_BACKFILL = true\n"
EXEC_ON = f"{ON}BACKFILL_SYSTEM = exec\nEXEC_Executable = /bin/burn\n"
BOINC_ON = f"{ON}BACKFILL_SYSTEM = BOINC\nBOINC_Executable = /usr/bin/boinc\nBOINC_InitialDir = /var/lib/boinc-client\n"


@together(
    ("text", "message"),
    [
        (ON, "BACKFILL_SYSTEM: it is not set, but ENABLE_BACKFILL is true: set it to BOINC or EXEC"),
        (
            f"{ON}BACKFILL_SYSTEM = SETI\n",
            "BACKFILL_SYSTEM: SETI is not a backfill system, but ENABLE_BACKFILL is true: set it to BOINC or EXEC",
        ),
        (f"{ON}BACKFILL_SYSTEM = EXEC\n", "EXEC_Executable: it is not a full path: the backfill client needs one"),
        (EXEC_ON, "EXEC_InitialDir: it is not a full path: the backfill client needs one"),
        (
            f"{EXEC_ON}EXEC_InitialDir = work\n",
            "EXEC_InitialDir: work is not a full path: the backfill client needs one",
        ),
        (BOINC_ON, "BOINC_Universe: backfill clients run in the vanilla universe; set it to vanilla"),
        (
            f"{BOINC_ON}BOINC_Universe = docker\n",
            "BOINC_Universe: backfill clients run in the vanilla universe; set it to vanilla",
        ),
    ],
)
def test_an_incomplete_backfill_configuration_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        configured_settings(read(text))
    assert message in str(error.value)


@together(
    ("text", "system"),
    [
        (f"{BOINC_ON}BOINC_Universe = vanilla\n", "BOINC"),
        (f"{BOINC_ON}BOINC_Universe = 5\n", "BOINC"),
        (f"{EXEC_ON}EXEC_InitialDir = /\n", "exec"),
        (f"{EXEC_ON}EXEC_InitialDir = /\nENABLE_BACKFILL = false\nBACKFILL_SYSTEM = SETI\n", "SETI"),
    ],
)
def test_a_complete_backfill_configuration_is_accepted(text: str, system: str) -> None:
    assert configured_settings(read(text))["BACKFILL_SYSTEM"] == system


def test_the_settings_of_a_client_reach_its_process() -> None:
    client = {
        "Executable": "/usr/bin/boinc",
        "InitialDir": "/var/lib/boinc-client",
        "Arguments": "--dir  /data --no_gui_rpc",
        "Environment": "A=1;B=two words;C=x=y;",
        "Output": "/var/log/boinc.out",
        "Error": "/var/log/boinc.err",
    }
    activation = client_activation(ClientLaunch("7", "slot1@h", client, {"Cpus": "4"}))
    assert (activation.executable, activation.iwd, activation.run_in_iwd) == (
        "/usr/bin/boinc",
        "/var/lib/boinc-client",
        True,
    )
    assert activation.arguments == ("--dir", "/data", "--no_gui_rpc")
    assert activation.environment == {"A": "1", "B": "two words", "C": "x=y"}
    assert (activation.stdout, activation.stderr, activation.cpus) == ("/var/log/boinc.out", "/var/log/boinc.err", 4)
    assert activation.attended

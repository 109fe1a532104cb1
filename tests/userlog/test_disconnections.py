"""Golden: the events of a job whose execution point on another machine is silent, compared with HTCondor's texts.

HTCondor's texts are from recordings of HTCondor 25 with a network that was cut.
"""

from __future__ import annotations

import re

from ..peers.simulated import SimulatedPool
from .pool import events_of, utc

AP, EP = "access-point/ap1", "execution-point/ep1"

DISCONNECTED = """\
022 (001.000.000) TIME Job disconnected, attempting to reconnect
    Socket between submit and execute hosts closed unexpectedly
    Trying to reconnect to slot1@ep1 ADDRESS
...
"""
RECONNECTED = """\
023 (001.000.000) TIME Job reconnected to slot1@ep1
    startd address: ADDRESS
    starter address: ADDRESS
...
"""
GIVEN_UP = """\
024 (001.000.000) TIME Job reconnection failed
    Job disconnected too long: JobLeaseDuration (60 seconds) expired
    Can not reconnect to slot1@ep1, rescheduling job
...
"""
EVICTED = """\
004 (001.000.000) TIME Job was evicted. Code 1008 Subcode 0
	(0) CPU times
		Usr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage
		Usr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage
	0  -  Run Bytes Sent By Job
	0  -  Run Bytes Received By Job
	Reason: Job disconnected too long: JobLeaseDuration (60 seconds) expired
"""


def log_after_cut(seconds: int) -> list[str]:
    """Return the events of a job's log, whose execution point is cut off for so long."""
    pool = SimulatedPool()
    pool.submit(Args='"200"', JobLeaseDuration="60", Iwd='"/home/alice"', UserLog='"/home/alice/job.log"')
    pool.advance(30)
    pool.cut([AP], [EP])
    pool.advance(seconds)
    pool.heal()
    pool.advance(600)
    logs = utc()
    text = "".join(text for position, event in pool.ap().log.read() for _, text in logs.fold(position, event))
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    return events_of(re.sub(r"<[^>]*alias=ep1[^>]*>", "ADDRESS", text))


def numbers(events: list[str]) -> list[str]:
    return [event[:3] for event in events]


def test_a_disconnected_job_reconnects() -> None:
    events = log_after_cut(45)
    assert numbers(events) == ["000", "001", "022", "023", "005"]
    assert events[2:4] == [DISCONNECTED, RECONNECTED]


def test_a_job_that_is_disconnected_for_too_long_runs_again() -> None:
    events = log_after_cut(100)
    assert numbers(events) == ["000", "001", "022", "024", "004", "001", "005"]
    assert events[2:4] == [DISCONNECTED, GIVEN_UP]
    assert events[4].startswith(EVICTED)

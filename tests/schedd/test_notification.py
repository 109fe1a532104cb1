"""Golden: which mails a job's user gets, and their contents, as in HTCondor 25.14."""

from __future__ import annotations

import pytest

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.units import SECOND
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour, VirtualWorld
from poolbook.replay.why.job import why_job

from ..domain.pools import JOB, TestPool
from ..together import together

NEVER, ALWAYS, COMPLETE, ERROR, START = range(5)
WELL, BADLY, BY_SIGNAL = Behaviour(100), Behaviour(100, code=3), Behaviour(100, signal=11)
NOWHERE = Behaviour(failure="no such file")


def pool_of(behaviour: Behaviour, settings: dict[str, str] | None = None, **ad: str) -> TestPool:
    pool = TestPool(behave=lambda launch: behaviour, settings=settings)
    pool.machine()
    pool.submit(1, **{"Owner": '"alice"', "QDate": "1800000000", **ad})
    return pool


def subjects(pool: TestPool) -> list[str]:
    return [mail.subject.removeprefix("[Condor] Condor Job 1.0").strip() or "-" for mail in pool.world.mails]


@together(
    ("action", "behaviour", "ad", "expected"),
    [
        # event: the notification settings that report it
        ("ends well", WELL, {}, {ALWAYS: "-", COMPLETE: "-"}),
        ("ends badly", BADLY, {}, {ALWAYS: "-", COMPLETE: "-", ERROR: "-"}),
        ("ends well with 3", BADLY, {"JobSuccessExitCode": "3"}, {ALWAYS: "-", COMPLETE: "-"}),
        ("ends by a signal", BY_SIGNAL, {}, {ALWAYS: "-", COMPLETE: "-", ERROR: "-"}),
        ("cannot be started", NOWHERE, {}, {ALWAYS: "put on hold", ERROR: "put on hold"}),
        (
            "lacks an attribute of its slot",
            WELL,
            {"Args": '"$$(Missing)"'},
            {ALWAYS: "put on hold", ERROR: "put on hold"},
        ),
        ("is held at its end", WELL, {"OnExitHold": "true"}, {ALWAYS: "put on hold"}),
        ("is held at a bad end", BADLY, {"OnExitHold": "true"}, {ALWAYS: "put on hold", ERROR: "put on hold"}),
        ("is held as it runs", WELL, {"PeriodicHold": "JobStatus == 2"}, {ALWAYS: "put on hold"}),
        ("is removed as it runs", WELL, {"PeriodicRemove": "JobStatus == 2"}, {ALWAYS: "removed"}),
        ("is held as it waits", WELL, {"Requirements": "false", "PeriodicHold": "true"}, {}),
        ("is removed as it waits", WELL, {"Requirements": "false", "PeriodicRemove": "true"}, {}),
    ],
)
def test_a_jobs_user_gets_the_mails_that_notification_selects(
    action: str, behaviour: Behaviour, ad: dict[str, str], expected: dict[int, str]
) -> None:
    for setting in (NEVER, ALWAYS, COMPLETE, ERROR):
        pool = pool_of(behaviour, None, JobNotification=str(setting), **ad)
        pool.advance(150)
        assert subjects(pool) == ([expected[setting]] if setting in expected else []), (action, setting)
        assert not pool.state.mails
        assert not examine(pool.log.read()).violations


@pytest.mark.parametrize("action", ["hold", "remove", "vacate"])
def test_users_commands_cause_no_mail(action: str) -> None:
    pool = pool_of(WELL, JobNotification="1")
    pool.advance(10)
    pool.act(action, "1.0")
    pool.advance(20)
    assert subjects(pool) == []


def test_only_the_first_start_is_reported() -> None:
    pool = pool_of(WELL, JobNotification=str(START))
    for _ in range(2):
        pool.advance(70)
        pool.act("vacate", "1.0")
    pool.advance(200)
    (mail,) = pool.world.mails
    assert "\nhas started on slot1_1@h\n" in mail.text


def test_each_job_of_a_submission_follows_its_own_setting() -> None:
    pool = TestPool(behave=lambda launch: WELL)
    pool.machine()
    columns = pack({"JobNotification": ["0", "2", "0"]})
    pool.handle(s.Submit(pool.id(), "alice", 0, {**JOB, "Owner": '"alice"', "QDate": "1800000000"}, 3, columns))
    pool.advance(400)
    assert [mail.subject for mail in pool.world.mails] == ["[Condor] Condor Job 1.1"]


def test_an_edit_of_notification_counts() -> None:
    pool = pool_of(WELL)
    pool.edit("1.0", JobNotification="2")
    pool.advance(150)
    assert subjects(pool) == ["-"]


@together(
    ("ad", "settings", "expected"),
    [
        ({}, {}, ("alice@example.org",)),
        ({"NotifyUser": '"bob"'}, {}, ("bob@example.org",)),
        ({"NotifyUser": '"bob@there, carol@there"'}, {}, ("bob@there", "carol@there")),
        ({"UidDomain": '"cs.example.org"'}, {}, ("alice@cs.example.org",)),
        ({"UidDomain": '"cs.example.org"'}, {"EMAIL_DOMAIN": "mail.example.org"}, ("alice@mail.example.org",)),
    ],
)
def test_mail_goes_to_notify_user_or_the_owner(
    ad: dict[str, str], settings: dict[str, str], expected: tuple[str, ...]
) -> None:
    pool = pool_of(WELL, settings, JobNotification="1", **ad)
    pool.advance(150)
    assert pool.world.mails[0].to == expected


ENDED = """\
This mail was written by the pool "pool".
Nobody reads answers to it.

Condor job 1.0
	/bin/sleep 30
	from batch try
	submitted from directory /home/alice
exited normally with status 3


Submitted at:        Fri Jan 15 08:00:00 2027
Completed at:        Fri Jan 15 08:01:40 2027
Real Time:             0+00:01:40

Virtual Image Size:  2500 Kilobytes

Statistics from last run:
Allocation/Run time:       0+00:01:40
Remote User CPU Time:      0+00:00:00
Remote System CPU Time:    0+00:00:00
Total Remote CPU Time:     0+00:00:00

Statistics totaled from all runs:
Allocation/Run time:       0+00:01:40

Network:
    0.0 B  Run Bytes Received By Job
    0.0 B  Run Bytes Sent By Job
    0.0 B  Total Bytes Received By Job
    0.0 B  Total Bytes Sent By Job


RequestMemory = 128
JobPrio = 0


"""
HELD = """\
	/bin/sleep 30

is being put on hold.

The job attribute OnExitHold expression 'true' evaluated to TRUE


-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=
The administrator of this pool answers questions: root@pool
"""


def test_the_mail_about_an_end_has_its_exit_and_usage() -> None:
    ad = {"JobBatchName": '"try"', "Iwd": '"/home/alice"', "EmailAttributes": '"RequestMemory,Nonesuch,JobPrio"'}
    pool = pool_of(BADLY, {"EMAIL_SIGNATURE": "Yours"}, JobNotification="1", ImageSize="2500", **ad)
    pool.advance(150)
    assert pool.world.mails[0].text == f"{ENDED}Yours\n"


@together(
    ("size", "size_text"),
    [
        ("1024", "1024.0 B "),
        ("1025", "   1.0 KB"),
        ("3.5e9", "   3.3 GB"),
        ("1e15", " 909.5 TB"),
        ("1e18", "909494.7 TB"),  # the largest unit
    ],
)
def test_a_mail_shows_bytes_in_the_largest_unit_of_at_least_one(size: str, size_text: str) -> None:
    pool = pool_of(WELL, JobNotification="1", BytesRecvd=size)
    pool.advance(150)
    assert f"{size_text:>10} Total Bytes Received By Job" in pool.world.mails[0].text


def test_the_mail_about_a_hold_has_the_reason() -> None:
    pool = pool_of(WELL, JobNotification="1", OnExitHold="true")
    pool.advance(150)
    assert pool.world.mails[0].text.endswith(f"Condor job 1.0\n{HELD}")


def pool_with_unsent_mail(pool: TestPool) -> tuple[Engine, VirtualWorld]:
    """Return a pool that was killed before its log recorded that a mail was sent, and restarted."""
    events = pool.events()
    log = open_log("memory:", create=True)
    log.append(events[: next(i for i, event in enumerate(events) if isinstance(event, e.Mailed))])
    world = VirtualWorld(clock=pool.world.clock)
    engine = Engine(log, world)
    engine.load()
    return engine, world


def test_a_mail_that_no_log_records_as_sent_is_sent_when_the_pool_restarts() -> None:
    pool = pool_of(WELL, JobNotification="1")
    pool.advance(150)
    engine, world = pool_with_unsent_mail(pool)
    engine.recover()
    engine.step(world.clock + SECOND)
    assert [mail.subject for mail in world.mails] == ["[Condor] Condor Job 1.0"]
    assert not engine.state.mails


def test_why_reports_the_mails() -> None:
    pool = pool_of(WELL, JobNotification="1", OnExitHold="true")
    pool.advance(150)
    engine, _ = pool_with_unsent_mail(pool)
    (position,) = engine.state.mails
    engine.handle([s.MailHandled("mail", position, "the program is gone")])
    sentences = [sentence.full for sentence in why_job(engine.log.read(), 1, 0).life if "mail" in sentence.code]
    assert sentences == [
        "The access point could not mail alice@example.org about job 1.0: the program is gone: "
        "[Condor] Condor Job 1.0 put on hold."
    ]

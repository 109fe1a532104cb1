"""Golden: a pool embedded in a program, on every kind of log, in virtual time and in real time."""

from __future__ import annotations

import os
import re
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook import (
    AlreadyServed,
    Behaviour,
    ClassAdSyntaxError,
    ConfigError,
    EvaluationError,
    Expr,
    Log,
    LogClosed,
    LogError,
    Pool,
    Refusal,
    SubmitError,
    SubmitWarning,
    UnknownThingError,
)
from poolbook.adapters.library.log_base import JobId
from poolbook.adapters.stores.log_paths import WriterLock

from ..together import together

POSTGRES = os.environ.get("POOLBOOK_TEST_POSTGRES")
KINDS = ["memory", "sqlite", *(["postgresql"] if POSTGRES else [])]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # where the mark of a log on a server is
    if request.param == "memory":
        yield "memory:"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/pool.db"
    else:
        import psycopg

        schema = f"t{uuid.uuid4().hex}"
        assert POSTGRES is not None
        yield f"{POSTGRES}?schema={schema}"
        with psycopg.connect(POSTGRES, autocommit=True) as server:
            server.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def story(pool: Pool) -> None:
    pool.add_machine("node1", cpus=2, memory=2048)
    cluster = pool.submit("executable = /bin/work\narguments = $(x)\nrequest_memory = 256\nqueue x in (1 2 3)\n")
    pool.hold((cluster, 2), reason="later")
    pool.advance(30)
    pool.vacate("1.0")
    pool.advance(100)
    pool.release(cluster)
    pool.prio(cluster, value=4)
    pool.run()


def test_a_pool_has_the_same_events_on_every_kind_of_log(url: str) -> None:
    with Pool.open(url, user="alice", uid_domain="example.org", behave=lambda launch: Behaviour(60)) as pool:
        story(pool)
        history = pool.history()
        assert sorted((ad["ProcId"], ad["Args"], ad["NumShadowStarts"]) for ad in history) == [
            (0, "1", 2),
            (1, "2", 1),
            (2, "3", 1),
        ]
        assert pool.usage() == {"alice@example.org": 30.0 + 60 + 60 + 60}
        assert pool.jobs() == []
        assert pool.judge() == []
        events = list(pool.events())
    if url != "memory:":
        with Pool.open(url) as reopened:
            assert list(reopened.events()) == events
            assert reopened.history() == history
            assert reopened.now == events[-1][1].at / 1e6


def test_a_pool_whose_program_was_killed_continues_its_running_jobs(tmp_path: Path) -> None:
    path = str(tmp_path / "pool.db")
    pool = Pool.open(path, user="alice", behave=lambda launch: Behaviour(60))
    pool.add_machine("node1")
    pool.submit({"executable": "/bin/work"})
    pool.advance(10)
    del pool  # the pool is never closed
    with Pool.open(path, user="alice", behave=lambda launch: Behaviour(60)) as reopened:
        assert [job["JobStatus"] for job in reopened.jobs()] == [2]
        assert reopened.run()
        assert [ad["ExitCode"] for ad in reopened.history()] == [0]


def test_subscribers_get_each_event_after_it_is_in_the_log() -> None:
    with Pool.open(user="alice") as pool:
        heard_events: list[tuple[int, str]] = []
        pool.subscribe(lambda position, event: heard_events.append((position, type(event).__name__)))
        before = len(list(pool.events()))
        pool.add_machine("node1")
        pool.submit({"executable": "/bin/work"})
        pool.run()
        assert heard_events == [(at, type(event).__name__) for at, event in pool.events(before)]


@together(
    ("wrong", "error", "message"),
    [
        (lambda pool: pool.submit("executable = /bin/x\nqueue x from nowhere.txt\n"), SubmitError, "nowhere.txt"),
        (lambda pool: pool.submit({"executable": "/bin/x", "universe": "grid"}), SubmitError, "grid"),
        (lambda pool: pool.submit({}), SubmitError, "executable"),
        (lambda pool: pool.hold(), ValueError, "no jobs given"),
        (lambda pool: pool.remove(constraint="(("), Refusal, "constraint"),
        (lambda pool: pool.edit(constraint="true", Owner="bob"), Refusal, "Owner"),
        (lambda pool: pool.add_machine("node1"), Refusal, "node1 is already in the pool"),
        (lambda pool: pool.remove_machine("node9"), Refusal, "node9 is not in the pool"),
        (lambda pool: pool.add_machine("n", cpus=1, memory=1, static=3), ValueError, "configure less, or fewer slots"),
        (lambda pool: Pool.open("ftp://x"), LogError, "ftp"),
        (lambda pool: Pool.open(dialect="klingon"), Refusal, "klingon"),
        (lambda pool: Pool.open(settings={"MATCH_TIMEOT": 3}), Refusal, "MATCH_TIMEOT"),
        (lambda pool: Pool.open(start=-1), ValueError, "start = -1 is not a valid duration"),
        (
            lambda pool: pool.advance(-5),
            ValueError,
            "seconds = -5 is not a valid duration: give a number of seconds",
        ),
        (lambda pool: pool.advance("5"), ValueError, "seconds = '5' is not a valid duration"),
        (lambda pool: pool.advance(float("inf")), ValueError, "seconds = inf is not a valid duration"),
        (lambda pool: pool.run(limit="1 h"), ValueError, "limit = '1 h' is not a valid duration"),
        (lambda pool: pool.add_machine("n", memory="4 Gib"), ValueError, "or a text with a unit such as '4 GB'"),
        (lambda pool: pool.add_machine("n", memory=1.5), ValueError, "a machine has a whole number of MiB, at least 1"),
        (lambda pool: pool.add_machine("n", disk="0"), ValueError, "disk = '0': a machine has a whole number of KiB"),
        (lambda pool: pool.add_machine("n", cpus="2"), ValueError, "cpus = '2': a machine has a whole number of cores"),
        (lambda pool: pool.add_machine("n", static="2"), ValueError, "static = '2': give a whole number of slots"),
        (lambda pool: pool.submit({"executable": "/bin/x"}, count="3"), ValueError, "count = '3'"),
        (
            lambda pool: pool.submit("executable = /bin/x\nqueue\n", count=3),
            ValueError,
            "a text has its queue statement",
        ),
        (lambda pool: pool.set_ceiling("a@b", "many"), ValueError, "ceiling = 'many' is not a number"),
        (
            lambda pool: pool.set_ceiling("a@b", 3, duration="4"),
            ValueError,
            "duration = '4' is not a valid duration",
        ),
        (lambda pool: pool.why("99.0"), UnknownThingError, "no job 99.0"),
        (lambda pool: pool.why("nonsense"), ValueError, "'nonsense' is none of these"),
        (lambda pool: pool.jobs("(("), ClassAdSyntaxError, "expected an operand"),
        (lambda pool: pool.slots("random(0) > 1"), EvaluationError, "the limit must be greater than 0"),
        (lambda pool: pool.events(stream="1.0"), ValueError, "its events are in its cluster's stream: use '1'"),
    ],
)
def test_an_invalid_call_raises_and_changes_nothing(wrong, error: type[Exception], message: str) -> None:  # type: ignore[no-untyped-def]
    with Pool.open(user="alice") as pool:
        pool.add_machine("node1")
        before = len(list(pool.events()))
        with pytest.raises(error, match=re.escape(message)):
            wrong(pool)
        assert len(list(pool.events())) == before


def test_amounts_of_a_machine_may_have_units_as_in_a_submit_description() -> None:
    with Pool.open() as pool:
        pool.add_machine("a", memory="4 GB", disk="1.5 GB")
        pool.add_machine("b", memory=4096, disk=1536 * 1024)
        assert [(slot["Memory"], slot["Disk"]) for slot in pool.slots()] == [(4096, 1536 * 1024)] * 2


def test_a_submission_warning_is_a_python_warning() -> None:
    with Pool.open(user="alice") as pool:
        with pytest.warns(SubmitWarning, match=r"arguemnts.*Did you mean.*arguments") as warnings:
            pool.submit({"executable": "/bin/work", "arguemnts": "1"})
        assert [warning.filename for warning in warnings] == [__file__]
        with pytest.warns(SubmitWarning, match="arguemnts"):
            pool.submit("executable = /bin/work\narguemnts = 1\nqueue\n")


def test_a_warning_turned_into_an_error_submits_nothing() -> None:
    with Pool.open(user="alice") as pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SubmitWarning):
            pool.submit({"executable": "/bin/work", "arguemnts": "1"})
        assert pool.jobs() == []


@pytest.mark.parametrize(
    "late",
    [
        lambda pool: pool.jobs(),
        lambda pool: pool.slots(),
        lambda pool: pool.history(),
        lambda pool: pool.usage(),
        lambda pool: pool.submitters(),
        lambda pool: pool.events(),
        lambda pool: pool.judge(),
        lambda pool: pool.why("1.0"),
        lambda pool: pool.now,
        lambda pool: pool.state,
        lambda pool: pool.advance(1),
        lambda pool: pool.run(),
        lambda pool: pool.subscribe(print),
        lambda pool: pool.submit({"executable": "/bin/work"}),
        lambda pool: pool.add_machine("n"),
        lambda pool: pool.configure("START = true"),
        lambda pool: pool.negotiate(),
    ],
)
def test_a_closed_pool_refuses_every_call(late, url: str) -> None:  # type: ignore[no-untyped-def]
    pool = Pool.open(url)
    pool.history()
    pool.close()
    pool.close()
    with pytest.raises(LogClosed, match=r"the pool was closed: `Pool\.open` opens its log again"):
        late(pool)


def test_a_pool_answers_for_a_past_time_and_for_one_stream() -> None:
    with Pool.open(user="alice", behave=lambda launch: Behaviour(60)) as pool:
        pool.add_machine("node1")
        begin = pool.now
        pool.submit({"executable": "/bin/work"})
        pool.run()
        assert "completed" in pool.why("1.0")[0] and "has been running" in pool.why("1.0", at=begin + 30)[0]
        streams = {event.stream for _, event in pool.events()}
        assert {event.stream for _, event in pool.events(stream="1")} == {"cluster/1"}
        assert sum(len(list(pool.events(stream=stream))) for stream in streams) == len(list(pool.events()))


def test_lists_and_nested_ads_become_python_objects() -> None:
    with Pool.open(user="alice", behave=lambda launch: Behaviour(60)) as pool:
        pool.add_machine("node1")
        cluster = pool.submit({"executable": "/bin/work", "+Nested": '{ 1, [ A = "x"; B = { true } ] }'})
        (job,) = pool.jobs()
        assert job["Nested"] == [1, {"A": "x", "B": [True]}]
        pool.remove(cluster)
        pool.run()
        assert pool.history("Nested[0] == 1")[0]["Nested"] == job["Nested"]


def test_values_and_expressions_are_distinguished() -> None:
    with Pool.open(user="alice") as pool:
        cluster = pool.submit({"executable": "/bin/work"}, count=2)
        pool.edit(cluster, Note='say "hi"\\n', Double=Expr("ProcId * 2"), Yes=True, Half=0.5)
        ads = pool.jobs("Double > 0")
        assert [(ad["ProcId"], ad["Double"], ad["Note"], ad["Yes"], ad["Half"]) for ad in ads] == [
            (1, 2, 'say "hi"\\n', True, 0.5)
        ]


def test_real_jobs_run_from_a_program(tmp_path: Path) -> None:
    path = str(tmp_path / "pool.db")
    with Pool.open(path, execute=True) as pool:
        pool.add_machine("here", cpus=2, memory=1024)
        text = "executable = /bin/sh\narguments = \"-c 'exit $(x)'\"\nrequest_memory = 32\nrequest_disk = 1 MB\n"
        pool.submit(text + "queue x in (0 3)\n", folder=tmp_path)
        assert pool.run(limit=30)
        assert sorted(ad["ExitCode"] for ad in pool.history()) == [0, 3]
        with pytest.raises(AlreadyServed, match=r"this process .* has the log .* open in another pool"):
            Pool.open(path, execute=True, wait=0)


if POSTGRES:

    def test_a_log_on_a_server_has_one_writer_whatever_its_state_directory(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As from two machines, or two users of one."""
        url = f"{POSTGRES}?schema=t{uuid.uuid4().hex}"
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "one"))
        first = WriterLock(url)
        assert first.try_acquire()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "two"))
        second = WriterLock(url)
        assert not second.try_acquire()
        first.give_up()
        assert second.try_acquire()
        second.give_up()


def test_a_log_of_virtual_time_can_be_served_by_the_real_clock(tmp_path: Path) -> None:
    """Its times are in the future; time continues from there."""
    path = str(tmp_path / "pool.db")
    with Pool.open(path, user="alice") as pool:
        pool.add_machine("node1")
        pool.submit({"executable": "/bin/true"}, count=1)
        pool.run()
    with Pool.open(path, execute=True) as pool:
        pool.add_machine("here", cpus=1, memory=512)
        pool.submit("executable = /bin/true\nrequest_memory = 32\nrequest_disk = 1 MB\nqueue 2\n", folder=tmp_path)
        assert pool.run(limit=30)
        assert pool.judge() == []
        times = [event.at for _, event in pool.events()]
        assert times == sorted(times)
        assert all(amount >= 0 for amount in pool.usage().values())


# Under an owner's policy

OFFICE = """
START = KeyboardIdle > 60
IS_OWNER = START =?= false
WANT_SUSPEND = true
SUSPEND = KeyboardIdle < 10
CONTINUE = KeyboardIdle > 60
SLOTS_CONNECTED_TO_KEYBOARD = 10
UPDATE_INTERVAL = 30
NUM_CPUS = $(DETECTED_CPUS)
NUM_SLOTS = $(DETECTED_CPUS)
SLOT_TYPE_0_PARTITIONABLE = false
"""


def test_machines_offer_what_the_pools_configuration_says(url: str, tmp_path: Path) -> None:
    file = tmp_path / "office.conf"
    file.write_text(OFFICE)
    for config in (OFFICE, file, [file]):
        with Pool.open("memory:", config=config) as pool:
            pool.add_machine("small", cpus=1)
            pool.add_machine("large", cpus=3)
            assert [slot["Name"] for slot in pool.slots()] == ["slot1@small", *(f"slot{n}@large" for n in (1, 2, 3))]
            with pytest.raises(ValueError, match="NUM_SLOTS"):
                pool.add_machine("other", static=2)
    with Pool.open(url, config=OFFICE, behave=lambda launch: Behaviour(1000)) as pool:
        pool.read("desk", KeyboardIdle=3600, Window="open")
        pool.add_machine("desk")
        pool.submit({"executable": "/bin/work"})
        pool.advance(20)
        assert pool.slots('State == "Claimed"')
        pool.read("desk", KeyboardIdle=0)
        pool.advance(10)
        assert [job["JobStatus"] for job in pool.jobs()] == [7]
        pool.advance(70)
        assert [job["JobStatus"] for job in pool.jobs()] == [2]
        assert pool.suspend_slot("desk") == ["slot1@desk"] and pool.resume_slot("slot1@desk") == ["slot1@desk"]
        assert pool.drain("desk", schedule="Fast", reason="new disk") == "1"
        pool.advance(10)
        assert [slot["State"] for slot in pool.slots()] == ["Drained"]
        with pytest.raises(Refusal, match="already in progress"):
            pool.drain("slot1@desk")
        pool.cancel_drain("desk")
        pool.reconfigure("desk", OFFICE.replace("START = KeyboardIdle > 60", "START = false"))
        assert pool.slots('State == "Claimed"'), "START does not end what runs"
        assert pool.vacate_slot("desk") == ["slot1@desk"]
        pool.advance(40)
        assert [slot["State"] for slot in pool.slots()] == ["Owner"]
        pool.shut_down("desk")
        assert pool.slots() == []
        assert pool.judge() == []


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("START = 1 +", "the configuration:1: START: 1 \\+ is not an expression"),
        ("X = $(Y)\nY = $(X)\nSTART = $(X)", "X"),
        (Path("nowhere.conf"), "nowhere.conf"),
    ],
)
def test_an_invalid_configuration_opens_no_pool(config: str | Path, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Pool.open("memory:", config=config)


def test_real_jobs_run_as_the_configuration_permits(tmp_path: Path) -> None:
    with Pool.open(f"{tmp_path}/pool.db", execute=True, config="START = false\nUPDATE_INTERVAL = 1") as pool:
        pool.add_machine("here")
        pool.submit({"executable": "/bin/true", "request_memory": "16", "request_disk": "1 MB"})
        assert pool.run(10) and pool.jobs()[0]["JobStatus"] == 1
        pool.reconfigure("here", "START = KeyboardIdle >= 0\nUPDATE_INTERVAL = 1")
        assert pool.run(20) and pool.jobs() == []
        with pytest.raises(Refusal, match="readings can only be set in virtual time"):
            pool.read("here", KeyboardIdle=0)
    with pytest.raises(ConfigError, match="STARTD_CRON_A_EXECUTABLE"):
        Pool.open(f"{tmp_path}/pool.db", execute=True, config="STARTD_CRON_JOBLIST = A\nSTARTD_CRON_A_PERIOD = 1")
    assert WriterLock(f"{tmp_path}/pool.db").try_acquire(), "the log is free again"


def test_the_creator_of_a_log_may_do_everything_in_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with Pool.open("memory:") as pool:
        assert "QUEUE_SUPER_USERS" not in pool.state.settings
    monkeypatch.setattr(os, "geteuid", lambda: 987654)  # a user without a name
    with Pool.open("memory:") as pool:
        assert pool.state.settings["QUEUE_SUPER_USERS"] == "condor, root, 987654"
        pool.add_machine("node")
        with pytest.raises(Refusal, match="only the pool's owner may do that"):
            pool.drain("node", user="alice")
        assert pool.drain("node", user="987654") == "1"


def test_some_jobs_of_a_cluster_may_be_on_hold_from_the_start() -> None:
    with Pool.open(user="alice", behave=lambda launch: Behaviour(0.5)) as pool:
        pool.add_machine("node1", cpus=4)
        pool.submit("executable = /bin/x\nhold = $(h)\nqueue h in (False True False True)\n")
        pool.advance(1)
        assert [(job["ProcId"], job["JobStatus"]) for job in pool.jobs()] == [(1, 5), (3, 5)]
        assert {job["HoldReasonCode"] for job in pool.jobs()} == {15}
        assert pool.judge() == []
        pool.release("1.3")
        pool.advance(1)
        assert [job["ProcId"] for job in pool.jobs()] == [1]


def test_the_results_of_commands_are_returned_for_ranges_of_jobs() -> None:
    with Pool.open(user="alice") as pool:
        pool.submit({"executable": "/bin/x"}, count=5)
        expected_result = {"cluster": 1, "result": "done", "changes": {}}
        assert pool.hold(constraint="ProcId != 2") == [
            {**expected_result, "first": 0, "last": 1},
            {**expected_result, "first": 3, "last": 4},
        ]


@pytest.mark.parametrize("action", ["hold", "release", "remove", "vacate", "suspend", "resume", "edit"])
@pytest.mark.parametrize(("jobs", "message"), [([7], "cluster 7"), (["1.0", "1.5"], "job 1.5"), ([(2, 0)], "job 2.0")])
def test_an_action_on_an_unknown_job_raises_and_changes_nothing(action: str, jobs: list[JobId], message: str) -> None:
    with Pool.open(user="alice") as pool:
        pool.submit({"executable": "/bin/x"}, count=5)
        position = pool.state.position
        with pytest.raises(UnknownThingError, match=f"{message} is not in the queue"):
            getattr(pool, action)(*jobs)
        assert pool.state.position == position


@pytest.mark.parametrize(("kind", "message"), [(Pool, "`Pool.open` opens a pool"), (Log, "`Log.open` opens a log")])
def test_a_pool_and_a_log_are_opened_by_a_class_method(kind: type[Pool] | type[Log], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        kind()

"""Golden: the user log events that each change of a job produces, in order, and their texts."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import htcondor2
import pytest

from poolbook.adapters.runtime.userlog.fold import UserLogs
from poolbook.adapters.runtime.userlog.logged_clusters import without_procs
from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.proc_ads import pack
from poolbook.replay.virtual_world import Behaviour, VirtualWorld

from ..together import together
from .pool import DATA, JOB, MACHINE, Pool, event_body, events_of, one_job, utc

JOB_1 = (1, 0)
FAILURE = "Failed to execute '/no/such/file'"


HALF_A_MINUTE = Behaviour(30)


def pool_of(behaviour: Behaviour = HALF_A_MINUTE) -> Pool:
    return Pool(VirtualWorld(lambda launch: behaviour))


def running(behaviour: Behaviour = HALF_A_MINUTE) -> Pool:
    """Return a pool in which job 1.0 has begun."""
    pool = pool_of(behaviour)
    one_job(pool)
    pool.run(1)
    return pool


def ended_by_itself() -> Pool:
    pool = running()
    pool.run(60)
    return pool


def ended_by_a_signal() -> Pool:
    pool = running(Behaviour(5, signal=11))
    pool.run(60)
    return pool


def held_while_it_waits() -> Pool:
    pool = pool_of()
    pool.submit(JOB)
    pool.act("hold", JOB_1, reason="not now")
    return pool


def submitted_on_hold() -> Pool:
    pool = pool_of()
    pool.submit({**JOB, "JobStatus": "5", "HoldReason": '"submitted on hold at user\'s request"'})
    pool.act("release", JOB_1)
    return pool


def removed_while_it_waits() -> Pool:
    pool = pool_of()
    pool.submit(JOB)
    pool.act("remove", JOB_1, reason="not needed")
    return pool


def held_while_it_runs() -> Pool:
    pool = running(Behaviour(30, grace=5))
    pool.act("hold", JOB_1, reason="please stop")
    pool.run(10)
    return pool


def held_then_removed_while_it_ends() -> Pool:
    pool = running(Behaviour(30, grace=5))
    pool.act("hold", JOB_1, reason="please stop")
    pool.run(1)
    pool.act("remove", JOB_1)
    pool.run(10)
    return pool


def released_while_it_ends() -> Pool:
    pool = running(Behaviour(30, grace=5))
    pool.act("hold", JOB_1, reason="please stop")
    pool.run(1)
    pool.act("release", JOB_1)
    pool.run(5)
    return pool


def removed_while_it_runs() -> Pool:
    pool = running(Behaviour(30, grace=5))
    pool.act("remove", JOB_1)
    pool.run(10)
    return pool


def hide_beginnings(pool: Pool) -> Pool:
    """Change the pool so that no supervisor sees a job's process begin."""
    logs = utc()
    pool.files.clear()
    for position, event in enumerate((ev for _, ev in pool.happened if not isinstance(ev, e.JobExecuting)), 1):
        for (path, _), text in logs.fold(position, event):
            pool.files[path] = pool.files.get(path, "") + text
    return pool


def removed_before_it_begins() -> Pool:
    return hide_beginnings(removed_while_it_runs())


def ended_before_it_was_seen_to_begin() -> Pool:
    return hide_beginnings(ended_by_itself())


def suspended_and_held_before_it_begins() -> Pool:
    pool = running()
    pool.act("suspend", JOB_1)
    pool.measure(JOB_1, 2, 1)
    pool.act("continue", JOB_1)
    pool.act("suspend", JOB_1)
    pool.act("hold", JOB_1)
    pool.run(10)
    return hide_beginnings(pool)


def vacated() -> Pool:
    pool = running()
    pool.act("vacate", JOB_1)
    pool.run(1)
    return pool


def suspended_and_continued() -> Pool:
    pool = running()
    pool.act("suspend", JOB_1)
    pool.run(5)
    pool.act("continue", JOB_1)
    return pool


def suspended_before_it_begins() -> Pool:
    pool = pool_of()
    one_job(pool)
    pool.act("suspend", JOB_1)
    pool.run(1)
    return pool


def removed_while_suspended() -> Pool:
    pool = running()
    pool.act("suspend", JOB_1)
    pool.act("remove", JOB_1)
    pool.run(1)
    return pool


def measured_three_times() -> Pool:
    pool = running()
    pool.measure(JOB_1, 2600, 1616)
    pool.measure(JOB_1, 2600, 1616)
    pool.measure(JOB_1, 2600, 9700)
    return pool


def not_startable() -> Pool:
    pool = pool_of(Behaviour(failure=f"Error from slot1@host: {FAILURE}"))
    one_job(pool)
    pool.run(1)
    return pool


def lost() -> Pool:
    pool = running(Behaviour(30, lost=True))
    pool.run(30)
    return pool


def with_policy(behaviour: Behaviour, **policy: str) -> Pool:
    pool = pool_of(behaviour)
    one_job(pool, list(policy.items()))
    pool.run(behaviour.seconds)
    return pool


def requeued() -> Pool:
    return with_policy(Behaviour(30), OnExitRemove="false")


def requeued_and_done() -> Pool:
    pool = with_policy(Behaviour(30, code=7), OnExitRemove="NumJobCompletions > 1")
    pool.run(60)
    return pool


def held_by_its_policy() -> Pool:
    policy = {"OnExitHold": "ExitCode == 4", "OnExitHoldReason": '"exit code 4"', "OnExitHoldSubCode": "17"}
    return with_policy(Behaviour(30, code=4), **policy)


def ended_with_memory(resident: int, measured: int = 0, **hold: Any) -> Pool:
    """Return a job whose size the supervisor reports at its end, and perhaps before."""
    pool = pool_of()
    one_job(pool, [("ImageSize", "45")])
    pool.run(1)
    if measured:
        pool.measure(JOB_1, 45, measured)
    key = pool.engine.state.by_job[JOB_1].key
    pool.ask(s.ActivationEnded("end", key, pool.world.now(), code=0, resident=resident, **hold))
    return pool


def measured_at_its_end() -> Pool:
    return ended_with_memory(5120)


def measured_before_and_at_its_end() -> Pool:
    return ended_with_memory(5120, 5120)


def held_for_its_time() -> Pool:
    return ended_with_memory(5120, hold_reason="The job exceeded allowed job duration of 00:02", hold_code=46)


def local() -> Pool:
    pool = pool_of()
    pool.submit({**JOB, "JobUniverse": "12"})
    pool.run(60)
    return pool


def removed_when_it_was_done_and_stayed() -> Pool:
    pool = with_policy(Behaviour(30), LeaveJobInQueue="JobStatus == 4")
    pool.act("remove", JOB_1, reason="fetched")
    return pool


def priority_changed() -> Pool:
    pool = pool_of()
    pool.submit(JOB, 2)
    pool.edit({"JobPrio": "3"}, (1, 1))
    pool.edit({"JobPrio": "5"})
    pool.edit({"Note": '"x"'})
    return pool


@together(
    ("happens", "log"),
    [
        # what happens                         the events of job 1.0
        (ended_by_itself, "000 001 005"),
        (ended_by_a_signal, "000 001 005"),
        (held_while_it_waits, "000 012"),
        (submitted_on_hold, "000 013"),
        (removed_while_it_waits, "000 009"),
        (held_while_it_runs, "000 001 004 012"),
        (held_then_removed_while_it_ends, "000 001 004 012 009"),
        (released_while_it_ends, "000 001 004 012 013 001"),
        (removed_while_it_runs, "000 001 004 009"),
        (removed_before_it_begins, "000 009"),
        (ended_before_it_was_seen_to_begin, "000 001 005"),
        (suspended_and_held_before_it_begins, "000 012"),
        (vacated, "000 001 004 001"),
        (suspended_and_continued, "000 001 010 011"),
        (suspended_before_it_begins, "000 001 010"),
        (removed_while_suspended, "000 001 010 011 004 009"),
        (measured_three_times, "000 001 006 006"),
        (not_startable, "000 001 021 004 012"),
        (requeued, "000 001 004 001"),
        (requeued_and_done, "000 001 004 001 005"),
        (held_by_its_policy, "000 001 012"),
        (held_for_its_time, "000 001 006 012"),
        (measured_at_its_end, "000 001 006 005"),
        (measured_before_and_at_its_end, "000 001 006 005"),
        (local, "000 001 005"),
        (removed_when_it_was_done_and_stayed, "000 001 005 009"),
        (priority_changed, "000 033"),
    ],
)
def test_each_change_of_a_job_is_logged(happens: Callable[[], Pool], log: str) -> None:
    numbers = [entry.split()[0] for entry in happens().numbers() if entry.endswith(" 1.0")]
    assert " ".join(numbers) == log


@together(
    ("happens", "number", "expected"),
    [
        (held_while_it_waits, "012", "\tnot now (by user alice)\n\tCode 1 Subcode 0\n"),
        (removed_while_it_waits, "009", "\tnot needed (by user alice)\n"),
        (held_while_it_runs, "004", "Job was evicted. Code 1 Subcode 0\n"),
        (held_while_it_runs, "004", "\tReason: please stop (by user alice)\n"),
        (removed_while_it_runs, "004", "Job was evicted. Code 1023 Subcode 0\n"),
        (vacated, "004", "Job was evicted. Code 1022 Subcode 0\n"),
        (vacated, "004", "\tReason: Job vacated by schedd\n"),
        (ended_by_itself, "005", "\t(1) Normal termination (return value 0)\n"),
        (ended_by_itself, "005", "\t   TimeExecute (s)      :       30                    \n"),
        (ended_by_itself, "005", "\t   Memory (MB)          :               128      1024 \n"),
        (ended_by_a_signal, "005", "\t(0) Abnormal termination (signal 11)\n\t(0) No core file\n"),
        (not_startable, "021", f"Error from starter on slot1@host:\n\t{FAILURE}\n\tCode 6 Subcode 2\n"),
        (not_startable, "004", "Job was evicted. Code 6 Subcode 2\n"),
        (not_startable, "012", f"\tError from slot1@host: {FAILURE}\n\tCode 6 Subcode 2\n"),
        (requeued_and_done, "005", "\t(1) Normal termination (return value 7)\n"),
        (held_by_its_policy, "012", "\texit code 4\n\tCode 3 Subcode 17\n"),
        (removed_when_it_was_done_and_stayed, "009", "\tfetched (by user alice)\n"),
        (priority_changed, "033", "Changing job attribute JobPrio from 3 to 5\n"),
        (held_for_its_time, "012", "\tThe job exceeded allowed job duration of 00:02\n\tCode 46 Subcode 0\n"),
        (measured_at_its_end, "006", "Image size of job updated: 45\n\t5  -  MemoryUsage of job (MB)\n\t5120  -  Res"),
        (not_startable, "001", "Job executing on host: <127.0.0.1:0?alias=host>\n\tSlotName: slot1@host\n\tCpus = 1\n"),
        (local, "001", "Job executing on host: <127.0.0.1:0?alias=pool>\n"),
    ],
)  # fmt: skip
def test_an_event_has_the_text(happens: Callable[[], Pool], number: str, expected: str) -> None:
    assert expected in event_body(happens(), number)


def test_a_requeue_has_the_text_of_the_recorded_run() -> None:
    events = events_of(gzip.decompress((DATA / "real-events.log.gz").read_bytes()).decode())
    real_event = next(event for event in events if "Job terminated and was requeued" in event)
    assert event_body(requeued(), "004") == real_event[len("000 (001.000.000) 2027-01-15 08:00:00 ") :].removesuffix(
        "...\n"
    )


def test_an_event_has_the_time_of_its_writing() -> None:
    held = events_of(held_while_it_runs().log())[-1]
    assert held.startswith("012 (001.000.000) 2027-01-15 08:00:06 ")  # requested at 08:00:01


def test_the_cpu_times_of_all_runs_are_added_up() -> None:
    logs = utc()
    story = [
        e.ClusterSubmitted(0, "submitted", "s", 1, "alice@x", JOB, 2, (), "Idle"),
        e.SlotCreated(0, "configured", "s", "slot1@h", "h", "static", "", {"Cpus": "1"}),
    ]
    for run in (1, 2):
        story += [
            e.JobActivated(0, "activated", "s", 1, 0, "slot1@h", "c"),
            e.JobExecuting(0, "activated", "s", 1, 0, 1, "/scratch"),
            e.JobExited(
                90_061_000_000 * run, "exited", "s", 1, 0, "slot1@h", "k",
                *(("evicted", "evict", "Idle") if run == 1 else ("exited", "complete", "Completed")), {}, code=0,
                user_cpu=90_061_000_000, system_cpu=1_999_999,
            ),
        ]  # fmt: skip
    story.append(e.JobsTransitioned(180_122_000_000, "left_queue", "s", 1, ((0, 0),), "leave", "Completed", "Left", {}))
    text = "".join(text for position, event in enumerate(story, 1) for _, text in logs.fold(position, event))
    assert "\t\tUsr 1 01:01:01, Sys 0 00:00:01  -  Run Remote Usage\n" in text
    assert "\t\tUsr 2 02:02:02, Sys 0 00:00:03  -  Total Remote Usage\n" in text
    assert "\t   Cpus                 :      0.50        1         1 \n" in text
    assert "\t   TimeExecute (s)      : 180122                       \n" in text
    assert logs._clusters[1].spent == {}  # nothing is kept about an ended job


@pytest.mark.parametrize(
    ("procs", "started", "expected"),
    [
        (((0, 9),), (), ((0, 9),)),
        (((0, 9),), (0, 9), ((1, 8),)),
        (((0, 9),), (4, 5), ((0, 3), (6, 9))),
        (((0, 1), (5, 5), (8, 9)), (1, 5, 8), ((0, 0), (9, 9))),
        (((0, 1),), (0, 1), ()),
    ],
)
def test_only_running_jobs_are_logged_when_many_jobs_end(
    procs: e.Procs, started: tuple[int, ...], expected: e.Procs
) -> None:
    assert without_procs(procs, started) == expected


# The file, and its content


@together(
    ("ad", "columns", "paths"),
    [
        ({"UserLog": '"/logs/a.log"'}, {}, ["/logs/a.log"]),
        ({"UserLog": '"a.log"'}, {}, ["/home/alice/a.log"]),
        ({"UserLog": '"../bob/./a.log"'}, {}, ["/home/bob/a.log"]),
        ({"UserLog": '"/dev/null"'}, {}, []),
        ({"UserLog": "undefined"}, {}, []),
        ({"UserLog": ""}, {}, []),
        ({"UserLog": ""}, {"UserLog": ['"a.log"', "undefined"]}, ["/home/alice/a.log"]),
        ({"UserLog": '"a.log"'}, {"Iwd": ['"/x"', '"/y"']}, ["/x/a.log", "/y/a.log"]),
        ({}, {"userlog": ['"/a"', '"/b"']}, ["/a", "/b"]),
    ],
)
def test_the_file_is_userlog_within_iwd(ad: dict[str, str], columns: dict[str, list[str]], paths: list[str]) -> None:
    job_ad = {name: text for name, text in {**JOB, **ad}.items() if text and name.lower() not in columns}
    if any(name.lower() == "userlog" for name in columns):
        job_ad.pop("UserLog", None)
    event = e.ClusterSubmitted(0, "submitted", "s", 1, "alice@x", job_ad, 2, pack(columns), "Idle")
    assert [file.path for file, _ in utc().fold(1, event)] == paths


def test_clusters_share_a_file_and_a_job_of_another_file_stays_out() -> None:
    pool = pool_of()
    pool.submit(JOB, 2)
    pool.submit({**JOB, "UserLog": '"/other.log"'})
    pool.submit(JOB)
    assert pool.numbers() == ["000 1.0", "000 1.1", "000 3.0"]
    assert pool.numbers("/other.log") == ["000 2.0"]


NOTE_CASES = [
    ({"JobBatchName": '"held"'}, '    [ JobBatchName = "held" ]\n'),
    ({"JobBatchName": '"b"', "DAGNodeName": '"A"'}, '    [ DAGNodeName = "A"; JobBatchName = "b" ]\n'),
    ({"SubmitEventNotes": '"DAG Node: A"'}, "    DAG Node: A\n"),
    ({"SubmitEventNotes": '"one"', "SubmitEventUserNotes": '"two"'}, "    one\n    two\n"),
    ({"SubmitEventNotes": '"one\\n...\\n005"'}, "    one ... 005\n"),
]


@pytest.mark.parametrize(("ad", "lines"), NOTE_CASES)
def test_a_submission_shows_its_notes(ad: dict[str, str], lines: str) -> None:
    pool = pool_of()
    pool.submit({**JOB, **ad})
    assert event_body(pool, "000") == f"Job submitted from host: <127.0.0.1:0?alias=pool>\n{lines}"


def test_notes_may_differ_between_the_jobs_of_a_cluster() -> None:
    pool = pool_of()
    pool.submit(JOB, 2, {"JobBatchName": ['"a"', '"b"']})
    assert [event.splitlines()[1] for event in events_of(pool.log())] == [
        '    [ JobBatchName = "a" ]',
        '    [ JobBatchName = "b" ]',
    ]


def test_a_reason_with_line_breaks_cannot_forge_an_event() -> None:
    pool = pool_of()
    pool.submit(JOB)
    pool.act("hold", JOB_1, reason="x\n...\n009 (001.000.000) 2027-01-15 08:00:00 Job was aborted.\n...\n")
    assert pool.numbers() == ["000 1.0", "012 1.0"]


def test_a_request_is_shown_as_its_expression_evaluates() -> None:
    pool = pool_of(Behaviour(1))
    one_job(pool, [("RequestDisk", "MAX({ 1024,(X + 1) * 1.25 })"), ("X", "2000"), ("RequestMemory", "Y")])
    pool.run(5)
    assert "\t   Disk (KB)            :           2501.25      4096 \n" in event_body(pool, "005")
    assert "\t   Memory (MB)          :                        1024 \n" in event_body(pool, "005")


def test_a_slots_further_resources_are_shown_with_their_assignment() -> None:
    pool = pool_of(Behaviour(1))
    further = {"MachineResources": '"Cpus Memory Disk Swap GPUs Licenses"', "Licenses": "4", "Swap": "9"}
    pool.machine("host", 1, Cpus="1", Memory="1024", Disk="4096", GPUs="1", AssignedGPUs='"GPU-1"', **further)
    pool.submit({**JOB, "RequestLicenses": "2"})
    pool.run(5)
    assert "\tGPUs = 1\n\tLicenses = 4\n\tMemory = 1024\n" in event_body(pool, "001")
    assert "Allocated Assigned\n" in event_body(pool, "005")
    assert '\t   GPUs                 :                           1 "GPU-1"\n' in event_body(pool, "005")
    assert "\t   Licenses             :                 2         4 \n" in event_body(pool, "005")


def test_a_partitionable_slots_log_has_the_carved_resources() -> None:
    pool = pool_of(Behaviour(1))
    plan = s.SlotPlan("slot1@h", "partitionable", {"Cpus": "4", "Memory": "4096", "Disk": "100000"})
    pool.ask(s.AddMachine("m", "h", {"Machine": '"h"', **MACHINE}, (plan,)))
    pool.submit(JOB)
    pool.run(5)
    assert "\tSlotName: slot1_1@h\n" in event_body(pool, "001")
    assert "\t   Memory (MB)          :               128       128 \n" in event_body(pool, "005")


def test_a_cluster_costs_no_memory_for_each_of_its_jobs() -> None:
    logs = UserLogs()
    event = e.ClusterSubmitted(0, "submitted", "s", 1, "alice@x", JOB, 100_000, (), "Idle")
    tracemalloc.start()
    logs.skip(1, event)
    bytes_kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bytes_kept < 20_000


# What HTCondor's reader makes of it


def read(pool: Pool, folder: Path) -> list[htcondor2.JobEvent]:
    file = folder / "job.log"
    file.write_text(pool.log())
    return list(htcondor2.JobEventLog(str(file)).events(stop_after=0))


@pytest.mark.parametrize(
    ("happens", "number", "attributes"),
    [
        (ended_by_itself, 0, {"SubmitHost": "<127.0.0.1:0?alias=pool>"}),
        (ended_by_itself, 1, {"ExecuteHost": "<127.0.0.1:0?alias=host>", "SlotName": "slot1@host"}),
        (ended_by_itself, 5, {"TerminatedNormally": True, "ReturnValue": 0, "TimeExecuteUsage": 30}),
        (ended_by_itself, 5, {"RequestMemory": 128, "Memory": 1024}),
        (ended_by_a_signal, 5, {"TerminatedNormally": False, "TerminatedBySignal": 11}),
        (held_while_it_runs, 4, {"Reason": "please stop (by user alice)", "ReasonCode": 1}),
        (held_while_it_runs, 12, {"HoldReason": "please stop (by user alice)", "HoldReasonCode": 1}),
        (measured_three_times, 6, {"Size": 2600, "ResidentSetSize": 1616, "MemoryUsage": 2}),
        (removed_while_it_waits, 9, {"Reason": "not needed (by user alice)"}),
        (suspended_and_continued, 10, {"NumberOfPIDs": 1}),
        (suspended_and_continued, 11, {}),
        (submitted_on_hold, 13, {"Reason": "via condor_release (by user alice)"}),
        (not_startable, 21, {"HoldReasonCode": 6, "ExecuteHost": "slot1@host", "ErrorMsg": FAILURE}),
        (lost, 24, {"Reason": "Job not found at execution machine", "StartdName": "slot1@host"}),
        (priority_changed, 33, {"Attribute": "JobPrio", "Value": "3"}),
    ],
)  # fmt: skip
def test_htcondor_reads(
    happens: Callable[[], Pool], number: int, attributes: dict[str, object], tmp_path: Path
) -> None:
    pool = happens()
    events = read(pool, tmp_path)
    assert len(events) == len(pool.numbers())
    event = next(event for event in events if int(event.type) == number)
    assert {name: event.get(name) for name in attributes} == attributes


def test_delayed_condor_chirp_updates_are_not_logged(tmp_path: Path) -> None:
    pool = running()
    key = pool.engine.state.by_job[JOB_1].key
    writes = ((1, "set", "Step", "7"), (2, "delayed", "ChirpShare", "0.5"), (3, "note", "", "half of it"))
    pool.ask(
        s.ActivationChirped(pool.next_id(), key, writes),
        s.ActivationChirped(pool.next_id(), key, ((4, "set", "Step", "8"),)),
    )
    assert pool.numbers()[-3:] == ["033 1.0", "008 1.0", "033 1.0"]
    assert event_body(pool, "033", -2) == "Setting job attribute Step to 7\n"
    assert event_body(pool, "033") == "Changing job attribute Step from 7 to 8\n"
    assert event_body(pool, "008") == "half of it\n"
    assert read(pool, tmp_path)[-2].type == htcondor2.JobEventType.GENERIC


def test_a_job_with_job_ad_information_attrs_shows_them_after_each_event_as_htcondor_reads_it(tmp_path: Path) -> None:
    pool = running()
    pool.submit(
        {**JOB, "JobAdInformationAttrs": '"Args, Fruit Size, Missing"', "Fruit": '"a \\"fig\\""', "Size": "2 * 3"}
    )
    pool.edit({"Fruit": "5"}, (2, 0))
    pool.run(100)
    path = tmp_path / "log"
    path.write_text("".join(event for event in events_of(pool.log()) if " (002." in event.splitlines()[0]))
    read = list(htcondor2.JobEventLog(str(path)).events(0))
    kinds = [int(event.type) for event in read]
    assert kinds == [number for kind in kinds[::2] for number in (kind, 28)]
    assert kinds[::2] == [0, 1, 5]
    shown = [{name: event.get(name) for name in ("Args", "Fruit", "Size", "Missing")} for event in read[1::2]]
    assert shown == [{"Args": "30", "Fruit": fruit, "Size": 6, "Missing": None} for fruit in ('a "fig"', 5, 5)]
    triggers = [(event["TriggerEventTypeNumber"], event["TriggerEventTypeName"]) for event in read[1::2]]
    assert triggers == [(0, "ULOG_SUBMIT"), (1, "ULOG_EXECUTE"), (5, "ULOG_JOB_TERMINATED")]

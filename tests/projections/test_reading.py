"""Golden: queries of the queue, the history and the pool, as ads, as texts and as counts."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from poolbook.adapters.condor_tools.batches import BatchCluster, cluster_rows, count_statuses
from poolbook.adapters.condor_tools.cells import value_text
from poolbook.adapters.condor_tools.job_selection import ClusterOrJob
from poolbook.adapters.condor_tools.job_selection import JobSelector as Named
from poolbook.domain import events as e
from poolbook.domain.classad import Context, unparse
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.proc_ads import CHUNK, pack
from poolbook.domain.state.records import Slot
from poolbook.domain.state.slot_attributes import SlotAd
from poolbook.projections.job_query import JobSelection, SelectedJobs
from poolbook.projections.views import Views

from ..together import together
from .pools import Pool, busy_pool, folded, views_of

NOW = 1_800_000_000

WHY = (7_000_000, "submitted", "s")
ATTRIBUTES = (
    "ClusterId", "ProcId", "JobStatus", "globaljobid", "Args", "cmd", "JobPrio", "RequestCpus", "Note", "Own", "Colour",
    "HoldReason", "RemoteHost", "LastRemoteHost", "RequestMemory", "RemoteUserCpu", "QDate", "Rank", "Requirements",
    "NoSuchThing", "TotalSubmitProcs", "NumJobStarts",
)  # fmt: skip


def submission(cluster: int, owner: str, ad: dict[str, str], count: int = 3, **columns: list[str]) -> e.Event:
    attributes = {"Owner": f'"{owner}"', "QDate": "50"} | ad
    return e.ClusterSubmitted(*WHY, cluster, f"{owner}@x", attributes, count, pack(columns), "Idle")


def views(*events: e.Event) -> Views:
    return Views(folded(list(enumerate(events, 1))))


def ids(rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [".".join(row) for row in rows]


# -- ads and texts


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_texts_are_what_the_ads_show(dialect: str) -> None:
    busy = views_of(busy_pool(dialect))
    expected = [tuple(value_text(ad.eval(name)) for name in ATTRIBUTES) for ad in busy.ads()]
    assert list(busy.columns(ATTRIBUTES)) == expected
    assert len(expected) == sum(sum(row.counts.values()) for row in busy.batches()) > 5


@together(
    ("text", "shows"),
    [
        ('"bare"', "bare"),
        ('""', ""),
        ('"a \\"quote\\""', 'a "quote"'),
        ("12", "12"),
        ("-12", "-12"),
        ("0", "0"),
        ("1.50", "1.5"),
        ("true", "true"),
        ("TRUE", "true"),
        ("undefined", "undefined"),
        ("error", "error"),
        ("1 + 1", "2"),
        ("Base + 1", "8"),
        ("ProcId + 1", "1 2 3"),
        ("Indirect", "0 1 2"),
        ('eval("ProcId")', "0 1 2"),
        ("Mine", "x y z"),
        ('strcat(Mine, "!")', "x! y! z!"),
        ("GlobalJobId", "p#1.0#50 p#1.1#50 p#1.2#50"),
        ("TARGET.Cpus", "undefined"),
        ("time()", "1234"),
        ("no expression at all", "undefined"),
        ("", "undefined"),
    ],
)
def test_an_attribute_is_shown_as_in_autoformat(text: str, shows: str) -> None:
    ad = {"Value": text, "Base": "7", "Indirect": "Deeper", "Deeper": "ProcId"}
    founded_event = e.PoolFounded(*WHY, "p", "manual", "x", "0.1", {})
    job_views = views(founded_event, submission(1, "alice", ad, Mine=['"x"', '"y"', '"z"']))
    context = Context(now=1234)
    texts = [row[0] for row in job_views.columns(["value"], context=context)]
    assert texts == (shows.split(" ") if len(shows.split(" ")) == 3 else [shows] * 3)
    assert texts == [value_text(ad.eval("Value", None, context)) for ad in job_views.ads()]


def test_the_later_text_of_an_attribute_counts_and_an_empty_one_removes_it() -> None:
    job_views = views(
        submission(1, "alice", {"A": "1", "B": "1", "C": "1"}, B=["2", "2", ""], D=["7", "8", "9"]),
        e.JobsEdited(*WHY, 1, ((1, 1),), {"c": "3", "d": "", "b": "4"}),
    )
    names = ["A", "B", "C", "D"]
    assert list(job_views.columns(names)) == [
        ("1", "2", "1", "7"),
        ("1", "4", "3", "undefined"),
        ("1", "undefined", "1", "9"),
    ]
    assert [[name for name in names if name in ad] for ad in job_views.ads()] == [names, names[:3], ["A", "C", "D"]]


def test_texts_that_differ_from_job_to_job_are_found_in_any_chunk() -> None:
    count = 2 * CHUNK + 3
    job_views = views(submission(1, "alice", {}, count, Args=[f'"{proc}"' for proc in range(count)]))
    assert list(job_views.columns(["Args", "ProcId"])) == [(str(proc), str(proc)) for proc in range(count)]
    last = job_views.job(1, count - 1)
    assert last is not None and last.eval("Args") == str(count - 1)


def test_an_ad_shares_its_clusters_attributes_and_has_the_queues_own() -> None:
    founded_event = e.PoolFounded(*WHY, "pool", "manual", "x", "0.1", {})
    job = views(founded_event, submission(12, "alice", {"A": "B + 1", "B": "1"})).job(12, 2)
    assert job is not None
    assert job.to_old().splitlines() == [
        "A = B + 1",
        "B = 1",
        'Owner = "alice"',
        "QDate = 50",
        "ProcId = 2",
        "ClusterId = 12",
        "JobStatus = 1",
        'GlobalJobId = "pool#12.2#50"',
    ]


# -- selections


def three_clusters() -> Views:
    return views(
        submission(1, "alice", {}),
        submission(2, "bob", {}, 5),
        submission(30, "alice", {}, 1),
        e.JobsEdited(*WHY, 2, ((1, 1), (3, 3)), {"A": "1"}),
    )


ONES, TWOS = ["1.0", "1.1", "1.2"], ["2.0", "2.1", "2.2", "2.3", "2.4"]


@together(
    ("selection", "selected"),
    [
        (SelectedJobs(), [*ONES, *TWOS, "30.0"]),
        (SelectedJobs(((2, None),)), TWOS),
        (SelectedJobs(((2, 3),)), ["2.3"]),
        (SelectedJobs(((2, 4), (2, 0), (1, 1), (2, 4))), ["1.1", "2.0", "2.4"]),
        (SelectedJobs(((2, 3), (2, None))), TWOS),
        (SelectedJobs(((2, 5), (3, 0), (3, None), (0, -1))), []),
        (SelectedJobs(owners=("alice",)), [*ONES, "30.0"]),
        (SelectedJobs(owners=("alice", "bob")), [*ONES, *TWOS, "30.0"]),
        (SelectedJobs(owners=("nobody",)), []),
        (SelectedJobs(((2, 3), (1, 0)), ("alice",)), [*ONES, "2.3", "30.0"]),
        (Named((ClusterOrJob(30), ClusterOrJob(2, 1)), ("bob",)), [*TWOS, "30.0"]),
    ],
)
def test_jobs_are_selected_by_id_and_owner(selection: JobSelection, selected: list[str]) -> None:
    job_views = three_clusters()
    assert ids(list(job_views.columns(["ClusterId", "ProcId"], selection))) == selected
    assert [f"{ad.eval('ClusterId')}.{ad.eval('ProcId')}" for ad in job_views.ads(selection)] == selected


def test_thousands_of_ids_may_be_selected() -> None:
    job_views = views(submission(1, "alice", {}, 10_000))
    assert len(list(job_views.ads(SelectedJobs(tuple((1, proc) for proc in range(0, 10_000, 2)))))) == 5000


def test_a_job_that_is_not_in_the_queue_is_not_found() -> None:
    assert three_clusters().job(1, 3) is None


# -- counts


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_counts_are_those_of_the_ads(dialect: str) -> None:
    busy = views_of(busy_pool(dialect))
    ads = list(busy.ads())
    assert [BatchCluster(*row) for row in busy.batches()] == cluster_rows(ads)
    owners = sorted({ad.eval("Owner") for ad in ads})
    assert busy.totals() == {owner: count_statuses([ad for ad in ads if ad.eval("Owner") == owner]) for owner in owners}


def test_a_batch_without_a_name_has_none() -> None:
    job_views = views(submission(1, "alice", {"JobBatchName": '"night \\"shift\\""'}), submission(2, "bob", {}))
    assert [row.batch for row in job_views.batches()] == ['night "shift"', None]


# -- the history


def views_of_history() -> Views:
    def removed(*procs: tuple[int, int]) -> e.Event:
        return e.JobsTransitioned(*WHY, 1, procs, "remove", "Idle", "Removed", {}, left=True)

    return views(submission(1, "alice", {}, 9), removed((6, 6)), removed((0, 2), (4, 4)), removed((7, 8)))


NEWEST_FIRST = [8, 7, 4, 2, 1, 0, 6]


@together(
    ("selection", "limit", "forwards", "procs"),
    [
        (SelectedJobs(), None, False, NEWEST_FIRST),
        (SelectedJobs(), None, True, NEWEST_FIRST[::-1]),
        (SelectedJobs(), 3, False, [8, 7, 4]),
        (SelectedJobs(), 0, False, []),
        (SelectedJobs(((1, None),)), 2, True, [6, 0]),
        (SelectedJobs(((1, 1), (1, 7), (1, 3))), None, False, [7, 1]),
        (SelectedJobs(((1, 2), (1, 0))), None, True, [0, 2]),
        (SelectedJobs(((1, 2), (1, 0))), None, False, [2, 0]),
        (SelectedJobs(owners=("bob",)), None, False, []),
    ],
)
def test_the_history_is_read_in_the_order_of_the_ends(
    selection: SelectedJobs, limit: int | None, forwards: bool, procs: list[int]
) -> None:
    history = views_of_history().history_ads(selection, limit, forwards)
    assert [ad.eval("ProcId") for ad in history] == procs


def test_the_ads_of_the_history_show_how_jobs_ended() -> None:
    pool = Pool()
    pool.submit(1)
    pool.run(40)
    (ad,) = views_of(pool).history_ads()
    names = ("JobStatus", "ExitCode", "LastRemoteHost", "RemoteWallClockTime", "NumJobStarts", "CompletionDate")
    assert [ad.eval(name) for name in names] == [4, 0, "slot1_1@h", 30.0, 1, 1_800_000_030]
    assert "RemoteHost" not in ad


# -- the pool


def test_slot_ads_show_state_claim_job_and_carved_resources() -> None:
    pool = Pool(cpus=3)
    pool.submit(1, RequestCpus="2")
    pool.run(10)
    parent, child = views_of(pool).slot_ads(NOW)
    names = ("Name", "State", "Activity", "NumDynamicSlots", "ChildState", "ChildCpus", "RemoteUser", "JobId")
    assert [value_text(parent.eval(name)) for name in names] == [
        "slot1@h", "Unclaimed", "Idle", "1", '{ "Claimed" }', "{ 2 }", "undefined", "undefined",
    ]  # fmt: skip
    assert [value_text(child.eval(name)) for name in names] == [
        "slot1_1@h", "Claimed", "Busy", "undefined", "undefined", "undefined", "alice@example.org", "1.0",
    ]  # fmt: skip
    assert child.eval("EnteredCurrentActivity") == child.eval("EnteredCurrentState") == 1_800_000_000


def test_slot_ads_show_the_time_of_day() -> None:
    (ad,) = views_of(Pool()).slot_ads(NOW, ZoneInfo("Asia/Kolkata"))  # a Friday, 13:30
    names = ("MyCurrentTime", "ClockMin", "ClockDay", "LastBenchmark")
    assert [ad.eval(name) for name in names] == [1_800_000_000, 810, 5, 0]


def test_slot_ads_show_what_slots_publish_to_each_other() -> None:
    def statuses_after(*happens: e.Event) -> list[dict[str, object]]:
        log = [
            e.PoolFounded(*WHY, "pool", "htcondor-25", "h", "0.1", {}),
            e.MachineJoined(*WHY, "h", {}, {"STARTD_SLOT_ATTRS": "State, Color"}),
            e.MachineJoined(*WHY, "g", {}),
            e.SlotCreated(*WHY, "slot1@h", "h", "static", "", {}),
            e.SlotCreated(*WHY, "slot2@h", "h", "static", "", {"Color": '"red"'}),
            e.SlotCreated(*WHY, "slot1@g", "g", "static", "", {"Color": '"blue"'}),
            *happens,
        ]
        return [{name: ad.eval(name) for name in ad if name.startswith("slot")} for ad in views(*log).slot_ads(7)]

    values = {"slot1_State": "Owner", "slot2_State": "Owner", "slot2_Color": "red"}
    assert statuses_after() == [values, values, {}]
    values = {"slot1_Activity": "Idle", "slot2_Activity": "Idle"}
    assert statuses_after(e.MachineConfigured(*WHY, "h", {"STARTD_SLOT_ATTRS": "Activity"})) == [values, values, {}]
    assert statuses_after(e.MachineConfigured(*WHY, "h", {"STARTD_SLOT_ATTRS": ""})) == [{}, {}, {}]


EXPRESSIONS = ("Requirements", "Start")
SHOWN = (
    *EXPRESSIONS, "ClientMachine", "CurrentRank", "JobStart", "JobId", "PreemptingUser", "Draining", "DrainReason",
    "LastDrainStopTime", "Mips",
)  # fmt: skip


def test_slot_ads_show_drains_and_waiting_claims_and_hide_the_owners_policy() -> None:
    attributes = {"Start": "true", "Requirements": "Start && WithinResourceLimits", "PREEMPT": "KeyboardIdle < 60"}

    def policy_after(*happens: e.Event) -> list[str]:
        log = [
            e.PoolFounded(*WHY, "pool", "htcondor-25", "h", "0.1", {}),
            e.MachineJoined(*WHY, "h", {}),
            e.SlotCreated(*WHY, "slot1@h", "h", "static", "", attributes),
            *happens,
        ]
        (ad,) = views(*log).slot_ads(7)
        assert "PREEMPT" not in ad
        return [
            f"{name} = {unparse(ad[name]) if name in EXPRESSIONS else ad.eval(name)}" for name in SHOWN if name in ad
        ]

    claim_event = e.ClaimMade(*WHY, "slot1@h", "c1", "bob@h", 1000, 2.5, "ap.h", "7.0", {}, 60)
    waits = e.ClaimQueued(*WHY, "slot1@h", "c2", "eve@h", 3.0, "ap.h", "8.0", {})
    drain = e.DrainBegan(*WHY, "h", 1, "Graceful", "new disks", "", "JobPrio > 1")
    requirements = "Requirements = Start && WithinResourceLimits"
    held_lines = ["ClientMachine = ap.h", "CurrentRank = 2.5"]
    free = "CurrentRank = 0.0"
    assert policy_after() == [requirements, "Start = true", free]
    assert policy_after(claim_event) == [requirements, "Start = true", *held_lines]
    assert policy_after(claim_event, waits) == ["Requirements = false", *held_lines, "PreemptingUser = eve@h"]
    assert policy_after(claim_event, waits, e.ClaimWithdrawn(*WHY, "slot1@h", "c2")) == [
        requirements,
        "Start = true",
        *held_lines,
    ]
    assert policy_after(claim_event, e.ClaimActivated(*WHY, "slot1@h", "c1", "7.0", {}, 0))[-2:] == [
        "JobStart = 7",
        "JobId = 7.0",
    ]
    assert policy_after(drain) == [
        requirements,
        "Start = JobPrio > 1",
        free,
        "Draining = True",
        "DrainReason = new disks",
    ]
    cancelled = e.DrainTransitioned(*WHY, "h", 1, "cancel", "Graceful", "Open")
    assert policy_after(drain, cancelled) == [requirements, "Start = true", free, "LastDrainStopTime = 7"]
    assert policy_after(e.ShutdownBegan(*WHY, "h", "Fast")) == ["Requirements = false", free]
    runs = [
        e.BenchmarksRan(*WHY, "h", "slot1@h", mips, 1000, (published_mips, 1000))
        for mips, published_mips in ((100, 100), (200, 125))
    ]
    assert policy_after(*runs)[-1] == "Mips = 125"


def test_slots_and_machines_come_and_go_in_the_pools_order() -> None:
    def born(name: str) -> e.Event:
        return e.SlotCreated(*WHY, name, "h", "static", "", {"A": "1", "B": "1"})

    slot_views = views(
        e.MachineJoined(*WHY, "h", {"Arch": '"X86_64"'}),
        e.MachineJoined(*WHY, "gone", {}),
        *[born(name) for name in ("z", "a", "m")],
        e.SlotAdChanged(*WHY, "z", {"A": "2", "B": "", "C": "3"}),
        e.SlotDestroyed(*WHY, "a"),
        born("a"),
        e.MachineLeft(*WHY, "gone"),
    )
    assert [slot.name for slot in slot_views.slots()] == ["z", "m", "a"]
    first = Slot("z", "h", "static", "", SlotAd({"A": "2", "C": "3"}), "Owner/Idle", 7_000_000, 7_000_000, version=6)
    assert slot_views.slots()[0] == replace(first, drained_counted_until=7_000_000)
    assert slot_views.machines() == {"h": {"Arch": '"X86_64"'}}


# -- rejections


def test_rejections_are_reported_for_jobs_that_still_wait() -> None:
    pool = Pool()
    big = pool.submit(3, RequestCpus="64")
    other = pool.submit(2, "bob", RequestCpus="32")
    pool.run(10)
    assert [(row.job, row.jobs, row.refused_by_slot) for row in views_of(pool).rejections()] == [
        (f"{big}.0", 3, 1),
        (f"{other}.0", 2, 1),
    ]
    assert views_of(pool).rejections()[0].clauses == (('TARGET.Arch == "X86_64"', 1, 1),)
    pool.act("remove", s.Selection(clusters=(big,)))
    assert [row.job for row in views_of(pool).rejections()] == [f"{other}.0"]


def hold() -> e.Event:
    return e.JobsTransitioned(*WHY, 1, ((0, 0),), "hold", "Idle", "Held", {})


def cycle(*, matches: tuple[str, ...] = (), refusals: tuple[str, ...] = ()) -> e.Event:
    unmatched = tuple(e.Unmatched(job, 2, 5, (e.Clause("A", 3, 2),), 1, 1) for job in refusals)
    return e.CycleHeld(*WHY, tuple(e.Match(job, "slot1@h") for job in matches), unmatched)


@pytest.mark.parametrize(
    ("happens", "messages"),
    [
        ([cycle(refusals=("1.0",))], ["1.0"]),
        ([cycle(refusals=("1.0",)), cycle(refusals=("1.2", "1.0"))], ["1.0", "1.2"]),
        ([cycle(refusals=("1.0", "1.1")), cycle(matches=("1.0",))], ["1.1"]),
        ([cycle(refusals=("1.0", "1.1")), hold()], ["1.1"]),
        ([cycle(refusals=("7.0", "1.9"))], []),
    ],
)
def test_a_match_clears_the_rejection(happens: list[e.Event], messages: list[str]) -> None:
    refusals = views(submission(1, "alice", {}), *happens).rejections()
    assert [row.job for row in refusals] == messages
    assert all(row[1:8] == (7_000_000, 2, 5, (("A", 3, 2),), 1, 1, "") for row in refusals)


def test_other_reasons_for_a_rejection_are_reported() -> None:
    why = e.Unmatched("1.0", 2, 5, (), 1, 1, "alice@h", e.Denied(policy=2, own=1), "share", 12.5, 12.0, (), "physics")
    (row,) = views(submission(1, "alice", {}), e.CycleHeld(*WHY, (), (why,))).rejections()
    assert row[7:] == ("alice@h", {"policy": 2, "own": 1}, "share", 12.5, 12.0, "physics")


def test_the_last_four_cycles_have_their_statistics_the_last_one_first() -> None:
    cycles = [e.CycleHeld(*WHY, (), (), {"Matches": float(number)}) for number in range(5)]
    assert [row.statistics for row in views(*cycles).cycles()] == [{"Matches": number} for number in (4, 3, 2, 1)]


def test_a_cycle_of_a_release_without_statistics_has_none() -> None:
    assert views(cycle(refusals=("1.0",))).cycles() == []

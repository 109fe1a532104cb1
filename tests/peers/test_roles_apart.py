"""Roles with separate logs run jobs together, and lose nothing."""

from __future__ import annotations

from typing import Any

import pytest

from poolbook.domain import events as e
from poolbook.domain.peers.sent_forms import next_digest
from poolbook.domain.ports import stimuli as s

from .chaos import sizes_of_pages
from .simulated import SimulatedPool

AP, EP = "access-point/ap1", "execution-point/ep1"
LEASE = "60"


def of_kind(pool: SimulatedPool, name: str, *kinds: type[e.Event]) -> list[Any]:
    return [event for event in pool.nodes[name].events if isinstance(event, kinds)]


def outcomes(pool: SimulatedPool) -> list[tuple[str, str]]:
    """Return each end of a run at the first access point: the job, and how the run ended."""
    return [(f"{event.cluster}.{event.proc}", event.outcome) for event in of_kind(pool, AP, e.JobExited)]


def job_log(pool: SimulatedPool) -> list[str]:
    """Return what a user's job event log reports about runs, in order."""
    kinds = e.JobExecuting, e.JobDisconnected, e.JobReconnected, e.JobExited
    return [type(event).__name__ for event in of_kind(pool, AP, *kinds)]


def test_jobs_run_on_other_machines_and_reuse_their_claims() -> None:
    pool = SimulatedPool(execution_points=2)
    pool.submit(6, Args='"30"')
    pool.advance(120)
    assert sorted(outcomes(pool)) == [(f"1.{proc}", "exited") for proc in range(6)]
    assert len(of_kind(pool, AP, e.ClaimMade)) == 2
    assert {event.slot for event in of_kind(pool, AP, e.JobExited)} == {"slot1@ep1", "slot1@ep2"}


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
@pytest.mark.parametrize("kind", ["static", "partitionable"])
def test_jobs_run_on_slots_of_each_kind_in_each_dialect(dialect: str, kind: str) -> None:
    pool = SimulatedPool(execution_points=2, slots=2, dialect=dialect, kind=kind)
    pool.submit(6, Args='"30"')
    pool.advance(300)
    assert sorted(outcomes(pool)) == [(f"1.{proc}", "exited") for proc in range(6)]
    assert {event.machine for event in of_kind(pool, AP, e.SlotCreated)} == {"ep1", "ep2"}


def test_an_execution_point_reads_only_what_concerns_its_slots() -> None:
    pool = SimulatedPool(access_points=2, execution_points=2)
    pool.submit(1, Args='"30"', Secret='"known to one machine"')
    pool.advance(60)
    logs = [repr(pool.ep(number).events) for number in (1, 2)]
    assert sorted("known to one machine" in log for log in logs) == [False, True]
    assert "known to one machine" not in repr(pool.ap(2).events)


@pytest.mark.parametrize(
    ("duration", "before", "cut", "after"),
    [
        pytest.param(200, 60, 45, 120, id="the job still runs"),
        pytest.param(60, 30, 50, 15, id="the job ended while it was disconnected"),
    ],
)
def test_after_a_cut_shorter_than_the_lease_the_job_reconnects_and_ends_once(
    duration: int, before: int, cut: int, after: int
) -> None:
    pool = SimulatedPool()
    pool.submit(Args=f'"{duration}"', JobLeaseDuration=LEASE)
    pool.advance(before)
    pool.cut([AP], [EP])
    pool.advance(cut)
    pool.heal()
    pool.advance(after)
    assert job_log(pool) == ["JobExecuting", "JobDisconnected", "JobReconnected", "JobExited"]
    assert outcomes(pool) == [("1.0", "exited")]


def test_a_longer_cut_ends_the_claim_on_both_sides_and_the_job_runs_again() -> None:
    pool = SimulatedPool(execution_points=2)
    pool.submit(Args='"200"', JobLeaseDuration=LEASE)
    pool.advance(60)
    first = pool.place("ap1 1.0")
    pool.isolate(first)
    pool.advance(90)
    assert pool.place("ap1 1.0") != first
    assert not pool.nodes[first].state.remote_runs
    pool.heal()
    pool.advance(300)
    assert outcomes(pool) == [("1.0", "lost"), ("1.0", "exited")]


def test_a_cut_from_the_manager_alone_costs_no_running_job() -> None:
    pool = SimulatedPool()
    pool.submit(2, Args='"100"', JobLeaseDuration=LEASE)
    pool.advance(10)
    pool.isolate("manager")
    pool.advance(300)
    assert outcomes(pool) == [("1.0", "exited"), ("1.1", "exited")]


@pytest.mark.parametrize("name", [AP, EP, "manager"])
def test_a_restarted_role_goes_on(name: str) -> None:
    pool = SimulatedPool()
    pool.submit(Args='"100"', JobLeaseDuration=LEASE)
    pool.advance(30)
    pool.nodes[name].stop()
    pool.advance(40)
    pool.nodes[name].start()
    pool.advance(100)
    assert outcomes(pool) == [("1.0", "exited")]


def test_an_access_point_that_comes_back_after_its_lease_runs_its_jobs_again() -> None:
    pool = SimulatedPool()
    pool.submit(Args='"300"', JobLeaseDuration=LEASE)
    pool.advance(30)
    pool.ap().stop()
    pool.advance(200)
    assert not pool.place("ap1 1.0")
    pool.ap().start()
    pool.advance(400)
    assert outcomes(pool) == [("1.0", "lost"), ("1.0", "exited")]


def test_jobs_on_a_machine_without_power_run_elsewhere_after_their_lease() -> None:
    pool = SimulatedPool(execution_points=2)
    pool.submit(Args='"100"', JobLeaseDuration=LEASE)
    pool.advance(30)
    pool.nodes[pool.place("ap1 1.0")].lose_power()
    pool.advance(300)
    assert outcomes(pool) == [("1.0", "lost"), ("1.0", "exited")]


def test_a_machine_that_is_back_within_the_lease_has_lost_its_jobs() -> None:
    pool = SimulatedPool()
    pool.submit(Args='"100"', JobLeaseDuration=LEASE)
    pool.advance(30)
    pool.ep().lose_power()
    pool.advance(50)
    assert job_log(pool) == ["JobExecuting", "JobDisconnected"]
    pool.ep().start()
    pool.advance(15)
    assert job_log(pool)[2:] == ["JobExited", "JobExecuting"]
    assert outcomes(pool) == [("1.0", "lost")]


def test_a_job_that_was_matched_to_a_dead_machine_is_matched_again() -> None:
    pool = SimulatedPool(execution_points=2)
    pool.advance(5)
    for number in (1, 2):
        pool.ep(number).lose_power()
    pool.submit(Args='"10"')
    pool.advance(10)
    pool.ep(2).start()
    pool.advance(300)
    assert outcomes(pool) == [("1.0", "exited")]


def test_an_execution_point_enforces_its_owners_policy_while_it_is_cut_off() -> None:
    pool = SimulatedPool(machine={"PREEMPT": "TARGET.JobPrio < 0 && CurrentTime > EnteredCurrentState + 20"})
    pool.submit(Args='"200"', JobPrio="-1", JobLeaseDuration=LEASE)
    pool.advance(5)
    pool.isolate(EP)
    pool.advance(30)
    assert not pool.place("ap1 1.0")
    assert "JobExited" not in job_log(pool)
    pool.heal()
    pool.advance(20)
    assert outcomes(pool)[0] == ("1.0", "evicted")


def test_a_clock_that_is_set_forward_ends_no_lease() -> None:
    pool = SimulatedPool()
    pool.submit(Args='"200"', JobLeaseDuration=LEASE)
    pool.advance(60)
    pool.cut([AP], [EP])
    pool.advance(45)  # half of the lease is over, and this is in the log
    pool.ep().set_clock(3600)
    pool.advance(5)
    pool.heal()
    pool.advance(200)
    assert outcomes(pool) == [("1.0", "exited")]


@pytest.mark.parametrize("name", [AP, EP, "manager"])
@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_clock_that_is_set_costs_nothing(name: str, seconds: int) -> None:
    pool = SimulatedPool()
    pool.submit(2, Args='"100"', JobLeaseDuration=LEASE)
    pool.advance(30)
    pool.nodes[name].set_clock(seconds)
    pool.advance(250)
    assert outcomes(pool) == [("1.0", "exited"), ("1.1", "exited")]


def test_jobs_on_a_machine_that_was_set_up_again_run_when_the_lease_of_its_old_log_is_over() -> None:
    pool = SimulatedPool(execution_points=2)
    pool.submit(2, Args='"300"', JobLeaseDuration=LEASE)
    pool.advance(60)
    pool.set_up_again(EP)  # its job still runs
    pool.advance(60)
    assert outcomes(pool) == []
    pool.advance(600)
    assert [outcome for _, outcome in outcomes(pool)] == ["lost", "exited", "exited"]


def test_a_new_log_of_an_execution_point_starts_no_job_of_the_past() -> None:
    pool = SimulatedPool()
    pool.submit(3, Args='"10"', JobLeaseDuration=LEASE)
    pool.advance(120)
    pool.ep().lose_power()
    pool.set_up_again(EP)
    pool.submit(1, Args='"10"', JobLeaseDuration=LEASE)
    pool.advance(300)
    assert [event.job for event in of_kind(pool, EP, e.ClaimActivated)] == ["2.0"]


@pytest.mark.parametrize("name", ["manager", EP])
def test_new_logs_are_read_in_several_pages(name: str) -> None:
    pool = SimulatedPool(slots=3)
    with sizes_of_pages(700, 1_000):
        pool.submit(5, Args='"100"', JobLeaseDuration=LEASE)
        pool.advance(30)
        pool.set_up_again(name)
        pool.advance(400)
    assert sum(outcome == "exited" for _, outcome in outcomes(pool)) == 5


@pytest.mark.parametrize("name", [AP, EP])
def test_no_one_answers_a_log_that_was_restored_from_an_old_backup(name: str) -> None:
    """An access point could start its jobs again, and an execution point the jobs of the past."""
    pool = SimulatedPool(execution_points=2)
    pool.submit(2, Args='"1000"', JobLeaseDuration=LEASE)
    pool.advance(1)
    backup = len(pool.nodes[name].events)
    pool.act("hold", "1")
    pool.act("release", "1")
    pool.advance(60)
    pool.nodes[name].lose_power()
    pool.nodes[name].forget_after(backup)
    pool.advance(600)
    running = [job for job in pool.running if pool.place(job)]
    assert len(running) == (0 if name == AP else 1)
    assert any("is truncated" in event.reason for event in of_kind(pool, "manager", e.PeerRejected))


def test_a_job_that_was_not_started_before_a_crash_is_not_started_after_its_lease() -> None:
    pool = SimulatedPool(execution_points=2)
    pool.submit(2, Args='"10"', JobLeaseDuration=LEASE)
    pool.advance(60)
    pool.submit(1, Args='"100"', JobLeaseDuration=LEASE)
    pool.advance(0.01)
    for node in (pool.ep(1), pool.ep(2)):
        node.disk.fault = "after"
    pool.advance(200)
    for node in (pool.ep(1), pool.ep(2)):
        node.start()
    pool.advance(300)
    assert outcomes(pool)[-1] == ("2.0", "exited")
    assert not [event for event in of_kind(pool, AP, e.JobExited) if event.outcome == "held"]


@pytest.mark.parametrize("seconds", [40, 200])
def test_a_restarted_execution_point_renews_only_the_leases_of_access_points_that_it_reaches(seconds: int) -> None:
    pool = SimulatedPool(access_points=2, slots=2)
    for ap in (1, 2):
        pool.submit(ap=ap, Args='"100"', JobLeaseDuration=LEASE)
    pool.advance(60)
    pool.cut(["access-point/ap2"], [EP])
    pool.ep().stop()
    pool.ep().start()
    pool.advance(30)
    assert pool.place("ap2 1.0")
    pool.advance(seconds)
    pool.heal()
    pool.advance(400)
    ends = [event.outcome for event in of_kind(pool, "access-point/ap2", e.JobExited)]
    assert ends == (["exited"] if seconds == 40 else ["lost", "exited"])


def test_the_matches_of_an_access_points_old_log_end() -> None:
    pool = SimulatedPool(kind="partitionable")
    pool.submit(Args='"100"')
    while not pool.manager.state.assigned_slots:
        pool.advance(0.0005)
    pool.set_up_again(AP)
    pool.submit(Args='"10"')
    pool.advance(60)
    assert outcomes(pool) == [("1.0", "exited")]


def test_a_truncated_log_is_named() -> None:
    pool = SimulatedPool()
    pool.submit(Args='"10"')
    pool.advance(60)
    pool.ap().forget_after(position=5)
    pool.submit(Args='"20"')
    pool.advance(60)
    (reason,) = {event.reason for event in of_kind(pool, "manager", e.PeerRejected)}
    assert reason == "its outbox ends at entry 2, but entry 4 was read before: it is truncated"


def test_a_forked_log_is_named() -> None:
    pool = SimulatedPool()
    pool.submit(Args='"10"')
    pool.advance(60)
    pool.ap().forget_after(position=5)
    pool.submit(4, Args='"20"')
    for _ in range(4):
        pool.act("hold", "1.0")
        pool.act("release", "1.0")
    pool.advance(60)
    (reason,) = {event.reason for event in of_kind(pool, "manager", e.PeerRejected)}
    assert reason == "entry 4 of its outbox differs from the entry that was read before: its log is forked"


FOREIGN = [
    (EP, e.SlotDestroyed(0, "merged", "x", "slot1@ep2"), "execution-point/ep2, which is another execution point"),
    (EP, e.PrioritiesUpdated(0, "accounted", "x", {"alice@example.org": 0.5}), "PrioritiesUpdated"),
    (AP, e.JobsTransitioned(0, "user_hold", "x", 2_000_000_001, ((0, 0),), "hold", "Idle", "Held", {}), "2000000001"),
]


@pytest.mark.parametrize(("peer", "event", "reason"), FOREIGN)
def test_the_manager_rejects_events_about_what_is_not_the_peers_own(peer: str, event: e.Event, reason: str) -> None:
    pool = SimulatedPool(access_points=2, execution_points=2)
    for number in (1, 2):
        pool.submit(ap=number, Args='"1000"')
    pool.advance(5)
    known = pool.manager.state.peers.followed[peer]
    version, positions = known.version + 1, (99,)
    digest = next_digest(known.digest, version, positions, (event,))
    entry = s.OutboxEntry(version, digest, positions, (event,))
    base = known.version, known.digest
    pool.manager.ask(s.Follow(pool.id(), peer, known.log, known.epoch, base, version, (entry,)))
    (rejection,) = of_kind(pool, "manager", e.PeerRejected)
    assert reason in rejection.reason


def test_an_execution_point_that_cannot_write_its_log_does_not_renew_leases() -> None:
    """What it has read may end its claims."""
    pool = SimulatedPool()
    pool.submit(Args='"1000"', JobLeaseDuration=LEASE)
    pool.advance(30)
    pool.ep().disk.fault = "full"
    pool.act("hold", "1.0")
    pool.advance(150)
    assert not pool.place("ap1 1.0")


def test_a_peer_cannot_answer_for_another() -> None:
    pool = SimulatedPool(execution_points=2)
    pool.submit(2, Args='"1000"')
    pool.advance(5)
    (claim,) = [each.claim for each in of_kind(pool, AP, e.ClaimMade) if each.slot == "slot1@ep2"]
    event = e.ClaimRejected(0, "claim_failed", "x", "slot1@ep2", claim, AP, "")
    known = pool.ap().state.peers.followed[EP]
    version, positions = known.version + 1, (99,)
    digest = next_digest(known.digest, version, positions, (event,))
    entry = s.OutboxEntry(version, digest, positions, (event,))
    base = known.version, known.digest
    pool.ap().ask(s.Follow(pool.id(), EP, known.log, known.epoch, base, version, (entry,)))
    assert len(of_kind(pool, AP, e.PeerRejected)) == 1
    assert "slot1@ep2" in pool.ap().state.claims


def test_a_match_from_before_a_slot_was_claimed_does_not_preempt() -> None:
    pool = SimulatedPool(access_points=2)
    pool.submit(Args='"30"')
    pool.advance(5)
    claim, ad = "slot1@ep1#ap2#1#1", of_kind(pool, EP, e.ClaimMade)[0].ad
    event = e.ClaimRequested(0, "claimed", "x", "slot1@ep1", claim, "bob@example.org", "1.0", ad)
    digest = next_digest("", 1, (99,), (event,))
    entry = s.OutboxEntry(1, digest, (99,), (event,))
    log = pool.ap(2).log.id
    pool.ep().ask(s.Follow(pool.id(), "access-point/ap2", log, 99, (0, ""), 1, (entry,)))
    (rejection,) = of_kind(pool, EP, e.ClaimRejected)
    assert (rejection.claim, rejection.reason) == (claim, "slot slot1@ep1 has been claimed since it was matched")
    pool.advance(100)
    assert outcomes(pool) == [("1.0", "exited")]


def test_a_slot_decides_on_start_when_it_is_claimed() -> None:
    pool = SimulatedPool(machine={"Start": "CurrentTime < 1800000020"})
    pool.advance(10)
    pool.cut([EP], ["manager"], one_way=True)
    pool.advance(20)
    pool.submit(Args='"30"')
    pool.advance(20)
    assert of_kind(pool, EP, e.ClaimMade, e.ClaimActivated) == []


@pytest.mark.parametrize(
    ("name", "command", "advice"),
    [
        (
            "manager",
            s.Submit("x", "alice", 0, {}, 1, ()),
            "of the role manager has no jobs: use the log of an access point",
        ),
        (EP, s.Remove("x", "alice", s.Selection(everything=True)), "has no jobs: use the log of an access point"),
        (AP, s.ResetUsage("x", "root"), "of the role access-point has no priorities: use the log of the manager"),
        (AP, s.Drain("x", "root", "ep1"), "there is no machine ep1"),
    ],
)
def test_a_command_for_another_role_is_refused(name: str, command: s.Command, advice: str) -> None:
    pool = SimulatedPool()
    with pytest.raises(AssertionError, match=advice):
        pool.nodes[name].ask(command)


def test_a_manager_refuses_to_command_a_machine_that_does_not_answer() -> None:
    pool = SimulatedPool()
    pool.advance(5)
    pool.ep().stop()
    pool.advance(1000)
    with pytest.raises(AssertionError, match="the execution point ep1 does not answer"):
        pool.manager.ask(s.Drain("x", "root", "ep1"))


@pytest.mark.parametrize("command", ["Drain", "EndDrain"])
def test_a_command_of_the_manager_that_is_unknown_or_malformed_is_rejected(command: str) -> None:
    pool = SimulatedPool()
    pool.advance(5)
    event = e.PeerCommanded(0, "sent", "x", EP, command, "{}")
    digest = next_digest("", 1, (99,), (event,))
    entry = s.OutboxEntry(1, digest, (99,), (event,))
    pool.ep().ask(s.Follow(pool.id(), "manager", pool.manager.log.id, 99, (0, ""), 1, (entry,)))
    (rejection,) = of_kind(pool, EP, e.PeerRejected)
    assert command in rejection.reason


def test_a_deferred_job_starts_at_its_time_although_its_access_point_is_cut_off() -> None:
    pool = SimulatedPool()
    pool.submit(DeferralTime="1800000060", Args='"100"')
    pool.advance(10)
    pool.isolate(AP)
    pool.advance(60)
    assert pool.place("ap1 1.0") == EP
    pool.heal()
    pool.advance(200)
    assert job_log(pool) == ["JobExecuting", "JobExited"]


@pytest.mark.parametrize(
    ("pause", "window", "outcome"), [(30, "0", "exited"), (80, "0", "evicted"), (80, "100", "exited")]
)
def test_a_deferred_job_is_held_if_its_execution_point_was_down_until_its_window_closed(
    pause: int, window: str, outcome: str
) -> None:
    pool = SimulatedPool()
    pool.submit(DeferralTime="1800000060", DeferralWindow=window, Args='"10"')
    pool.advance(10)
    pool.ep().stop()
    pool.advance(pause)
    pool.ep().start()
    pool.advance(100)
    assert outcomes(pool) == [("1.0", outcome)]


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_job_whose_last_run_has_not_ended_is_not_matched_again_and_again(dialect: str) -> None:
    """Its execution point is gone, and the access point waits until the lease is over. The manager sees an idle job."""
    pool = SimulatedPool(execution_points=2, dialect=dialect)
    pool.submit(Args='"600"', JobLeaseDuration="300")
    pool.advance(60)
    pool.isolate(pool.place("ap1 1.0"))
    pool.act("hold", "1.0")
    pool.advance(1)
    pool.act("release", "1.0")
    pool.advance(240)
    assert 2 <= len(of_kind(pool, AP, e.MatchVoided)) <= 5
    pool.advance(360)
    assert outcomes(pool) == [("1.0", "lost")]
    assert pool.place("ap1 1.0") == "execution-point/ep2"

"""Golden: a pool whose roles are on several machines does what HTCondor's daemons did when the same happened to them.

recorded.py lists what has to be equal. Some actions differ: Poolbook has neither shadows nor a starter for each job, so
the shadow and the starter that were killed in 04 and 05 have no counterpart, and their jobs are compared with those
next to them. When HTCondor's startd was killed, its starters ended, so all processes of the execution point are killed.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .machines import Machine, Network, missing_requirements
from .recorded import JobEvent, load
from .recorded_pool import SCALE, RecordedPool
from .roles import LOG, POOL_A, POOLBOOK, URL, RolePool, wait_until

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements()),
]

COMPARED = (0, 1, 4, 5, 21, 22, 23, 24)  #: the numbers of the events that are compared
LOST, TERMINATED = (22, 24, 4), (5,)  #: the events after which a run is over
Entry = tuple[int, str, str]  #: an event's number, machine and detail
Step = tuple[str, str]  #: a transition's source and target


@contextmanager
def replayed(folder: Path, scenario: str) -> Iterator[RecordedPool]:
    with Network(folder) as network:
        pool = RecordedPool(network, load(scenario))
        pool.replay()
        yield pool


def test_forty_jobs_of_two_access_points_run_on_four_execution_points(tmp_path: Path) -> None:
    with replayed(tmp_path, "01-plain") as pool:
        for name in ("ap1", "ap2"):
            jobs, recorded = job_entries(pool, name, placed=False), recorded_entries(pool, name, placed=False)
            assert jobs == recorded
        steps = [step for slots in slot_steps(pool).values() for slot in slots for step in slot]
        recorded_steps = [step for slots in recorded_slot_steps(pool).values() for slot in slots for step in slot]
        assert set(steps) == set(recorded_steps)
        assert steps.count(("Claimed/Idle", "Claimed/Busy")) == 40


def test_a_short_cut_ends_no_job_whose_lease_continues_and_a_cut_from_the_manager_none(tmp_path: Path) -> None:
    with replayed(tmp_path, "02-cut-short") as pool:
        jobs, recorded = job_entries(pool, "ap1"), recorded_entries(pool, "ap1")
        assert jobs["2.0"] == recorded["2.0"], "the cuts do not concern ep2"
        steps, recorded_steps = slot_steps(pool), recorded_slot_steps(pool)
        assert steps["ep2"] == recorded_steps["ep2"]
        for job in ("1.0", "1.1"):
            assert jobs[job][:2] == recorded[job][:2]
            numbers = tuple(number for number, _, _ in jobs[job][2:])
            # The cut of 20 s and the one from the manager alone must not be noticed.
            assert numbers in ((*LOST, 1), (22, 23, 5), (5,))
        assert_no_two_runs_of_a_job_at_once(pool)


def test_a_job_with_a_long_lease_reconnects_and_ends(tmp_path: Path) -> None:
    with replayed(tmp_path, "02b-cut-short-lease-150") as pool:
        for entries in job_entries(pool, "ap1").values():
            numbers = [number for number, _, _ in entries]
            assert numbers in ([0, 1, *cuts, 5] for cuts in ([], [22, 23], [22, 23, 22, 23]))
        for steps in slot_steps(pool)["ep1"]:
            assert steps.count(("Claimed/Idle", "Claimed/Busy")) == 1


def test_a_long_cut_ends_the_jobs_and_runs_them_elsewhere(tmp_path: Path) -> None:
    with replayed(tmp_path, "03-cut-long") as pool:
        assert job_entries(pool, "ap1") == recorded_entries(pool, "ap1")
        assert slot_steps(pool) == recorded_slot_steps(pool)
        assert_no_two_runs_of_a_job_at_once(pool)
        cut = pool.times["network cut (link set down)"]
        longest = 40 * SCALE * 4 / 3 + 2  # the last renewal may be a third of the lease old, and a kill takes time
        ends = [step.time for step in pool.transitions("ep1") if step.source == "Claimed/Busy"]
        assert len(ends) == 2 and all(cut < end < cut + longest for end in ends)


def test_jobs_continue_while_their_schedd_restarts(tmp_path: Path) -> None:
    with replayed(tmp_path, "04-schedd-killed") as pool:
        undisturbed = recorded_entries(pool, "ap1", placed=False)["1.1"]
        assert set(job_entries(pool, "ap1", placed=False).values()) == {undisturbed}
        steps = recorded_slot_steps(pool)["ep1"]
        assert slot_steps(pool) == {"ep1": steps, "ep2": steps}


def test_jobs_of_killed_execution_points_run_again(tmp_path: Path) -> None:
    with replayed(tmp_path, "05-startd-killed") as pool:
        runs = [list(split_runs(entries)) for entries in job_entries(pool, "ap1").values()]
        first_runs = Counter(job_runs[0] for job_runs in runs)
        assert first_runs == {("ep1", LOST): 2, ("ep2", TERMINATED): 2, ("ep3", LOST): 2}
        assert {job_runs[-1][1] for job_runs in runs} == {TERMINATED}
        assert {end for job_runs in runs for _, end in job_runs} == {LOST, TERMINATED}


def test_jobs_that_find_no_slot_flock_to_the_other_pool(tmp_path: Path) -> None:
    with replayed(tmp_path, "08-flocking") as pool:
        assert ended_entries(pool) == ended_recorded_entries(pool)
        places, recorded = Counter(starts(pool).places()), Counter(recorded_starts(pool).places())
        # When alice has no jobs left, bob's last two run in the pool whose slots are free first. HTCondor matched those
        # of ep1 only after 5 s, so one of the jobs ran at epb.
        assert places.pop(("bob", "epb")) >= 2 and recorded.pop(("bob", "epb")) == 3
        assert places.pop(("bob", "ep1"), 0) <= 2 and recorded.pop(("bob", "ep1")) == 1
        assert places == recorded, starts(pool)
        assert priority_factors(pool, "cmb") == dict.fromkeys(("alice", "bob", "carol"), 1000)
        pool.stop_and_check_logs()


def test_users_of_the_other_pool_have_the_remote_factor_and_keep_their_claims(tmp_path: Path) -> None:
    with replayed(tmp_path, "08b-flocking-local-domain") as pool:
        pool.wait_for_empty_queue(pool.network.machines["apb"])
        assert ended_entries(pool) == ended_recorded_entries(pool)
        for each in (starts(pool), recorded_starts(pool)):
            places = Counter(each.places())
            assert places.pop(("carol", "epb")) == 6
            assert places == {("alice", "ep1"): 4, ("alice", "epb"): 4}
            assert max(each.times_of("alice")) <= min(each.times_of("carol"))
        assert priority_factors(pool, "cmb") == {"alice": 5000, "carol": 1000}
        pool.stop_and_check_logs()


def test_a_user_of_two_access_points_has_one_share(tmp_path: Path) -> None:
    with replayed(tmp_path, "09-two-aps") as pool:
        assert ended_entries(pool) == ended_recorded_entries(pool)
        for each in (starts(pool), recorded_starts(pool)):
            users = each.users()
            begin = users.index("carol")
            before = Counter(users[:begin])
            assert abs(before["alice"] - before["bob"]) <= 2
            assert Counter(users[begin : begin + 4])["carol"] >= 2, "her real priority is the best"
            assert Counter(users[begin : begin + 8])["carol"] == 4
        pool.stop_and_check_logs()


def test_tokens_that_are_expired_limited_or_foreign_admit_no_machine(tmp_path: Path) -> None:
    recorded = recorded_admissions("14-idtokens")
    assert recorded == dict.fromkeys(("expired", "read-only", "wrong-key"), False)
    with Network(tmp_path) as network:
        pool = RolePool(network, {"UPDATE_INTERVAL": 5})
        for name in ("cm1", "ap1", "ep1", "cm2"):
            pool.start(pool.add_machine(name))
        pool.wait_until_serving(network.machines["cm2"])
        foreign = ("token", "create", "-identity", "condor@poola.example")
        tokens = {
            "expired": pool.create_token("-lifetime", "1"),
            "read-only": pool.create_token("-authz", "READ"),
            "wrong-key": pool.run(network.machines["cm2"], *foreign).strip(),
        }
        wait_until(lambda: len(pool.slots()) == 2, pool.texts)
        time.sleep(2)  # the first token expires
        ep2 = pool.add_machine("ep2")
        reasons = {}
        for name, token in tokens.items():
            result = ep2.run([POOLBOOK, "join", URL, token, "-role", "execution-point", "-log", LOG], check=False)
            assert (result.returncode == 0) == recorded[name], name
            reasons[name] = " ".join(result.stderr.split())
        assert "expired" in reasons["expired"]
        assert "ADVERTISE_STARTD" in reasons["read-only"]
        assert "does not know your token" in reasons["wrong-key"]
        assert len(pool.slots()) == 2
        request_token(pool, network.machines["cm1"])
        pool.start(ep2)
        wait_until(lambda: len(pool.slots()) == 4, pool.texts)


def request_token(pool: RolePool, manager: Machine) -> None:
    """Request a token as in 14b: the first answer rejects the request, the second one approves it. Use the token from
    now on."""
    recorded = [
        (text, output)
        for _, _, text, output in load("14b-token-request")["commands"]
        if "| condor_token_request_approve -reqid" in text
    ]
    tools = ["env", f"POOLBOOK_LOG={LOG}", str(POOLBOOK)]
    requester = manager.start([*tools, "condor_token_request", "-authz", "ADVERTISE_STARTD"], "request")
    pending = [*tools, "condor_token_request_list"]
    wait_until(lambda: "RequestId" in manager.run(pending).stdout, pool.texts)
    for answer, (text, output) in zip(("no", "yes"), recorded, strict=False):
        assert text.startswith(f"echo {answer} ")
        result = manager.run([*tools, "condor_token_request_approve"], stdin=f"{answer}\n", check=False)
        last = (result.stdout + result.stderr).splitlines()[-1]
        assert re.sub(r"\d+", "ID", last) == re.sub(r"\d+", "ID", output[-1])
    assert requester.wait() == 0
    pool.tokens[POOL_A] = requester.text().splitlines()[-1]


def recorded_admissions(scenario: str) -> dict[str, bool]:
    """Return whether a machine whose only token was of each kind could send its ads to the collector."""
    kind, admissions = "", {}
    recording = load(scenario)
    lines: list[tuple[float, str, list[str]]] = [(at, text, []) for at, _, text in recording["actions"]]
    lines += [(at, text, output) for at, _, text, output in recording["commands"]]
    for _, text, output in sorted(lines, key=lambda line: line[0]):
        if match := re.search(r"now with only a token that is (\S+)", text):
            kind = match[1]
        elif kind and "condor_ping -debug -verbose -type collector ADVERTISE_STARTD" in text and output:
            admissions[kind] = "ADVERTISE_STARTD failed!" not in output
    return admissions


class Start(NamedTuple):
    """The start of a job, in seconds since any moment."""

    time: float
    user: str
    machine: str


class Starts(list[Start]):
    """The starts of the jobs of all access points, in order."""

    def places(self) -> list[tuple[str, str]]:
        return [(start.user, start.machine) for start in self]

    def users(self) -> list[str]:
        return [start.user for start in self]

    def times_of(self, user: str) -> list[float]:
        return [start.time for start in self if start.user == user]


def starts(pool: RecordedPool) -> Starts:
    names = pool.recording["jobs"]
    events = ((name, event) for name in names for event in pool.job_events(name) if event.number == 1)
    return Starts(sorted(Start(e.time, user_of(pool, name, e.job), machine_of(e.slot)) for name, e in events))


def recorded_starts(pool: RecordedPool) -> Starts:
    return Starts(
        sorted(
            Start(time, user_of(pool, name, job), machine_of(slot))
            for name, jobs in pool.recording["jobs"].items()
            for job, rows in jobs.items()
            for time, number, slot, _ in rows
            if number == 1
        )
    )


def user_of(pool: RecordedPool, name: str, job: str) -> str:
    """Return the user of a job. The clusters of an access point have the numbers of its submissions."""
    users: list[str] = [user for _, access_point, user, *_ in pool.recording["submit"] if access_point == name]
    return users[int(job.partition(".")[0]) - 1]


def priority_factors(pool: RecordedPool, manager: str) -> dict[str, float]:
    report = pool.run(pool.network.machines[manager], "userprio", "-allusers")
    return {user: float(factor) for user, factor in re.findall(r"(?m)^(\w+)@\S+ +[\d.]+ +([\d.]+)", report)}


def ended_recorded_entries(pool: RecordedPool) -> dict[tuple[str, str], tuple[Entry, ...]]:
    """Return the compared events of all recorded jobs that ended, by access point and job."""
    return {
        (name, job): entries
        for name in pool.recording["jobs"]
        for job, entries in recorded_entries(pool, name, placed=False).items()
        if entries[-1][0] == 5
    }


def ended_entries(pool: RecordedPool) -> dict[tuple[str, str], tuple[Entry, ...]]:
    """Return the events of the same jobs."""
    return {(name, job): job_entries(pool, name, placed=False)[job] for name, job in ended_recorded_entries(pool)}


def job_entries(pool: RecordedPool, name: str, *, placed: bool = True) -> dict[str, tuple[Entry, ...]]:
    """Return the compared events of each job of an access point; with `placed`, with the machines that ran it."""
    events = defaultdict[str, list[JobEvent]](list)
    for event in pool.job_events(name):
        events[event.job].append(event)
    return {job: entries_of([tuple(event)[2:] for event in rows], placed) for job, rows in sorted(events.items())}


def recorded_entries(pool: RecordedPool, name: str, *, placed: bool = True) -> dict[str, tuple[Entry, ...]]:
    jobs: Mapping[str, list[list[Any]]] = pool.recording["jobs"][name]
    return {job: entries_of([row[1:] for row in rows], placed) for job, rows in sorted(jobs.items())}


def entries_of(rows: Sequence[Sequence[Any]], placed: bool) -> tuple[Entry, ...]:
    return tuple(
        (number, machine_of(slot) if placed and number == 1 else "", comparable(detail))
        for number, slot, detail in rows
        if number in COMPARED
    )


def comparable(detail: str) -> str:
    """Return an event's detail without the length of the lease, which is scaled."""
    return re.sub(r"\(\d+ seconds\)", "(N seconds)", detail)


def machine_of(slot: str) -> str:
    return slot.partition("@")[2].partition(".")[0]


def split_runs(entries: Sequence[Entry]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the machine of each run, and the numbers of the events after its start."""
    starts = [index for index, (number, _, _) in enumerate(entries) if number == 1]
    for begin, end in zip(starts, [*starts[1:], len(entries)], strict=True):
        yield entries[begin][1], tuple(number for number, _, _ in entries[begin + 1 : end])


def slot_steps(pool: RecordedPool) -> dict[str, list[list[Step]]]:
    """Return the steps of each slot in order, by machine. A machine's slots are equal, so they are sorted."""
    machines = sorted(name for name in pool.network.machines if name.startswith("ep"))
    return {name: in_order(pool.transitions(name)) for name in machines}


def recorded_slot_steps(pool: RecordedPool) -> dict[str, list[list[Step]]]:
    machines = defaultdict[str, list[list[Step]]](list)
    for slot, rows in pool.recording["slots"].items():
        if "@" in slot:
            machines[machine_of(slot)].append([(source, target) for _, source, target in rows])
    return {name: sorted(slots) for name, slots in sorted(machines.items())}


def in_order(transitions: Sequence[Any]) -> list[list[Step]]:
    slots = defaultdict[str, list[Step]](list)
    for slot, _, source, target in transitions:
        slots[slot].append((source, target))
    return sorted(slots.values())


def assert_no_two_runs_of_a_job_at_once(pool: RecordedPool) -> None:
    """Check that each run began after the execution point had ended the job's run before (to the second: job event
    logs have no fractions)."""
    ends = defaultdict[str, list[float]](list)
    for name in pool.network.machines:
        if name.startswith("ep"):
            for step in pool.transitions(name):
                if step.source == "Claimed/Busy":
                    ends[step.slot].append(step.time)
    runs = defaultdict[str, list[JobEvent]](list)
    for event in pool.job_events("ap1"):
        if event.number == 1:
            runs[event.job].append(event)
    for job, starts in runs.items():
        for before, after in pairwise(starts):
            end = min(time for time in ends[before.slot] if time > before.time)
            assert int(end) <= after.time, f"{job} started on {after.slot} before it ended on {before.slot}"

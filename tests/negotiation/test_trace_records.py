"""How a golden trace is extracted from the negotiator's records, in cases that are not obvious."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from poolbook.domain import events as e

from ..conformance.account_walk import AccountWalk
from ..conformance.accountant import AccountantReplay, UnknownAccount
from ..conformance.recording import (
    CountedClaim,
    JobMove,
    KnownAccount,
    NegotiatorRecording,
    RecordedAccounting,
    RecordedCycle,
    RecordedMatch,
    UserprioSample,
)
from ..conformance.trace_files import TraceFiles
from ..conformance.trace_negotiator import AccountReader, CycleReader
from ..conformance.trace_queue import commands, in_turn
from ..conformance.visibility import Visibility, VisibleEvents
from ..together import together

SECOND = 1_000_000
NOON = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()) * SECOND
ALICE, BOB = "alice@node7", "bob@node7"

# The negotiator's log

BEGIN = ["---------- Started Negotiation Cycle ----------", "Phase 2:  Performing accounting ..."]
END = ["---------- Finished Negotiation Cycle ----------"]
NEGOTIATE = "  Negotiating with alice@node7 at <10.0.0.7:9618>"
REQUEST = "    Request 00007.00001: autocluster 2 (request count 1 of 3)"
PREFETCH = "Starting prefetch negotiation for alice@node7."


def read(*lines: str, second: int = 0) -> CycleReader:
    return CycleReader("".join(f"11/20/26 12:00:{second:02} {line}\n" for line in lines).encode())


@together(
    ("lines", "answers"),
    [
        ([NEGOTIATE, REQUEST], (ALICE,)),
        # it has jobs, but no share, or no slots remain for any request
        ([PREFETCH, "Prefetch summary: 1 attempted, 1 successful."], (ALICE,)),
        ([NEGOTIATE, "  Negotiation with alice@node7 skipped as pieLeft < minSlotWeight"], (ALICE,)),
        ([NEGOTIATE, "    Reached submitter resource limit: 0.000000 ... stopping"], (ALICE,)),
        # a later spin takes nothing back
        ([NEGOTIATE, REQUEST, PREFETCH, NEGOTIATE], (ALICE,)),
        # its schedd offered nothing, did not answer, or its ad says that nothing waits
        ([PREFETCH, NEGOTIATE], ()),
        ([PREFETCH, "Prefetch summary: 1 attempted, 0 successful."], ()),
        ([PREFETCH, "  Negotiating with alice@node7 skipped because no idle jobs"], ()),
        ([PREFETCH, " negotiateWithGroup resources used submitterAds length 0 "], ()),
        ([NEGOTIATE, REQUEST, " negotiateWithGroup resources used submitterAds length 0 "], (ALICE,)),
    ],
)
def test_submitters_that_offered_jobs_were_asked(lines: list[str], answers: tuple[str, ...]) -> None:
    (cycle,) = read(*BEGIN, *lines, *END).cycles
    assert cycle.asked == answers


def test_a_match_has_the_requested_job_and_the_preempted_user() -> None:
    preempting = (
        "      Preempting bob@node7 (user prio=9.00, startd rank=0.00) on slot2@node7 for alice@node7 (user prio=1.00)"
    )
    first, second = (
        ["      Successfully matched with slot1@node7"],
        [preempting, "      Successfully matched with slot2@node7"],
    )
    (cycle,) = read(*BEGIN, NEGOTIATE, REQUEST, *first, REQUEST, *second, *END).cycles
    assert cycle.matches == (
        RecordedMatch(NOON, ALICE, "slot1@node7", "", "7.1"),
        RecordedMatch(NOON, ALICE, "slot2@node7", BOB, "7.1"),
    )


def test_a_match_preempts_the_accounting_group_that_the_log_names() -> None:
    matched_line = (
        "      Matched 7.1 alice@node7 <10.0.0.7:9618> preempting bob@node7 (AccountingGroup=nice-user.bob@node7) "
        "<10.0.0.7:9618> slot2@node7"
    )
    (cycle,) = read(*BEGIN, NEGOTIATE, REQUEST, matched_line, *END).cycles
    assert [match.preempting for match in cycle.matches] == [f"nice-user.{BOB}"]
    assert cycle.requested == {"7.1"}


REJECTED = "      Rejected 7.1 alice@node7 <10.0.0.7:9618>: {}"


@together(
    ("lines", "refused"),
    [
        ([NEGOTIATE, REQUEST], set()),
        ([NEGOTIATE, REQUEST, REJECTED.format("no match found")], {"no match found"}),
        ([NEGOTIATE, REQUEST, REJECTED.format("concurrency limit xsw reached"), REQUEST,
          REJECTED.format("no match found")], {"concurrency limit xsw reached", "no match found"}),
        ([NEGOTIATE, "    Reached submitter resource limit: 2.000000 ... stopping"],
         {"Reached submitter resource limit: 2.000000 ... stopping"}),
    ],
)  # fmt: skip
def test_a_submitters_requests_show_why_it_got_nothing(lines: list[str], refused: set[str]) -> None:
    (cycle,) = read(*BEGIN, *lines, *END).cycles
    assert cycle.refused == ({ALICE: refused} if refused else {})


def _list(proc: int, count: int, kind: int = 2) -> str:
    return f"    Request 00007.{proc:05}: autocluster {kind} (request count 1 of {count})"


@together(
    ("lines", "new_value"),
    [
        # three jobs, of which one gets a slot: the next spin offers the other two, or all three
        ([_list(1, 3), MATCHED := "      Successfully matched with slot1@node7", NEGOTIATE, _list(2, 2)], 0),
        ([_list(1, 3), MATCHED, NEGOTIATE, _list(1, 3)], 1),
        # the rest of a long list
        ([_list(0, 2), MATCHED, REQUEST.replace("1 of", "2 of"), MATCHED, _list(2, 200)], 0),
        # other jobs
        ([_list(1, 3), MATCHED, NEGOTIATE, _list(1, 3, 5)], 0),
    ],
)
def test_a_job_whose_match_could_not_be_used_is_offered_again(lines: list[str], new_value: int) -> None:
    (cycle,) = read(*BEGIN, NEGOTIATE, *lines, *END).cycles
    assert cycle.again.get(7, 0) == new_value


def test_a_cycle_with_deleted_lines_is_incomplete_and_what_follows_is_uncertain() -> None:
    text = "".join(f"11/20/26 12:00:00 {line}\n" for line in (*BEGIN, *END, *BEGIN))
    text += "...... trimmed: 9 bytes in all ......\n"
    text += "".join(f"11/20/26 12:00:09 {line}\n" for line in (REQUEST, *END, *BEGIN, *END, *BEGIN, *END))
    reader = CycleReader(text.encode())
    assert [(cycle.whole, cycle.after != 0) for cycle in reader.cycles] == [
        (True, False), (False, True), (True, False), (True, True)
    ]  # fmt: skip
    assert reader.lost == 1


def test_a_setting_logged_before_the_cycle_in_the_same_second_applies_to_it() -> None:
    factor = "Setting the priority factor of alice@node7 to {}.000000"
    reader = read(factor.format(2), *BEGIN, factor.format(3), *END)
    assert [
        (setting.at - NOON, setting.value) for setting in reader.settings if isinstance(setting, e.SubmitterSet)
    ] == [(0, 2), (1, 3)]


def test_the_settings_that_the_log_names_are_the_configuration() -> None:
    reader = read("PREEMPTION_REQUIREMENTS = MY.Cpus > 1", "PREEMPTION_RANK = (not set)", "NEGOTIATOR_INTERVAL = 2 sec")
    assert [setting.settings for setting in reader.settings if isinstance(setting, e.PoolConfigured)] == [
        {"PREEMPTION_REQUIREMENTS": "MY.Cpus > 1"}, {"PREEMPTION_RANK": ""}
    ]  # fmt: skip


# The accountant's log, the timeline


def test_claims_are_counted_from_the_cycle_that_counted_them(tmp_path: Path) -> None:
    claim = "Resource.slot1@node7@<10.0.0.7:9618?addrs=x>"
    (tmp_path / "Accountantnew.log").write_text(
        "107 1 CreationTimestamp 100\n101 Customer.alice@node7 * *\n103 Customer.alice@node7 Priority 7.500000\n"
        "103 Accountant. LastUpdateTime 100\n"
        "103 Accountant. LastUpdateTime 102\n105 \n103 Customer.alice@node7 Priority 7.250000\n106 \n"
        f'105 \n103 {claim} RemoteUser "alice@node7"\n103 {claim} SlotWeight 2.000000\n'
        f"103 {claim} StartTime 103\n106 \n"
    )
    reader = AccountReader(TraceFiles(tmp_path))
    assert (reader.began, [(claim.submitter, claim.real) for claim in reader.known]) == (100 * SECOND, [(ALICE, 7.5)])
    cycle = reader.counted[102 * SECOND]
    assert cycle.claims == (CountedClaim("slot1@node7", ALICE, 2000),)
    assert (cycle.after, cycle.since, cycle.priorities) == (100 * SECOND, 103 * SECOND, {ALICE: 7.25})


def test_a_reconfigured_negotiator_accounts_for_the_claims_that_its_last_cycle_counted(tmp_path: Path) -> None:
    claim = "Resource.slot1@node7@<10.0.0.7:9618?addrs=x>"
    none, own_update = "103 Customer.alice@node7 ResourcesUsed 0\n", f'103 {claim} RemoteUser "alice@node7"\n'
    (tmp_path / "Accountantnew.log").write_text(
        "107 1 CreationTimestamp 100\n101 Customer.alice@node7 * *\n103 Accountant. LastUpdateTime 100\n"
        f"105 \n103 Accountant. LastUpdateTime 102\n106 \n105 \n{none}106 \n105 \n{own_update}106 \n"
        f"105 \n103 Accountant. LastUpdateTime 103\n106 \n"  # reconfigured
        f"105 \n103 Accountant. LastUpdateTime 104\n106 \n105 \n{none}106 \n"  # a cycle, and no one has any slot
    )
    claim_counts = {
        at // SECOND: len(accounting.claims) for at, accounting in AccountReader(TraceFiles(tmp_path)).counted.items()
    }
    assert claim_counts == {100: 0, 102: 1, 103: 1, 104: 0}


def test_a_damaged_number_of_an_account_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "Accountantnew.log").write_text(
        "107 1 CreationTimestamp 100\n101 Customer.alice@node7 * *\n103 Customer.alice@node7 Priority 7.50!000\n"
        "103 Customer.alice@node7 PriorityFactor 1e999\n103 Accountant. LastUpdateTime 100\n"
        "105 \n103 Accountant. LastUpdateTime 1~2\n103 Customer.alice@node7 Priority nan\n106 \n"
    )
    reader = AccountReader(TraceFiles(tmp_path))
    assert [(claim.submitter, claim.real, claim.factor) for claim in reader.known] == [(ALICE, 0.5, 0)]
    assert [accounting.priorities for accounting in reader.counted.values()] == [{}]


def test_a_changed_factor_is_set_even_if_the_negotiators_log_lacks_it(tmp_path: Path) -> None:
    (tmp_path / "Accountantnew.log").write_text(
        "107 1 CreationTimestamp 100\n101 Customer.alice@node7 * *\n"
        "103 Customer.alice@node7 PriorityFactor 1000.000000\n103 Accountant. LastUpdateTime 100\n"
        "105 \n103 Accountant. LastUpdateTime 102\n106 \n"
        "105 \n103 Customer.bob@node7 PriorityFactor 1000.000000\n106 \n"  # a new account's
        "103 Customer.alice@node7 PriorityFactor 999999.999977\n"
        "105 \n103 Accountant. LastUpdateTime 104\n106 \n"
    )
    (factor_event,) = AccountReader(TraceFiles(tmp_path)).factors
    assert isinstance(factor_event, e.SubmitterSet)
    assert 102 * SECOND < factor_event.at < 104 * SECOND
    assert (factor_event.submitter, factor_event.name, factor_event.value) == (ALICE, "factor", 999999.999977)


@together(
    ("moves", "expected"),
    [
        ([(1, "Running"), (5, "Running"), (5, "Idle")], "Running"),  # evicted, and given another slot immediately
        ([(1, "Idle"), (5, "Running"), (5, "Idle")], "Idle"),  # its claim could not be activated: requeued
        ([(1, "Running"), (3, "Idle"), (5, "Idle"), (5, "Running")], "Idle"),
        ([(1, "Held"), (5, "Running"), (5, "Idle")], "Running"),  # released, and given a slot
    ],
)
def test_a_job_that_started_and_ended_in_one_second_is_idle_if_it_was_idle_before(
    moves: list[tuple[int, str]], expected: str
) -> None:
    assert [move.status for move in in_turn(JobMove(at * SECOND, 0, status) for at, status in moves)][-1] == expected


def test_only_a_submission_answered_with_a_cluster_counts(tmp_path: Path) -> None:
    (tmp_path / "timeline.txt").write_text(
        "11/20/26 12:00:01 alice$ condor_submit a.sub -append 'request_memory = 7'\n1 job(s) submitted to cluster 4.\n"
        "11/20/26 12:00:02 bob$ condor_submit wrong.sub\nERROR: Failed to parse command file\n"
        "11/20/26 12:00:03 bob$ condor_submit -terse b.sub\n5.0 - 5.1\n"
    )
    assert [
        (order.at - NOON, order.user, order.arguments, order.cluster) for order in commands(TraceFiles(tmp_path))
    ] == [
        (SECOND, "alice", ("a.sub", "-append", "request_memory = 7"), 4),
        (3 * SECOND, "bob", ("-terse", "b.sub"), 5),
    ]


def test_an_account_without_a_known_factor_has_the_configured_one() -> None:
    founded_event = e.PoolFounded(
        9 * SECOND, "founded", "s", "pool", "htcondor-25", "node7", "1", {"DEFAULT_PRIO_FACTOR": "7"}
    )
    accountings = {at * SECOND: RecordedAccounting(at * SECOND, (), {}, {}, (at - 2) * SECOND) for at in (12, 14)}
    known_accounts = (KnownAccount(ALICE, 2.0, 0, 5.0), KnownAccount(BOB, 2.0, 30, 5.0))
    accounts = AccountWalk(
        NegotiatorRecording("node7", (founded_event,), (), (), (), accountings, (), 10 * SECOND, known_accounts, 0, ())
    )
    assert [moment.at for moment in accounts.moments()] == [12 * SECOND, 14 * SECOND]
    assert [accounts.accountant.factor(name) for name in (ALICE, BOB, "carol@node7")] == [7, 30, 7]


# Which changes a cycle had heard of


def pool(*moments: tuple[int, str]) -> list[e.Event]:
    """Return the events of slot1, which is claimed or unclaimed at these seconds."""
    visible: list[e.Event] = []
    for second, user in moments:
        at, last = second * SECOND, visible[-1] if visible else None
        if isinstance(last, e.ClaimMade):
            visible.append(e.ClaimEnded(at, "", "", "slot1", "1", last.submitter, 0))
        move = "Claimed/Idle" if user else "Unclaimed/Idle"
        visible.append(e.SlotTransitioned(at, "", "", "slot1", "", "", move))
        if user:
            visible.append(e.ClaimMade(at, "", "", "slot1", "1", user, 1000))
    return visible


def visibility(
    cycle: RecordedCycle | None, counted: RecordedAccounting | None, *moments: tuple[int, str]
) -> VisibleEvents:
    at = 10 * SECOND
    cycles = {at: cycle} if cycle is not None else {}
    return Visibility(pool(*moments)).of([at], cycles, {at: counted} if counted is not None else {})[at]


NINE = ((1, ALICE), (9, BOB))
"""In the second before the cycle, bob's claim takes over from alice's."""


def had(who: str) -> RecordedAccounting:
    return RecordedAccounting(10 * SECOND, (CountedClaim("slot1", who, 1000),), {}, {})


@pytest.mark.parametrize(
    ("cycle", "counted", "expected", "doubtful"),
    [
        (None, had(ALICE), ALICE, frozenset()),
        (None, had(BOB), BOB, frozenset()),
        # what the negotiator itself logs: whose job is preempted, and who uses how much
        (
            RecordedCycle(10 * SECOND, (RecordedMatch(10 * SECOND, "carol", "slot1", BOB, "3.0"),)),
            None,
            BOB,
            frozenset(),
        ),
        (RecordedCycle(10 * SECOND, usage={ALICE: 1.0}), None, ALICE, frozenset()),
        # no record: the usual delay, and uncertain
        (None, None, ALICE, frozenset({ALICE, BOB})),
    ],
)
def test_the_records_of_a_cycle_show_what_it_had_heard_of(
    cycle: RecordedCycle | None, counted: RecordedAccounting | None, expected: str, doubtful: frozenset[str]
) -> None:
    visible_cycle = visibility(cycle, counted, *NINE)
    assert ([claim.submitter for claim in visible_cycle.claims], visible_cycle.doubtful, visible_cycle.agrees) == (
        [expected],
        doubtful,
        True,
    )


def test_late_ads_show_a_claim_that_is_long_gone() -> None:
    visible_cycle = visibility(RecordedCycle(10 * SECOND), had(ALICE), (1, ALICE), (6, BOB))
    assert [claim.submitter for claim in visible_cycle.claims] == [ALICE]


def test_a_slot_matched_while_unclaimed_counts_as_unclaimed_even_if_only_for_part_of_a_second() -> None:
    """alice's claim ends before the cycle's second, in which her slot becomes free and the match bob's claim."""
    at, nine = 10 * SECOND, 9 * SECOND
    ending: list[e.Event] = [
        e.ClaimEnded(nine, "", "", "slot1", "1", ALICE, 0),
        e.SlotTransitioned(nine, "", "", "slot1", "", "", "Preempting/Vacating"),
    ]
    events = [*pool((1, ALICE)), *ending, *pool((10, ""), (10, BOB))]
    cycle = RecordedCycle(at, (RecordedMatch(at, BOB, "slot1", "", "2.0"),))
    visible_cycle = Visibility(events).of(
        [at], {at: cycle}, {at: RecordedAccounting(at, (CountedClaim("slot1", BOB, 1000),), {}, {})}
    )[at]
    last = events[visible_cycle.count - 1]
    assert visible_cycle.claims == ()
    assert isinstance(last, e.SlotTransitioned)
    assert last.target == "Unclaimed/Idle"


def test_claims_that_never_existed_are_contradicted() -> None:
    visible_cycle = visibility(RecordedCycle(10 * SECOND), had("carol"), *NINE)
    assert not visible_cycle.agrees


# The accountant


def books(*events: e.Event) -> AccountantReplay:
    replay = AccountantReplay()
    replay.take(e.PoolFounded(0, "", "", "pool", "htcondor-25", "node7", "", {"PRIORITY_HALFLIFE": "10"}))
    for event in events:
        replay.take(event)
    return replay


def test_a_preempting_match_counts_in_addition_to_the_claim_until_the_next_cycle() -> None:
    accountant = books()
    accountant.account(0)
    accountant.count(0, [CountedClaim("slot1", ALICE, 2000)])
    accountant.match(1 * SECOND, CountedClaim("slot1", BOB, 2000))
    accountant.account(10 * SECOND)
    accountant.count(10 * SECOND, [CountedClaim("slot1", BOB, 2000)])
    accountant.account(20 * SECOND)
    used = {name: submitter.usage_until(20 * SECOND) / 1e9 for name, submitter in accountant.state.submitters.items()}
    assert used == {ALICE: 20, BOB: 18 + 20}
    real = {name: accountant.state.submitters[name].priority for name in (ALICE, BOB)}
    assert real == {ALICE: pytest.approx((0.25 + 1) / 2), BOB: pytest.approx((0.25 + 0.9 + 2) / 2)}


def test_a_priority_set_between_cycles_ages_by_all_of_the_time_between_them() -> None:
    accountant = books()
    accountant.account(10 * SECOND)
    accountant.take(e.SubmitterSet(15 * SECOND, "", "", ALICE, "root", "priority", 8.0))
    accountant.account(20 * SECOND)
    assert accountant.state.submitters[ALICE].priority == pytest.approx(4.0)


def test_a_submitter_first_seen_while_accounts_are_lost_is_unknown_until_it_is_reported() -> None:
    accountant = books()
    accountant.lose(UnknownAccount("missing", NOON))
    accountant.match(NOON, CountedClaim("slot1", ALICE, 1000))
    sample = UserprioSample(NOON, "userprio-1.txt", ALICE, 2000.0, 1000.0, 7.0)
    assert str(accountant.compare(sample).why) == "cycles before that of 12:00:00 are missing"
    accountant.begin(NOON, ALICE, 2.0, 7.0)
    compared = accountant.compare(sample)
    assert (compared.why, compared.effective, compared.usage) == (None, 2000.0, 7.0)

"""Property and table: repeating the cycles of any log gives the same result; repeating an altered one does not."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from poolbook.adapters.cli.main import main
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.replay.recheck_cycles import MOST, RecheckDifference, recheck

from ..sampling import some
from .contested_pool import contested_pool
from .edits import index_of
from .virtual_pool import Pool

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "0.1.0.db.gz"
COMMANDS = st.sampled_from(
    """
    submit alice 3 seconds=90
    submit bob 2 seconds=300 grace=0 differ
    submit bob 1 memory=9000
    submit carol 4 seconds=40 cpus=2 Rank=TARGET.Memory
    submit dan 2 seconds=60 Requirements=random()<0.5
    submit dan 2 seconds=60 Requirements=time()%300<90
    submit dan 3 seconds=100 prio=3 AccountingGroup="x.dan"
    hold alice 1
    release alice all
    remove alice 1.0
    vacate root slot1_1@h
    edit bob bob JobPrio=4
    grant bob@example.org factor 30
    grant alice@example.org ceiling 1
    grant carol@example.org floor 2 300
    reset
    forget bob@example.org
    machine i kind=static slots=2 Cpus=1 Memory=512
    leave i
    run 10 s
    run 11 min
    """.strip().splitlines()
).map(str.strip)


@given(commands=st.lists(COMMANDS, min_size=5, max_size=25), dialect=st.sampled_from(["manual", "htcondor-25"]))
@settings(max_examples=10)
def test_repeating_every_cycle_of_any_pool_gives_the_same_result(commands: list[str], dialect: str) -> None:
    pool = Pool(dialect, PREEMPTION_REQUIREMENTS="RemoteUserPrio > SubmitterUserPrio")
    pool.say("machine h Cpus=3 Memory=4096")
    for command in commands:
        try:
            pool.say(command)
        except KeyError:  # a machine that does not exist cannot leave
            continue
    recheck_result = recheck(pool.events())
    cycles = [event for _, event in pool.events() if isinstance(event, e.CycleHeld)]
    assert recheck_result.sound and recheck_result.differences == []
    assert recheck_result.taken >= len(cycles)


CROWD = st.sampled_from(
    """
    submit u3 1 seconds=90
    submit u20 2 seconds=200
    submit u4 1 seconds=90 memory=9000
    hold root 5
    release root 5
    remove root 7.0
    vacate root slot1@h
    grant u6@example.org ceiling 0
    grant u8@example.org floor 1 300
    grant u9@example.org factor 5
    forget u2@example.org
    machine i kind=static slots=1 Cpus=1 Memory=512
    run 10 s
    run 1 min
    run 3 min
    """.strip().splitlines()
).map(str.strip)


@given(commands=st.lists(CROWD, min_size=5, max_size=20), dialect=st.sampled_from(["manual", "htcondor-25"]))
@settings(max_examples=5)
def test_repeating_cycles_with_many_jobs_for_few_slots_gives_the_same_result(commands: list[str], dialect: str) -> None:
    pool = Pool(dialect, NEGOTIATOR_CONSIDER_PREEMPTION="false")
    pool.say("machine h kind=static slots=2 Cpus=1 Memory=512")
    for number in range(12):
        pool.say(f"submit u{number} 1 seconds=90")
    for command in ("run 3 min", *commands, "run 3 min"):
        pool.say(command)
    recheck_result = recheck(pool.events())
    assert recheck_result.sound and recheck_result.differences == []


KINDS = st.sampled_from(
    """
    submit a 2 seconds=90 memory=100
    submit a 1 seconds=90 memory=101 prio=2
    submit a 3 seconds=40 memory=102 differ
    submit b 1 seconds=200 memory=103
    submit b 2 seconds=90 memory=104
    submit b 1 seconds=90 memory=9000
    submit a 1 seconds=60 Requirements=time()%300<90
    submit b 1 seconds=60 Rank=TARGET.Memory
    submit b 2 seconds=60 Requirements=TARGET.Color=="red"
    hold a 3
    hold b 5
    release root 3
    release root 5
    remove root 4.0
    edit root 2 RequestMemory=105
    edit root 6 JobPrio=7
    vacate root slot1@h
    grant a@example.org factor 30
    grant b@example.org ceiling 1
    grant b@example.org floor 2 300
    machine i kind=static slots=1 Cpus=1 Memory=512 Color="red"
    leave i
    run 10 s
    run 1 min
    run 3 min
    run 21 min
    """.strip().splitlines()
).map(str.strip)


@given(
    commands=st.lists(KINDS, min_size=5, max_size=20),
    dialect=st.sampled_from(["manual", "htcondor-25"]),
    preempts=st.sampled_from(["true", "false"]),
)
@settings(max_examples=5)
def test_repeating_cycles_of_a_mixed_queue_gives_the_same_result(
    commands: list[str], dialect: str, preempts: str
) -> None:
    pool = Pool(dialect, NEGOTIATOR_CONSIDER_PREEMPTION=preempts)
    pool.say("machine h kind=static slots=2 Cpus=1 Memory=512")
    for number in range(8):
        pool.say(f"submit {'ab'[number % 2]} 2 seconds=90 memory={100 + number}")
    for command in ("run 3 min", *commands, "run 3 min"):
        try:
            pool.say(command)
        except KeyError:  # a machine that does not exist cannot leave
            continue
    recheck_result = recheck(pool.events())
    assert recheck_result.sound and recheck_result.differences == []


@pytest.fixture(scope="module")
def story() -> list[e.Event]:
    return [event for _, event in contested_pool().events()]


EVENTS_AFTER = 40
"""How many events after an alteration a cycle shows it."""


def differences_after(story: list[e.Event], edit: Callable[[list[e.Event]], None]) -> list[RecheckDifference]:
    """Return the differences in an altered story when its cycles are repeated until a while after the alteration."""
    log = list(story)
    edit(log)
    place = next(
        place for place, (event, original) in enumerate(zip(log, story, strict=False)) if event is not original
    )
    return recheck(enumerate(log[: place + EVENTS_AFTER], 1)).differences


def test_repeating_cycles_with_ranks_and_preemption_gives_the_same_result(story: list[e.Event]) -> None:
    recheck_result = recheck(enumerate(story, 1))
    reasons = {match.reason for event in story if isinstance(event, e.CycleHeld) for match in event.matches}
    assert recheck_result.sound
    assert (recheck_result.others, reasons) == (0, {"", "rank", "priority"})
    assert recheck_result.taken > 50


def change(nth: int, **values: object) -> Callable[[list[e.Event]], None]:
    """Give the nth cycle that made more than one match, and rejected a job, other values."""

    def edit(log: list[e.Event]) -> None:
        cycles = [event for event in log if isinstance(event, e.CycleHeld) and event.matches[1:] and event.unmatched][
            nth
        ]
        log[log.index(cycles)] = replace(cycles, **{name: value(cycles) for name, value in values.items()})  # type: ignore[operator]

    return edit


def swap_matches(cycle: e.CycleHeld) -> tuple[e.Match, ...]:
    """Return the first two matches with their slots exchanged."""
    first_match, second_match, *others = cycle.matches
    return replace(first_match, slot=second_match.slot), replace(second_match, slot=first_match.slot), *others


def change_first_match(changes: dict[str, Any]) -> Callable[[e.CycleHeld], tuple[e.Unmatched, ...]]:
    return lambda held: (replace(held.unmatched[0], **changes), *held.unmatched[1:])


def change_priority(log: list[e.Event]) -> None:
    place = index_of(log, e.PrioritiesUpdated, 3)
    event = log[place]
    assert isinstance(event, e.PrioritiesUpdated)
    name = next(iter(event.priorities))
    log[place] = replace(event, priorities=event.priorities | {name: event.priorities[name] + 1e-9})


def omit(kind: type[e.Event]) -> Callable[[list[e.Event]], None]:
    """Omit an event of this kind from the first cycle that updated priorities and rejected a job."""

    def edit(log: list[e.Event]) -> None:
        update, cycle = next(pair for pair in pairwise(log) if [*map(type, pair)] == [e.PrioritiesUpdated, e.CycleHeld])
        log.remove(update if isinstance(update, kind) else cycle)

    return edit


@pytest.mark.parametrize(
    ("edit", "difference"),
    some([
        (change(0, matches=swap_matches), "match 1, of job 4.0, slot"),
        (change(0, matches=lambda held: held.matches[:-1]), "match 3"),
        (change(0, matches=lambda held: held.matches[::-1]), "match 1"),
        (change(1, matches=lambda cycle: (replace(cycle.matches[0], rank=7.0), *cycle.matches[1:])), "rank"),
        (change(1, matches=lambda cycle: (replace(cycle.matches[0], reason="x"), *cycle.matches[1:])), "reason"),
        (change(0, unmatched=lambda held: ()), "reason 1"),
        (change(0, unmatched=change_first_match({"taken": 3})), "reason 1, of job 2.2, taken"),
        (change(0, unmatched=change_first_match({"limit": "ceiling"})), "limit"),
        (change(0, unmatched=change_first_match({"clauses": ()})), "clauses"),
        (change(0, statistics=lambda held: held.statistics | {"PieSpins": 9.0}), "the statistic PieSpins"),
        (change(0, statistics=lambda held: held.statistics | {"Other": 9.0}), "the statistic Other"),
        (change_priority, "the priority of alice@example.org"),
        (omit(e.PrioritiesUpdated), "the priority of alice@example.org"),
        (omit(e.CycleHeld), "the cycle"),
    ], 7),
)  # fmt: skip
def test_an_alteration_is_detected(
    story: list[e.Event], edit: Callable[[list[e.Event]], None], difference: str
) -> None:
    assert difference in differences_after(story, edit)[0].what


def test_fields_other_than_matches_and_rejections_are_compared(story: list[e.Event]) -> None:
    differences = differences_after(story, change(0, regrouped=lambda held: ("9.9",)))
    assert [difference.what for difference in differences] == ["the cycle regrouped"]


def test_an_altered_setting_shows_in_the_decisions(story: list[e.Event]) -> None:
    founding = story[0]
    assert isinstance(founding, e.PoolFounded)
    changed = replace(founding, settings=founding.settings | {"PREEMPTION_REQUIREMENTS": "false"})
    recheck_result = recheck([(1, changed), *enumerate(story[1:], 2)])
    assert recheck_result.differing > 0
    assert len(recheck_result.differences) <= MOST


def test_a_cycle_of_an_older_release_is_counted_and_not_repeated(story: list[e.Event]) -> None:
    log = [replace(event, rules=99) if isinstance(event, e.CycleHeld) else event for event in story]
    cycle_count = sum(isinstance(event, e.CycleHeld) for event in log)
    recheck_result = recheck(enumerate(log, 1))
    assert recheck_result.sound
    assert recheck_result.others == cycle_count


def test_cycles_of_the_first_release_are_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress(GOLDEN.read_bytes()))
    log = open_log(str(path), create=False, read_only=True)
    recheck_result = recheck(log.read())
    log.close()
    assert (recheck_result.sound, recheck_result.taken) == (True, 0)
    assert recheck_result.others > 0


def test_events_that_give_no_state_are_reported(story: list[e.Event]) -> None:
    place = index_of(story, e.SlotCreated)
    log = [event for index, event in enumerate(story) if index != place]
    assert "the events from position 2 on cannot be folded" in recheck(enumerate(log, 1)).stopped


# The command


def write_log(path: Path, story: list[e.Event]) -> str:
    """Write a log of these events, with its own seal."""
    log = open_log(str(path / "pool.db"), create=True)
    log.append(story)
    log.close()
    return str(path / "pool.db")


def test_the_command_reports_that_all_cycles_gave_the_same_result(
    story: list[e.Event], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "-decisions", "-log", write_log(tmp_path, story)]) == 0
    assert "negotiation cycles were repeated, with the same results" in capsys.readouterr().out


def test_the_command_detects_what_the_seal_and_the_tables_cannot(
    story: list[e.Event], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = list(story)
    change(0, unmatched=change_first_match({"taken": 3}))(log)
    url = write_log(tmp_path, log)
    assert main(["verify", "-log", url]) == 0
    assert main(["verify", "-decisions", "-log", url]) == 1
    output = capsys.readouterr().out
    assert "NOT SOUND" in output
    assert "1 differs from the log" in output
    assert "reason 1, of job 2.2, taken is 3 in the log, and 0 now" in output
    assert main(["verify", "-decisions", "-json", "-log", url]) == 1
    assert '"differing": 1' in capsys.readouterr().out

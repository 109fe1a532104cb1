"""Property and table: repeating the cycles of any log gives the same result; repeating an altered one does not."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from poolbook.adapters.cli.main import main
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.replay.recheck_cycles import MOST, RecheckDifference, recheck

from ..sampling import some
from .contested_pool import contested
from .edits import the
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
def test_every_cycle_of_any_pool_comes_out_the_same(commands: list[str], dialect: str) -> None:
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
def test_every_cycle_in_which_many_wait_for_few_slots_comes_out_the_same(commands: list[str], dialect: str) -> None:
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
def test_every_cycle_of_a_queue_of_many_kinds_comes_out_the_same(
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
    return [event for _, event in contested().events()]


BEHIND = 40
"""How many events after an alteration a cycle shows it."""


def altered(story: list[e.Event], edit: Callable[[list[e.Event]], None]) -> list[RecheckDifference]:
    """Return the differences in an altered story when its cycles are repeated until a while after the alteration."""
    log = list(story)
    edit(log)
    place = next(
        place for place, (event, original) in enumerate(zip(log, story, strict=False)) if event is not original
    )
    return recheck(enumerate(log[: place + BEHIND], 1)).differences


def test_cycles_with_ranks_and_preemption_come_out_the_same(story: list[e.Event]) -> None:
    recheck_result = recheck(enumerate(story, 1))
    reasons = {match.reason for event in story if isinstance(event, e.CycleHeld) for match in event.matches}
    assert recheck_result.sound
    assert (recheck_result.others, reasons) == (0, {"", "rank", "priority"})
    assert recheck_result.taken > 50


def cycle(nth: int, **values: object) -> Callable[[list[e.Event]], None]:
    """Give the nth cycle that made more than one match, and rejected a job, other values."""

    def edit(log: list[e.Event]) -> None:
        cycles = [event for event in log if isinstance(event, e.CycleHeld) and event.matches[1:] and event.unmatched][
            nth
        ]
        log[log.index(cycles)] = replace(cycles, **{name: value(cycles) for name, value in values.items()})  # type: ignore[operator]

    return edit


def moved(cycle: e.CycleHeld) -> tuple[e.Match, ...]:
    """Return the first two matches with their slots exchanged."""
    first_match, second_match, *others = cycle.matches
    return attrs.evolve(first_match, slot=second_match.slot), attrs.evolve(second_match, slot=first_match.slot), *others


def first(changes: dict[str, Any]) -> Callable[[e.CycleHeld], tuple[e.Unmatched, ...]]:
    return lambda held: (attrs.evolve(held.unmatched[0], **changes), *held.unmatched[1:])


def priority(log: list[e.Event]) -> None:
    place = the(log, e.PrioritiesUpdated, 3)
    event = log[place]
    assert isinstance(event, e.PrioritiesUpdated)
    name = next(iter(event.priorities))
    log[place] = replace(event, priorities=event.priorities | {name: event.priorities[name] + 1e-9})


def without(kind: type[e.Event]) -> Callable[[list[e.Event]], None]:
    """Omit an event of this kind from the first cycle that updated priorities and rejected a job."""

    def edit(log: list[e.Event]) -> None:
        update, cycle = next(pair for pair in pairwise(log) if [*map(type, pair)] == [e.PrioritiesUpdated, e.CycleHeld])
        log.remove(update if isinstance(update, kind) else cycle)

    return edit


@pytest.mark.parametrize(
    ("edit", "difference"),
    some([
        (cycle(0, matches=moved), "match 1, of job 4.0, slot"),
        (cycle(0, matches=lambda held: held.matches[:-1]), "match 3"),
        (cycle(0, matches=lambda held: held.matches[::-1]), "match 1"),
        (cycle(1, matches=lambda held: (attrs.evolve(held.matches[0], rank=7.0), *held.matches[1:])), "rank"),
        (cycle(1, matches=lambda held: (attrs.evolve(held.matches[0], reason="x"), *held.matches[1:])), "reason"),
        (cycle(0, unmatched=lambda held: ()), "reason 1"),
        (cycle(0, unmatched=first({"taken": 3})), "reason 1, of job 2.2, taken"),
        (cycle(0, unmatched=first({"limit": "ceiling"})), "limit"),
        (cycle(0, unmatched=first({"clauses": ()})), "clauses"),
        (cycle(0, statistics=lambda held: held.statistics | {"PieSpins": 9.0}), "the statistic PieSpins"),
        (cycle(0, statistics=lambda held: held.statistics | {"Other": 9.0}), "the statistic Other"),
        (priority, "the priority of alice@example.org"),
        (without(e.PrioritiesUpdated), "the priority of alice@example.org"),
        (without(e.CycleHeld), "the cycle"),
    ], 7),
)  # fmt: skip
def test_what_was_altered_is_found(
    story: list[e.Event], edit: Callable[[list[e.Event]], None], difference: str
) -> None:
    assert difference in altered(story, edit)[0].what


def test_a_field_that_no_match_and_no_reason_has_is_compared(story: list[e.Event]) -> None:
    differences = altered(story, cycle(0, regrouped=lambda held: ("9.9",)))
    assert [difference.what for difference in differences] == ["the cycle regrouped"]


def test_a_settings_alteration_shows_in_what_was_decided(story: list[e.Event]) -> None:
    founding = story[0]
    assert isinstance(founding, e.PoolFounded)
    changed = replace(founding, settings=founding.settings | {"PREEMPTION_REQUIREMENTS": "false"})
    recheck_result = recheck([(1, changed), *enumerate(story[1:], 2)])
    assert recheck_result.differing > 0
    assert len(recheck_result.differences) <= MOST


def test_a_cycle_of_other_rules_is_counted_and_not_taken_again(story: list[e.Event]) -> None:
    log = [replace(event, rules=99) if isinstance(event, e.CycleHeld) else event for event in story]
    cycle_count = sum(isinstance(event, e.CycleHeld) for event in log)
    recheck_result = recheck(enumerate(log, 1))
    assert recheck_result.sound
    assert recheck_result.others == cycle_count


def test_the_first_release_decided_by_other_rules(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress(GOLDEN.read_bytes()))
    log = open_log(str(path), create=False, read_only=True)
    recheck_result = recheck(log.read())
    log.close()
    assert (recheck_result.sound, recheck_result.taken) == (True, 0)
    assert recheck_result.others > 0


def test_events_of_which_no_state_can_be_made_are_told(story: list[e.Event]) -> None:
    place = the(story, e.SlotCreated)
    log = [event for index, event in enumerate(story) if index != place]
    assert "no state can be made of the events from position" in recheck(enumerate(log, 1)).stopped


# The command


def kept(path: Path, story: list[e.Event]) -> str:
    """Write a log of these events, with its own seal."""
    log = open_log(str(path / "pool.db"), create=True)
    log.append(story)
    log.close()
    return str(path / "pool.db")


def test_the_command_tells_that_all_came_out_the_same(
    story: list[e.Event], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "-decisions", "-log", kept(tmp_path, story)]) == 0
    assert "negotiation cycles were taken again, and decided the same" in capsys.readouterr().out


def test_the_command_finds_what_the_seal_and_the_tables_cannot(
    story: list[e.Event], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = list(story)
    cycle(0, unmatched=first({"taken": 3}))(log)
    url = kept(tmp_path, log)
    assert main(["verify", "-log", url]) == 0
    assert main(["verify", "-decisions", "-log", url]) == 1
    output = capsys.readouterr().out
    assert "NOT SOUND" in output
    assert "1 comes out otherwise than the log has it" in output
    assert "reason 1, of job 2.2, taken is 3 in the log, and 0 now" in output
    assert main(["verify", "-decisions", "-json", "-log", url]) == 1
    assert '"differing": 1' in capsys.readouterr().out

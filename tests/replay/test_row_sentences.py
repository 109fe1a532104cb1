"""Golden: the sentence of each row of slots and drains, for each cause in both dialects, and for what startds write.
``row_sentences.txt`` has them all. ``python -m tests.replay.test_row_sentences`` rewrites it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from poolbook.domain import events as e
from poolbook.domain.state_machines import DIALECTS
from poolbook.domain.state_machines.dialects import Dialect
from poolbook.domain.state_machines.drain import DRAIN
from poolbook.domain.state_machines.rows import TransitionRow
from poolbook.domain.state_machines.slot_rows import KILLING, VACATING, SlotRow
from poolbook.domain.state_machines.slot_rules import EVICTED
from poolbook.replay.forensics.imported_log import single_entries
from poolbook.replay.narration.sentence_tables import EXPLAINS, UNDOES, WORDS, cause_words, row_code
from poolbook.replay.narration.sentences import fill
from poolbook.replay.runs.run_end_causes import cause_of_move, reason_meaning
from poolbook.replay.why.answer import why

from ..importing.folders import TRACES, recorded
from ..sampling import some, spread
from .read_aloud import check_consistency
from .test_transcripts import SIGN, TRANSCRIPTS, Session

GOLDEN: Final = Path(__file__).parent / "row_sentences.txt"
FOLDERS: Final = [
    folder
    for kind in ("traces", "runs", "points", "recordings")
    for folder in sorted((TRACES.parent / kind).iterdir())
    if folder.is_dir()
]

_ENDED: Final = ("vacate_command", "drain_command", "defrag", "draining", "shutdown")
CAUSES_OF_TRIGGERS: Final[dict[str, tuple[str, ...]]] = {
    "match": ("matched",),
    "claim": ("claimed",),
    "claim waits": ("claimed",),
    "client ended": ("client_ended",),
    "client gone": ("client_gone", "client_kept"),
    "client gone, matched": ("client_gone", "client_kept"),
    "client gone, claimed": ("claimed",),
    "match over": ("match_timeout", "match_void", *_ENDED),
    "claim failed": ("claim_failed",),
    "activate": ("activated",),
    "suspend": ("suspend_command",),
    "continue": ("continue_command",),
    "job gone": ("job_ended",),
    "job gone, claim closing": ("job_ended",),
    "job reported": ("job_ended",),
    "deactivate and close": ("deactivated",),
    "release": ("released",),
    "retire": (*_ENDED, "carved"),
    "kill": (*_ENDED, "lease_over", "pslot_preemption"),
    "vacate time over": ("vacate_timeout",),
    "benchmarks done": ("benchmarks_done",),
    "unowned": ("not_owner",),
    "revert": ("claim_failed",),
}
"""The causes of the decisions that fire a trigger."""
_CAUSES_OF_ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    SlotRow.VACATE_IDLE: ("no_more_jobs", "execution_failed", "coalesced", "now_lost", "now_late", "now_unfit"),
    SlotRow.RETIRE: ("better_match", "draining", "retired_before"),
    SlotRow.CONTINUE: ("user_hold", "user_remove", "periodic_hold", "periodic_remove", "periodic_vacate"),
    SlotRow.VACATED: ("claim_over", "better_match_refused"),
    SlotRow.KILLED: ("claim_over", "better_match_refused"),
    SlotRow.VACATED_FOR_BETTER_MATCH: ("better_match_taken",),
    SlotRow.KILLED_FOR_BETTER_MATCH: ("better_match_taken",),
    SlotRow.LEAVE_BACKFILL: ("claim_failed",),
    SlotRow.OWNER_LEAVES: ("not_owner",),
}
"""The causes of rows that entry actions and the schedd fire."""
_OF_JOBS: Final = ("user_vacate",)
"""The causes that vacate only a slot with a running job."""
_RUNS_JOB: Final = ("Claimed/Busy", "Claimed/Suspended", "Claimed/Retiring", "Preempting/Vacating")
JOB: Final = "job 1.0"


@cache
def causes(name: str) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """Return the causes of each step of a dialect's slots: (row, source, target) -> causes."""
    dialect = DIALECTS[name]
    causes_by_step: dict[tuple[str, str, str], dict[str, None]] = {}
    rows = {row.number: row for row in dialect.slot_rows}

    def add(row: TransitionRow, source: str, target: str, *step_causes: str) -> None:
        if (source, target) in row.steps:
            causes_by_step.setdefault((row.number, source, target), {}).update(dict.fromkeys(step_causes))

    for source, rules in dialect.rules.items():
        for rule in filter(lambda rule: rule.row, rules):
            evicting = (VACATING,) if source == "Claimed/Idle" else (VACATING, KILLING)
            targets = evicting if rule.target == EVICTED else rows[rule.row].targets
            for number in filter(None, (rule.row, rule.killing)):
                for target in targets:
                    add(rows[number], source, target, rule.cause)
    for trigger, states in dialect.triggers.items():
        if trigger == "merge":  # a separate event records it
            continue
        for source, steps in states.items():
            state = source
            for step in steps:
                for target in (step.target,) if step.target else rows[step.row].targets:
                    trigger_causes = CAUSES_OF_TRIGGERS[trigger] + (_OF_JOBS if trigger in ("retire", "kill") else ())
                    excluded = {
                        *(() if "Backfill" in source else ("carved",)),
                        *(() if source in _RUNS_JOB else _OF_JOBS),
                    }
                    add(rows[step.row], state, target, *(cause for cause in trigger_causes if cause not in excluded))
                state = step.target or rows[step.row].targets[0]
    for number, trigger_causes in _CAUSES_OF_ACTIONS.items():
        for source, target in rows[number].steps:
            if number != SlotRow.VACATE_IDLE or "released" in causes_by_step.get((number, source, target), ()):
                add(rows[number], source, target, *trigger_causes)
    retired = causes_by_step.get((SlotRow.RETIRE_IDLE, "Claimed/Idle", "Claimed/Retiring"), {})
    add(rows[SlotRow.VACATE], "Claimed/Retiring", VACATING, *retired)
    return {step: tuple(trigger_causes) for step, trigger_causes in causes_by_step.items()}


def sentence(row: str, target: str, cause: str, why: str, job: str) -> str:
    """Return the sentence of a row as `why` writes it, without evidence."""
    code = row_code(row, target, cause, job)
    return fill(WORDS[code], {"job": job or "its job", "why": why, "target": target})


def _rows_of(dialect: Dialect) -> Iterator[str]:
    of_rows = causes(dialect.name)
    for row in dialect.slot_rows:
        for source, target in row.steps:
            letter = f" ({row.letter})" if row.letter.isalpha() else ""
            yield f"{row.number}{letter}  {source} -> {target}"
            for cause in of_rows.get((row.number, source, target), ()):
                job = "" if source not in _RUNS_JOB or _retired_without_job(dialect, row.number, target, cause) else JOB
                yield f"    [{cause}] {sentence(row.number, target, cause, cause_words(cause), job)}"
            if (row.number, source, target) not in of_rows:
                yield f"    (never by itself) {sentence(row.number, target, '', '', JOB)}"


def _retired_without_job(dialect: Dialect, row: str, target: str, cause: str) -> bool:
    """Return True if a claim retires without a job (10a), and so ends immediately (18)."""
    retired = causes(dialect.name).get((SlotRow.RETIRE_IDLE, "Claimed/Idle", "Claimed/Retiring"), ())
    return row == SlotRow.VACATE and target == VACATING and cause in retired


@cache
def imported() -> dict[tuple[str, str, str, str, str], None]:
    """Return each step that a real startd logged, with its text: (row, source, target, reason, job)."""
    steps: dict[tuple[str, str, str, str, str], None] = {}
    last_states: dict[str, str] = {}
    for folder in FOLDERS:
        for _, event in single_entries(recorded(folder)[0].read()):
            if isinstance(event, e.SlotTransitioned):
                reason = re.sub(r"Got activate_claim .*", "Got activate_claim request", event.reason)
                idle = event.source not in _RUNS_JOB or last_states.get(event.slot) == SlotRow.RETIRE_IDLE
                steps[event.row, event.source, event.target, reason.rstrip("."), "" if idle else JOB] = None
                last_states[event.slot] = event.row
    return steps


def _row_order(number: str) -> tuple[int, str]:
    digits = number.rstrip("abc")
    return int(digits), number[len(digits) :]


def _imported() -> Iterator[str]:
    head = ""
    for row, source, target, reason, job in sorted(imported(), key=lambda one: (_row_order(one[0]), one[1:])):
        if head != (head := f"{row}  {source} -> {target}"):
            yield head
        yield f"    [{reason}] {sentence(row, target, cause_of_move(reason), reason_meaning(reason), job)}"


def _drains() -> Iterator[str]:
    for row in DRAIN:
        code = f"drain {row.number}"
        if code in WORDS:
            yield f"{row.number}  {', '.join(row.sources)} -> {', '.join(row.targets)}"
            yield f"    {fill(WORDS[code], {'why': 'root asked for the drain to be cancelled'})}"


def table() -> str:
    """Return every sentence, by dialect and row."""
    sections = {name: _rows_of(dialect) for name, dialect in DIALECTS.items()}
    sections |= {"what startds of HTCondor 25 wrote": _imported(), "drains": _drains()}
    return "\n".join(f"== {head} ==\n" + "".join(f"{line}\n" for line in lines) for head, lines in sections.items())


def test_each_rows_sentence_equals_the_golden() -> None:
    assert table() == GOLDEN.read_text(encoding="utf-8")


def test_each_row_of_both_dialects_has_a_sentence() -> None:
    for dialect in DIALECTS.values():
        for row in dialect.slot_rows:
            for target in row.targets:
                assert row_code(row.number, target, "", JOB) != "slot_moved", (dialect.name, row.number)
    assert {f"drain {row.number}" for row in DRAIN} - {"drain start"} <= WORDS.keys()


def test_every_sentence_belongs_to_an_existing_row() -> None:
    numbers = {row.number for dialect in DIALECTS.values() for row in dialect.slot_rows} | {row.number for row in DRAIN}
    rows = {code.partition(" ")[2] for code in WORDS if code.startswith(("row ", "drain "))}
    assert {key.partition(" ")[0].partition("/")[0] for key in rows} <= numbers
    assert EXPLAINS | frozenset[str]().union(*UNDOES.values()) <= numbers | WORDS.keys()
    assert UNDOES.keys() <= rows | WORDS.keys()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_golden_has_every_cause_in_a_pools_log(path: Path) -> None:
    session, dialect = Session(), "manual"
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith(SIGN):
            continue
        session.answer(line.removeprefix(SIGN))
        for _, event in session.pool.events():
            if isinstance(event, e.PoolFounded):
                dialect = event.dialect
            elif isinstance(event, e.SlotTransitioned):
                assert event.cause in causes(dialect)[event.row, event.source, event.target]


@pytest.mark.parametrize("folder", some(FOLDERS, 20), ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_no_short_answer_of_a_slot_contradicts_itself(folder: Path) -> None:
    log = recorded(folder)[0]
    transitions = {
        (event.slot, event.at) for _, event in single_entries(log.read()) if isinstance(event, e.SlotTransitioned)
    }
    for slot, at in spread(sorted(transitions), 40):
        check_consistency(why(log, slot, at).texts)


def test_a_drain_cancelled_during_retirement_is_explained_in_one_sentence() -> None:
    log = recorded(TRACES / "07-drain")[0]
    at = next(
        event.at
        for _, event in single_entries(log.read())
        if isinstance(event, e.SlotTransitioned) and event.row == SlotRow.CANCEL_DRAIN_RETIRING
    )
    head, *steps, _ = why(log, "slot1@localhost", at).texts
    assert head.startswith("Slot slot1@localhost has been Unclaimed/Idle since ")
    assert steps == [
        "The slot became available for jobs: IS_OWNER is not true.",
        "The drain was cancelled; the slot returned to its owner.",
    ]


if __name__ == "__main__":
    GOLDEN.write_text(table(), encoding="utf-8")

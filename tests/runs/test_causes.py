"""Golden: the causes that end runs, named by codes, startds' messages and the pool's own events: one closed table."""

from __future__ import annotations

import pytest

from poolbook.domain.events import CAUSE_CODES as OWN
from poolbook.domain.state_machines import HOLD_CODES, VACATE_CODES
from poolbook.replay.runs.run_end_causes import CAUSES, REASONS, best_cause, cause_of_code, cause_of_reason, own_cause

from ..together import together


def test_every_code_of_an_eviction_has_one_cause() -> None:
    named = [code for cause in CAUSES.values() for code in cause.codes]
    assert sorted(named) == sorted(VACATE_CODES)


def test_every_hold_code_means_a_hold() -> None:
    assert {cause.name for number in HOLD_CODES if number and (cause := cause_of_code(str(number)))} == {"held"}


def test_each_cause_of_an_own_event_is_in_the_table_once() -> None:
    named = [word for cause in CAUSES.values() for word in cause.own]
    assert len(named) == len(set(named))
    assert set(named) <= OWN


def test_a_startds_messages_lead_to_causes_of_the_table() -> None:
    assert {cause for _, _, cause, _ in REASONS if cause} <= CAUSES.keys()
    assert {cause for _, cause, _, _ in REASONS} <= OWN


@together(
    ("record", "name"),
    [
        (cause_of_code("1014"), "drained"),
        (cause_of_code("1005"), "unknown"),
        (cause_of_code("21"), "held"),
        (cause_of_code("0"), None),
        (cause_of_code("-3"), None),
        (cause_of_code("9999"), None),
        (cause_of_reason("preempting claim based on machine rank / claim retirement ended/expired"), "rank"),
        (cause_of_reason("PREEMPT is TRUE"), "preempt"),
        (cause_of_reason("claim retirement ended/expired"), None),
        (cause_of_reason("received RELEASE_CLAIM command"), "given_back"),
        (own_cause("user_remove"), "removed"),
        (own_cause("retirement_over"), None),
        (own_cause("vacate_command", "vacate-7-1"), "vacated"),
        (own_cause("vacate_command", "stop-7-1"), "stopped"),
        (own_cause("user_remove", "stop-7-1"), "removed"),
    ],
)  # fmt: skip
def test_a_record_names_its_cause(record: object, name: str | None) -> None:
    assert record is (None if name is None else CAUSES[name])


@pytest.mark.parametrize(
    ("names", "cause"),
    [
        ((), "unknown"),
        (("unknown", "disconnected"), "unknown"),
        (("given_back", "removed"), "removed"),
        (("unknown", "priority", "rank"), "priority"),
    ],
)
def test_a_specific_cause_replaces_a_general_one(names: tuple[str, ...], cause: str) -> None:
    assert best_cause([None, *(CAUSES[name] for name in names)]) is CAUSES[cause]

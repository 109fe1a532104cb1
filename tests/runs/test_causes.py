"""Golden: the causes that end runs, named by codes, startds' messages and the pool's own events: one closed table."""

from __future__ import annotations

import pytest

from poolbook.domain.events import CAUSE_CODES as OWN
from poolbook.domain.state_machines import HOLD_CODES, VACATE_CODES
from poolbook.replay.runs.run_end_causes import CAUSES, REASONS, best_cause, of_code, of_own, of_reason

from ..together import together


def test_every_code_of_an_eviction_has_one_cause() -> None:
    named = [code for cause in CAUSES.values() for code in cause.codes]
    assert sorted(named) == sorted(VACATE_CODES)


def test_every_hold_code_means_a_hold() -> None:
    assert {cause.name for number in HOLD_CODES if number and (cause := of_code(str(number)))} == {"held"}


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
        (of_code("1014"), "drained"),
        (of_code("1005"), "unknown"),
        (of_code("21"), "held"),
        (of_code("0"), None),
        (of_code("-3"), None),
        (of_code("9999"), None),
        (of_reason("preempting claim based on machine rank / claim retirement ended/expired"), "rank"),
        (of_reason("PREEMPT is TRUE"), "preempt"),
        (of_reason("claim retirement ended/expired"), None),
        (of_reason("received RELEASE_CLAIM command"), "given_back"),
        (of_own("user_remove"), "removed"),
        (of_own("retirement_over"), None),
        (of_own("vacate_command", "vacate-7-1"), "vacated"),
        (of_own("vacate_command", "stop-7-1"), "stopped"),
        (of_own("user_remove", "stop-7-1"), "removed"),
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

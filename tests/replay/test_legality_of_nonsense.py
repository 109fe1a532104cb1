"""Property: the validator reads any events, in any order and with any values, to the end."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolbook.domain import events as e
from poolbook.replay.validation import RULES, examine

TEXTS = st.sampled_from(
    ["slot1@h", "slot2@h", "h", "1.0", "1.1", "x", "", "\udc80", "9" * 400, "1", "9", "11", "manual", "htcondor-25",
     "founded", "submitted", "exited", "evicted", "dynamic", "partitionable", "static", "soft", "hard", "Owner/Idle",
     "Unclaimed/Idle", "Claimed/Idle", "Claimed/Busy", "Idle", "Running", "Removed", "Held", "Completed", "hold",
     "remove", "complete", "evict", "activate", "Graceful", "Open", "Complete", "start", "resume", "Fast", "PREEMPT",
     "preempt", "suspend", "retirement_over", "lease_over", "KeyboardIdle > 5", "true", "18", "irrevocable"]
)  # fmt: skip
NUMBERS = st.sampled_from([0, 1, 2, -1, 10**30])
SMALL = st.integers(0, 3)
ADS = st.dictionaries(
    st.sampled_from(
        ["Cpus", "Memory", "SlotWeight", "Owner", "HoldReason", "User", "PREEMPT", "MaxJobRetirementTime", "MY.Cpus"]
    ),
    st.sampled_from(["", "1", "-1", "1e999", "x", '"x"', "9" * 400, "KeyboardIdle > 5"]),
)
MATCHES = st.lists(st.builds(e.Match, TEXTS, TEXTS), max_size=2).map(tuple)
REFUSALS = st.lists(st.builds(e.Unmatched, TEXTS, NUMBERS, NUMBERS, st.just(())), max_size=1).map(tuple)
EVIDENCE = st.lists(SMALL, max_size=2).map(tuple)
DRAINS = st.lists(
    st.builds(e.DefragDrain, TEXTS, TEXTS, st.floats(), NUMBERS, NUMBERS, EVIDENCE, TEXTS), max_size=2
).map(tuple)
CANCELS = st.lists(st.builds(e.DefragCancel, TEXTS, TEXTS, EVIDENCE, TEXTS), max_size=2).map(tuple)

# The type of a field, as written in domain/events.py, and its possible values.
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXTS,
    "bool": st.booleans(),
    "float": st.sampled_from([0.0, 1.5, float("inf"), float("nan")]),
    "int": NUMBERS | SMALL,
    "int | None": st.none() | NUMBERS,
    "Ad": ADS,
    "dict[str, str]": ADS,
    "dict[str, float]": st.dictionaries(TEXTS, st.sampled_from([0.0, 0.5, 1.5, -1e308, float("inf"), float("nan")])),
    "tuple[int, int]": st.tuples(NUMBERS, NUMBERS),
    "Procs": st.lists(st.tuples(NUMBERS | SMALL, NUMBERS | SMALL), max_size=2).map(tuple),
    "tuple[Entry, ...]": st.just(()),
    "bytes": st.binary(max_size=5),
    "tuple[tuple[int, str, str, str], ...]": st.just(()),
    "tuple[str, ...]": st.lists(TEXTS, max_size=2).map(tuple),
    "tuple[bytes, ...]": st.lists(st.just(b"x"), max_size=1).map(tuple),
    "tuple[Match, ...]": MATCHES,
    "tuple[Unmatched, ...]": REFUSALS,
    "tuple[DefragDrain, ...]": DRAINS,
    "tuple[DefragCancel, ...]": CANCELS,
    "tuple[GroupQuota, ...]": st.lists(st.builds(e.GroupQuota, TEXTS, st.floats(), st.floats()), max_size=2).map(tuple),
    "ByProtocol": st.lists(st.tuples(TEXTS, NUMBERS, NUMBERS, NUMBERS), max_size=2).map(tuple),
    "tuple[int, ...]": st.lists(SMALL, max_size=2).map(tuple),
}


def any_of(kind: type[e.Event]) -> st.SearchStrategy[e.Event]:
    """Events of a kind, with any values."""
    types = {name: text for base in reversed(kind.__mro__) for name, text in inspect.get_annotations(base).items()}
    fields = {name: VALUES[types[name]] for name in kind.__struct_fields__}
    return st.fixed_dictionaries(fields).map(lambda values: kind(**values))


EVENTS = st.one_of(*(any_of(kind) for kind in e.TOPICS.values()))


@given(log=st.lists(st.tuples(NUMBERS, EVENTS), max_size=30))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nonsense_is_validated_to_its_end(log: list[tuple[int, e.Event]]) -> None:
    verdict = examine(iter(log))
    assert {violation.rule for violation in verdict.violations} <= set(RULES)
    if log:
        assert verdict.violations, "no few events at random are a log"


@pytest.mark.parametrize(
    "event",
    [
        e.ClusterSubmitted(1, "submitted", "1", 10_002, "alice@site", {"User": '"alice@site"'}, 1, (), "Idle", 1.0),
        e.SubmissionRefused(1, "submitted", "1", 10_002, "alice", "MAX_JOBS_PER_OWNER", "10002.0", "too many"),
    ],
)
def test_an_unassigned_cluster_number_is_reported_without_counting_up_to_it(event: e.ClusterEvent) -> None:
    """With a number of thirty digits, the numbers below it would fill any memory."""
    violations = [(violation.rule, violation.words) for violation in examine([(1, event)]).violations]
    assert ("reference", "its number was never assigned: at most 10,000 follow 1") in violations


def test_an_unknown_kind_of_event_is_reported() -> None:
    verdict = examine([(1, e.Event(1, "founded", "x"))])
    assert [(violation.rule, violation.words) for violation in verdict.violations] == [
        ("kind", "Event is not a kind of event"),
    ]


def test_an_empty_log_is_sound() -> None:
    assert examine([]).sound

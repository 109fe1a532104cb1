"""Property: the judge reads whatever events there are, in any order and with any values, and never gives up."""

from __future__ import annotations

from typing import Any

import attrs
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

# The type of a field, as it is written in domain/events.py, and what may be in it.
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
}


def any_of(kind: type[e.Event]) -> st.SearchStrategy[e.Event]:
    """Events of a kind, with any values."""
    fields = {field.name: VALUES[str(field.type)] for field in attrs.fields(kind)}
    return st.fixed_dictionaries(fields).map(lambda values: kind(**values))


EVENTS = st.one_of(*(any_of(kind) for kind in e.TOPICS.values()))


@given(log=st.lists(st.tuples(NUMBERS, EVENTS), max_size=30))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nonsense_is_judged_to_its_end(log: list[tuple[int, e.Event]]) -> None:
    verdict = examine(iter(log))
    assert {violation.rule for violation in verdict.violations} <= set(RULES)
    if log:
        assert verdict.violations, "no few events at random are a log"


def test_what_is_no_kind_of_event_is_told() -> None:
    verdict = examine([(1, e.Event(1, "founded", "x"))])
    assert [(violation.rule, violation.words) for violation in verdict.violations] == [
        ("kind", "Event is no kind of event"),
    ]


def test_an_empty_log_is_sound() -> None:
    assert examine([]).sound

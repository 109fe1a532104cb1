"""Golden: which submissions are rejected as a whole, since everything in the log must remain readable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.proc_ads import pack

from ..together import together
from .pools import JOB, TestPool

NEXT = "the next number is 2"


@together(
    ("ad", "columns", "count", "refusal"),
    [
        ({}, {}, 0, "nothing to submit: the queue statement has no jobs"),
        ({"Args": "1 +"}, {}, 1, "Args = 1 +: this is not a ClassAd expression"),
        ({"Args": '"a'}, {}, 1, 'Args = "a: this is not a ClassAd expression'),
        ({"Args": '"a"b"'}, {}, 1, 'Args = "a"b": this is not a ClassAd expression'),
        ({"Args": '"\\"'}, {}, 1, 'Args = "\\": this is not a ClassAd expression'),
        ({"A b": "1"}, {}, 1, "'A b' is not a valid attribute name"),
        ({"1A": "1"}, {}, 1, "'1A' is not a valid attribute name"),
        ({}, {"Args": ["1", "1 +"]}, 2, "Args = 1 +: this is not a ClassAd expression"),
        ({}, {"A b": ["1", "2"]}, 2, "'A b' is not a valid attribute name"),
        ({}, {"Args": ["1", "2"]}, 3, "Args has 2 values for 3 jobs"),
        (
            {},
            {"Owner": ['"bob"']},
            1,
            "Owner cannot be set: it is always the submitting user, alice; leave it out",
        ),
        (
            {},
            {"user": ['"bob"']},
            1,
            "user cannot be set: it is always the submitting user, alice; leave it out",
        ),
        ({"Args": '"a \\" b"', "A": "-1.5", "B_2": "Args + A", "C": '""'}, {"D": ["1", "E"]}, 2, ""),
    ],
)
def test_a_submission_with_an_impossible_ad_is_rejected_and_nothing_is_written(
    ad: dict[str, str], columns: Mapping[str, Sequence[str]], count: int, refusal: str
) -> None:
    pool = TestPool()
    answer = pool.handle(s.Submit(pool.id(), "alice", 0, JOB | ad, count, pack(columns)))
    assert answer.refusal == refusal
    assert bool(pool.state.clusters) == (refusal == "")


@together(
    ("cluster", "refusal"),
    [
        (0, ""),
        (1, f"cluster 1 already exists; {NEXT}"),
        (2, ""),
        (10_002, ""),
        (10_003, f"cluster 10003 was not reserved; {NEXT}"),
    ],
)
def test_a_submission_may_use_a_number_that_was_reserved(cluster: int, refusal: str) -> None:
    pool = TestPool()
    pool.submit()
    answer = pool.handle(s.Submit(pool.id(), "alice", cluster, JOB, 1, ()))
    assert answer.refusal == refusal


def test_columns_that_are_not_packed_are_rejected() -> None:
    pool = TestPool()
    answer = pool.handle(s.Submit(pool.id(), "alice", 0, JOB, 1, (b"rubbish",)))
    assert answer.refusal == "the attributes that differ between jobs cannot be read; pack them as poolbook submit does"

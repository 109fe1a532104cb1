"""Table: which items a slice of the queue statement takes, much as Python's slices do, and what is no slice."""

from __future__ import annotations

import pytest

from poolbook.domain.submit import SubmitError

from ..together import together
from .world import submit, values


@together(
    "cut, expected",
    [
        ("[:]", "a b c d e"),
        ("[1:3]", "b c"),
        ("[-2:]", "d e"),
        ("[:-3]", "a b"),
        ("[::2]", "a c e"),
        ("[1::3]", "b e"),
        ("[1]", "b c d e"),  # not the item of that number: HTCondor's qslice has no end there
        ("[-1]", "e"),
        ("[:9]", "a b c d e"),
    ],
)
def test_a_slice_takes_items_as_htcondor_does(cut: str, expected: str) -> None:
    said = submit(f"arguments = $(Item)\nqueue Item in {cut} (a b c d e)")
    assert " ".join(str(text).strip('"') for text in values(said, "Args")) == expected


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        ("[9:]", "no jobs queued"),
        ("[3:1]", "no jobs queued"),
        ("[::0]", "a slice's step must be positive"),
        ("[::-1]", "a slice's step must be positive"),
        ("[a:b]", "a slice is written"),
        ("[1:2:3:4]", "a slice is written"),
    ],
)
def test_what_is_no_slice_is_refused_in_words(cut: str, words: str) -> None:
    with pytest.raises(SubmitError, match=words):
        submit(f"queue Item in {cut} (a b c d e)")

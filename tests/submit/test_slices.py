"""Table: which items a slice in the queue statement selects, and which slices are invalid."""

from __future__ import annotations

import pytest

from poolbook.domain.submit import SubmitError

from ..together import together
from .fakes import submit, values


@together(
    "slice_text, expected",
    [
        ("[:]", "a b c d e"),
        ("[1:3]", "b c"),
        ("[-2:]", "d e"),
        ("[:-3]", "a b"),
        ("[::2]", "a c e"),
        ("[1::3]", "b e"),
        ("[1]", "b c d e"),  # not a single item: HTCondor's qslice has no end here
        ("[-1]", "e"),
        ("[:9]", "a b c d e"),
    ],
)
def test_a_slice_selects_the_same_items_as_in_htcondor(slice_text: str, expected: str) -> None:
    submission = submit(f"arguments = $(Item)\nqueue Item in {slice_text} (a b c d e)")
    assert " ".join(str(text).strip('"') for text in values(submission, "Args")) == expected


@pytest.mark.parametrize(
    ("slice_text", "message"),
    [
        ("[9:]", "no jobs queued"),
        ("[3:1]", "no jobs queued"),
        ("[::0]", "a slice's step must be positive"),
        ("[::-1]", "a slice's step must be positive"),
        ("[a:b]", "invalid slice"),
        ("[1:2:3:4]", "invalid slice"),
    ],
)
def test_an_invalid_slice_is_rejected(slice_text: str, message: str) -> None:
    with pytest.raises(SubmitError, match=message):
        submit(f"queue Item in {slice_text} (a b c d e)")

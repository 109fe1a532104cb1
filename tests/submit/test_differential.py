"""differential: macros and items expand as in HTCondor's Submit object."""

from __future__ import annotations

import htcondor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.macros.functions import FUNCTIONS
from poolbook.domain.macros.lines import Lines
from poolbook.domain.macros.macros import Definition, Macros
from poolbook.domain.submit import SubmitError
from poolbook.domain.submit.items import ItemSources
from poolbook.domain.submit.queue_statements import parse_queue

from ..together import together
from .fakes import FakeFiles

LINES = {
    "a": "1",
    "b": "$(a)2",
    "path": "/x/y.d/f.tar.gz",
    "bare": "file.txt",
    "n": "3+4",
    "list": "u, v ,w",
    "empty": "",
}


def expand(text: str) -> str | None:
    macros = Macros({}, FUNCTIONS, {})
    for name, value in LINES.items():
        macros.define(Definition(name, value))
    try:
        return macros.expand(text)
    except SubmitError:
        return None


@pytest.fixture(scope="module")
def reference() -> htcondor2.Submit:
    return htcondor2.Submit("\n".join(f"{name} = {value}" for name, value in LINES.items()))


def expand_with_htcondor(reference: htcondor2.Submit, text: str) -> str:
    reference["probe"] = text
    return str(reference.expand("probe"))


@pytest.mark.parametrize(
    "letters",
    [
        "n",
        "x",
        "p",
        "d",
        "nx",
        "pnx",
        "pn",
        "dn",
        "dd",
        "ddnx",
        "b",
        "bx",
        "bp",
        "bd",
        "q",
        "qn",
        "qa",
        "qan",
        "u",
        "w",
        "pu",
    ],
)
@pytest.mark.parametrize("name", ["path", "bare"])
def test_parts_of_a_path_are_the_same_as_in_htcondor(reference: htcondor2.Submit, letters: str, name: str) -> None:
    text = f"<$F{letters}({name})>"
    assert expand(text) == expand_with_htcondor(reference, text)


@pytest.mark.parametrize(
    "text",
    [
        "$(a)$(b)$(none)$(none:x)",
        "$(none:$(a) y) $(empty:e)",
        "$(A) $(none:(z)) $(none:a,b) $(none:a-b)",
        "$$(a) $$([ 1 + $(a) ]) $(DOLLAR)(a)",
        "$INT(n) $INT(n,%03d) $INT(5,%x) $REAL(n,%.2f)",
        "$CHOICE(1,list) $CHOICE(0,p,q) $CHOICE(a,list)",
        "$SUBSTR(path,3) $SUBSTR(path,-3) $SUBSTR(path,1,2) $SUBSTR(path,1,-4) $SUBSTR(path,-3,2)",
        "$BASENAME(path) $DIRNAME(path) $EVAL(n) $STRING(list)",
        "$(a $(b) $() $(a b) $x(a) $(",
        "$(none:$)$(a) $(none:$) $(a) $(none:$)x$(a) $(none:$$)$(a)",
        "$($(b)) $($(none:b)) $(none:$($(none:a)))",
    ],
)
def test_macros_expand_as_in_htcondor(reference: htcondor2.Submit, text: str) -> None:
    assert expand(text) == expand_with_htcondor(reference, text)


# The examples are fixed, because HTCondor differs for unbalanced parentheses in nested defaults.
@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.lists(
        st.sampled_from(["$", "(", ")", "$(a)", "$(none:", "b", ":", " ", "x", "$$", "$(b)", ",", "["]), max_size=9
    )
)
def test_any_text_expands_as_in_htcondor(pieces: list[str]) -> None:
    text = "<" + "".join(pieces) + ">"
    assert expand(text) == expand_with_htcondor(
        htcondor2.Submit("\n".join(f"{name} = {value}" for name, value in LINES.items())), text
    )


@together(
    "statement",
    [
        "x in (a b c)",
        "x in a, b c",
        "x,y in (1 2)",
        "x, y from (\n1 2\n3,4 5\n  6\t7\n)",
        "x from (\n1 2\n# no\n3\n)",
        "x,y,z from (\n1\n1,,2\n)",
    ],
)
def test_items_are_the_same_as_in_htcondor(statement: str) -> None:
    first_line, _, more_lines = statement.partition("\n")
    items = parse_queue(first_line, 1, ItemSources(FakeFiles(), lambda message: None, Lines(more_lines)))
    item_values = [dict(zip(items.variables, row, strict=True)) for row in zip(*items.rows, strict=True)]
    submit = htcondor2.Submit(f"executable = x\nqueue {statement}\n")
    assert item_values == [dict(item) for item in submit.itemdata()]

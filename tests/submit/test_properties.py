"""property: any text is a submission or rejected; jobs built together equal jobs built one by one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.classad import parse
from poolbook.domain.classad.argument_syntax import join, split, strip_double_quotes
from poolbook.domain.submit import Submission, SubmitError, dry_run, parse_submit
from poolbook.domain.submit.submit_commands import SIMPLE

from .fakes import FakeFiles, facts, submit

PIECES = st.sampled_from(
    [
        *(
            "executable = /bin/sleep",
            "arguments = ",
            "queue",
            "queue 2 x in (a b",
            "queue x,y from (",
            ")",
            "\n",
            "\n",
            "\n",
        ),
        *(
            "$(x",
            "$(x)",
            "$(y:",
            "$INT(",
            "$$(",
            "$ENV(HOME)",
            "$F(",
            "(",
            ")",
            "[",
            "]",
            '"',
            "'",
            "\\",
            "=",
            ":",
            "+",
        ),
        *("if ", "elif ", "else", "endif", "true", "!", "defined x", "include : a", "+Foo = ", "@=", "@", "x = ", "#"),
        *(
            "requirements = ",
            "request_memory = ",
            "environment = ",
            "universe = ",
            "&&",
            "1",
            "2G",
            " ",
            "\t",
            "\0",
            "é",
        ),
        *(f"{command.commands[0]} = " for command in SIMPLE),
    ]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join))


def parse_or_none(text: str) -> Submission | None:
    try:
        return parse_submit(text, facts(), FakeFiles({"a": "priority = 1\n", "b": "1\n2\n"}))
    except SubmitError as error:
        assert str(error)
        return None


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_any_text_is_a_submission_or_rejected(text: str) -> None:
    submission = parse_or_none(text)
    if submission is not None:
        assert submission.count >= 1
        assert all(len(column) == submission.count for column in submission.columns.values())
        for expression in submission.ad_of(submission.count - 1).values():
            parse(expression)
        next(dry_run(submission))


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_submission_or_rejected(data: bytes) -> None:
    parse_or_none("executable = x\n" + data.decode("utf-8", "surrogateescape"))


VALUES = st.text(alphabet="ab1 '\"\\$()%.,=/", max_size=8).map(lambda text: re.sub(r"^[#)]", "x", text.strip()))
# A backslash at the end of an item would continue it with the next one.
ITEMS = VALUES.filter(lambda value: value != "" and "," not in value and not value.endswith("\\"))
TEMPLATES = st.sampled_from(
    [
        "arguments = $(v)",
        "arguments = -n $(v) $(Process)",
        "output = $(v)",
        "output = out.$(v)",
        "error = $(v)\ntransfer_error = false",
        '+Note = "$(v)"',
        "arguments = $(v:none)",
        "log = $(v)",
        "initialdir = $(v)\nlog = a",
        "environment = A=$(v)",
        "request_cpus = $(v)",
        "description = $(w)\nw = <$(v)>",
    ]
)


@settings(max_examples=50, deadline=None)
@given(TEMPLATES, st.lists(ITEMS, min_size=2, max_size=5))
def test_jobs_built_together_equal_jobs_built_one_by_one(template: str, items: list[str]) -> None:
    def build(chosen: list[str], shift: int) -> Submission | None:
        text = template.replace("$(Process)", f"$INT({shift}+Process)" if shift else "$(Process)")
        try:
            return submit(f"{text}\nqueue v from items", {"items": "\n".join(chosen)})
        except SubmitError:
            return None

    together = build(items, 0)
    separate = [build([item], 0) for item in items]
    assert (together is None) == (None in separate)
    if together is None:
        return
    for proc, single in enumerate(separate):
        assert single is not None
        joint_ad, single_ad = together.ad_of(proc), single.ad_of(0)
        if "$(Process)" in template:
            single_ad = {**single_ad, "Args": joint_ad.get("Args", "")}
            assert joint_ad.get("Args", "").endswith(f' {proc}"') or "Args" not in joint_ad
        for name in joint_ad.keys() | single_ad.keys():
            if name not in ("ProcId", "Arguments"):
                assert joint_ad.get(name, "undefined") == single_ad.get(name, "undefined")


@given(st.lists(st.text(alphabet="ab '\"\t", max_size=5), max_size=5))
def test_arguments_survive_quoting(arguments: list[str]) -> None:
    assert split(strip_double_quotes('"' + join(arguments).replace('"', '""') + '"')) == arguments


@pytest.mark.parametrize("count", [1, 100_000])
def test_identical_jobs_share_all_attributes(count: int) -> None:
    assert submit(f"arguments = 1\nqueue {count}").columns == {}


def test_a_hundred_thousand_jobs_differ_only_in_the_requested_attributes() -> None:
    items = "".join(f"--seed={n} out/{n}.txt\n" for n in range(100_000))
    submission = submit("arguments = $(args)\noutput = $(out)\nqueue args,out from items", {"items": items})
    assert (submission.count, sorted(submission.columns)) == (100_000, ["Args", "Out"])
    assert submission.ad_of(77_777)["Args"] == '"--seed=77777"'

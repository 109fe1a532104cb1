"""The reference corpus of tests/data/classad (see the README there), and its form for values."""

import gzip
import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from poolbook.domain.classad import (
    ERROR,
    UNDEFINED,
    AbsTime,
    ClassAd,
    EvaluationError,
    Expression,
    ListValue,
    RelTime,
    parse,
    unparse,
)

DATA = Path(__file__).resolve().parent.parent / "data" / "classad"

Case = dict[str, Any]
Answer = dict[str, Any] | None

# A quotient or a power may differ in its last bit.
_INEXACT = re.compile(r"/|pow", re.IGNORECASE)
_MOST_MEMBERS = 12
_LEVELS = 3


@cache
def cases(name: str) -> list[Case]:
    """Return all cases of one of the files."""
    with gzip.open(DATA / f"{name}-cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@cache
def parsed(text: str) -> Expression:
    return parse(text)


def ad(texts: dict[str, str]) -> ClassAd:
    return ClassAd({name: parsed(text) for name, text in texts.items()})


class Group(NamedTuple):
    """One of the match cases: a job and 20 slots. The ads are shared; do not change them."""

    case: Case
    job: ClassAd
    slots: list[ClassAd]

    def expected(self, value: str) -> list[Any]:
        """Return the expected result for each slot."""
        return [name[value] for name in self.case["expect"]]


@cache
def groups() -> list[Group]:
    return [
        Group(case, ad(case["job"]), [ad(case["slot_common"] | own_ad) for own_ad in case["slots"]])
        for case in cases("match")
    ]


def evaluated(text: str, my: ClassAd, target: ClassAd, levels: int = _LEVELS) -> Answer:
    """Evaluate a text; return the value in the corpus's form, with lists and ads down to some level."""
    try:
        value = parse(text).evaluate(my, target)
    except EvaluationError as problem:
        return {"type": "failure", "value": str(problem)}
    members: Any = None
    if isinstance(value, ListValue):
        if levels > 1:
            members = [evaluated(f"({text})[{place}]", my, target, levels - 1) for place in range(len(value))]
        return {"type": "list", "value": members, "unparsed": unparse(value)}
    if isinstance(value, ClassAd):
        if levels > 1 and len(value) <= _MOST_MEMBERS:
            members = {name: evaluated(f"({text}).'{name}'", my, target, levels - 1) for name in value}
        return {"type": "classad", "value": members, "unparsed": unparse(value)}
    return answer(value)


def answer(value: Any) -> dict[str, Any]:
    """Return a value that is neither a list nor an ad in the corpus's form."""
    if value is UNDEFINED or value is ERROR:
        return {"type": str(value), "value": None}
    match value:
        case bool():
            return {"type": "boolean", "value": value}
        case int():
            return {"type": "integer", "value": value}
        case float():
            return {"type": "real", "value": _real(value)}
        case str():
            return {"type": "string", "value": value}
        case AbsTime():
            return {"type": "abstime", "value": value.seconds, "unparsed": unparse(value)}
        case RelTime():
            return {"type": "reltime", "value": value.seconds, "unparsed": unparse(value)}
    return {"type": type(value).__name__, "value": repr(value)}


def _real(value: float) -> float | str:
    if value != value:
        return "NaN"
    return value if math.isfinite(value) else "INF" if value > 0 else "-INF"


def is_inexact(*texts: str) -> bool:
    """Return True if a real computed from these texts may differ in its last bit."""
    return any(_INEXACT.search(text) for text in texts)


def same(expected: Answer, answer: Answer, inexact: bool) -> bool:
    """Return True if two values in the corpus's form agree."""
    if expected is None or answer is None:
        return True  # the corpus does not say
    if expected["type"] != answer["type"] or expected.get("unparsed") != answer.get("unparsed"):
        return False
    expected_value, right = expected["value"], answer["value"]
    match expected["type"]:
        case "real":
            return _same_real(expected_value, right, inexact)
        case "list" if expected_value is not None and right is not None:
            return len(expected_value) == len(right) and all(
                map(same, expected_value, right, [inexact] * len(expected_value))
            )
        case "classad" if expected_value is not None and right is not None:
            return set(expected_value) == set(right) and all(
                same(expected_value[name], right[name], inexact) for name in expected_value
            )
        case "list" | "classad":
            return True
    return type(expected_value) is type(right) and expected_value == right


def _same_real(expected_value: float | str, right: float | str, inexact: bool) -> bool:
    if isinstance(expected_value, str) or isinstance(right, str):
        return expected_value == right
    return expected_value == right or (
        inexact and abs(expected_value - right) <= math.ulp(max(abs(expected_value), abs(right)))
    )

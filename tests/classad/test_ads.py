"""Property: ads as mappings from names to expressions, and their values."""

import copy
import pickle
from collections.abc import MutableMapping
from typing import Any

import pytest

from poolbook.domain.classad import (
    ERROR,
    UNDEFINED,
    AbsTime,
    ClassAd,
    Context,
    Expression,
    ListValue,
    RelTime,
    parse,
    unparse,
)

from ..together import together
from .ads import unparsed

# The mapping ------------------------------------------------------------------------------------


def test_an_ad_maps_names_in_any_case_to_expressions() -> None:
    ad = ClassAd({"Cpus": 4, "Start": parse("KeyboardIdle > 900")})
    assert isinstance(ad, MutableMapping)
    assert ad["CPUS"] == ad["cpus"] == parse("4")
    assert isinstance(ad["start"], Expression)
    assert "START" in ad and "Memory" not in ad
    assert ad.get("cPuS") == parse("4")
    assert ad.get("Memory") is None
    assert len(ad) == 2
    with pytest.raises(KeyError, match="Memory"):
        ad["Memory"]


def test_only_ascii_letters_have_a_case() -> None:
    ad = ClassAd({"É": 1, "é": 2})
    assert len(ad) == 2


def test_an_ad_keeps_the_order_of_insertion_and_the_first_spelling() -> None:
    ad = ClassAd({"Zebra": 1, "b": 2})
    ad["a"] = 3
    ad["ZEBRA"] = 4
    assert unparsed(ad) == {"Zebra": "4", "b": "2", "a": "3"}
    assert list(ad) == ["Zebra", "b", "a"]


def test_a_deleted_attribute_is_gone_and_may_come_back_at_the_end() -> None:
    ad = ClassAd({"a": 1, "b": 2})
    del ad["A"]
    assert list(ad) == ["b"]
    with pytest.raises(KeyError, match="a"):
        del ad["a"]
    ad["A"] = 3
    assert unparsed(ad) == {"b": "2", "A": "3"}


def test_the_methods_of_a_mapping_work_as_for_a_dict() -> None:
    ad = ClassAd({"a": 1})
    ad.update({"B": parse("2"), "A": parse("3")})
    assert unparse(ad.setdefault("b", parse("5"))) == "2"
    assert unparse(ad.pop("A")) == "3"
    assert ad.pop("a", None) is None
    assert ad.popitem() == ("B", parse("2"))
    ad["c"] = 1
    ad.clear()
    assert not ad


def test_an_attribute_needs_a_name() -> None:
    with pytest.raises(ValueError, match="cannot be empty"):
        ClassAd({"": 1})


@pytest.mark.parametrize("name", [1, None, b"a"])
def test_a_name_is_a_string(name: Any) -> None:
    ad = ClassAd({"a": 1})
    assert name not in ad
    with pytest.raises(TypeError, match="name"):
        ad[name] = 1


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", 1j])
def test_a_value_that_no_ad_can_have_is_rejected_by_its_type(value: object) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        ClassAd({"a": value})


# Values -----------------------------------------------------------------------------------------

VALUES = [
    (0, "0"),
    (-(1 << 63), "-9223372036854775808"),
    (1 << 63, "-9223372036854775808"),
    (1.5, "1.500000000000000E+00"),
    (True, "true"),
    ("", '""'),
    ('say "é"\n', r'"say \"\303\251\"\n"'),
    ("\udcff", r'"\377"'),
    (None, "undefined"),
    (UNDEFINED, "undefined"),
    (ERROR, "error"),
    (AbsTime(0, 3600), 'absTime("1970-01-01T01:00:00+01:00")'),
    (RelTime(90061), 'relTime("1+01:01:01")'),
    ([1, "a", None, [2.0]], '{ 1,"a",undefined,{ 2.000000000000000E+00 } }'),
    ((), "{  }"),
    ({"b": 1, "a": {"c": [True]}}, "[ a = [ c = { true } ]; b = 1 ]"),
    (ClassAd({"a": parse("b + 1")}), "[ a = b + 1 ]"),
    (parse("a.b[0]"), "a.b[0]"),
]


@pytest.mark.parametrize(("value", "text"), VALUES, ids=[text for _, text in VALUES])
def test_python_values_become_expressions(value: object, text: str) -> None:
    assert unparse(ClassAd({"a": value})["a"]) == text


@pytest.mark.parametrize(
    "value",
    [0, -1, 1.5, 0.1 + 0.2, 5e-324, True, False, "", "é\udcff", UNDEFINED, ERROR, AbsTime(5, -60), RelTime(1.5)],
    ids=repr,
)
def test_a_value_that_was_put_into_an_ad_can_be_read_from_it(value: object) -> None:
    result = ClassAd({"a": value}).eval("a")
    assert type(result) is type(value)
    assert result is value or result == value


@together(
    ("text", "kind"),
    [
        ("1 + 1", int),
        ("1 / 2.0", float),
        ('"a"', str),
        ("1 < 2", bool),
        ("Nope", type(UNDEFINED)),
        ("1 / 0", type(ERROR)),
        ("absTime(0)", AbsTime),
        ("relTime(0)", RelTime),
        ("{1}", ListValue),
        ("[a = 1]", ClassAd),
    ],
)
def test_each_type_of_the_language_has_its_own_python_type(text: str, kind: type) -> None:
    assert type(parse(text).evaluate()) is kind


def test_undefined_and_error_are_compared_by_identity_and_have_no_truth_value() -> None:
    assert parse("Nope").evaluate() is UNDEFINED
    assert parse("1 / 0").evaluate() is ERROR
    assert (repr(UNDEFINED), str(ERROR)) == ("UNDEFINED", "error")
    for value in (UNDEFINED, ERROR):
        with pytest.raises(TypeError, match="neither true nor false"):
            bool(value)
        assert copy.deepcopy(value) is copy.copy(value) is pickle.loads(pickle.dumps(value)) is value


def test_times_are_equal_if_they_are_the_same_time_written_alike() -> None:
    assert AbsTime(60, 0) == AbsTime(60) != AbsTime(60, 3600)
    assert RelTime(60) == RelTime(60.0) != 60
    assert len({AbsTime(60), AbsTime(60, 0), RelTime(60), RelTime(60.0)}) == 2
    assert repr(AbsTime(60, 3600)) == "AbsTime(60, 3600)"
    assert repr(RelTime(60)) == "RelTime(60.0)"


def test_eval_gives_the_value_of_an_attribute_and_undefined_if_it_is_missing() -> None:
    ad = ClassAd({"Cpus": 4, "Fits": parse("TARGET.Request <= Cpus")})
    assert ad.eval("CPUS") == 4
    assert ad.eval("fits", ClassAd({"Request": 2})) is True
    assert ad.eval("fits") is UNDEFINED
    assert ad.eval("Memory", ClassAd({"Memory": 1})) is UNDEFINED
    assert ClassAd({"Now": parse("time()")}).eval("Now", context=Context(now=5)) == 5


def test_an_expression_without_an_ad_has_only_its_literals() -> None:
    assert parse("1 + 1").evaluate() == 2
    assert parse("a").evaluate() is UNDEFINED
    assert parse("a").evaluate(None, ClassAd({"a": 1})) is UNDEFINED


def test_a_list_evaluates_its_members_each_time_they_are_read() -> None:
    ad = ClassAd({"L": parse("{1, a, 1 / 0, {a}}"), "a": 2})
    members = ad.eval("L")
    assert [unparse(expression) for expression in members.expressions] == ["1", "a", "1 / 0", "{ a }"]
    assert len(members) == 4
    assert members[1] == 2
    assert members[-2] is ERROR
    assert members[:2] == [1, 2]
    assert list(members[3]) == [2]
    ad["a"] = 3
    assert members[1] == 3
    with pytest.raises(IndexError):
        members[4]


def test_an_ad_that_is_a_value_is_a_copy() -> None:
    outer = ClassAd({"Inner": {"a": 1}})
    inner = outer.eval("Inner")
    inner["a"] = 2
    assert unparse(outer) == "[ Inner = [ a = 1 ] ]"
    own_ad = parse("MY").evaluate(outer)
    assert isinstance(own_ad, ClassAd)
    own_ad["b"] = 1
    assert list(outer) == ["Inner"]


def test_an_ad_within_an_ad_is_a_copy_of_the_one_that_was_put_there() -> None:
    inner, attributes, members = ClassAd({"a": 1}), {"a": 1}, [1]
    outer = ClassAd({"Ad": inner, "Mapping": attributes, "List": members})
    inner["b"] = attributes["b"] = 2
    members.append(2)
    assert unparse(outer) == "[ Ad = [ a = 1 ]; List = { 1 }; Mapping = [ a = 1 ] ]"


def test_an_ad_can_be_put_into_itself() -> None:
    ad = ClassAd({"a": 1})
    ad["Copy"] = ad
    names = [list(ad.eval("Copy")), list(ad)]  # not in the assertion, which would print a circle endlessly
    assert names == [["a"], ["a", "Copy"]]

"""Property: ads chained to a parent, equal ads, and copies."""

import copy
import pickle
from collections.abc import Callable
from zoneinfo import ZoneInfo

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

from .ads import unparsed

# Chained ads ------------------------------------------------------------------------------------


def chained() -> tuple[ClassAd, ClassAd]:
    cluster = ClassAd({"Owner": "bob", "Args": parse("strcat(Owner, ProcId)"), "ProcId": -1})
    return cluster, ClassAd({"procid": 7, "Out": "o"}, chained=cluster)


def test_a_chained_ad_has_the_attributes_of_its_parent_under_its_own() -> None:
    cluster, proc = chained()
    assert proc.chained is cluster
    assert cluster.chained is None
    assert unparse(proc["OWNER"]) == '"bob"'
    assert "args" in proc
    assert len(proc) == 4
    assert sorted(name.lower() for name in proc) == ["args", "out", "owner", "procid"]
    assert unparse(proc["ProcId"]) == "7"
    assert proc.to_old() == 'Out = "o"\nArgs = strcat(Owner,ProcId)\nOwner = "bob"\nprocid = 7\n'


def test_an_inherited_attribute_is_evaluated_in_the_ad_that_inherits() -> None:
    cluster, proc = chained()
    assert proc.eval("Args") == "bob7"
    assert cluster.eval("Args") == "bob-1"
    assert parse("MY.Args").evaluate(proc) == "bob7"
    assert parse("TARGET.Args").evaluate(ClassAd({"Owner": "eve"}), proc) == "bob7"
    assert parse("Args").evaluate(ClassAd({"Owner": "eve"}), proc) == "bob7"


def test_a_change_stays_in_the_ad_and_one_of_the_parent_is_visible() -> None:
    cluster, proc = chained()
    proc["Owner"] = "eve"
    cluster["Cmd"] = "run"
    cluster["ProcId"] = 0
    assert cluster.eval("Owner") == "bob"
    assert proc.eval("Owner") == "eve"
    assert proc.eval("Cmd") == "run"
    assert proc.eval("ProcId") == 7


def test_deleting_hides_the_parents_attribute_with_undefined() -> None:
    cluster, proc = chained()
    del proc["Owner"]
    assert proc.eval("Owner") is UNDEFINED
    assert unparse(proc["Owner"]) == "undefined"
    assert "Owner" in proc
    assert len(proc) == 4
    assert cluster.eval("Owner") == "bob"
    del proc["ProcId"]
    assert proc.eval("ProcId") is UNDEFINED
    del proc["Out"]
    assert "Out" not in proc
    assert len(proc) == 3
    with pytest.raises(KeyError, match="Nope"):
        del proc["Nope"]
    proc["Owner"] = "eve"
    assert proc.eval("Owner") == "eve"


def test_a_chain_may_have_several_links() -> None:
    ads = [ClassAd({"a": 1, "b": 1, "c": 1})]
    ads.append(ClassAd({"b": 2, "c": 2}, chained=ads[-1]))
    ads.append(ClassAd({"c": 3}, chained=ads[-1]))
    assert unparsed(ads[-1]) == {"a": "1", "b": "2", "c": "3"}


class Limited(ClassAd):
    """An ad whose attributes can be removed only a limited number of times."""

    def popitem(self) -> tuple[str, Expression]:
        self.popped = getattr(self, "popped", 0) + 1
        assert self.popped < 100, "clear() does not end"
        return super().popitem()


def test_clearing_a_chained_ad_hides_all_attributes_of_the_parent() -> None:
    cluster, _ = chained()
    proc = Limited({"Out": "o"}, chained=cluster)
    proc.clear()
    assert unparsed(proc) == {"Owner": "undefined", "Args": "undefined", "ProcId": "undefined"}
    assert len(cluster) == 3


def test_all_forms_of_a_chained_ad_show_the_attributes_of_its_parent_too() -> None:
    _, proc = chained()
    flat = ClassAd(dict(proc))
    assert flat.chained is None
    assert flat == proc
    assert (flat.to_old(), flat.to_new(), flat.to_json()) == (proc.to_old(), proc.to_new(), proc.to_json())


# Equality, copies, pickles ----------------------------------------------------------------------


def test_ads_are_equal_if_they_have_the_same_attributes_with_the_same_expressions() -> None:
    ad = ClassAd({"a": 1, "B": parse("a + 1")})
    assert ad == ClassAd({"b": parse("a+1"), "A": 1})
    assert ad != ClassAd({"a": 1})
    assert ad != ClassAd({"a": 1.0, "B": parse("a + 1")})
    assert ad != ClassAd({"a": 1, "B": parse("1 + a")})
    assert ad != {"a": 1, "B": parse("a + 1")}
    assert ClassAd({"a": True}) != ClassAd({"a": 1})
    assert ClassAd({"a": "x"}) != ClassAd({"a": "X"})
    assert ClassAd({"a": None}) != ClassAd()
    with pytest.raises(TypeError, match="unhashable"):
        hash(ad)


def test_reals_are_equal_only_to_the_last_bit() -> None:
    assert parse("0.30000000000000004") != parse("0.3")
    assert ClassAd({"a": 0.1 + 0.2}) != ClassAd({"a": 0.3})
    assert ClassAd({"a": 0.1 + 0.2}) == ClassAd({"a": 0.30000000000000004})


def test_a_time_without_a_zone_is_not_equal_to_one_in_utc() -> None:
    assert parse('absTime("2024-07-01T00:00:00")') != parse('absTime("2024-07-01T00:00:00Z")')


def test_equal_expressions_have_equal_hashes() -> None:
    assert parse("a+1") == parse("a + 1")
    assert len({parse("a+1"), parse("a + 1"), parse("a + 2")}) == 2


COPIES: dict[str, Callable[[object], object]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
}


COPYING = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


LOCAL = Context(now=0, timezone=ZoneInfo("America/Chicago"))


@COPYING
@pytest.mark.parametrize(
    "text",
    [
        "a + b * 2 > 3 && TARGET.x =!= undefined",
        "[x = {1, a}; y = x[1]]",
        '"\\303" "é\\n"',
        "-9223372036854775808",
        "1e400",
        "0.30000000000000004",
        "5e-324",
        'absTime("2024-07-01T00:00:00")',
        'absTime("2024-07-01T00:00:00+05:30")',
        'relTime("0.123456789")',
        'relTime("99999999999999")',
        "- 5",
        "5 .a",
        "a.'b c'",
        "'f g'(1)",
    ],
)
def test_a_copied_expression_has_the_same_value(copied: Callable[[object], object], text: str) -> None:
    expression = parse(text)
    copy = copied(expression)
    assert isinstance(copy, Expression)
    assert copy == expression
    assert unparse(copy) == unparse(expression)
    ad = ClassAd({"a": 1, "b": 2})
    assert repr(copy.evaluate(ad, None, LOCAL)) == repr(expression.evaluate(ad, None, LOCAL))


@COPYING
def test_a_copied_ad_is_equal_and_independent(copied: Callable[[object], object]) -> None:
    ad = ClassAd({"Zz": 1, "a": parse("Zz + 1"), "R": 0.1 + 0.2, "T": AbsTime(5, 60), "N": {"x": parse("a")}})
    copy = copied(ad)
    assert isinstance(copy, ClassAd)
    assert copy == ad
    assert list(copy) == list(ad)
    assert copy.eval("R") == 0.1 + 0.2
    copy["b"] = 1
    copy["Zz"] = 5
    del copy["N"]
    assert list(ad) == ["Zz", "a", "R", "T", "N"]
    assert (ad.eval("a"), copy.eval("a")) == (2, 6)


def test_the_copy_of_a_chained_ad_has_the_same_parent_and_the_deep_copy_a_copied_one() -> None:
    cluster, proc = chained()
    for shallow in (copy.copy(proc), proc.copy()):
        assert shallow == proc
        assert shallow.chained is cluster
        del shallow["Out"]
        assert "Out" in proc
    for deep_copy in (copy.deepcopy(proc), pickle.loads(pickle.dumps(proc))):
        assert deep_copy == proc
        assert deep_copy.chained == cluster
        assert deep_copy.chained is not cluster


@COPYING
@pytest.mark.parametrize("value", [AbsTime(5, 60), RelTime(1.5), UNDEFINED, ERROR], ids=repr)
def test_a_copied_value_is_equal(copied: Callable[[object], object], value: object) -> None:
    assert copied(value) == value


@COPYING
def test_a_copied_list_still_sees_its_ad(copied: Callable[[object], object]) -> None:
    members = copied(ClassAd({"L": parse("{1, a}"), "a": 2}).eval("L"))
    assert isinstance(members, ListValue)
    assert list(members) == [1, 2]


def test_the_repr_of_an_ad_or_an_expression_makes_it_again() -> None:
    ad = ClassAd({"a": 'x"y', "b": parse("a == 'b c'")})
    assert eval(repr(ad)) == ad
    assert eval(repr(ad["b"])) == ad["b"]
    assert str(ad) == ad.to_new()
    assert str(ad["b"]) == "a == 'b c'"

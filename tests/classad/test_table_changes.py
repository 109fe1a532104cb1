"""Property: a table whose slots come, go and change answers like a new one."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from poolbook.domain.classad import UNDEFINED, ClassAd, parse
from poolbook.domain.classad.matching import symmetric_match
from poolbook.domain.classad.table import SlotTable

from .tables import WILLING, check_all, table_of, values_of

# Examples: the slots ---------------------------------------------------------------------------


def named(*names: str) -> SlotTable:
    return SlotTable(ClassAd({"Name": name, "Requirements": True}) for name in names)


def names_of(table: SlotTable) -> list[Any]:
    return [ad.eval("Name") for ad in table]


def test_a_slot_is_found_by_its_position_and_by_its_name() -> None:
    table = named("slot1@a", "slot1@b", "slot2@é")
    assert table.ad(1) == table.ad("slot1@b") == table["slot1@b"] == table[1] == table[-2]
    assert table["slot2@é"] == table[2] == table[-1]
    assert len(table) == 3


def test_an_unknown_name_or_position_is_rejected() -> None:
    table = named("a", "b")
    for name in ("c", "A", ""):
        with pytest.raises(KeyError):
            table.ad(name)
    for place in (2, -3):
        with pytest.raises(IndexError):
            table.ad(place)
    with pytest.raises(KeyError):
        SlotTable([ClassAd({"Cpus": 1})]).update("a", {"Cpus": 2})


def test_removal_keeps_the_order() -> None:
    table = named(*"abcdefg")
    table.remove("c")
    assert names_of(table) == [*"abdefg"]
    table.remove([0, "e", -1, 0])
    assert names_of(table) == [*"bdf"]
    assert table["f"] == table[2]
    table.remove(1)
    assert names_of(table) == [*"bf"]
    table.remove([])
    assert names_of(table) == [*"bf"]
    assert table.matches(WILLING).tolist() == [True, True]


def test_a_value_that_new_slots_share_with_all_others_is_stored_once() -> None:
    table = named("a", "b")
    table.extend(
        2, {"Name": [parse('"c"'), parse('"d"')], "Requirements": [parse("true")] * 2, "Cpus": [parse("1"), None]}
    )
    assert table.columns["requirements"].common is not None
    assert table.columns["name"].common is None
    assert [ad.eval("Cpus") for ad in table] == [UNDEFINED, UNDEFINED, 1, UNDEFINED]
    assert names_of(table) == [*"abcd"]


def test_if_one_slot_is_missing_no_slot_is_removed() -> None:
    table = named(*"abc")
    with pytest.raises(KeyError):
        table.remove(["a", "x"])
    with pytest.raises(IndexError):
        table.remove([0, 3])
    assert names_of(table) == [*"abc"]


def test_positions_that_numpy_found_can_be_removed() -> None:
    table = SlotTable(ClassAd({"Cpus": cpus}) for cpus in (1, 2, 3, 4))
    table.remove(np.flatnonzero(np.array([True, False, True, False])))
    assert [ad.eval("Cpus") for ad in table] == [2, 4]
    table.remove(np.int64(0))
    assert [ad.eval("Cpus") for ad in table] == [4]


def test_a_slots_name_follows_its_ad() -> None:
    table = named("a", "b")
    table.update("a", {"Name": "c"}, merge=True)
    assert table["c"] == table[0]
    with pytest.raises(KeyError):
        table.ad("a")
    table.update("c", {"Cpus": 4})
    with pytest.raises(KeyError):
        table.ad("c")
    assert table["b"] == table[1]


def test_an_update_replaces_an_ad_and_a_merge_keeps_attributes_that_it_does_not_mention() -> None:
    table = table_of("[A = 1; B = 2]", "[A = 1; B = 2]")
    table.update(0, {"b": 3, "C": "x"}, merge=True)
    table.update(1, {"b": 3, "C": "x"})
    assert table.ad(0) == ClassAd({"A": 1, "B": 3, "C": "x"})
    assert table.ad(1) == ClassAd({"B": 3, "C": "x"})
    assert values_of(table, "A + B") == [4, UNDEFINED]


def test_an_empty_table_has_empty_answers() -> None:
    job = ClassAd.from_new("[Requirements = TARGET.Cpus > 1 && floor(TARGET.Cpus) > 0; Rank = TARGET.Cpus]")
    for table in (SlotTable(), emptied()):
        assert len(table) == 0
        assert list(table) == []
        assert table.matches(job).tolist() == []
        assert table.rank(job).tolist() == []
        assert table.evaluate(parse("TARGET.Cpus + 1"), job).values.tolist() == []
        assert [(count.matched, count.left) for count in table.count_by_clause(job)] == [(0, 0), (0, 0)]


def emptied() -> SlotTable:
    table = SlotTable([ClassAd({"Cpus": 1, "Requirements": True}), ClassAd({"Cpus": 2, "Requirements": True})])
    table.remove([0, 1])
    return table


def test_slots_can_be_added_to_an_empty_table() -> None:
    slots = [ClassAd({"Memory": 1, "Requirements": parse("Start"), "Start": True}), ClassAd({"Cpus": 4.0})]
    for table in (SlotTable(), emptied()):
        for slot in slots:
            table.add(slot)
        check_all(table, slots, WILLING, ["Memory", "Cpus", "TARGET.Start"])


def test_several_slots_are_added_together() -> None:
    table = named("a")
    table.add(ClassAd({"Name": name, "Cpus": 2}) for name in "bcd")
    assert names_of(table) == [*"abcd"]
    assert values_of(table, "Cpus") == [UNDEFINED, 2, 2, 2]


def test_a_table_does_not_change_with_the_ads_that_it_was_made_of() -> None:
    ad = ClassAd({"Cpus": 4, "Requirements": True})
    table = SlotTable([ad])
    ad["Cpus"] = 8
    table.ad(0)["Cpus"] = 16
    assert values_of(table, "Cpus") == [4]


def test_results_belong_to_the_caller() -> None:
    slots = [ClassAd({"Cpus": cpus, "Ok": cpus > 1, "Requirements": parse("Cpus > 1")}) for cpus in (1, 2, 4)]
    table = SlotTable(slots)
    job = ClassAd({"Requirements": parse("TARGET.Cpus < 4"), "Rank": parse("TARGET.Cpus")})
    plan = table.plan(job)
    questions: list[Callable[[], Any]] = [
        *(lambda: table.matches(job), lambda: table.rank(job), plan.matches),
        *(lambda: table.evaluate(parse("TARGET.Cpus")).values, lambda: table.evaluate(parse("TARGET.Ok")).values),
        *(lambda: table.evaluate(parse("TARGET.Cpus")).kinds, lambda: table.evaluate(parse("Cpus > 1")).values),
    ]
    for ask in questions:
        before = ask()
        expected = before.tolist()
        if before.flags.writeable:
            before[:] = 0
        assert ask().tolist() == expected
    check_all(table, slots, job, ["Cpus", "Ok"])


def test_results_do_not_change_when_the_table_changes() -> None:
    table = SlotTable(ClassAd({"Cpus": cpus, "Mixed": mixed}) for cpus, mixed in ((1, 2), (2, "a"), (4, 1.5)))
    before = [table.evaluate(parse(text)) for text in ("Cpus", "Mixed", "Cpus > 1", "-Cpus")]
    expected = [(cells.values.tolist(), cells.kinds.tolist()) for cells in before]
    table.update(0, {"Cpus": 100, "Mixed": "b"})
    table.update(1, {"Cpus": "x", "Mixed": 1}, merge=True)
    assert [(cells.values.tolist(), cells.kinds.tolist()) for cells in before] == expected


def test_a_stored_plan_sees_every_change() -> None:
    slots = [ClassAd({"Name": f"slot{cpus}", "Cpus": cpus, "Requirements": True}) for cpus in (1, 2, 4)]
    table = SlotTable(slots)
    plan = table.plan(
        ClassAd.from_new("[RequestCpus = 2; Requirements = TARGET.Cpus >= RequestCpus && Offline =!= true]")
    )
    assert plan.matches().tolist() == [False, True, True]
    table.update("slot1", {"Cpus": 8}, merge=True)
    assert plan.matches().tolist() == [True, True, True]
    table.update("slot4", {"Offline": True}, merge=True)
    assert plan.matches().tolist() == [True, True, False]
    table.remove("slot2")
    assert plan.matches().tolist() == [True, False]
    table.add(slots[1])
    assert plan.matches().tolist() == [True, False, True]
    table.update(0, {"Cpus": 8})
    assert plan.matches().tolist() == [False, False, True]
    table.update(0, {"Cpus": 8, "Requirements": parse("TARGET.RequestCpus == 3")})
    assert plan.matches().tolist() == [False, False, True]
    table.update(0, {"Requirements": parse("RequestCpus == 2")}, merge=True)
    assert plan.matches().tolist() == [True, False, True]
    table.remove([0, 1, 2])
    assert plan.matches().tolist() == []


def test_an_attribute_that_all_slots_share_may_change_in_one_of_them() -> None:
    shared_attributes = {"Start": parse("Ok && TARGET.RequestCpus <= Most"), "Ok": True, "Most": 4}
    slots = [ClassAd({"Requirements": parse("Start"), "Name": name, **shared_attributes}) for name in "abc"]
    table = SlotTable(slots)
    job = ClassAd({"RequestCpus": 4, "Requirements": parse("TARGET.Most > 2 && TARGET.Offline =!= true")})
    plan = table.plan(job)
    changes: list[tuple[str, dict[str, Any], list[bool]]] = [
        ("a", {"Most": 2}, [False, True, True]),
        ("b", {"Ok": False}, [False, False, True]),
        ("a", {"Most": 5}, [True, False, True]),
        ("c", {"Start": False}, [True, False, False]),
        ("b", {"Ok": True}, [True, True, False]),
        ("c", {"Start": parse("Most =!= 4 || TARGET.Offline =?= undefined")}, [True, True, True]),
        ("a", {"Offline": True}, [False, True, True]),
        ("b", {"Requirements": parse("Start && Offline")}, [False, False, True]),
        ("b", {"Offline": 1}, [False, True, True]),
    ]
    assert plan.matches().tolist() == [True, True, True]
    for name, change, expected in changes:
        table.update(name, change, merge=True)
        assert plan.matches().tolist() == table.matches(job).tolist() == expected
        check_all(table, list(table), job, ["TARGET.Start", "TARGET.Requirements"])


def test_a_job_may_use_an_attribute_that_no_slot_has_when_slots_come_and_go() -> None:
    slots = [ClassAd({"Requirements": True}) for _ in range(3)]
    table = SlotTable(slots)
    job = ClassAd({"Requirements": parse("TARGET.Offline =!= true && TARGET.Nope =?= undefined")})
    plan = table.plan(job)
    for _ in range(3):
        assert plan.matches().tolist() == table.matches(job).tolist() == [True] * len(table)
        assert table.count_by_clause(job)[0].matched == len(table)
        table.add(slots[0])
    table.remove([0, 1])
    assert plan.matches().tolist() == table.matches(job).tolist() == [True] * len(table)


LARGE = "9007199254740992.0"
NUMBERS = ("-5", "1", "0", "1.0", "50", "99", "99.5", "1e30", "-1e30", 'real("NaN")', 'real("INF")', LARGE)


@pytest.mark.parametrize(
    "values",
    [
        range(100),
        [number / 2 for number in range(200)],
        [1, 50, 99],
        [1.0, float("nan"), 99.5],
        [float("nan"), *(number / 2 for number in range(200))],
        [2**53, 2**53 + 1, 5],
        [*range(100), 2**53 + 1],
    ],
    ids=["many integers", "many reals", "few integers", "NaN", "many reals and NaN", "large", "many and large"],
)
def test_comparisons_with_different_numbers_do_not_share_a_wrong_mask(values: Sequence[float]) -> None:
    slots = [ClassAd({"Value": value, "Requirements": parse("true")}) for value in values]
    table = SlotTable(slots)
    for operator in ("<", "<=", "==", "!=", ">=", ">"):
        for number in NUMBERS:
            job = ClassAd({"Requirements": parse(f"TARGET.Value {operator} {number}")})
            assert table.matches(job).tolist() == [symmetric_match(job, slot) for slot in slots], (operator, number)

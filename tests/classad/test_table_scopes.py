"""Property: names have the same meaning on a table as in each slot's ad, whatever jobs came before."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from poolbook.domain.classad import ClassAd, ClassAdSyntaxError, parse
from poolbook.domain.classad.table import SlotTable

from ..sampling import marked
from .tables import WILLING, WORLD, check_all, check_clauses, check_evaluation, check_matches, check_rank, values_of

# Examples: names and scopes --------------------------------------------------------------------


def check_texts(slots: Sequence[ClassAd], job: ClassAd, *texts: str) -> None:
    """Check each text as an expression, and as the Requirements and Rank of the job and of the slots."""
    for text in texts:
        expression = parse(text)
        check_evaluation(SlotTable(slots, context=WORLD), slots, job, expression)
        for asking, asked_expression in [(expression, parse("true")), (parse("true"), expression)]:
            job_copy = job.copy()
            job_copy.update(Requirements=asking, Rank=expression)
            other_slots = [slot.copy() for slot in slots]
            for other in other_slots:
                other["Requirements"] = asked_expression
            table = SlotTable(other_slots, context=WORLD)
            check_matches(table, other_slots, job_copy)
            check_rank(table, other_slots, job_copy)
            check_clauses(table, other_slots, job_copy)


def test_a_name_is_looked_up_in_its_ad_and_then_in_the_other_ad() -> None:
    slots = [
        ClassAd.from_new("[Cpus = 4; A = B; C = TARGET.B; D = MY.B]"),
        ClassAd.from_new("[Cpus = 2; A = B; B = 3; C = B; D = Owner]"),
        ClassAd.from_new("[]"),
    ]
    job = ClassAd.from_new('[B = 7; Cpus = 1; Owner = "bob"; E = TARGET.A; F = A]')
    texts = [
        "A",
        "C",
        "D",
        "E",
        "F",
        "Cpus",
        "TARGET.Cpus",
        "MY.Cpus",
        "MY.A",
        "TARGET.E",
        "A == E",
        "F =?= 7",
        "C > 3",
    ]
    check_texts(slots, job, *texts)


@pytest.mark.parametrize("place", [marked("slots"), "job", marked("both")])
@pytest.mark.parametrize(
    "name", ["MY", "TARGET", "SELF", "PARENT", "OTHER", "LEFT", "RIGHT", "AD", "ROOT", "CurrentTime"]
)
def test_attributes_with_the_names_of_scopes_are_attributes(name: str, place: str) -> None:
    texts = ["MY.Cpus > 50", "TARGET.Cpus > 50", "MY.Nope =?= undefined", "TARGET.Cpus", "self.Cpus > 0", "Cpus"]
    texts += [f"{name}", f"{name}.Cpus", f"{name}.Cpus > 3 && Cpus > 0", f"TARGET.{name}", f"MY.{name}.Cpus"]
    for value in ("[Cpus = 100; Requirements = false]", "5", '"a"', "undefined", "TARGET", "true"):
        called, plain_job = ClassAd({"Cpus": 4, name: parse(value)}), ClassAd({"Cpus": 8})
        slots = [called if place != "job" else plain_job.copy(), plain_job]
        # A copy: an ad matched with itself has no TARGET.
        check_texts(slots, (plain_job if place == "slots" else called).copy(), *texts)


@pytest.mark.parametrize("name", ["MY", "TARGET"])
@pytest.mark.parametrize(
    "text", ['regexp("^slot1", TARGET.Name)', "TARGET.Cpus > 2", "MY.Cpus > 2", "floor(TARGET.Cpus) > 2"]
)
def test_jobs_with_and_without_such_attributes_can_be_evaluated_in_turn(name: str, text: str) -> None:
    slots = [ClassAd({"Name": f"slot{cpus}@e", "Cpus": cpus, "Requirements": True}) for cpus in (1, 2, 4)]
    plain_job = ClassAd({"Cpus": 8, "Requirements": parse(text)})
    for value in ("[Cpus = 1]", "5", name, "undefined"):
        called = ClassAd({"Cpus": 8, "Requirements": parse(text), name: parse(value)})
        table = SlotTable(slots)
        for job in (plain_job, called, plain_job, called):
            check_matches(table, slots, job)
            check_clauses(table, slots, job)
            check_evaluation(table, slots, job, parse(text))
            check_matches(table, slots, job)


def test_the_names_of_the_match_itself_are_visible() -> None:
    slots = [ClassAd({"Cpus": 4, "A": parse("other.B")}), ClassAd({"Cpus": 8, "A": parse("LEFT.B + RIGHT.Cpus")})]
    job = ClassAd({"B": 2})
    texts = ["LEFT.B", "RIGHT.Cpus > 4", ".RIGHT.Cpus", "other.Cpus", "TARGET.A", "ad.B", ".Cpus", "parent.B", "self.B"]
    check_texts(slots, job, *texts, "rightMatchesLeft", "symmetricMatch", "root.LEFT.B", "toplevel.RIGHT.A")


def test_a_job_chained_to_its_cluster_has_the_clusters_attributes() -> None:
    cluster = ClassAd({"RequestCpus": 2, "Requirements": parse("TARGET.Cpus >= RequestCpus"), "Rank": parse("Cpus")})
    job = ClassAd({"RequestCpus": 4}, chained=cluster)
    slots = [ClassAd({"Cpus": cpus, "Requirements": True}) for cpus in (1, 2, 4, 8)]
    assert SlotTable(slots).matches(job).tolist() == [False, False, True, True]
    assert SlotTable(slots).rank(job).tolist() == [1.0, 2.0, 4.0, 8.0]
    check_all(SlotTable(slots), slots, job, ["RequestCpus", "MY.RequestCpus", "MY.Rank", "RequestCpus + Cpus"])


def test_a_chained_slot_ad_is_copied_as_one_ad() -> None:
    parent = ClassAd({"Requirements": True, "Memory": 1024})
    slots = [ClassAd({"Cpus": 1}, chained=parent), ClassAd({"Cpus": 2, "Memory": 2048}, chained=parent)]
    check_all(SlotTable(slots), slots, WILLING, ["Memory", "TARGET.Memory", "Cpus * Memory"])


def test_expressions_that_differ_in_a_reals_last_digits_are_not_confused() -> None:
    exact, near = parse("X >= 0.30000000000000004"), parse("X >= 0.3")
    slots = [ClassAd({"X": 0.3, "Requirements": exact}), ClassAd({"X": 0.3, "Requirements": near})]
    assert SlotTable(slots).matches(WILLING).tolist() == [False, True]
    assert values_of(SlotTable(slots), "TARGET.Requirements") == [False, True]
    table = SlotTable(slots)
    table.update(0, {"Requirements": near, "X": 0.3})
    assert table.matches(WILLING).tolist() == [True, True]
    assert [ad.eval("Requirements") for ad in table] == [True, True]


@pytest.mark.parametrize(
    "text", ["TARGET.X >= {0}", "TARGET.X + {0} <= 0.6", "min({{TARGET.X, {0}}}) == 0.3", "-{0} < -X"]
)
def test_jobs_that_differ_in_a_reals_last_digits_are_not_confused(text: str) -> None:
    slots = [ClassAd({"X": value, "Requirements": True}) for value in (0.3, 0.30000000000000004, 0.1)]
    table = SlotTable(slots)
    for real in ("0.30000000000000004", "0.3", "0.30000000000000004", "0.29999999999999999"):
        check_matches(table, slots, ClassAd({"Requirements": parse(text.format(real))}))
        check_matches(table, slots, ClassAd({"Requirements": parse(text.format("R")), "R": float(real)}))


def test_jobs_in_turn_do_not_see_one_anothers_attributes() -> None:
    known_friend = 'Requirements = stringListMember(toLower(Friend), "alice,bob") || Owner == Friend'
    slots = [
        ClassAd.from_new(f'[Cpus = 4; Friend = "Bob"; {known_friend}]'),
        ClassAd.from_new(f"[Cpus = 4; {known_friend}]"),
        ClassAd.from_new("[Cpus = 4; Requirements = Start && RequestCpus <= Cpus; Start = Owner == TARGET.Friend]"),
        ClassAd.from_new('[Cpus = 8; Requirements = Start && RequestCpus <= Cpus; Start = Owner != "bob"]'),
    ]
    table = SlotTable(slots)
    requirements = parse("Cpus >= RequestCpus && TARGET.Cpus > Least")
    jobs = [
        ClassAd({"Requirements": requirements, "RequestCpus": cpus, "Owner": owner, **attributes})
        for attributes in (
            {},
            {"Least": 1, "Friend": "alice"},
            {"Least": 5},
            {"Least": 1.0},
            {"Least": True},
            {"Cpus": 100, "Least": 0},
            {"Friend": "x"},
        )
        for cpus in (1, 8, "8", 1.0)
        for owner in ("alice", "bob", "Alice", None)
    ]
    for job in [*jobs, *reversed(jobs)]:
        check_matches(table, slots, job)
        check_clauses(table, slots, job)


# Examples: deep and long expressions -----------------------------------------------------------


def check_at_any_depth(check: Callable[..., None], *arguments: Any) -> None:
    """Run the check; raise a short error if Python's stack was too small, since pytest would compare all of its
    frames."""
    try:
        check(*arguments)
        return
    except RecursionError:
        pass
    pytest.fail(f"{check.__name__}: a RecursionError", pytrace=False)


NESTINGS = {
    "parentheses": ("(", "TARGET.X", ")"),
    "minus": ("-", "TARGET.X", ""),
    "not": ("!", "TARGET.X", ""),
    "sums to the left": ("", "TARGET.X", " + 1"),
    "sums to the right": ("1 + (", "TARGET.X", ")"),
    "a long sum of columns": ("TARGET.X + ", "1", ""),
    "a long ||": ("TARGET.X || ", "false", ""),
    "a long &&": ("", "true", " && TARGET.X"),
    "nested && and ||": ("TARGET.X || (true && ", "false", ")"),
    "conditionals": ("TARGET.X ? ", "1", " : 2"),
    "calls": ("floor(", "TARGET.X", ")"),
    "elvis": ("TARGET.Y ?: (", "1", ")"),
    "lists": ("{", "X", "}"),
    "subscripts": ("{", "X", "}[0]"),
}


@pytest.mark.parametrize("nesting", NESTINGS)
def test_a_deep_expression_fails_where_the_scalar_evaluation_does(nesting: str) -> None:
    start, middle, end = NESTINGS[nesting]
    for levels in (70, 199, 200, 201, 397, 398, 399, 400, 401):
        try:
            expression = parse(start * levels + middle + end * levels)
        except ClassAdSyntaxError:  # already too deep for the parser
            break
        slots = [ClassAd({"X": 1}), ClassAd({"X": 0}), ClassAd()]
        check_at_any_depth(check_evaluation, SlotTable(slots), slots, ClassAd(), expression)
        deep_ads = [ClassAd({"X": 1, "Requirements": expression}), WILLING]
        check_at_any_depth(check_matches, SlotTable(deep_ads), deep_ads, ClassAd({"Requirements": expression, "X": 1}))
        check_at_any_depth(check_rank, SlotTable(deep_ads), deep_ads, ClassAd({"Rank": expression}))


@pytest.mark.parametrize("form", ["A{0}", "A{0} + 0", "(A{0})", "MY.A{0} || false", "TARGET.A{0}"])
@pytest.mark.parametrize("length", [30, marked(58), 59, 60, marked(61), 130, marked(405)])
def test_a_long_chain_of_attributes_fails_where_the_scalar_evaluation_does(form: str, length: int) -> None:
    chain = {f"A{place}": parse(form.format(place + 1)) for place in range(length)} | {f"A{length}": parse("1")}
    slots = [ClassAd(chain), ClassAd(chain | {f"A{length - 1}": parse("2")}), ClassAd({"A1": 1})]
    check_at_any_depth(check_evaluation, SlotTable(slots), slots, ClassAd(chain), parse("TARGET.A0"))
    check_at_any_depth(check_evaluation, SlotTable(slots), slots, ClassAd(chain), parse("MY.A0"))
    check_at_any_depth(check_rank, SlotTable(slots), slots, ClassAd(chain | {"Rank": parse("TARGET.A0")}))

"""Property: a job's requirements, rank and clauses on a table equal the results of each slot's own evaluation."""

from poolbook.domain.classad import UNDEFINED, ClassAd, parse
from poolbook.domain.classad.table import SlotTable

from ..together import together
from .tables import WILLING, WORLD, check_clauses, check_evaluation, check_matches, check_rank, table_of, values_of


def test_a_job_without_requirements_matches_nothing() -> None:
    table = table_of("[Requirements = true]", "[Requirements = 1; Cpus = 4]")
    assert table.matches(ClassAd({"Cpus": 1})).tolist() == [False, False]


def test_a_slot_without_requirements_matches_nothing() -> None:
    table = table_of("[Cpus = 4]", "[Requirements = true]", "[]")
    assert table.matches(WILLING).tolist() == [False, True, False]


def test_no_slot_with_requirements_matches() -> None:
    assert table_of("[Cpus = 4]", "[Cpus = 8]").matches(WILLING).tolist() == [False, False]


@together(
    ("text", "accepted"),
    [
        *(("true", True), ("1", True), ("-1", True), ("0.5", True), ("9223372036854775807", True)),
        *(("false", False), ("0", False), ("0.0", False), ("-0.0", False), ('"true"', False), ('"1"', False)),
        *(("undefined", False), ("error", False), ("{true}", False), ("[a = true]", False), ("1/0", False)),
        *(("relTime(60)", False), ("absTime(60)", False), ("random(0)", False), ("Nope", False), ("MY.Yes", True)),
    ],
)
def test_only_true_and_numbers_other_than_0_match(text: str, accepted: bool) -> None:
    asking_job = ClassAd({"Requirements": parse(text), "Yes": True})
    other_ads = [asking_job, WILLING, ClassAd({"Requirements": False})]
    assert SlotTable(other_ads, context=WORLD).matches(WILLING).tolist() == [accepted, True, False]
    assert SlotTable([WILLING, WILLING], context=WORLD).matches(asking_job).tolist() == [accepted] * 2
    for slots in (other_ads, [asking_job], [asking_job, asking_job]):
        check_matches(SlotTable(slots, context=WORLD), slots, WILLING)


def test_slots_with_different_requirements_are_each_evaluated_with_their_own() -> None:
    table = table_of(
        "[Cpus = 1; Requirements = TARGET.RequestCpus <= MY.Cpus]",
        '[Cpus = 4; Requirements = TARGET.Owner == "ALICE"]',
        "[Cpus = 4; Requirements = TARGET.RequestCpus <= MY.Cpus]",
        "[Cpus = 8; Requirements = Start; Start = RequestCpus > 2]",
        "[Cpus = 8; Requirements = Start; Start = RequestCpus < 2]",
        "[Cpus = 8; Requirements = Start]",
        "[Cpus = 8]",
    )
    job = ClassAd.from_new('[RequestCpus = 4; Owner = "alice"; Requirements = TARGET.Cpus > 0]')
    assert table.matches(job).tolist() == [False, True, True, True, False, False, False]


def test_a_circular_reference_is_undefined() -> None:
    table = table_of("[A = B; B = A; Requirements = A =?= undefined]", "[A = B + 1; B = 1; Requirements = A == 2]")
    assert values_of(table, "TARGET.A") == [UNDEFINED, 2]
    assert values_of(table, "TARGET.A ?: 5") == [5, 2]
    assert table.matches(WILLING).tolist() == [True, True]


def test_requirements_that_refer_to_one_another_are_undefined() -> None:
    slots = [ClassAd.from_new("[Requirements = TARGET.Requirements]"), WILLING]
    job = ClassAd.from_new("[Requirements = TARGET.Requirements]")
    assert SlotTable(slots).matches(job).tolist() == [False, True]
    check_matches(SlotTable(slots), slots, job)


@together(
    "start",
    [
        "unresolved(TARGET.Nope) =?= undefined && Start =?= undefined",
        "Start =?= undefined && unresolved(TARGET.Nope) =?= undefined",
        "countMatches(TARGET.Nope, {}) =?= 0 || Start =?= undefined",
        '(Start =?= undefined) && eval("Start") =?= undefined && Again',
        "{Start}[0] =?= undefined && [a = Start].a =?= undefined",
        "Start =?= undefined && Again =?= true",
        "(unresolved(Owner, 5) ?: 1) =!= 1 || Start =?= undefined",
        "X > 1 && (Start =?= undefined || unresolved(Owner, 5) =?= 1)",
    ],
)
def test_a_condition_behind_a_name_is_circular_if_it_refers_to_itself(start: str) -> None:
    for texts in (["1", "1"], ["1", "2", "3"]):
        slots = [
            ClassAd(
                {"X": parse(x), "Requirements": parse("Start"), "Start": parse(start), "Again": parse("Start =!= true")}
            )
            for x in texts
        ]
        for job in (WILLING, ClassAd({"Requirements": parse("TARGET.Start"), "Owner": "alice"})):
            check_matches(SlotTable(slots), slots, job)
            check_clauses(SlotTable(slots), slots, job)
            check_evaluation(SlotTable(slots), slots, job, parse("TARGET.Start"))
            check_evaluation(SlotTable(slots), slots, job, parse("TARGET.Requirements"))


@together(
    ("rank", "expected"),
    [
        ("TARGET.Memory", [1024.0, 2.5, 1.0, 0.0, 0.0, 0.0]),
        ("TARGET.Memory > 2", [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        ("-TARGET.Memory", [-1024.0, -2.5, 0.0, 0.0, 0.0, 0.0]),
        ("TARGET.Nope", [0.0] * 6),
        ('"1"', [0.0] * 6),
        ("7", [7.0] * 6),
        ("random(0)", [0.0] * 6),
        ("TARGET.Memory / 0", [0.0] * 6),
    ],
)
def test_the_rank_of_a_non_number_is_0(rank: str, expected: list[float]) -> None:
    slots = [ClassAd({"Memory": value}) for value in (1024, 2.5, True, "2", None)] + [ClassAd()]
    job = ClassAd({"Rank": parse(rank)})
    assert SlotTable(slots, context=WORLD).rank(job).tolist() == expected
    check_rank(SlotTable(slots, context=WORLD), slots, job)


def test_a_job_without_rank_ranks_all_slots_0() -> None:
    assert table_of("[Rank = 5]", "[]").rank(ClassAd()).tolist() == [0.0, 0.0]


def test_the_clauses_of_requirements_are_counted_separately_and_in_order() -> None:
    table = SlotTable(ClassAd({"Cpus": cpus, "Memory": 1024 * cpus}) for cpus in (1, 2, 4, 8))
    job = ClassAd.from_new("[M = 4096; Requirements = (TARGET.Cpus < 8) && (Memory >= M && TARGET.Cpus > 1)]")
    counts = [
        (str(clause), matched_count, matches_left) for clause, matched_count, matches_left in table.count_by_clause(job)
    ]
    assert counts == [("(TARGET.Cpus < 8)", 3, 3), ("Memory >= M", 2, 1), ("TARGET.Cpus > 1", 3, 1)]


def test_a_job_without_requirements_has_no_clauses() -> None:
    assert table_of("[]").count_by_clause(ClassAd()) == []

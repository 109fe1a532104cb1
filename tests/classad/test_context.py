"""Golden and property: an expression knows about the world only what its context contains."""

from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.classad import (
    DEFAULT,
    ERROR,
    UNDEFINED,
    AbsTime,
    ClassAd,
    Context,
    EvaluationError,
    ListValue,
    RelTime,
    parse,
    symmetric_match,
    unparse,
)

from ..together import together

FIXED = settings(max_examples=50, derandomize=True, deadline=None, database=None)
CHICAGO = ZoneInfo("America/Chicago")
NOON = 1_720_000_000  # 2024-07-03 09:46:40 UTC, in summer


def value(text: str, context: Context, my: str = "[]", target: str = "[]") -> str:
    return unparse(parse(text).evaluate(ClassAd.from_new(my), ClassAd.from_new(target), context))


# The time ---------------------------------------------------------------------------------------


@together(
    ("text", "in_utc", "in_chicago"),
    [
        ("time()", "1720000000", "1720000000"),
        ("TIME() - 60", "1719999940", "1719999940"),
        ("CurrentTime", "1720000000", "1720000000"),
        ("currentTime()", 'absTime("2024-07-03T09:46:40-00:00")', 'absTime("2024-07-03T04:46:40-05:00")'),
        ("absTime()", 'absTime("2024-07-03T09:46:40-00:00")', 'absTime("2024-07-03T04:46:40-05:00")'),
        ("dayTime()", 'relTime("09:46:40")', 'relTime("04:46:40")'),
        ("timeZoneOffset()", 'relTime("00")', 'relTime("-05:00:00")'),
        ("formatTime()", '"Wed Jul  3 09:46:40 2024"', '"Wed Jul  3 04:46:40 2024"'),
        ('formatTime(time(), "%F %T")', '"2024-07-03 09:46:40"', '"2024-07-03 04:46:40"'),
        ("getHours(currentTime())", "9", "4"),
    ],
)
def test_the_time_and_its_zone_are_those_of_the_context(text: str, in_utc: str, in_chicago: str) -> None:
    assert value(text, Context(now=NOON)) == in_utc
    assert value(text, Context(now=NOON, timezone=CHICAGO)) == in_chicago


@together(
    ("text", "asking"),
    [
        ("time()", "time"),
        ("CurrentTime", "time"),
        ("currentTime()", "currentTime"),
        ("absTime()", "absTime"),
        ("dayTime()", "dayTime"),
        ("timeZoneOffset()", "timeZoneOffset"),
        ("formatTime()", "formatTime"),
    ],
)
def test_without_a_time_a_function_that_needs_it_says_how_to_set_one(text: str, asking: str) -> None:
    for context in (None, DEFAULT, Context(seed=1)):
        with pytest.raises(EvaluationError, match=rf"{asking}\(\) needs the time.*Context\(now=") as error:
            parse(text).evaluate(ClassAd(), context=context)
        assert "\n" not in str(error.value)


@together(
    "text",
    [
        "{time()}[0]",
        '[t = time()]["t"]',
        "[t = time()].t",
        "Now",
        "TARGET.Now",
        "Nope ?: time()",
        "isError(time())",
        'eval("time()")',
        "sum({time()})",
        "member(1, {time()})",
        "{[t = time()]}.t",
        "countMatches(time() > 0, {[a = 1]})",
        "evalInEachContext(time(), {[a = 1]})",
        "debug(time())",
    ],
)
def test_the_missing_time_is_reported_wherever_it_is_needed(text: str) -> None:
    ad = ClassAd({"Now": parse("time()")})
    with pytest.raises(EvaluationError, match=r"Context\(now="):
        parse(text).evaluate(ad, ad.copy())


def test_a_time_that_is_not_needed_may_be_missing() -> None:
    assert value("true || time() > 5", DEFAULT) == "true"
    assert value("false ? time() : 1", DEFAULT) == "1"
    assert value("{time()}", DEFAULT) == "{ time() }"
    assert value("isError(noSuchFunction(time()))", Context(now=1)) == "true"


def test_a_match_that_reads_the_time_needs_one_too() -> None:
    idle = ClassAd({"Requirements": parse("time() - Since > 900"), "Since": 0})
    job = ClassAd({"Requirements": True})
    assert symmetric_match(job, idle, Context(now=901))
    assert not symmetric_match(job, idle, Context(now=900))
    with pytest.raises(EvaluationError, match=r"Context\(now="):
        symmetric_match(job, idle)


def test_the_zone_is_utc_by_default() -> None:
    assert value('absTime("2024-07-03T12:00:00")', DEFAULT) == 'absTime("2024-07-03T12:00:00-00:00")'
    assert value("getHours(absTime(0))", DEFAULT) == "0"


def test_the_zone_may_be_any_that_python_has() -> None:
    east = Context(now=NOON, timezone=timezone(timedelta(hours=5, minutes=30)))
    assert value("absTime(0)", east) == 'absTime("1970-01-01T05:30:00+05:30")'
    assert value('formatTime(0, "%H:%M")', east) == '"05:30"'
    assert value('absTime("2024-07-03T12:00:00")', east) == 'absTime("2024-07-03T12:00:00+05:30")'
    assert value("timeZoneOffset()", east) == 'relTime("05:30:00")'


def test_a_list_keeps_the_context_that_it_was_made_with() -> None:
    members = parse("{time(), {time()}, getHours(absTime(0))}").evaluate(context=Context(now=5, timezone=CHICAGO))
    assert isinstance(members, ListValue)
    assert members[0] == 5
    assert list(members[1]) == [5]
    assert members[2] == 18


# Random numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["random()", "random(10)", "random(2.5)", "{random(), random()}[1]"])
def test_random_functions_need_a_seed_and_say_so(text: str) -> None:
    with pytest.raises(EvaluationError, match=r"random\(\) needs a seed.*Context\(seed="):
        parse(text).evaluate()


@FIXED
@given(st.integers(-(1 << 70), 1 << 70))
def test_the_same_seed_gives_the_same_numbers(seed: int) -> None:
    text = 'strcat(random(), " ", random(100), " ", random(1000000))'
    expression = parse(text)
    first = value(text, Context(seed=seed))
    assert value(text, Context(seed=seed)) == first
    assert expression.evaluate(context=Context(seed=seed)) == expression.evaluate(context=Context(seed=seed))


def test_other_seeds_and_further_calls_give_other_numbers() -> None:
    numbers = [parse("random()").evaluate(context=Context(seed=seed)) for seed in range(100)]
    assert len(set(numbers)) == 100
    assert value("random() == random()", Context(seed=1)) == "false"


def test_an_evaluation_does_not_affect_the_next_one() -> None:
    context = Context(seed=7)
    first = parse("random()").evaluate(context=context)
    parse("random() + random()").evaluate(context=context)
    assert parse("random()").evaluate(context=context) == first


@FIXED
@given(st.integers(0, 1 << 32), st.integers(1, (1 << 31) - 1))
def test_a_random_integer_is_from_zero_up_to_its_bound(seed: int, bound: int) -> None:
    number = parse(f"random({bound})").evaluate(context=Context(seed=seed))
    assert isinstance(number, int)
    assert 0 <= number < bound


@FIXED
@given(st.integers(0, 1 << 32), st.floats(0.001, 1e6))
def test_a_random_real_is_from_zero_up_to_its_bound(seed: int, bound: float) -> None:
    for text, most in (("random()", 1.0), (f"random({bound!r})", bound)):
        number = parse(text).evaluate(context=Context(seed=seed))
        assert isinstance(number, float)
        assert 0 <= number <= most


@pytest.mark.parametrize("text", ["random(0)", "random(-1)", "random(0.0)"])
def test_a_bound_that_is_not_positive_makes_the_evaluation_fail(text: str) -> None:
    with pytest.raises(EvaluationError, match=r"random\("):
        parse(text).evaluate(context=Context(seed=1))


# Maps, homes, traces ----------------------------------------------------------------------------

GROUPS = {"alice": "physics,biology", "bob": "chemistry", "carol": ""}


@together(
    ("text", "expected"),
    [
        ('userMap("groups", "alice")', '"physics,biology"'),
        ('userMap("GROUPS", "alice")', '"physics,biology"'),
        ('userMap("groups", "Alice")', "undefined"),
        ('userMap("groups", "alice", "biology")', '"biology"'),
        ('userMap("groups", "alice", "BIOLOGY")', '"biology"'),
        ('userMap("groups", "alice", "chemistry")', '"physics"'),
        ('userMap("groups", "alice", undefined)', '"physics"'),
        ('userMap("groups", "dave", "x")', "undefined"),
        ('userMap("groups", "dave", "x", "none")', '"none"'),
        ('userMap("groups", "carol", "x", "none")', '"none"'),
        ('userMap("nope", "alice")', "undefined"),
        ('userMap("nope", "alice", "x", "none")', '"none"'),
        ('userMap("groups", undefined)', "undefined"),
        ('userMap("groups", error)', "error"),
        ('userMap("groups")', "error"),
    ],
)
def test_user_map_looks_up_the_groups_of_a_user_in_the_maps_of_the_context(text: str, expected: str) -> None:
    assert value(text, Context(user_maps={"Groups": GROUPS})) == expected
    assert value(text, Context(user_maps={"Groups": GROUPS.get})) == expected


@together(
    ("text", "expected"),
    [
        ('userHome("alice")', '"/home/alice"'),
        ('userHome("alice", "/tmp")', '"/home/alice"'),
        ('userHome("dave")', "undefined"),
        ('userHome("dave", "/tmp")', '"/tmp"'),
        ("userHome(undefined)", "undefined"),
        ('userHome(undefined, "/tmp")', '"/tmp"'),
        ("userHome(5)", "error"),
    ],
)
def test_user_home_asks_the_context(text: str, expected: str) -> None:
    assert value(text, Context(user_home={"alice": "/home/alice"}.get)) == expected


def test_a_home_is_unknown_without_a_context_that_has_it() -> None:
    assert value('userHome("root")', DEFAULT) == "undefined"
    assert value('userHome("root", "/tmp")', DEFAULT) == '"/tmp"'


def test_debug_returns_its_argument_and_writes_to_the_trace() -> None:
    lines: list[str] = []
    context = Context(trace=lines.append)
    assert value("debug(a + 1) * 2", context, "[a = 4]") == "10"
    assert value('debug("x") == "X" && debug(b)', context) == "undefined"
    assert len(lines) == 3
    for line, message in zip(lines, [("a + 1", "5"), ('"x"', '"x"'), ("b", "undefined")], strict=True):
        assert all(part in line for part in message)
        assert "\n" not in line
    assert value("debug(a)", DEFAULT, "[a = 4]") == "4"


# Custom functions --------------------------------------------------------------------------------


def test_a_custom_function_is_called_by_its_name_in_any_case() -> None:
    context = Context(functions={"slotPrice": lambda cpus, factor: cpus * factor})
    assert value("SLOTPRICE(Cpus, 2.5)", context, "[Cpus = 4]") == "1.000000000000000E+01"
    assert value("TARGET.Price", context, "[]", "[Cpus = 4; Price = slotprice(Cpus, 1)]") == "4"
    assert value("{slotPrice(2, 2)}[0]", context) == "4"


def test_a_custom_function_gets_values() -> None:
    steps: list[Any] = []
    context = Context(functions={"take": lambda *values: steps.append(values)})
    value('take(1, 2.0, "x", true, Nope, 1 / 0, absTime(0), relTime(1), {a}, [b = a])', context, "[a = 5]")
    ((integer, real, string, boolean, undefined, error, point, length, members, ad),) = steps
    assert (integer, real, string, boolean) == (1, 2.0, "x", True)
    assert undefined is UNDEFINED and error is ERROR
    assert (point, length) == (AbsTime(0), RelTime(1))
    assert isinstance(members, ListValue) and list(members) == [5]
    assert isinstance(ad, ClassAd) and unparse(ad["b"]) == "a"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (5, "5"),
        (1 << 64, "0"),
        (1 << 63, "-9223372036854775808"),
        (1.5, "1.500000000000000E+00"),
        (True, "true"),
        ("é", r'"\303\251"'),
        (None, "undefined"),
        (UNDEFINED, "undefined"),
        (ERROR, "error"),
        (AbsTime(0, 3600), 'absTime("1970-01-01T01:00:00+01:00")'),
        (RelTime(60), 'relTime("01:00")'),
        ([1, "a", [None]], '{ 1,"a",{ undefined } }'),
        ({"a": 1}, "[ a = 1 ]"),
        (ClassAd({"a": parse("b")}), "[ a = b ]"),
        (parse("1 + 1"), "2"),
    ],
    ids=repr,
)
def test_the_result_of_a_custom_function_becomes_a_value(result: object, expected: str) -> None:
    assert value("f()", Context(functions={"f": lambda: result})) == expected


def test_an_invalid_result_of_a_custom_function_is_rejected_by_its_type() -> None:
    with pytest.raises(TypeError, match="set"):
        value("f()", Context(functions={"f": lambda: {1}}))


def test_an_exception_in_a_custom_function_reaches_the_caller() -> None:
    def fail() -> None:
        raise LookupError("no such price")

    with pytest.raises(LookupError, match="no such price"):
        value("f() > 1", Context(functions={"f": fail}))
    assert value("false && f()", Context(functions={"f": fail})) == "false"


@together("name", ["size", "STRCAT", "time", "ifThenElse", "stringListMember", "userMap"])
def test_a_built_in_function_cannot_be_replaced(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        DEFAULT.replace(functions={name: lambda *values: "replaced"})


@pytest.mark.parametrize("name", ["my function", "", "1st", "a.b"])
def test_a_function_needs_a_name_that_can_be_called(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        Context(functions={name: lambda: 1})


def test_a_function_that_the_context_does_not_have_is_an_error_value() -> None:
    assert value("f()", DEFAULT) == "error"
    assert value("f()", Context(functions={"g": lambda: 1})) == "error"


# No global state --------------------------------------------------------------------------------

CONTEXTS = [
    Context(
        now=1,
        seed=1,
        timezone=CHICAGO,
        functions={"f": lambda: 1},
        user_maps={"m": {"u": "a"}},
        user_home=lambda user: "/a",
    ),
    Context(now=2, seed=2, functions={"f": lambda: 2}, user_maps={"m": {"u": "b"}}, user_home=lambda user: "/b"),
]


@together(
    "text",
    [
        "time()",
        "random(1000000)",
        "string(absTime(0))",
        "f()",
        'userMap("m", "u")',
        'userHome("u")',
        "Now",
        "[a = f()].a",
    ],
)
def test_two_contexts_do_not_influence_each_other(text: str) -> None:
    expression, my = parse(text), ClassAd({"Now": parse("time() * 2")})

    def answers(evaluate: Callable[[Context], object]) -> list[str]:
        return [unparse(evaluate(context)) for context in (*CONTEXTS, *CONTEXTS)]

    first_answers = answers(lambda context: expression.evaluate(my, context=context))
    assert first_answers == answers(lambda context: parse(text).evaluate(my, context=context))
    assert first_answers[:2] == first_answers[2:]
    assert first_answers[0] != first_answers[1]


def test_a_context_is_not_changed_through_the_objects_it_was_made_of() -> None:
    functions, maps = {"f": lambda: 1}, {"m": {"u": "a"}}
    context = Context(functions=functions, user_maps=maps)
    functions["f"] = lambda: 2
    maps["m"] = {"u": "b"}
    assert value("f()", context) == "1"
    assert value('userMap("m", "u")', context) == '"a"'


def test_a_context_is_immutable() -> None:
    context: Any
    for context in (Context(now=1), DEFAULT):
        with pytest.raises(AttributeError):
            context.now = 2
        with pytest.raises((AttributeError, TypeError)):
            context.functions["f"] = lambda: 1
    with pytest.raises(EvaluationError):
        parse("time()").evaluate()


def test_a_context_can_be_replaced_in_part() -> None:
    context = Context(now=1, seed=3, timezone=CHICAGO)
    later = context.replace(now=2)
    assert (value("time()", context), value("time()", later)) == ("1", "2")
    assert value("random()", later) == value("random()", context)
    assert value("absTime(0)", later) == value("absTime(0)", context)
    with pytest.raises(TypeError, match="tomorrow"):
        context.replace(tomorrow=3)


@pytest.mark.parametrize(
    "wrong", [{"now": "noon"}, {"now": 1.5}, {"timezone": "America/Chicago"}, {"seed": "x"}], ids=str
)
def test_a_context_of_wrong_types_is_rejected_when_it_is_made(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(TypeError, match=name):
        Context(**wrong)

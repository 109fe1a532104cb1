"""When an expression's value may differ from its present one: tables of policies and rules, and a search of every
second.

The property checks the word "may": from now until the predicted time, the plain evaluator gives the same value at every
second. The test counts how often the predicted second is also the very second of the change; for policies made of
comparisons it always is.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from poolbook.domain.classad import (
    NEVER,
    POLL,
    ClassAd,
    Context,
    ContextError,
    EvaluationError,
    Moving,
    next_change,
    parse,
)

from ..sampling import soak_examples
from ..together import together

FIXED = settings(max_examples=60, derandomize=True, deadline=None, database=None)

DAY = 86_400
SUNDAY = 1_789_862_400  # 2026-09-20 00:00 UTC
MONDAY = SUNDAY + DAY
NINE = MONDAY + 9 * 3600  # when the tables below start
NO_ADS: dict[str, Any] = {}

CLOCK = {
    "clockmin": Moving(SUNDAY, unit=60, modulus=1440),
    "clockday": Moving(SUNDAY, unit=DAY, modulus=7),
}


def ad(attributes: Mapping[str, Any]) -> ClassAd:
    """Return an ad; texts that start with = are expressions."""
    return ClassAd(
        {
            name: parse(value[1:]) if isinstance(value, str) and value[:1] == "=" else value
            for name, value in attributes.items()
        }
    )


def seconds_to_change(
    text: str, my: Mapping[str, Any], target: Mapping[str, Any] | None = None, now: int = NINE
) -> Any:
    """Return the seconds from now to the next change, with ClockMin and ClockDay moving."""
    other = None if target is None else ad(target)
    change = next_change(parse(text), ad(my), other, Context(now=now), CLOCK)
    return change - now if isinstance(change, int) else change


# Policies -------------------------------------------------------------------------------------------------------------

DESKTOP = (
    '((KeyboardIdle > 15 * 60) && ( ((LoadAvg - CondorLoadAvg) <= 0.3) || (State != "Unclaimed" && State != "Owner")) )'
)
DESKTOP_SUSPEND = (
    "((KeyboardIdle < 60) || ( (IfThenElse(CpuBusyValue is 1, time() - CpuBusyTime, 0) > 120)"
    " && ifThenElse(JobStart =!= UNDEFINED, (time() - JobStart), 0) > 90))"
)
BUSY_CPU = "((CpuBusyTime > 2 * 60) && ((time() - JobStart) > 90)) || (IsDesktop =?= True && KeyboardIdle < 60)"
AFTER_HOURS = "(ClockMin < 480 || ClockMin >= 1020) || (ClockDay == 0 || ClockDay == 6)"
WORK_HOURS = "(ClockMin >= 480 && ClockMin < 1020) && (ClockDay > 0 && ClockDay < 6)"

IDLE_34 = {"KeyboardIdle": f"=time() - {NINE - 34}"}
QUIET = {"LoadAvg": 0.1, "CondorLoadAvg": 0.0, "State": "Unclaimed"}
CPU = {"CpuBusyTime": f"=time() - {NINE - 30}", "JobStart": NINE - 20}
PREEMPT = '((Activity == "Suspended") && ((time() - EnteredCurrentActivity) > 10 * 60)) || (SUSPEND && !WANT_SUSPEND)'


@together(
    ("text", "my", "target", "expected"),
    [
        # The keyboard: 34 seconds idle now, so more than 900 in 867. An unknown Owner makes it undefined then.
        ('KeyboardIdle > 15 * 60 && Owner == "coltrane"', IDLE_34, None, 867),
        ('KeyboardIdle > 15 * 60 && Owner == "coltrane"', IDLE_34, {"Owner": "coltrane"}, 867),
        ('KeyboardIdle > 15 * 60 && Owner == "coltrane"', IDLE_34, {"Owner": "monk"}, NEVER),
        ('KeyboardIdle > 15 * 60 || Owner == "coltrane"', IDLE_34, None, 867),
        ('KeyboardIdle > 15 * 60 || Owner == "coltrane"', IDLE_34, {"Owner": "coltrane"}, NEVER),
        # Desktop: START waits for the keyboard alone if the load is low, and never changes while it is high.
        (DESKTOP, {**IDLE_34, **QUIET}, None, 867),
        (DESKTOP, {**IDLE_34, **QUIET, "LoadAvg": 0.9}, None, NEVER),
        (DESKTOP, {**IDLE_34, **QUIET, "LoadAvg": 0.9, "State": "Claimed"}, None, 867),
        (DESKTOP, {"KeyboardIdle": 34, **QUIET}, None, NEVER),
        ("START =?= False", {**IDLE_34, **QUIET, "START": f"={DESKTOP}"}, None, 867),
        # SUSPEND: the user has just touched the keyboard; or the CPU is busy and the job has run for long enough.
        (DESKTOP_SUSPEND, {**IDLE_34, "CpuBusyValue": 0}, None, 26),
        (DESKTOP_SUSPEND, {"KeyboardIdle": 100, "CpuBusyValue": 1, "CpuBusyTime": NINE - 100}, None, NEVER),
        (
            DESKTOP_SUSPEND,
            {"KeyboardIdle": 100, "CpuBusyValue": 1, "CpuBusyTime": NINE - 100, "JobStart": NINE - 20},
            None,
            71,
        ),
        (BUSY_CPU, {**CPU, **IDLE_34}, None, 91),
        (BUSY_CPU, {**CPU, **IDLE_34, "IsDesktop": True}, None, 26),
        (BUSY_CPU, {**CPU, **IDLE_34, "JobStart": "=undefined"}, None, 91),
        # CONTINUE: both the time since the suspension and the keyboard.
        (
            "(LoadAvg - CondorLoadAvg) <= 0.3 && (time() - EnteredCurrentActivity) > 300"
            " && (IsDesktop =!= True || (KeyboardIdle > 5 * 60))",
            {**IDLE_34, **QUIET, "EnteredCurrentActivity": NINE - 200, "IsDesktop": True},
            None,
            267,
        ),
        # PREEMPT: suspended for too long; or a referenced attribute, which waits for the keyboard.
        (PREEMPT, {"Activity": "Suspended", "EnteredCurrentActivity": NINE - 100, "SUSPEND": False}, None, 501),
        (PREEMPT, {"Activity": "Busy", "EnteredCurrentActivity": NINE - 100, "SUSPEND": False}, None, NEVER),
        (
            PREEMPT,
            {"Activity": "Busy", "SUSPEND": f"={DESKTOP_SUSPEND}", "WANT_SUSPEND": False, **IDLE_34, "CpuBusyValue": 0},
            None,
            26,
        ),
        ("(time() - JobStart) > 10 * 60 || TARGET.JobUniverse == 5", CPU, {"JobUniverse": 7}, 581),
        ("(time() - JobStart) > 10 * 60 || TARGET.JobUniverse == 5", CPU, {"JobUniverse": 5}, NEVER),
        ("(IsDesktop =!= True) * 0", {}, None, NEVER),
        ("10 * 60", {}, None, NEVER),
        # Slots that suspend each other: the name of an attribute is computed.
        (
            'eval(strcat("slot", SlotID - 2, "_State")) =!= "Claimed"',
            {"SlotID": 3, "slot1_State": "Owner"},
            None,
            NEVER,
        ),
        ('eval(strcat("Keyboard", Word)) > 900', {"Word": "Idle", **IDLE_34}, None, 867),
        # The job's side.
        ("TARGET.KeyboardIdle > 900 && CurrentTime - QDate > 60", {"QDate": NINE - 7}, IDLE_34, 867),
    ],
)
def test_a_policy_changes_when_its_owner_expects(
    text: str, my: Mapping[str, Any], target: Mapping[str, Any] | None, expected: Any
) -> None:
    assert seconds_to_change(text, my, target) == expected


@pytest.mark.parametrize(
    ("now", "after_hours"),
    [
        (NINE, MONDAY + 17 * 3600),
        (MONDAY + 17 * 3600 - 1, MONDAY + 17 * 3600),
        (MONDAY + 17 * 3600, MONDAY + DAY + 8 * 3600),
        (MONDAY + 4 * DAY + 18 * 3600, MONDAY + 7 * DAY + 8 * 3600),  # Friday evening: next Monday
        (SUNDAY + 5 * 3600, MONDAY + 8 * 3600),
    ],
)
def test_working_hours_begin_and_end_with_the_clock(now: int, after_hours: int) -> None:
    assert seconds_to_change(AFTER_HOURS, {}, now=now) == after_hours - now
    assert seconds_to_change(WORK_HOURS, {}, now=now) == after_hours - now


def test_no_change_is_predicted_beyond_the_known_time_of_a_moving_attribute() -> None:
    midnight = MONDAY + DAY
    moving = {"clockmin": Moving(MONDAY, unit=60, until=midnight)}
    evening = Context(now=MONDAY + 18 * 3600)
    assert next_change(parse("ClockMin >= 480 && ClockMin < 1020"), ClassAd(), None, evening, moving) == midnight
    assert next_change(parse("ClockMin < 480"), ClassAd(), None, Context(now=midnight), moving) is POLL
    constant = {"sunshine": Moving(NINE, unit=10**12, until=midnight)}
    assert next_change(parse("Sunshine"), ClassAd(), None, evening, constant) == midnight


# Rules ----------------------------------------------------------------------------------------------------------------


@together(
    ("text", "expected"),
    [
        # A value that moves: at its next step.
        ("time()", 1),
        ("2 * time() + 1", 1),
        ("ClockMin", 60),
        ("ClockMin / 10", 600),
        ("ClockDay", 15 * 3600),
        ("int((time() - Start) / 60.0)", 50),
        ("round((time() - Start) / 60.0)", 21),
        ("quantize(time() - Start, 300)", 291),
        ("min({time() - Start, 12})", 1),
        ("max({time() - Start, 12})", 3),
        ("(time() - Start) % 60 == 0", 50),
        ('strcat("minute ", ClockMin)', 60),
        # A value that is repeated does not move.
        ("time() - (time() - 60)", NEVER),
        ("time() - CurrentTime", NEVER),
        ("time() * 0", NEVER),
        ("time() / 0", NEVER),
        ("time() % false", NEVER),
        ("time() - Start > KeyboardIdle", NEVER),
        # Integers and reals change at a full second.
        ("time() - Start > 20", 11),
        ("time() - Start >= 20", 10),
        ("20 > time() - Start", 10),
        ("time() - Start > 20.5", 11),
        ("time() - Start >= 20.5", 11),
        ("time() - Start < 20.0", 10),
        ("(time() - Start) / 3600.0 >= 1.5", 5390),
        ("-(time() - Start) < -20", 11),
        ("time() - Start == 20", 10),
        ("time() - Start == 10", 1),
        ("time() - Start == 20.5", NEVER),
        ("time() - Start =?= 20", 10),
        ("time() - Start =?= 20.0", NEVER),
        ("time() - Start != 5", NEVER),
        ("KeyboardIdle + 5 > 100 - (time() - Start)", 23),
        # For other types the types decide.
        ('time() > "a string"', NEVER),
        ("time() + undefined", NEVER),
        ("time() < error", NEVER),
        ("time() > true", NEVER),
        # An operand that decides first hides the next ones.
        ("(time() - Start < 20) || time() % 2 == 0", 11),
        ("false && time() % 2 == 0", NEVER),
        ("(time() - Start > 20) && random() > 0.5", 11),
        ("false && random() > 0.5", NEVER),
        ("time() - Start > 20 ? 1 : 1", NEVER),
        ("time() - Start > 20 ? 1 : 2", 11),
        ("time() - Start > 20 ? 1 : 1.0", 11),
        ("ifThenElse(time() - Start, 1, 2)", NEVER),
        ("Missing ?: time() - Start > 20", 11),
        ("!(time() - Start > 20)", 11),
        # Names.
        ("Circle", NEVER),
        ("MY.Timer > 20", 11),
        ("TARGET.Timer > 20", 16),
        ("TARGET.Back > 20", 11),
        ("Missing > 20", NEVER),
        # Unpredictable expressions that can see the clock or not.
        ("[a = 1].a", NEVER),
        ("[a = time()].a", POLL),
        ("Nested.still", NEVER),
        ("Moves.moving", POLL),
        ("member(ClockDay, {1, 2})", 39 * 3600),
        # Other functions are evaluated at each step of their arguments, up to a limit.
        ('anyCompare(">", {14, 15}, time() - Start)', 5),
        ('anyCompare(">", {14, 90}, time() - Start)', 17),
        ("size({time()})", POLL),
        ("countMatches(MY.Timer > 20, {Nested})", POLL),
        ("countMatches(MY.Start > 20, {Nested})", NEVER),
        ("unparse(Timer)", POLL),
        ("random(10)", POLL),
        ("ownFunction(1)", POLL),
        ('regexp("^s", Word)', NEVER),
        ("formatTime(Start)", NEVER),
        ("formatTime()", 1),
        ("dayTime() > relTime(100)", 17),
    ],
)
def test_an_expression_changes_at(text: str, expected: Any) -> None:
    timer = f"=time() - {NINE - 10}"
    my = {
        "Start": NINE - 10,
        "Timer": timer,
        "KeyboardIdle": f"=time() - {NINE - 40}",
        "Circle": "=Circle + time()",
        "Nested": {"still": 1},
        "Moves": {"moving": parse("time()")},
        "Word": "slot",
    }
    target = {"Timer": f"=time() - {NINE - 5}", "Back": "=TARGET.Timer"}
    assert seconds_to_change(text, my, target) == expected


def test_the_time_is_needed() -> None:
    with pytest.raises(ContextError, match="next_change"):
        next_change(parse("1"), None, None, Context())


def test_a_moving_attribute_that_would_not_be_found_is_rejected() -> None:
    with pytest.raises(ValueError, match="KeyboardIdle must be in lower case: keyboardidle"):
        next_change(parse("1"), None, None, Context(now=NINE), {"KeyboardIdle": Moving(NINE)})


def test_if_the_evaluation_fails_only_the_clock_can_change_that() -> None:
    deep = "!" * 450 + "true"
    assert seconds_to_change(deep, {}) is NEVER
    assert seconds_to_change(f"time() > 0 && {deep}", {}) is POLL


def test_a_moving_attribute_counts_by_full_units() -> None:
    with pytest.raises(ValueError, match=r"unit .* not 0"):
        Moving(0, unit=0)
    assert [Moving(10, unit=5, modulus=2).value_at(t) for t in (9, 10, 14, 15, 20)] == [1, 0, 0, 1, 0]


def test_a_moving_attribute_hides_the_ads_attribute_of_the_same_name() -> None:
    moving = {"keyboardidle": Moving(NINE - 34)}
    own_ad, job = ad({"KeyboardIdle": 7}), ad({"Asks": "=TARGET.KeyboardIdle > 100", "KeyboardIdle": 3})
    for text, expected in (("KeyboardIdle > 900", 867), ("TARGET.Asks", 67), ("TARGET.KeyboardIdle > 900", None)):
        change = next_change(parse(text), own_ad, job, Context(now=NINE), moving)
        assert change == (expected and NINE + expected), text


# Every second ---------------------------------------------------------------------------------------------------------

HOUR = 3600


@frozen
class Case:
    """An expression, and the second at which the search starts."""

    text: str
    now: int


MACHINE: dict[str, Any] = {
    "KeyboardIdle": f"=time() - {NINE - 850}",
    "ConsoleIdle": "=CurrentTime - LastConsole",
    "LastConsole": NINE - 10,
    "LoadAvg": 0.3,
    "CondorLoadAvg": 0.1,
    "State": "Claimed",
    "Activity": "Suspended",
    "EnteredCurrentActivity": NINE - 590,
    "ActivityTimer": "=time() - MY.EnteredCurrentActivity",
    "JobStart": NINE - 20,
    "CpuBusyValue": 1,
    "CpuBusyTime": NINE - 30,
    "KeyboardBusy": "=KeyboardIdle < 60",
    "Circle": "=Circle + KeyboardIdle",
    "Words": "a,b",
}
JOB: dict[str, Any] = {
    "QDate": NINE - 3,
    "ImageSize": 5000,
    "Age": "=time() - QDate",
    "Asks": "=TARGET.KeyboardIdle > 1000 && MY.Age > 12",
}
# The same machine for the plain evaluator: what moves is an expression.
EVALUATED = {
    **MACHINE,
    "ClockMin": f"=(time() - {SUNDAY}) / 60 % 1440",
    "ClockDay": f"=(time() - {SUNDAY}) / {DAY} % 7",
}

TIMERS = [
    "KeyboardIdle",
    "ConsoleIdle",
    "ActivityTimer",
    "(time() - JobStart)",
    "ClockMin",
    "MY.ClockMin",
    "TARGET.Age",
    "Age",
    "ifThenElse(CpuBusyValue is 1, time() - CpuBusyTime, 0)",
    "(CurrentTime - QDate)",
]
CONSTANTS = [
    "0",
    "90",
    "120",
    "541",
    "15 * 60",
    "600.0",
    "100.25",
    "900",
    "60",
    "1",
    "5",
    "2.5",
    "0.5",
    "7",
    "-5",
    "1E3",
]
ODD = ["true", "undefined", "error", '"x"', "1E18", "9223372036854775807", "ClockDay", "LoadAvg", "Circle", "Missing"]
CONDITIONS = [
    "KeyboardBusy",
    "TARGET.Asks",
    'State == "Owner"',
    'Activity == "Suspended"',
    "(LoadAvg - CondorLoadAvg) <= 0.3",
]
STRANGE = [
    'stringListMember("a", Words)',
    "member(ClockMin, {541, 545})",
    'regexp("5$", string(KeyboardIdle))',
    'anyCompare("<", {10, 1000}, KeyboardIdle)',
    "isUndefined(JobStart)",
]
# In these, the name of a list represents any of its texts.
NUMBERS = [
    *3 * ["timer"],
    *("(timer + constant)", "(timer - constant)", "(timer * constant)", "(constant - timer)", "quantize(timer, 60)"),
    *("int(timer / 60.0)", "floor(timer / 7)", "round(timer / 60.0)", "min({timer, constant})", "max({timer, timer})"),
]
COMPARISONS = [f"(number {op} constant)" for op in ("<", "<=", ">", ">=", ">", "==", "!=", "=?=")]
POLICIES = [
    *2 * ["(policy && policy)", "(policy || policy)", *COMPARISONS],
    *("(! policy)", "ifThenElse(policy, policy, policy)", "condition", "(policy && comparison || condition)"),
]
TANGLES = [
    *[f"(tangle {op} tangle)" for op in ("+", "-", "*", "/", "%", "<", ">=", "==", "=?=", "&&", "?:", "&")],
    *[f"{name}({{tangle, tangle}})" for name in ("min", "max", "sum", "avg")],
    *[f"{name}(tangle)" for name in ("int", "real", "floor", "ceil", "string")],
    *("(- tangle)", "(! tangle)", "quantize(tangle, constant)", "(tangle ? tangle : tangle)", "policy"),
    *("number", "number", "constant", "odd", "strange", "comparison"),
]
TEXTS = {
    "timer": TIMERS,
    "constant": CONSTANTS,
    "odd": ODD,
    "condition": CONDITIONS,
    "strange": STRANGE,
    "number": NUMBERS,
    "comparison": COMPARISONS,
    "policy": POLICIES,
    "tangle": TANGLES,
}
SIMPLEST = {"policy": "comparison", "tangle": "number"}
PLACES = re.compile(r"\b(" + "|".join(TEXTS) + r")\b(?!\()")


def write_text(kind: str, choices: Iterator[int], depth: int) -> str:
    """Write a text of a kind, each position in it filled with another; the choices are read from bytes, then all the
    first."""
    if depth == 0:
        kind = SIMPLEST.get(kind, kind)
    texts = TEXTS[kind]
    text = texts[next(choices, 0) % len(texts)]
    return PLACES.sub(lambda place: write_text(place[0], choices, max(depth - 1, 0)), text)


def cases(kind: str) -> SearchStrategy[Case]:
    """Draw expressions of a kind from a string of bytes: with many small draws hypothesis would vary only a few at a
    time."""
    seconds = [NINE, NINE + 1, NINE + 13, NINE + 59, NINE + 86]
    return st.builds(
        lambda choices, now: Case(write_text(kind, iter(choices), 3), now),
        st.binary(min_size=40, max_size=40),
        st.sampled_from(seconds),
    )


def split_ad(attributes: Mapping[str, Any]) -> ClassAd:
    """Return an ad of every other attribute, chained to one with the rest."""
    names = list(attributes)
    ads = [ad({name: attributes[name] for name in names[place::2]}) for place in (0, 1)]
    return ClassAd(dict(ads[0]), chained=ads[1])


def type_and_text(value: Any) -> Any:
    """Return what distinguishes two values: the type and the printed text."""
    return type(value), repr(value)


def check_until_the_change(case: Case, seconds: int) -> bool | None:
    """Try every second up to the prediction: the value is the present one. Return whether it differs there; None if
    that is too far."""
    expression, my, job = parse(case.text), ad(EVALUATED), ad(JOB)

    def value(t: int) -> Any:
        try:
            return type_and_text(expression.evaluate(my, job, Context(now=t)))
        except EvaluationError:
            return "no value"

    change = next_change(expression, split_ad(MACHINE), split_ad(JOB), Context(now=case.now), CLOCK)
    if change is POLL:
        return None
    now, end = value(case.now), case.now + seconds
    assert change is None or (isinstance(change, int) and change > case.now)
    same = end if not isinstance(change, int) else min(change, end)
    differing = next((t for t in range(case.now + 1, same) if value(t) != now), None)
    assert differing is None, f"{case.text} differs {differing and differing - case.now} s from now; said {change}"
    return None if same == end else value(same) != now


def test_a_policy_of_comparisons_stays_until_the_very_second_predicted() -> None:
    reached: list[str] = []

    @settings(FIXED, max_examples=80)
    @given(cases("policy"))
    def every_second(case: Case) -> None:
        differs = check_until_the_change(case, HOUR // 3)
        assert differs is not False, f"{case.text} does not differ when it was said to"
        reached.extend([case.text] if differs else [])

    every_second()
    assert len(reached) > 15


@FIXED
@given(cases("tangle"))
def test_any_expression_stays_until_the_change(case: Case) -> None:
    check_until_the_change(case, HOUR // 6)


@FIXED
@given(cases("tangle"))
def test_an_ad_chained_to_another_evaluates_as_one_ad_of_both(case: Case) -> None:
    expression, context = parse(case.text), Context(now=case.now)
    value = expression.evaluate(ad(EVALUATED), ad(JOB), context)
    assert type_and_text(expression.evaluate(split_ad(EVALUATED), split_ad(JOB), context)) == type_and_text(value)


@together("value", [1, -(2**63), 2**63, 2**64 + 1, 1.5, True, "text", "é", None, [1, "a"], {"a": 1}, parse("1 + 1")])
def test_an_ad_made_of_values_equals_the_ad_into_which_they_are_set(value: Any) -> None:
    ad, set_one_by_one = ClassAd({"Name": value, "NAME": value, "Étage": value}), ClassAd()
    for name in ("Name", "NAME", "Étage"):
        set_one_by_one[name] = value
    assert (list(ad), ad.to_new()) == (list(set_one_by_one), set_one_by_one.to_new())


@pytest.mark.parametrize(("name", "value"), [("", 1), (1, 1), ("A", "a\0b"), ("A", "\ud800"), ("A", object())])
def test_an_ad_is_not_made_of_values_that_cannot_be_set(name: Any, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as when_set:
        ClassAd()[name] = value
    with pytest.raises(when_set.type) as when_made:
        ClassAd({name: value})
    assert str(when_made.value) == str(when_set.value)


@pytest.mark.soak
@settings(FIXED, max_examples=soak_examples(4))
@given(cases("tangle"))
def test_any_expression_stays_until_the_change_for_hours(case: Case) -> None:
    check_until_the_change(case, 2 * HOUR)

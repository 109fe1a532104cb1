"""Specification: the language of scenarios, line by line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.units import SECOND
from poolbook.replay.scenario import PlayError, ScenarioStep, parse_scenario
from poolbook.replay.scenario.parser import HEADS
from poolbook.replay.scenario.scenario_times import DAYS, elapsed, length
from poolbook.replay.scenario.statements import OTHERS, split
from poolbook.replay.scenario.verbs import VERBS

from ..together import together

START = "start 2026-11-02 08:00 Europe/Berlin"  # a Monday


def only_step(text: str) -> ScenarioStep:
    """Return the one step of a scenario."""
    (step,) = parse_scenario(text).steps
    return step


# Times


@together(
    ("text", "seconds"),
    [
        ("0:10", 10),
        ("1:02:03", 3723),
        ("90", 90),
        ("90s", 90),
        ("15min", 900),
        ("2h", 7200),
        ("3d", 259_200),
        ("1.5", 1.5),
        ("100:00", 6000),
    ],
)
def test_a_duration_accepts_the_usual_spellings(text: str, seconds: float) -> None:
    assert length(text) == seconds * SECOND


@together(
    ("text", "since"),
    [
        ("0:10", "0:00:10"),
        ("2d", "2d 0:00:00"),
        ("2d 3:00", "2d 3:00:00"),
        ("2d 3:00:30", "2d 3:00:30"),
        ("Mon 08:30", "0:30:00"),
        ("mon 08:30:15", "0:30:15"),
        ("Mon 07:00", "6d 23:00:00"),  # this week's is in the past
        ("Tue", "16:00:00"),
        ("Sun 08:00", "6d 0:00:00"),
        ("2026-11-03 08:00", "1d 0:00:00"),
    ],
)
def test_an_instant_counts_from_the_start_or_by_the_calendar(text: str, since: str) -> None:
    assert elapsed(only_step(f"{START}\nat {text} LoadAvg=1").at) == since


def test_a_daily_event_keeps_its_time_on_a_day_of_25_hours() -> None:
    text = "start 2026-10-23 00:00 Europe/Berlin\nuntil 4d 12:00\nat {} every 1d LoadAvg=1"
    steps = parse_scenario(text.format("Fri 08:00")).steps
    assert [elapsed(step.at) for step in steps] == ["8:00:00", "1d 8:00:00", "2d 9:00:00", "3d 9:00:00", "4d 9:00:00"]
    steps = parse_scenario(text.format("8:00:00")).steps
    assert [elapsed(step.at) for step in steps[-2:]] == ["3d 8:00:00", "4d 8:00:00"]


# Words


@together(
    ("line", "words"),
    [
        ("at 0:10 X=1  # why", ["at", "0:10", "X=1"]),
        ("X = 1", ["X=1"]),
        ("X= 1 Y =2", ["X=1", "Y=2"]),
        ("X=(a || b) Y=2", ["X=(a || b)", "Y=2"]),
        ('X="a b" Y', ['X="a b"', "Y"]),
        (r'X="a \" b"', [r'X="a \" b"']),
        ("X={1, 2} Y=[a = 1; b = 2]", ["X={1, 2}", "Y=[a = 1; b = 2]"]),
        ("a#b", ["a#b"]),
        ("# all of it", []),
    ],
)
def test_a_line_is_split_into_words_outside_quotes_and_brackets(line: str, words: list[str]) -> None:
    assert split(line) == words


# The meaning of a line


def test_readings_apply_to_all_machines_to_one_or_to_a_slot() -> None:
    two_machines = "machine a\nmachine b\n"
    assert only_step("at 0:10 keyboardidle=0 OwnerIsHere=True").attributes == {
        "KeyboardIdle": "0",
        "OwnerIsHere": "True",
    }
    assert only_step("at 0:10 slot1 LoadAvg = 0.5").thing == "slot1@ws1"
    assert only_step(f"{two_machines}at 0:10 b LoadAvg=0.5").machine == "b"
    assert only_step(f"{two_machines}at 0:10 slot2@b LoadAvg=0.5").thing == "slot2@b"
    assert only_step(f"{two_machines}at 0:10 slot*@* LoadAvg=0.5").thing == "slot*@*"


def test_a_reading_may_apply_repeatedly_from_one_time_to_another() -> None:
    steps = parse_scenario(f"{START}\nat Mon 09:00 to Mon 12:00 every 1d until 2d KeyboardIdle=0").steps
    assert [(step.verb, elapsed(step.at), elapsed(step.until)) for step in steps] == [
        ("read", "1:00:00", "4:00:00"),
        ("unread", "4:00:00", "4:00:00"),
        ("read", "1d 1:00:00", "1d 4:00:00"),
        ("unread", "1d 4:00:00", "1d 4:00:00"),
    ]


def test_a_submission_names_its_user_and_the_jobs_behaviour() -> None:
    step = only_step('at 0:20 submit alice count=3 run=1:00:00 on-soft=ends-after 10 code=2 +Group="a b" +x=1')
    assert (step.verb, step.thing) == ("submit", "alice")
    assert step.options == {"count": "3", "run": "1:00:00", "on-soft": "ends-after:10", "code": "2"}
    assert step.attributes == {"Group": '"a b"', "x": "1"}


@together(
    ("word", "attributes", "commands"),
    [
        ("request_memory=2GB", {}, {"request_memory": "2GB"}),
        ("Request_Memory=2GB", {}, {"Request_Memory": "2GB"}),
        ("RequestMemory=2GB", {}, {"RequestMemory": "2GB"}),
        ("request_licenses=1", {}, {"request_licenses": "1"}),
        ("Requirements=(Memory > 10)", {}, {"Requirements": "(Memory > 10)"}),
        ('environment="A=1 B=2"', {}, {"environment": '"A=1 B=2"'}),
        ('ConcurrencyLimits="XSW"', {"ConcurrencyLimits": '"XSW"'}, {}),
        ('AccountingGroup="g.ann"', {"AccountingGroup": '"g.ann"'}, {}),
        ("+Foo = 3", {"Foo": "3"}, {}),
        ("MY.Foo=3", {"Foo": "3"}, {}),
        ("IsSuspendable=True", {"IsSuspendable": "True"}, {}),
    ],
)
def test_a_word_of_a_submission_is_a_submit_command_or_an_attribute(
    word: str, attributes: dict[str, str], commands: dict[str, str]
) -> None:
    for line in (f"submit alice {word}", f"claim slot1 by alice {word}", f"activate slot1 {word}"):
        step = only_step(f"config\nSUSPEND = TARGET.IsSuspendable\nend\nat 0:20 {line}")
        assert (step.attributes, step.commands) == (attributes, commands)


def test_a_drain_defaults_to_the_only_machine() -> None:
    step = only_step('at 1:00 drain quick resume start=(Owner == "bob") reason="new disk"')
    assert step.machine == "ws1"
    assert step.flags == {"quick", "resume"}
    assert step.options == {"start": '(Owner == "bob")', "reason": "new disk"}


def test_a_claim_from_outside_names_its_holder() -> None:
    step = only_step("at 1:00 claim slot1 by bob from other.pool lease=5min run=90")
    assert step.options == {"by": "bob", "from": "other.pool", "lease": "5min", "run": "90"}


def test_a_configuration_is_a_file_or_the_lines_up_to_end() -> None:
    scenario = parse_scenario(
        "config a.conf\nconfig for ws1\n  START = False\n  if true\n  endif\nend\nat 1:00 set X = a b\n"
    )
    first, second = scenario.sources
    assert (first.file, first.machine, second.machine) == ("a.conf", "", "ws1")
    assert second.text == "  START = False\n  if true\n  endif\n"
    assert scenario.steps[0].attributes == {"X": "a b"}


def test_a_reconfiguration_takes_a_file_or_the_lines_up_to_end() -> None:
    steps = parse_scenario(
        "at 1:00 reconfigure b.conf\nat 2:00 reconfigure ws1\nSTART = True\nend\nat 3:00 LoadAvg=1"
    ).steps
    assert [[(source.file, source.text) for source in step.sources] for step in steps] == [
        [("b.conf", "")],
        [("", "START = True\n")],
        [],
    ]


def test_an_expectation_without_a_time_has_the_previous_lines_time() -> None:
    steps = parse_scenario("at 2d 3:00 LoadAvg=1\nexpect slot1 Claimed/Busy 11\nexpect 1.0 Running").steps
    assert [(elapsed(step.at), step.expected) for step in steps[1:]] == [
        ("2d 3:00:00", ("Claimed/Busy", "11")),
        ("2d 3:00:00", ("Running",)),
    ]


def test_lines_are_ordered_by_time_with_readings_first_and_expectations_last() -> None:
    steps = parse_scenario(
        "at 1:00 expect slot1 Owner/Idle\nat 1:00 vacate slot1\nat 1:00 LoadAvg=1\nat 0:30 off"
    ).steps
    assert [step.verb for step in steps] == ["off", "read", "vacate", "expect"]


def test_several_machines_may_share_a_definition() -> None:
    names = [
        machine.name for machine in parse_scenario("machine ws cores=4 count=3\nmachine big memory=64000").machines
    ]
    assert names == ["ws1", "ws2", "ws3", "big"]


def test_a_scenario_ends_at_its_end_line_or_an_hour_after_its_last_line() -> None:
    assert elapsed(parse_scenario("until 7d").end) == "7d 0:00:00"
    assert elapsed(parse_scenario("at 0:10 LoadAvg=1").end) == "1:00:10"


# Errors


@together(
    ("text", "line", "message"),
    [
        ("foo", 1, "'foo' cannot start a line of a scenario: use one of start, until"),
        ("strat 2026-11-02 08:00", 1, "did you mean start?"),
        ("at 0:10 drian", 1, "'drian' is not a valid step; did you mean drain?"),
        ("\nat", 2, "expected a time: 0:10, 1:02:03, 2d 3:00, or Mon 08:30"),
        ("at 0:10", 1, "the step is missing: write `at TIME WHAT`"),
        ("at 5x LoadAvg=1", 1, "'5x' is not a duration"),
        ("at Mon 8:30am LoadAvg=1", 1, "'8:30am' is not a valid step"),
        ("at 0:10 slot1 X=((1", 1, "lacks the closing )"),
        ("at 0:10 slot1 X=1+", 1, "'1+' is not an expression"),
        ("at 0:10 KeyboardIdle=soon", 1, "'soon' is not a duration"),
        ("at 0:10 LoadAvg=high", 1, "'high' is not a number"),
        ("at 0:10 to 0:05 LoadAvg=1", 1, "must be later than the first"),
        ("at 0:10 to 0:20 drain", 1, "only readings, and expectations about a period, can have `at TIME to TIME`"),
        ("at 0:10 to 0:20 KeyboardIdle=5", 1, "only KeyboardIdle=0"),
        ("at 0:10 every 5 LoadAvg=1", 1, "needs an end"),
        ("at 0:10 every 0 until 5d LoadAvg=1", 1, "the duration after `every` must be longer than 0"),
        ("until 90d\nat 0:10 every 1 LoadAvg=1", 2, "more than 1,000,000 times"),
        ("at 0:10 expect slot1 Claimed/Bsy", 1, "did you mean Claimed/Busy?"),
        ("at 0:10 expect slot1 Claimed/Busy 99", 1, "'99' is not a number of a transition"),
        ("at 0:10 expect 1.0 Runing", 1, "did you mean Running?"),
        ("at 0:10 expect ws1 Owner/Idle", 1, "'ws1' is neither a slot nor a job"),
        ("expect slot1 Owner/Idle", 1, "an `at` line before it"),
        ("config\nSTART = True", 1, "add a line `end` after it"),
        ("config for ws2 a.conf", 1, "unknown machine ws2; did you mean ws1?"),
        ("machine a\nmachine a", 2, "machine a already"),
        ("machine a speed=1", 1, "'speed=1' is not a property of a machine"),
        ("machine a_b", 1, "'a_b' is not a valid machine name"),
        ("machine a count=9999999", 1, "more than 1,000,000 machines are not supported"),
        ("machine a\nmachine b\nat 0:10 drain", 3, "missing machine name; expected: drain"),
        ("machine a\nmachine b\nat 0:10 slot1 LoadAvg=1", 3, "slot1 is ambiguous: write slot1@a, or slot1@* for all"),
        ("start 2026-13-01 08:00", 1, "month must be in 1..12"),
        ("start 2026-11-02 08:00 Mars", 1, "'Mars' is not a time zone"),
        (f"{START}\n{START}", 2, "a scenario can have only one `start` line"),
        ("at 2026-01-01 08:00 LoadAvg=1", 1, "is before the scenario's start, Mon 2026-11-02 08:00:00"),
        ("until 1:00\nat 2:00 LoadAvg=1", 2, "after the scenario's end"),
        ("until x", 1, "'x' is not a duration"),
        ("dialect klingon", 1, "use one of manual, htcondor-25"),
        ("at 0:10 submit alice run=long", 1, "run: 'long' is not a duration"),
        ("at 0:10 submit", 1, "no user is named; expected: submit USER"),
        ("at 0:10 hold slot1", 1, "'slot1' is not a job"),
        ("at 0:10 vacate ws1", 1, "'ws1' is not a job or slot"),
        ("at 0:10 vacate slot1 slow", 1, "'slow' is not valid here; expected: vacate JOB|SLOT [fast]"),
        ("at 0:10 off Attr=1", 1, "'Attr=1' is not valid here"),
        ("at 0:10 access-point", 1, "missing 'silent' or 'heard'; expected: access-point"),
        (
            "at 0:10 access-point silnt",
            1,
            "'silnt' is not valid here; expected: access-point [silent] [heard]; did you",
        ),
        ("machine a core=4", 1, "'core=4' is not a property of a machine"),
        ("machine a core=4", 1, "; did you mean cores=?"),
        ("machine a\nat 0:10 submit ann requst_memory=400", 2, "'requst_memory' is neither a submit command nor an"),
        ("at 0:10 submit ann requst_memory=400", 1, "did you mean request_memory? `+requst_memory=400` sets a"),
        ("at 0:10 submit ann max_retires=3", 1, "did you mean max_retries?"),
        ("at 0:10 submit ann cont=3", 1, "did you mean count?"),
        ("at 0:10 submit ann count 3", 1, "did you mean count=?"),
        ("at 0:10 submit ann colour=3", 1, "`+colour=3` sets a custom attribute"),
        ("at 0:10 claim slot1 by bob on_exit_hld=true", 1, "did you mean on_exit_hold?"),
        ("at 0:10 activate slot1 priorty=3", 1, "did you mean priority?"),
        ("at 0:10 edit 1.0 JobPrioo=5", 1, "'JobPrioo' is not an attribute of jobs; did you mean JobPrio?"),
        ("at 0:10 edit 1.0 request_memory=5", 1, "did you mean RequestMemory?"),
        ("at 0:10 submit ann run=5 on-soft=ignors", 1, "on-soft: 'ignors' is not a reaction; did you mean ignores?"),
        ("at 0:10 KeybordIdle=0", 1, "'KeybordIdle' is not a reading; did you mean KeyboardIdle?"),
        ("at 0:10 drain reson=x", 1, "did you mean reason=?"),
        ("at 0:10 off ws2", 1, "did you mean ws1?"),
        ("at 0:10 evry 1d LoadAvg=1", 1, "did you mean every?"),
        ("start 2026-11-02 08:00 Europe/Berln", 1, "did you mean Europe/Berlin?"),
        ("dialect manul", 1, "did you mean manual?"),
        ("at 0:10 set X", 1, "expected: set [MACHINE] NAME = VALUE"),
    ],
)
def test_an_error_has_the_line_the_word_the_rule_and_the_fix(text: str, line: int, message: str) -> None:
    with pytest.raises(PlayError) as error:
        parse_scenario(text)
    assert error.value.line == line
    assert message in error.value.message


WORDS = [
    *HEADS, *VERBS, *OTHERS, *DAYS, "for", "end", "to", "every", "slot1", "slot1@ws1", "slot*@*", "ws1", "1.0", "alice",
    "0:10", "1:02:03", "2d", "3:00", "7d", "2026-11-02", "08:00", "UTC", "Europe/Berlin", "Europe", "../x", "X=1", "=",
    "run=1:00", "on-soft=ends-after", "10", "by", "bob", "count=2", "KeyboardIdle=0", "LoadAvg=", "(", ")", '"', "\\",
    "a.conf", "silent", "fast", "#", "Claimed/Busy", "11", "Running", "gone", "\u0664", "\u00b2", "0x1", "-1", "1e9",
    "99999999999d", "manual", "cores=4", "use", "\t", "\x0c", "\u2028",
]  # fmt: skip
LINES = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=12).map("\n".join)


@given(st.one_of(LINES, st.text(max_size=80), LINES.map(lambda text: "at 0:10 " + text)))
def test_any_text_is_a_scenario_or_an_error_with_its_line(text: str) -> None:
    try:
        scenario = parse_scenario(text)
    except PlayError as error:
        assert 1 <= error.line <= len(text.splitlines())
        assert error.message
    else:
        assert all(0 <= step.at <= scenario.end for step in scenario.steps)

"""Table: the evidence for an expression, and whether repeating the decision agrees with it."""

from __future__ import annotations

from poolbook.domain import events as e
from poolbook.replay.validation.evidence_checks import reevaluation_problem

from ..together import together

AT = 1_800_000_000_000_000


@together(
    ("expression", "value", "read", "agrees"),
    [
        ("KeyboardIdle < 60", "true", {"MY.KeyboardIdle": "7"}, True),
        ("KeyboardIdle < 60", "false", {"MY.KeyboardIdle": "7"}, False),
        ("KeyboardIdle < 60", "true", {"MY.KeyboardIdle": "70"}, False),
        ("KeyboardIdle < 60", "undefined", {}, True),
        ("KeyboardIdle < 60", "undefined", {"MY.KeyboardIdle": "undefined"}, True),
        ("KeyboardIdle < 60", "undefined", {"MY.KeyboardIdle": "error"}, True),
        # the attribute's scope
        ("MY.Cpus >= TARGET.RequestCpus", "true", {"MY.Cpus": "2", "TARGET.RequestCpus": "2"}, True),
        ("MY.Cpus >= TARGET.RequestCpus", "true", {"MY.Cpus": "2", "MY.RequestCpus": "2"}, False),
        ("Cpus >= RequestCpus", "true", {"MY.Cpus": "2", "TARGET.RequestCpus": "2"}, True),
        # an attribute that is an expression has its value; the values that it read are next to it
        ("Idle", "true", {"MY.Idle": "true", "MY.KeyboardIdle": "7"}, True),
        # numbers, as HTCondor's daemons treat them
        ("LoadAvg", "true", {"MY.LoadAvg": "0.5"}, True),
        ("LoadAvg", "false", {"MY.LoadAvg": "0.0"}, True),
        ('Name', "undefined", {"MY.Name": '"x"'}, True),
        # the instant is that of the event
        ("time() - EnteredCurrentActivity > 300", "true", {"MY.EnteredCurrentActivity": "1799999699"}, True),
        ("time() - EnteredCurrentActivity > 300", "true", {"MY.EnteredCurrentActivity": "1799999700"}, False),
        # the value cannot be determined
        ("random(10) > 5 && Cpus > 1", "true", {"MY.Cpus": "2"}, True),
        ('eval("Cp" + "us") > 1', "false", {}, True),
        ('formatTime(time(), "%H") == "08" && Cpus > 1', "true", {"MY.Cpus": "2"}, True),
        # nonsense
        ("KeyboardIdle <", "true", {}, False),
        ("KeyboardIdle < 60", "yes?", {"MY.KeyboardIdle": "7"}, False),
    ],
)  # fmt: skip
def test_repeating_a_decision_compares_it_with_its_evidence(
    expression: str, value: str, read: dict[str, str], agrees: bool
) -> None:
    evidence = e.EvaluationRecorded(AT, "evaluated", "round-1", "PREEMPT", expression, value, read)
    assert (reevaluation_problem(evidence) == "") == agrees


def test_the_difference_is_reported() -> None:
    read = {"MY.KeyboardIdle": "70"}
    evidence = e.EvaluationRecorded(AT, "evaluated", "round-1", "PREEMPT", "KeyboardIdle < 60", "true", read)
    assert reevaluation_problem(evidence) == (
        "KeyboardIdle < 60 is recorded as true, but with MY.KeyboardIdle = 70 it is false"
    )

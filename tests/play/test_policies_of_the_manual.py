"""Golden: the scenarios of the manual's policies quote its text as it is printed, except for the lines listed here. The
printed form of each of these lines cannot work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.domain.classad import ClassAdSyntaxError, parse

TRANSCRIPTS = Path(__file__).parent / "transcripts"
PRINTED = Path(__file__).parent.parent / "data" / "manual" / "policies.txt"

# A printed line -> the line in the scenario.
CORRECTED = {
    "MachineBusy             = ($(CPUBusy) || $(KeyboardBusy)": (
        "MachineBusy             = ($(CPUBusy) || $(KeyboardBusy))"
    ),
    'NonSuspendableSlotState = eval(strcat("slot",SlotID-$(DETECTED_CORES),"_State")': (
        'NonSuspendableSlotState = eval(strcat("slot",SlotID-$(DETECTED_CORES),"_State"))'
    ),
    # A comment: the expression below it subtracts.
    "# my SlotID plus $(DETECTED_CORES)": "# my SlotID minus $(DETECTED_CORES)",
}
# Lines of a scenario that the page lost (the names left of expressions, and whole lines), or that use templates for the
# macros SmallJob, JustCpu and IsVanilla, which the page uses without defining them.
ADDED = {
    "default_policy": [],
    "desktop_or_not": [
        "use FEATURE : Policy_Expr_Fragments",
        "STARTD_ATTRS = $(STARTD_ATTRS) IsDesktop",
        "IS_OWNER = (START =?= False)",
        "SLOTS_CONNECTED_TO_KEYBOARD = 1000000",
    ],
    "job_suspension": [
        "NUM_CPUS = $(DETECTED_CORES)*2",
        "NUM_SLOTS = $(NUM_CPUS)",
        "MEMORY = $(DETECTED_MEMORY)*2",
        "STARTD_SLOT_ATTRS = $(STARTD_SLOT_ATTRS) State",
        "START = \\",
        "SUSPEND = \\",
        "WANT_SUSPEND = $(SUSPEND)",
        "CONTINUE = ($(SUSPEND)) != True",
    ],
}
# How the tests run every scenario, whatever its policy.
SURROUNDINGS = ["use FEATURE : StaticSlots", "RUNBENCHMARKS = False"]


def printed(policy: str) -> list[str]:
    _, _, rest = PRINTED.read_text().partition(f"== {policy}\n")
    return [line.strip() for line in rest.partition("\n== ")[0].splitlines() if line.strip()]


def configured(policy: str) -> Iterator[str]:
    """Yield the lines of a scenario's configuration."""
    inside = False
    for line in (TRANSCRIPTS / f"{policy}.txt").read_text().partition("\n====")[0].splitlines():
        if line.startswith("config"):
            inside = True
        elif line == "end":
            inside = False
        elif inside and line.strip():
            yield line.strip()


@pytest.mark.parametrize("policy", ADDED)
def test_a_scenario_quotes_its_policy_line_by_line(policy: str) -> None:
    expected = [CORRECTED.get(line, line) for line in printed(policy)]
    added = [*SURROUNDINGS, *ADDED[policy]]
    assert [line for line in configured(policy) if line not in added] == expected
    assert set(added) <= set(configured(policy))


@pytest.mark.parametrize("line", [line for line in CORRECTED if not line.startswith("#")])
def test_a_corrected_line_is_no_expression_as_it_is_printed(line: str) -> None:
    assert any(line in printed(policy) for policy in ADDED)
    for text, valid in ((line, False), (CORRECTED[line], True)):
        expression = text.partition("=")[2].replace("$(CPUBusy)", "a").replace("$(KeyboardBusy)", "b")
        if valid:
            parse(expression.replace("$(DETECTED_CORES)", "2"))
        else:
            with pytest.raises(ClassAdSyntaxError):
                parse(expression.replace("$(DETECTED_CORES)", "2"))

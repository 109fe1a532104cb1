"""What slots' ads say to others: as the manual has it, and as a real pool's ads are."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.domain.classad import ClassAd, Context, unparse
from poolbook.domain.startd.provisioning import POLICY
from poolbook.domain.startd.public_ad import PublishedSlots, is_published
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.records import Claim, Machine, MachineDrain, Slot
from poolbook.domain.state.slot_attributes import SlotAd
from poolbook.domain.state.state import State
from poolbook.domain.state_machines import HTCONDOR_25, MANUAL, Dialect
from poolbook.domain.state_machines.slot_rows import read_pair

from ..together import together

TRACES = Path(__file__).parent.parent / "data/traces"
AD = {
    "Start": "KeyboardIdle > 900",
    "Requirements": "Start && WithinResourceLimits",
    "WithinResourceLimits": "TARGET.RequestCpus <= MY.Cpus",
    "Rank": "0.0",
    "SUSPEND": "KeyboardIdle < 60",
    "SUSPEND_VANILLA": "false",
    "CLAIM_WORKLIFE": "1200",
    "MODIFY_REQUEST_EXPR_REQUESTCPUS": "4",
}
IDLE = {True: "1000", False: "10", None: "undefined"}
"""A KeyboardIdle with which START is true, false, or neither."""
USUAL, LIMITS = AD["Requirements"], "WithinResourceLimits"


@together(
    "dialect, state, more, requirements, start",
    [
        (MANUAL, "Unclaimed", {"willing": False}, USUAL, AD["Start"]),
        (MANUAL, "Unclaimed", {"willing": None}, USUAL, AD["Start"]),
        # "When the START expression locally evaluates to True", it is not published
        (MANUAL, "Unclaimed", {"willing": True}, LIMITS, None),
        (MANUAL, "Claimed", {"willing": True}, LIMITS, None),
        # the real startd publishes it
        (HTCONDOR_25, "Unclaimed", {"willing": True}, USUAL, AD["Start"]),
        # "says that Requirements are False to prevent being matched again"
        (MANUAL, "Matched", {"willing": True}, "false", None),
        (HTCONDOR_25, "Matched", {}, "false", None),
        (MANUAL, "Preempting", {}, "false", None),
        (HTCONDOR_25, "Preempting", {}, "false", None),
        # drains, shutdowns, better matches that wait
        (HTCONDOR_25, "Claimed", {"drain": ""}, "false", None),
        (MANUAL, "Drained", {"drain": ""}, "false", None),
        (HTCONDOR_25, "Claimed", {"shutdown": True}, "false", None),
        (MANUAL, "Claimed", {"waits": True}, "false", None),
        (HTCONDOR_25, "Claimed", {"drain": "Owner == \"x\""}, USUAL, 'Owner == "x"'),
        # a START that was given for the drain is never kept from those who look
        (MANUAL, "Claimed", {"drain": "true"}, USUAL, "true"),
    ],
)  # fmt: skip
def test_requirements_and_start(
    dialect: Dialect, state: str, more: dict[str, object], requirements: str, start: str | None
) -> None:
    found = published(AD, dialect, state, **more)  # type: ignore[arg-type]
    assert found["Requirements"] == requirements
    assert found.get("Start") == start


def published(
    ad: dict[str, str],
    dialect: Dialect,
    state: str,
    *,
    willing: bool | None = None,
    drain: str | None = None,
    shutdown: bool = False,
    waits: bool = False,
) -> dict[str, str]:
    """The published ad of a machine's only slot, as text. `drain`: the START of the drain that the machine is in."""
    machine = Machine("h", {}, 0, shutdown="Fast" if shutdown else "")
    if drain is not None:
        machine.drain = MachineDrain(1, "Graceful", "Graceful", 0, start=drain)
    slot = Slot(
        "slot1@h",
        "h",
        "static",
        "",
        SlotAd(ad),
        read_pair(f"{state}/Idle"),
        0,
        0,
        published_ad={"KeyboardIdle": IDLE[willing]},
    )
    slot.queued_claim = Claim("c", "bob@h", 0, 0) if waits else None
    machine.slots[slot.name] = slot
    pool = State(dialect=dialect, machines={"h": machine}, slots={slot.name: slot})
    found = PublishedSlots(pool, Caches(), 5_000_000, Context(now=5)).ad(slot)
    return {name: unparse(found[name]) for name in found}


def test_the_policy_is_kept_to_itself() -> None:
    assert published(AD, HTCONDOR_25, "Unclaimed").keys() & AD.keys() == {
        "Start", "Requirements", "WithinResourceLimits", "Rank",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("own", "said"),
    [({}, {"Rank": "0.0"}), ({"Rank": "5"}, {"Rank": "5"}), ({"rank": "TARGET.Size"}, {"rank": "TARGET.Size"})],
)
def test_a_slot_without_a_rank_says_that_it_values_all_jobs_alike(own: dict[str, str], said: dict[str, str]) -> None:
    usual = {name: text for name, text in AD.items() if name != "Rank"}
    found = published(usual | own, HTCONDOR_25, "Unclaimed")
    assert {name: text for name, text in found.items() if name.lower() == "rank"} == said


def ads() -> Iterator[ClassAd]:
    """Every slot's ad that was taken of the recorded pool."""
    for path in sorted(TRACES.glob("*/machine-ads-*")):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        for block in text.split("\n\n"):
            ad = ClassAd.from_old(block)
            if "SlotID" in ad and "Requirements" in ad:
                yield ad


def test_the_ads_of_a_real_pool_hold_what_is_published_and_no_more() -> None:
    seen = 0
    for ad in ads():
        seen += 1
        assert not [name for name in ad if not is_published(name)]
        drain = "" if "Draining" in ad else None
        ours = published({name: str(ad[name]) for name in ad}, HTCONDOR_25, ad.eval("State"), drain=drain)
        assert ours["Requirements"] == str(ad["Requirements"])
        assert ("Start" in ours) == ("Start" in ad)
    assert seen > 130


def test_what_the_real_ads_show_of_the_policy_is_shown() -> None:
    real = {name for ad in ads() for name in ad}
    assert {name for name in POLICY if is_published(name)} <= real

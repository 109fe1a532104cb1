"""The published ads of slots, by the manual and by recorded ads."""

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
"""A KeyboardIdle for which START is true, false or undefined."""
FULL_REQUIREMENTS, LIMITS = AD["Requirements"], "WithinResourceLimits"


@together(
    "dialect, state, options, requirements, start",
    [
        (MANUAL, "Unclaimed", {"start_value": False}, FULL_REQUIREMENTS, AD["Start"]),
        (MANUAL, "Unclaimed", {"start_value": None}, FULL_REQUIREMENTS, AD["Start"]),
        # "When the START expression locally evaluates to True", it is not published
        (MANUAL, "Unclaimed", {"start_value": True}, LIMITS, None),
        (MANUAL, "Claimed", {"start_value": True}, LIMITS, None),
        # HTCondor's startd publishes it
        (HTCONDOR_25, "Unclaimed", {"start_value": True}, FULL_REQUIREMENTS, AD["Start"]),
        # "says that Requirements are False to prevent being matched again"
        (MANUAL, "Matched", {"start_value": True}, "false", None),
        (HTCONDOR_25, "Matched", {}, "false", None),
        (MANUAL, "Preempting", {}, "false", None),
        (HTCONDOR_25, "Preempting", {}, "false", None),
        # drains, shutdowns, queued claims
        (HTCONDOR_25, "Claimed", {"drain": ""}, "false", None),
        (MANUAL, "Drained", {"drain": ""}, "false", None),
        (HTCONDOR_25, "Claimed", {"shutdown": True}, "false", None),
        (MANUAL, "Claimed", {"has_queued_claim": True}, "false", None),
        (HTCONDOR_25, "Claimed", {"drain": "Owner == \"x\""}, FULL_REQUIREMENTS, 'Owner == "x"'),
        # the START of a drain is always published
        (MANUAL, "Claimed", {"drain": "true"}, FULL_REQUIREMENTS, "true"),
    ],
)  # fmt: skip
def test_requirements_and_start_are_published_by_state(
    dialect: Dialect, state: str, options: dict[str, object], requirements: str, start: str | None
) -> None:
    ad = published(AD, dialect, state, **options)  # type: ignore[arg-type]
    assert ad["Requirements"] == requirements
    assert ad.get("Start") == start


def published(
    ad: dict[str, str],
    dialect: Dialect,
    state: str,
    *,
    start_value: bool | None = None,
    drain: str | None = None,
    shutdown: bool = False,
    has_queued_claim: bool = False,
) -> dict[str, str]:
    """Return the published ad of a machine's only slot. `drain`: the START expression of the machine's drain."""
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
        published_ad={"KeyboardIdle": IDLE[start_value]},
    )
    slot.queued_claim = Claim("c", "bob@h", 0, 0) if has_queued_claim else None
    machine.slots[slot.name] = slot
    pool = State(dialect=dialect, machines={"h": machine}, slots={slot.name: slot})
    published_ad = PublishedSlots(pool, Caches(), 5_000_000, Context(now=5)).ad(slot)
    return {name: unparse(published_ad[name]) for name in published_ad}


def test_the_policy_is_not_published() -> None:
    assert published(AD, HTCONDOR_25, "Unclaimed").keys() & AD.keys() == {
        "Start", "Requirements", "WithinResourceLimits", "Rank",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rank", "expected"),
    [({}, {"Rank": "0.0"}), ({"Rank": "5"}, {"Rank": "5"}), ({"rank": "TARGET.Size"}, {"rank": "TARGET.Size"})],
)
def test_a_slot_without_a_rank_publishes_a_rank_of_0(rank: dict[str, str], expected: dict[str, str]) -> None:
    without_rank = {name: text for name, text in AD.items() if name != "Rank"}
    ad = published(without_rank | rank, HTCONDOR_25, "Unclaimed")
    assert {name: text for name, text in ad.items() if name.lower() == "rank"} == expected


def recorded_ads() -> Iterator[ClassAd]:
    """Yield every recorded slot ad."""
    for path in sorted(TRACES.glob("*/machine-ads-*")):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        for block in text.split("\n\n"):
            ad = ClassAd.from_old(block)
            if "SlotID" in ad and "Requirements" in ad:
                yield ad


def test_recorded_ads_have_exactly_the_published_attributes() -> None:
    count = 0
    for ad in recorded_ads():
        count += 1
        assert not [name for name in ad if not is_published(name)]
        drain = "" if "Draining" in ad else None
        ours = published({name: str(ad[name]) for name in ad}, HTCONDOR_25, ad.eval("State"), drain=drain)
        assert ours["Requirements"] == str(ad["Requirements"])
        assert ("Start" in ours) == ("Start" in ad)
    assert count > 130


def test_the_published_policy_attributes_are_in_the_recorded_ads() -> None:
    recorded_names = {name for ad in recorded_ads() for name in ad}
    assert {name for name in POLICY if is_published(name)} <= recorded_names

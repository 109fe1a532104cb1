"""What slots' ads say to others: as the manual has it, and as a real pool's ads are."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.domain.classad import ClassAd
from poolbook.domain.startd.provisioning import POLICY
from poolbook.domain.startd.public_ad import published, shown
from poolbook.domain.state_machines import HTCONDOR_25, MANUAL, Dialect

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
        (HTCONDOR_25, "Claimed", {"closed": True}, "false", None),
        (MANUAL, "Drained", {"closed": True}, "false", None),
        (HTCONDOR_25, "Claimed", {"closed": True, "start": "Owner == \"x\""}, USUAL, 'Owner == "x"'),
    ],
)  # fmt: skip
def test_requirements_and_start(
    dialect: Dialect, state: str, more: dict[str, object], requirements: str, start: str | None
) -> None:
    found = published(AD, dialect, state, **more)  # type: ignore[arg-type]
    assert found["Requirements"] == requirements
    assert found.get("Start") == start


def test_the_policy_is_kept_to_itself() -> None:
    assert published(AD, HTCONDOR_25, "Unclaimed").keys() == {"Start", "Requirements", "WithinResourceLimits", "Rank"}


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
        assert not [name for name in ad if not shown(name)]
        state, closed = ad.eval("State"), "Draining" in ad
        ours = published({name: str(ad[name]) for name in ad}, HTCONDOR_25, state, closed=closed)
        assert ours["Requirements"] == str(ad["Requirements"])
        assert ("Start" in ours) == ("Start" in ad)
    assert seen > 130


def test_what_the_real_ads_show_of_the_policy_is_shown() -> None:
    real = {name for ad in ads() for name in ad}
    assert {name for name in POLICY if shown(name)} <= real

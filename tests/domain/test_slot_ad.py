"""A slot's ad in the state behaves as a dict does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.state.slot_attributes import SlotAd

NAMES = st.sampled_from(["Cpus", "Memory", "Disk", "Start", "Rank", "KFlops"])
ADS = st.dictionaries(NAMES, st.text(max_size=3))
CHANGES = st.lists(st.tuples(NAMES, st.none() | st.text(max_size=3)), max_size=12)


@given(ADS, CHANGES)
def test_a_slot_ad_equals_a_dict_after_any_changes(
    first: dict[str, str], changes: list[tuple[str, str | None]]
) -> None:
    ad, plain = SlotAd(first), dict(first)
    for name, text in changes:
        if text is None:
            assert ad.pop(name, None) == plain.pop(name, None)
        else:
            ad[name] = plain[name] = text
        assert list(ad.items()) == list(plain.items())
        assert [ad.get(name, "-") for name in ("Cpus", "Rank")] == [plain.get(name, "-") for name in ("Cpus", "Rank")]
    assert ad == plain == dict(ad) == SlotAd(plain)
    assert (list(ad), len(ad), "Cpus" in ad) == (list(plain), len(plain), "Cpus" in plain)
    assert ad | {"Cpus": "9"} == plain | {"Cpus": "9"}
    assert {"Cpus": "9"} | ad == {"Cpus": "9"} | plain
    assert repr(ad) == repr(plain)


def test_a_missing_attribute_is_a_key_error_with_its_name() -> None:
    ad = SlotAd({"Cpus": "1"})
    with pytest.raises(KeyError, match="Memory"):
        ad["Memory"]
    with pytest.raises(KeyError, match="Memory"):
        del ad["Memory"]


def test_slots_of_the_same_attributes_share_their_names() -> None:
    first_ad, other = SlotAd({"Cpus": "1", "Rank": "0"}), SlotAd({"Cpus": "2", "Rank": "0"})
    other["Cpus"] = "3"
    assert first_ad.keys() == other.keys()
    assert first_ad["Cpus"] == "1"

"""A pytest plugin that switches off hypothesis's shrinking of failing examples, which no one reads here."""

from __future__ import annotations

from hypothesis import Phase, settings


def pytest_collection() -> None:
    settings.register_profile(
        "without shrinking", settings.get_profile("poolbook"), phases=[Phase.explicit, Phase.generate], database=None
    )
    settings.load_profile("without shrinking")

"""A plugin for pytest: a property that fails is not made smaller, as nobody reads how it failed."""

from __future__ import annotations

from hypothesis import Phase, settings


def pytest_collection() -> None:
    settings.register_profile(
        "without shrinking", settings.get_profile("poolbook"), phases=[Phase.explicit, Phase.generate], database=None
    )
    settings.load_profile("without shrinking")

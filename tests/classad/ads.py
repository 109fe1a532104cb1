"""Ads that the tests of ads share."""

from hypothesis import settings
from hypothesis import strategies as st

from poolbook.domain.classad import ClassAd, unparse

from .strategies import Case, cases

FIXED = settings(max_examples=80, derandomize=True, deadline=None, database=None)


def unparsed(ad: ClassAd) -> dict[str, str]:
    return {name: unparse(expression) for name, expression in ad.items()}


def ads() -> st.SearchStrategy[str]:
    def the_ad(case: Case) -> str:
        return case.my if case.target is None else case.target

    return cases().map(the_ad)

"""Know the templates of ``use CATEGORY : NAME`` in a submit description.

``use strict : NAME`` sets what ``queue matching`` warns of and refuses; ``use template : NAME`` reads what a pool's
configuration has as ``SUBMIT_TEMPLATE_NAME``, if ``SUBMIT_TEMPLATE_NAMES`` names it. Source: the manual's page
"Configuration Macros", both entries; HTCondor's ``submit_utils.cpp`` for the templates of ``strict``.
"""

from __future__ import annotations

from typing import Final

from ..state.settings import SUBMIT_TEMPLATE
from .submit_context import Facts

NAMES: Final = "SUBMIT_TEMPLATE_NAMES"

_STRICT = {
    "false": (False, False, False),
    "true": (True, True, True),
    "harsh": (True, True, True),
}
"""Whether an empty match is warned of, whether it is refused, whether a duplicate is warned of."""


def template_text(facts: Facts, category: str, name: str) -> str | None:
    """Return the lines of a template; None where there is none of that name."""
    if category.lower() == "strict" and name.lower() in _STRICT:
        empty, refused, duplicate = ("true" if each else "false" for each in _STRICT[name.lower()])
        return (
            f"submit_warn_empty_matches = {empty}\nsubmit_fail_empty_matches = {refused}\n"
            f"submit_warn_duplicate_matches = {duplicate}"
        )
    if category.lower() == "template" and name.upper() in _templates(facts):
        return facts.settings.get(SUBMIT_TEMPLATE + name.upper())
    return None


def there_are(facts: Facts) -> str:
    """Return which templates there are, in words."""
    own = ", ".join(_templates(facts))
    return f"there are strict : {', '.join(_STRICT)}" + (f", and template : {own}" if own else f"; {NAMES} has none")


def _templates(facts: Facts) -> list[str]:
    return facts.setting(NAMES).upper().replace(",", " ").split()

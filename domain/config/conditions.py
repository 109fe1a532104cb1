"""``if defined use CATEGORY:NAME``: what a configuration's conditions have beyond a submit description's."""

from __future__ import annotations

import re

from ..submit.conditions import Conditions
from .tables import templates


class ConfigConditions(Conditions):
    """The ``if`` blocks around the present line of a configuration."""

    def _defined(self, name: str) -> bool | None:
        use = re.fullmatch(r"use\s+([^:\s]+)(?::(\S*))?", name, re.IGNORECASE)
        if use is None:
            return super()._defined(name)
        category, template = use[1].lower(), (use[2] or "").lower()
        return any(kind == category and template in ("", one) for kind, one in templates())

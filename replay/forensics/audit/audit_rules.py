"""The rules that records of an import can break, by name: ``rules.txt``."""

from __future__ import annotations

from pkgutil import get_data
from typing import Final

from ...narration.tables import tables

_TABLES: Final = tables(get_data(__package__, "rules.txt"))
OF_SLOTS: Final = _TABLES["slots"]
OF_JOBS: Final = _TABLES["jobs"]
OF_FACTS: Final = _TABLES["facts"]
OF_LOGS: Final = _TABLES["logs"]
RULES: Final = OF_SLOTS | OF_JOBS | OF_FACTS | OF_LOGS  #: every rule that a finding of an import may name

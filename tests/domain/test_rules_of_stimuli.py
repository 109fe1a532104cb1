"""Property: each kind of stimulus has its rule."""

from __future__ import annotations

import inspect
from importlib import import_module

from poolbook.domain.ports import stimuli as s

table = import_module("poolbook.domain.decide.decide")  # the package has the function under the module's name
ABOVE = {s.Stimulus, s.Command, s.JobCommand, s.SlotMessage}
"""What several kinds have in common."""


def test_each_kind_of_stimulus_has_a_rule_that_takes_it() -> None:
    kinds = {kind for kind in vars(s).values() if isinstance(kind, type) and issubclass(kind, s.Stimulus)}
    assert table._RULES.names.keys() == kinds - ABOVE
    for kind in table._RULES.names:
        assert len(inspect.signature(table._RULES[kind]).parameters) == (1 if kind in table._WITHOUT_STIMULUS else 2), (
            kind
        )

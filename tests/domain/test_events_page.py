"""Golden: every kind of event is public and documented field by field, and docs/events.md is generated from the
classes."""

from __future__ import annotations

import inspect
from importlib import import_module

from poolbook import events
from poolbook.domain.events import Event
from poolbook.domain.fold import evolve
from poolbook.domain.state.state import State
from poolbook.replay.listing.event_lines import KINDS
from poolbook.replay.validation import judged_pool

from ..event_fields import fields_of
from ..together import together
from .event_examples import EXAMPLES
from .events_page import MODULES, PAGE, classes, documented, page


def kinds(above: type[Event] = Event) -> set[type[Event]]:
    """Return all kinds of event that are defined anywhere in the package."""
    event_kinds = {above}
    for kind in above.__subclasses__():
        event_kinds |= kinds(kind)
    return event_kinds


def test_every_kind_of_event_and_its_parts_are_public() -> None:
    kinds_defined = {kind for name in MODULES for kind in classes(import_module(f"poolbook.domain.events.{name}"))}
    assert {kind for kind in kinds() if kind.__module__.startswith("poolbook.")} <= kinds_defined
    assert {kind.__name__ for kind in kinds_defined} == {
        name for name in events.__all__ if inspect.isclass(kind := getattr(events, name)) and fields_of(kind)
    }


@together("name", MODULES)
def test_every_kind_of_event_and_its_fields_are_documented(name: str) -> None:
    module = import_module(f"poolbook.domain.events.{name}")
    comments = documented(module)
    for kind in classes(module):
        assert kind.__doc__, kind.__name__
        own_fields = fields_of(kind).keys() & inspect.get_annotations(kind).keys()
        assert own_fields == {field for field, meaning in comments[kind.__name__].items() if meaning}, kind.__name__


def missing(kind: type[Event]) -> list[str]:
    """Return what a kind of event still lacks."""
    judged, folded = kind in judged_pool.RULES_OF, kind in evolve.FOLDS_OF[State]
    return [
        place
        for place, is_there in {
            "example (tests/domain/event_examples.py)": kind in {type(event) for event in EXAMPLES},
            "fold (domain/fold/evolve.py)": folded is (kind not in events.IMPORTED),
            "rules (replay/validation/)": judged is (kind not in events.IMPORTED),
            "line (replay/listing/event_lines.py)": kind in KINDS,
        }.items()
        if not is_there
    ]


def test_every_kind_of_event_has_all_that_it_needs() -> None:
    """Kinds that only an import writes have no fold and no rule: the audit checks them."""
    assert {kind.__name__: missing(kind) for kind in events.TOPICS.values() if missing(kind)} == {}


def test_the_page_is_generated_from_the_classes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "docs/events.md is out of date: run python docs/generate.py"

"""docs/events.md, made of the classes of events: their docstrings, what stands behind each field, and the examples."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from msgspec import NODEFAULT

from poolbook import events
from poolbook.adapters.stores.codec import CODEC
from poolbook.replay.listing import line, members

from ..event_fields import fields_of
from .event_examples import EXAMPLES

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "events.md"
TOPICS = {kind: topic for topic, kind in events.TOPICS.items()}
MODULES = {
    "base": "What all have in common",
    "pool": "The pool, its requests and its cycles",
    "slots": "Machines, slots and claims",
    "defrag": "The defragmentation",
    "jobs": "Jobs",
    "accounting": "Submitters",
    "imports": "What an import wrote",
}
MEANINGS = {
    "Causes": events.CAUSES,
    "Flags of a claim": events.CLAIM_FLAGS,
    "What is set of a submitter": events.SET,
}

_HEAD = """# Events

Made by `docs/generate_events.py` of the classes in `domain/events/`; programs import them from `poolbook.events`
([library.md](library.md)). What stands here is stable: a kind of event that was released keeps its name, its fields and
their meaning; a new field comes with a default, so that logs of earlier versions stay readable ([log.md](log.md)).
New kinds come with later versions.

Behind an event's name is its topic: the short name under which a log keeps it. Below its fields stand an example as the
log keeps it, and the line that `poolbook log` makes of it. Every event has `at`, `cause` and `stimulus` of `Event`,
and is of one stream, the log of one thing. Ads are dictionaries, attribute to expression text. Ranges of processes are
pairs of numbers, both ends included.
"""


def documented(module: ModuleType) -> dict[str, dict[str, str]]:
    """What stands behind each field of each class of a module."""
    source = inspect.getsource(module)
    lines = source.split("\n")
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            found[node.name] = {
                ast.unparse(part.target): lines[(part.end_lineno or 0) - 1].partition("  #: ")[2] for part in fields
            }
    return found


def classes(module: ModuleType) -> Iterator[type]:
    """The classes with fields that a module makes, in its order."""
    for thing in vars(module).values():
        if inspect.isclass(thing) and fields_of(thing) and thing.__module__ == module.__name__:
            yield thing


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for name, title in MODULES.items():
        module = import_module(f"poolbook.domain.events.{name}")
        said = documented(module)
        parts.append(f"\n## {title}\n")
        parts += [_class(kind, said[kind.__name__]) for kind in classes(module)]
    for title, meanings in MEANINGS.items():
        rows = "".join(f"| `{name}` | {words} |\n" for name, words in meanings.items())
        parts.append(f"\n## {title}\n\n| | |\n|---|---|\n{rows}")
    return "".join(parts)


_EXAMPLES = {type(event): event for event in EXAMPLES}


def _example(kind: type) -> str:
    """An event of this kind as the log keeps it, and its first line in a listing."""
    event = _EXAMPLES.get(kind)
    if event is None:
        return ""
    _, (state,) = CODEC.encode([event])
    return f"\n```json\n{state.decode()}\n```\n\n```\n{line(next(members(1, event))).strip()}\n```\n"


def _class(kind: type, said: dict[str, str]) -> str:
    topic = f" `{TOPICS[kind]}`" if kind in TOPICS else ""
    base = kind.__bases__[0]
    also = f" It has the fields of `{base.__name__}`, too." if fields_of(base) else ""
    text = f"\n### {kind.__name__}{topic}\n\n{_plain(kind.__doc__ or '')}{also}\n"
    own = [name for name in fields_of(kind) if name in said]
    if own:
        text += "\n| field | type | meaning |\n|---|---|---|\n"
        text += "".join(f"| `{name}` | `{_type(kind, name)}` | {_plain(said[name])} |\n" for name in own)
    return text + _example(kind)


def _type(kind: type, name: str) -> str:
    """A field's type as it is written, and its default."""
    default = fields_of(kind)[name]
    given = "" if default is NODEFAULT else f" = {default!r}"
    return f"{inspect.get_annotations(kind)[name]}{given}".replace("|", "\\|")


def _plain(text: str) -> str:
    """As Markdown has it: one backquote where reStructuredText has two; one line."""
    return re.sub(r"\s+", " ", text).replace("``", "`")

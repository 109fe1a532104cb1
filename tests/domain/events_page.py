"""Generate docs/events.md from the classes of events: docstrings, comments on the fields, and examples."""

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
from poolbook.replay.listing.members import line, members

from ..event_fields import fields_of
from .event_examples import EXAMPLES

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "events.md"
TOPICS = {kind: topic for topic, kind in events.TOPICS.items()}
MODULES = {
    "base": "Common fields",
    "pool": "The pool, its requests and its cycles",
    "slots": "Machines, slots and claims",
    "defrag": "The defragmentation",
    "had": "Several managers",
    "jobs": "Jobs",
    "peers": "Roles with separate logs",
    "accounting": "Submitters",
    "imports": "Imports",
}
MEANINGS = {
    "Causes": events.CAUSES,
    "Flags of a claim": events.CLAIM_FLAGS,
    "Settings of a submitter": events.SET,
}

_HEAD = """# Events

Look up an event of a log here: its fields with their units, an example as it is stored, and the line that
`poolbook log` prints for it. The page is generated from the event classes in `domain/events/`. In Python, import these
classes from `poolbook.events` ([library](library.md#events)).

A released event class keeps its name, its fields and their meaning. New fields have defaults, so logs of earlier
versions stay readable ([log](log.md#new-events-and-formats)). Later versions add new classes.

The heading of each section contains the class name and the topic, which is the short name in a log. Every event has the
fields `at`, `cause` and `stimulus` of `Event`, and belongs to one stream, which contains the events of one job cluster,
slot, machine or submitter, or of the pool. Ads are dictionaries that map attributes to expressions. A range of
processes is a pair of numbers, the first and the last process.
"""


def documented(module: ModuleType) -> dict[str, dict[str, str]]:
    """Return the comment on each field of each class of a module."""
    source = inspect.getsource(module)
    lines = source.split("\n")
    comments: dict[str, dict[str, str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            comments[node.name] = {
                ast.unparse(part.target): lines[(part.end_lineno or 0) - 1].partition("  #: ")[2] for part in fields
            }
    return comments


def classes(module: ModuleType) -> Iterator[type]:
    """Yield the classes with fields that a module defines, in order."""
    for thing in vars(module).values():
        if inspect.isclass(thing) and fields_of(thing) and thing.__module__ == module.__name__:
            yield thing


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for name, title in MODULES.items():
        module = import_module(f"poolbook.domain.events.{name}")
        comments = documented(module)
        parts.append(f"\n## {title}\n")
        parts += [_class(kind, comments[kind.__name__]) for kind in classes(module)]
    for title, meanings in MEANINGS.items():
        rows = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in meanings.items())
        parts.append(f"\n## {title}\n\n| | |\n|---|---|\n{rows}")
    return "".join(parts)


_EXAMPLES = {type(event): event for event in EXAMPLES}


def _example(kind: type) -> str:
    """Return an event of this kind as the log stores it, and its first line in a listing."""
    event = _EXAMPLES.get(kind)
    if event is None:
        return ""
    _, (state,) = CODEC.encode([event])
    return f"\n```json\n{state.decode()}\n```\n\n```\n{line(next(members(1, event))).strip()}\n```\n"


def _class(kind: type, comments: dict[str, str]) -> str:
    topic = f" `{TOPICS[kind]}`" if kind in TOPICS else ""
    base = kind.__bases__[0]
    also = f" It also has the fields of `{base.__name__}`." if fields_of(base) else ""
    text = f"\n### {kind.__name__}{topic}\n\n{_plain(kind.__doc__ or '')}{also}\n"
    names = [name for name in fields_of(kind) if name in comments]
    if names:
        text += "\n| field | type | meaning |\n|---|---|---|\n"
        text += "".join(f"| `{name}` | `{_type(kind, name)}` | {_plain(comments[name])} |\n" for name in names)
    return text + _example(kind)


def _type(kind: type, name: str) -> str:
    """Return a field's type as source text, and its default."""
    default = fields_of(kind)[name]
    default_text = "" if default is NODEFAULT else f" = {default!r}"
    return f"{inspect.get_annotations(kind)[name]}{default_text}".replace("|", "\\|")


def _plain(text: str) -> str:
    """Convert reStructuredText to one line of Markdown: one backquote in place of two."""
    return re.sub(r"\s+", " ", text).replace("``", "`")

"""What happens to every name of the five documents: docs/coverage.md, made from the code's own tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from poolbook.adapters.cli.documentation import table_of
from poolbook.adapters.cli.main import INSTEAD, PREFIX, TOOLS, command_named
from poolbook.adapters.condor_tools.options import UsageError, find
from poolbook.adapters.condor_tools.tool_options import Tool, tool
from poolbook.domain.config import ConfigError, is_known, is_limit, is_supported, read
from poolbook.domain.config.param_info import without_prefix
from poolbook.domain.config.tables import defaults, without_default
from poolbook.domain.coverage.attributes import ability, attributes, commands, unadvertised
from poolbook.domain.coverage.settings import Names, follower, rows, subject, unenforced
from poolbook.domain.submit.build import known_commands
from poolbook.domain.submit.submit_commands import REFUSED
from poolbook.domain.submit.unsupported_commands import COMMANDS_OF, is_read

from . import code

OF_OTHER_UNIVERSES = Names(dict.fromkeys(commands("what is not here"), True))
PAGE = code.ROOT / "docs" / "coverage.md"
FEATURES = code.ROOT / "docs" / "features.tsv"
STATUSES = {
    "works": "as the documents say",
    "partly": "some of it; the note says what not",
    "told": "not followed: whoever sets it or submits it is told so",
    "refused": "not followed: who asks for it gets an error that says so",
    "absent": "there is nothing to set or to call",
}


class Row(NamedTuple):
    kind: str
    name: str
    documents: str


class Feature(NamedTuple):
    document: str
    heading: str
    feature: str
    status: str
    note: str


def tool_of(name: str) -> Tool | None:
    """Return the table of a tool that is there under HTCondor's name; None if it has none, or there is no such tool."""
    try:
        return tool(name.removeprefix("condor_"))
    except FileNotFoundError:
        return None


def names() -> list[Row]:
    """The names in the five documents."""
    lines = (code.DATA / "names.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [Row(*line.split("\t")) for line in lines]


def features() -> list[Feature]:
    """The features that the five documents describe, with what became of each."""
    return [Feature(*line.split("\t")) for line in FEATURES.read_text(encoding="utf-8").splitlines()[1:]]


# What happens to a name


def of_setting(name: str) -> str:
    whole = re.sub("<[^>]*>", "1", name)
    plain = whole if is_known(whole) or unenforced(whole) else whole.rpartition(".")[2]
    if (about := unenforced(plain)) is not None:
        return f"no pool starts with it, unless -ignore-unenforced is given: {about}"
    if is_limit(plain):
        return "followed by the negotiator"
    for spelled in (plain, without_prefix(plain)):
        if (who := follower(spelled)) is not None:
            return f"followed by {who}"
    return f"told: {subject(without_prefix(plain))}" if is_known(plain) else ""


def of_template(name: str) -> str:
    try:
        text = f"use {name}(1, 2, 3)" if name.endswith(("Group", "File")) else f"use {name}"
        found = read(text).unsupported_settings()
    except ConfigError as error:
        return f"refused: {error.message}"
    told = [one.name for one in found if not one.unenforced]
    if any(one.unenforced for one in found):
        return "expanded; no pool starts with it, unless -ignore-unenforced is given"
    return f"expanded; told: {', '.join(told)}" if told else "expanded, and followed"


def of_command(name: str) -> str:
    plain = re.sub("<[^>]*>", "cogs", name).lower()
    if plain in dict(REFUSED):
        return f"refused: {dict(REFUSED)[plain]}"
    idle = [one for one, names in COMMANDS_OF.items() if plain in names or plain == one.lower()]
    if any(one in attributes("not acted on") for one in idle):
        return "told at each submission: kept in the ad and not acted on yet"
    if any(one in attributes("no effect") for one in idle) or is_read(plain):
        return "told at each submission: it has no effect yet"
    if OF_OTHER_UNIVERSES.get(plain):
        return "told at each submission: unused, as in HTCondor's vanilla universe"
    return "followed" if plain in known_commands() or plain.startswith("request_") or plain == "queue" else ""


def of_attribute(name: str) -> str:
    if ability(name):
        return "no slot has it; told where a configuration or a job asks for it"
    if unadvertised(name):
        return "no slot has it; told where START, requirements or rank reads it"
    if name in attributes("not acted on") or name in attributes("no effect"):
        return "told at each submission: kept in the job's ad and not acted on yet"
    return "as in HTCondor" if code.has_word(name) else "in no ad: undefined where it is read"


def of_tool(name: str) -> str:
    if name.removeprefix(PREFIX) in TOOLS:
        return "there, under this name"
    command = command_named(name)
    if command:
        return f"`poolbook {command}`"
    instead = INSTEAD.get(name.removeprefix(PREFIX))
    return f"told: {instead}" if instead else "told: there is no counterpart"


def of_option(name: str) -> str:
    tool, _, option = name.partition(" ")
    table = tool_of(tool)
    if table is not None:
        meaning = table.find(option)
        if meaning is None:
            return "refused: there is no such option here"
        return _told(meaning[0].refused, f"{tool} -{meaning[0].name}")
    command = command_named(tool)
    if not command:
        return f"told with {tool}"
    try:
        found, _ = find(table_of(command), option)
    except UsageError:
        return "refused: there is no such option here"
    return _told(found.refused, f"poolbook {command} -{found.name}")


def _told(refused: str, call: str) -> str:
    return f"refused: {refused}" if refused else f"`{call}`"


WHAT: dict[str, tuple[str, Callable[[str], str]]] = {
    "setting": ("Settings", of_setting),
    "template": ("Templates of `use`", of_template),
    "command": ("Submit commands", of_command),
    "attribute": ("Attributes", of_attribute),
    "tool": ("Tools", of_tool),
    "option": ("Options", of_option),
}

# The page

HEAD = """# Coverage

What Poolbook does with the names and features of the five documents that it implements: the manual's pages on job
scheduling, execution points, access points and central managers, and the overview. Nothing is accepted in silence.
What is not followed is named once, in one message, where a person sets it: by `serve`, `run`, `config`, `reconfig`,
`play` and `submit`.

This page is made from the code's tables by `python docs/generate_coverage.py`, and a test holds it to them.
"""


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    yield from ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    yield ""


def _features() -> Iterator[str]:
    found = features()
    counts = Counter(one.status for one in found)
    yield "## Features\n"
    yield f"{len(found)} features of the documents, and what became of each. docs/features.tsv has them all.\n"
    yield from _table(
        ("status", "features", "means"), [(status, str(counts[status]), words) for status, words in STATUSES.items()]
    )
    yield "Those that do not work as the documents say, or not whole:\n"
    rest = [one for one in found if one.status != "works"]
    yield from _table(
        ("document", "section", "feature", "status", "note"),
        [(one.document, one.heading, one.feature, one.status, one.note) for one in rest],
    )


def _names() -> Iterator[str]:
    for kind, (title, what) in WHAT.items():
        mine = [row for row in names() if row.kind == kind]
        yield f"## {title}\n"
        yield from _table(("name", "what happens to it"), [(f"`{row.name}`", what(row.name)) for row in mine])


def _spelled(found: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in found)


def _all_settings() -> Iterator[str]:
    known = {one.name.rpartition(".")[2] for one in defaults().values()} | set(without_default())
    rest = sorted((name for name in known if not is_supported(name) and not unenforced(name)), key=str.lower)
    by_subject: dict[str, list[str]] = {about: [] for about, _ in rows("subject")}
    for name in rest:
        by_subject.setdefault(subject(re.sub("<[^>]*>", "1", name)), []).append(name)
    yield "## All settings of HTCondor's\n"
    yield "Followed, by whom:\n"
    yield from _table(("who", "settings"), [(who, _spelled(of)) for who, of in rows("followed")])
    yield "Not followed, by what they are about; each is told where it is set:\n"
    yield from _table(
        ("about", "settings"),
        [(about, _spelled(found)) for about, found in by_subject.items() if found],
    )


def page() -> str:
    return "\n".join([HEAD, *_features(), *_names(), *_all_settings()])

"""Generate docs/coverage.md: the status of every name in the five documents, from the code's tables."""

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
    "implemented": "works as documented",
    "partly": "implemented in part; the note says what is missing",
    "reported": "not implemented; Poolbook warns when you use it",
    "rejected": "not implemented; using it is an error",
    "absent": "no such setting or command",
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
    """Return the features that the five documents describe, with their status."""
    return [Feature(*line.split("\t")) for line in FEATURES.read_text(encoding="utf-8").splitlines()[1:]]


# What happens to a name


def of_setting(name: str) -> str:
    whole = re.sub("<[^>]*>", "1", name)
    plain = whole if is_known(whole) or unenforced(whole) else whole.rpartition(".")[2]
    if (about := unenforced(plain)) is not None:
        return f"rejected unless -ignore-unenforced is given: {about}"
    if is_limit(plain):
        return "implemented (the negotiator)"
    for spelled in (plain, without_prefix(plain)):
        if (who := follower(spelled)) is not None:
            return f"implemented ({who})"
    return f"reported ({subject(without_prefix(plain))})" if is_known(plain) else ""


def of_template(name: str) -> str:
    try:
        text = f"use {name}(1, 2, 3)" if name.endswith(("Group", "File")) else f"use {name}"
        found = read(text).unsupported_settings()
    except ConfigError as error:
        return f"rejected: {error.message}"
    told = [one.name for one in found if not one.unenforced]
    if any(one.unenforced for one in found):
        return "expanded; rejected unless -ignore-unenforced is given"
    return f"expanded; reported: {', '.join(told)}" if told else "implemented"


def of_command(name: str) -> str:
    plain = re.sub("<[^>]*>", "cogs", name).lower()
    if plain in dict(REFUSED):
        return f"rejected: {dict(REFUSED)[plain]}"
    idle = [one for one, names in COMMANDS_OF.items() if plain in names or plain == one.lower()]
    if any(one in attributes("not acted on") for one in idle):
        return "reported at submission: stored in the ad, no effect yet"
    if any(one in attributes("no effect") for one in idle) or is_read(plain):
        return "reported at submission: no effect yet"
    if OF_OTHER_UNIVERSES.get(plain):
        return "reported at submission: unused, as in HTCondor's vanilla universe"
    return "implemented" if plain in known_commands() or plain.startswith("request_") or plain == "queue" else ""


def of_attribute(name: str) -> str:
    if ability(name):
        return "in no slot ad; reported when a configuration or a job uses it"
    if unadvertised(name):
        return "in no slot ad; reported when START, requirements or rank uses it"
    if name in attributes("not acted on") or name in attributes("no effect"):
        return "reported at submission: stored in the job ad, no effect yet"
    return "as in HTCondor" if code.has_word(name) else "absent: undefined"


def of_tool(name: str) -> str:
    if name.removeprefix(PREFIX) in TOOLS:
        return "implemented under this name"
    command = command_named(name)
    if command:
        return f"`poolbook {command}`"
    instead = INSTEAD.get(name.removeprefix(PREFIX))
    return f"reported: {instead}" if instead else "reported: there is no counterpart"


def of_option(name: str) -> str:
    tool, _, option = name.partition(" ")
    table = tool_of(tool)
    if table is not None:
        meaning = table.find(option)
        if meaning is None:
            return "rejected: unknown option"
        return _told(meaning[0].refused, f"{tool} -{meaning[0].name}")
    command = command_named(tool)
    if not command:
        return f"reported with {tool}"
    try:
        found, _ = find(table_of(command), option)
    except UsageError:
        return "rejected: unknown option"
    return _told(found.refused, f"poolbook {command} -{found.name}")


def _told(refused: str, call: str) -> str:
    return f"rejected: {refused}" if refused else f"`{call}`"


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

This page lists the features, settings, submit commands, attributes, tools and options in HTCondor's documents on job
scheduling, execution points, access points and central managers, and in the overview. Every HTCondor name is
implemented, rejected, or reported as unsupported: `serve`, `run`, `config`, `reconfig`, `play` and `submit` print one
message with the names that have no effect.

The page is generated from the code.
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
    yield f"The documents describe {len(found)} features. `docs/features.tsv` lists all of them.\n"
    yield from _table(
        ("status", "features", "meaning"), [(status, str(counts[status]), words) for status, words in STATUSES.items()]
    )
    yield "These features are not fully implemented:\n"
    rest = [one for one in found if one.status != "implemented"]
    yield from _table(
        ("document", "section", "feature", "status", "note"),
        [(one.document, one.heading, one.feature, one.status, one.note) for one in rest],
    )


def _names() -> Iterator[str]:
    for kind, (title, what) in WHAT.items():
        mine = [row for row in names() if row.kind == kind]
        yield f"## {title}\n"
        yield from _table(("name", "status"), [(f"`{row.name}`", what(row.name)) for row in mine])


def _spelled(found: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in found)


def _all_settings() -> Iterator[str]:
    known = {one.name.rpartition(".")[2] for one in defaults().values()} | set(without_default())
    rest = sorted((name for name in known if not is_supported(name) and not unenforced(name)), key=str.lower)
    by_subject: dict[str, list[str]] = {about: [] for about, _ in rows("subject")}
    for name in rest:
        by_subject.setdefault(subject(re.sub("<[^>]*>", "1", name)), []).append(name)
    yield "## All HTCondor settings\n"
    yield "Implemented, by component:\n"
    yield from _table(("component", "settings"), [(who, _spelled(of)) for who, of in rows("followed")])
    yield "Not implemented, by subject; Poolbook reports each that you set:\n"
    yield from _table(
        ("subject", "settings"),
        [(about, _spelled(found)) for about, found in by_subject.items() if found],
    )


def page() -> str:
    return "\n".join([HEAD, *_features(), *_names(), *_all_settings()])

"""Generate docs/coverage.md: the status of every name in the five documents, from the code's tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from poolbook.adapters.cli.documentation import table_of
from poolbook.adapters.cli.main import ALTERNATIVES, PREFIX, TOOLS, command_named
from poolbook.adapters.condor_tools.options import UsageError, find_option
from poolbook.adapters.condor_tools.tool_options import Tool, tool
from poolbook.domain.config import ConfigError, is_known, is_limit, is_supported, read
from poolbook.domain.config.param_info import without_prefix
from poolbook.domain.config.tables import defaults, names_without_default
from poolbook.domain.coverage.attributes import absent_attribute, attributes, commands, is_missing_capability
from poolbook.domain.coverage.settings import NameTable, describe_effect, implemented_by, restriction, sections_of
from poolbook.domain.submit.build import known_commands
from poolbook.domain.submit.submit_commands import UNSUPPORTED
from poolbook.domain.submit.unsupported_commands import COMMANDS_OF, is_read_by_htcondor

from . import code

OTHER_UNIVERSES = NameTable(dict.fromkeys(commands("what is not here"), True))
PAGE = code.ROOT / "docs" / "coverage.md"
FEATURES = code.ROOT / "docs" / "features.tsv"
STATUSES = {
    "implemented": "works as documented",
    "rejected": "not implemented; using it is an error",
    "scope": "not implemented, for the reason in [scope](scope.md)",
    "planned": "not implemented yet: [scope](scope.md#planned)",
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


def scope_rows() -> dict[str, str]:
    """Return the row of docs/scope.md for each reason, and for each name, that is not implemented."""
    text = Path(__file__).with_name("scope_rows.txt").read_text(encoding="utf-8")
    parts = (section.partition("]\n") for section in re.split(r"^\[", text, flags=re.MULTILINE)[1:])
    return {reason: row for row, _, reasons in parts for reason in reasons.split("\n") if reason}


NOT_IMPLEMENTED = re.compile(r"(?:expanded; )?(?:partly|reported|absent|in no slot ad)\b")
"""The beginning of a status that needs a row in docs/scope.md."""


def with_scope(name: str, status: str) -> str:
    """Return a status with the row of docs/scope.md that has the reason, if the name is not implemented."""
    if NOT_IMPLEMENTED.match(status) is None:
        return status
    rows, about = scope_rows(), re.search(r"\((.*)\)$", status)
    keys = (name, name.partition(" ")[0], about[1] if about else "")
    row = next((rows[key] for key in keys if key in rows), "")
    if status.startswith("reported at submission") and not row:
        row = "Submit commands without effect"
    return f"{status}; scope.md: {row}"


def tool_of(name: str) -> Tool | None:
    """Return the option table of a tool that exists under HTCondor's name, or None."""
    try:
        return tool(name.removeprefix("condor_"))
    except FileNotFoundError:
        return None


def names() -> list[Row]:
    """Return the names in the five documents."""
    lines = (code.DATA / "names.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [Row(*line.split("\t")) for line in lines]


def features() -> list[Feature]:
    """Return the features that the five documents describe, with their status."""
    return [Feature(*line.split("\t")) for line in FEATURES.read_text(encoding="utf-8").splitlines()[1:]]


def tried_page(document: str) -> Path:
    """Return the page that shows how the features of a document were tried."""
    return PAGE.parent / "tried" / f"{document.lower().replace(' ', '-')}.md"


# The status of a name


def of_setting(name: str) -> str:
    example = re.sub("<[^>]*>", "1", name)
    plain = example if is_known(example) or restriction(example) else example.rpartition(".")[2]
    if (feature := restriction(plain)) is not None:
        return f"rejected unless -ignore-unenforced is given: {feature}"
    if is_limit(plain):
        return "implemented (the negotiator)"
    for spelling in (plain, without_prefix(plain), plain.rpartition(".")[2]):
        if (component := implemented_by(spelling)) is not None:
            return f"implemented ({component})"
    return f"reported ({describe_effect(without_prefix(plain))})" if is_known(plain) else ""


def of_template(name: str) -> str:
    try:
        text = f"use {name}(1, 2, 3)" if name.endswith(("Group", "File")) else f"use {name}"
        settings = read(text).unsupported_settings()
    except ConfigError as error:
        return f"rejected: {error.message}"
    reported = [setting.name for setting in settings if not setting.unenforced]
    if any(setting.unenforced for setting in settings):
        return "expanded; rejected unless -ignore-unenforced is given"
    return f"expanded; reported: {', '.join(reported)}" if reported else "implemented"


def of_command(name: str) -> str:
    plain = re.sub("<[^>]*>", "cogs", name).lower()
    if plain in dict(UNSUPPORTED):
        return f"rejected: {dict(UNSUPPORTED)[plain]}"
    created = [attribute for attribute, names in COMMANDS_OF.items() if plain in names or plain == attribute.lower()]
    if any(attribute in attributes("not acted on") for attribute in created):
        return "reported at submission: stored in the ad, no effect yet"
    if any(attribute in attributes("no effect") for attribute in created) or is_read_by_htcondor(plain):
        return "reported at submission: no effect yet"
    if OTHER_UNIVERSES.get(plain):
        return "reported at submission: unused, as in HTCondor's vanilla universe"
    return "implemented" if plain in known_commands() or plain.startswith("request_") or plain == "queue" else ""


def of_attribute(name: str) -> str:
    if is_missing_capability(name):
        return "in no slot ad; reported when a configuration or a job uses it"
    if absent_attribute(name):
        return "in no slot ad; reported when START, requirements or rank uses it"
    if name in attributes("not acted on") or name in attributes("no effect"):
        return "reported at submission: stored in the job ad, no effect yet"
    return "as in HTCondor" if code.contains_name(name) else "absent: undefined"


def of_tool(name: str) -> str:
    if name.removeprefix(PREFIX) in TOOLS:
        return "implemented under this name"
    command = command_named(name)
    if command:
        return f"`poolbook {command}`"
    instead = ALTERNATIVES.get(name.removeprefix(PREFIX))
    return f"reported: {instead}" if instead else "reported: there is no counterpart"


def of_option(name: str) -> str:
    tool, _, option = name.partition(" ")
    table = tool_of(tool)
    if table is not None:
        meaning = table.find(option)
        if meaning is None:
            return "rejected: unknown option"
        return _option_status(meaning[0].refused, f"{tool} -{meaning[0].name}")
    command = command_named(tool)
    if not command:
        return f"reported with {tool}"
    try:
        known, _ = find_option(table_of(command), option)
    except UsageError:
        return "rejected: unknown option"
    return _option_status(known.refused, f"poolbook {command} -{known.name}")


def _option_status(refused: str, call: str) -> str:
    return f"rejected: {refused}" if refused else f"`{call}`"


KINDS: dict[str, tuple[str, Callable[[str], str]]] = {
    "setting": ("Settings", of_setting),
    "template": ("Templates of `use`", of_template),
    "command": ("Submit commands", of_command),
    "attribute": ("Attributes", of_attribute),
    "tool": ("Tools", of_tool),
    "option": ("Options", of_option),
}

# The page

HEAD = """# Coverage

Look up an HTCondor feature, setting, submit command, attribute, tool or option here to see whether Poolbook implements
it. The page covers the names in HTCondor's documents on job scheduling, execution points, access points and central
managers, and in the overview. Every name is implemented, rejected, or reported as unsupported: `serve`, `run`,
`config`, `reconfig`, `play` and `submit` print one message with the names that have no effect.

The page is generated from the code.
"""


def _table(titles: tuple[str, ...], sections_of: list[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    yield from ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in sections_of)
    yield ""


def _features() -> Iterator[str]:
    all_features = features()
    counts = Counter(feature.status for feature in all_features)
    yield "## Features\n"
    yield f"The documents describe {len(all_features)} features, all of which `docs/features.tsv` lists.\n"
    yield from _table(
        ("status", "features", "meaning"),
        [(status, str(counts[status]), meaning) for status, meaning in STATUSES.items()],
    )
    pages = {feature.document: tried_page(feature.document) for feature in all_features}
    links = [f"[{document}]({path.relative_to(PAGE.parent)})" for document, path in pages.items() if path.exists()]
    yield f"These pages show how each implemented feature was tried, with commands and output: {', '.join(links)}.\n"
    yield (
        'These features are not fully implemented. After "scope.md:", a note names the row of [scope](scope.md) with '
        "the reason:\n"
    )
    yield from _table(
        ("document", "section", "feature", "status", "note"),
        [
            (feature.document, feature.heading, feature.feature, feature.status, feature.note)
            for feature in all_features
            if feature.status != "implemented"
        ],
    )


def _names() -> Iterator[str]:
    for kind, (title, status_of) in KINDS.items():
        kind_names = [row.name for row in names() if row.kind == kind]
        yield f"## {title}\n"
        yield from _table(("name", "status"), [(f"`{name}`", with_scope(name, status_of(name))) for name in kind_names])


def _code_list(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _all_settings() -> Iterator[str]:
    known = {default.name.rpartition(".")[2] for default in defaults().values()} | set(names_without_default())
    unsupported = sorted((name for name in known if not is_supported(name) and not restriction(name)), key=str.lower)
    by_subject: dict[str, list[str]] = {about: [] for about, _ in sections_of("subject")}
    for name in unsupported:
        by_subject.setdefault(describe_effect(re.sub("<[^>]*>", "1", name)), []).append(name)
    yield "## All HTCondor settings\n"
    yield "Poolbook implements these settings, by component:\n"
    yield from _table(
        ("component", "settings"), [(component, _code_list(names)) for component, names in sections_of("followed")]
    )
    yield "These settings are not implemented, by subject. Poolbook reports each of them that you set:\n"
    yield from _table(
        ("subject", "row of scope.md", "settings"),
        [(about, scope_rows()[about], _code_list(names)) for about, names in by_subject.items() if names],
    )


def page() -> str:
    return "\n".join([HEAD, *_features(), *_names(), *_all_settings()])

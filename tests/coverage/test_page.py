"""Golden: docs/coverage.md has the status of every name in the five documents."""

from __future__ import annotations

import re

from poolbook.adapters.cli.documentation import table_of
from poolbook.adapters.cli.main import command_named
from poolbook.adapters.condor_tools.options import UsageError, find_option
from poolbook.domain.config import is_known, is_supported
from poolbook.domain.coverage.attributes import attributes
from poolbook.domain.coverage.settings import UNKNOWN_EFFECT, sections_of
from poolbook.domain.submit.build import known_commands
from poolbook.domain.submit.unsupported_commands import COMMANDS_OF

from ..together import together
from .page import KINDS, NOT_IMPLEMENTED, PAGE, STATUSES, features, names, page, scope_rows, with_scope


def test_the_page_matches_the_tables() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "docs/coverage.md is out of date: run python docs/generate.py"


@together("kind", KINDS)
def test_every_name_in_the_documents_has_a_status(kind: str) -> None:
    _, status_of = KINDS[kind]
    assert [row.name for row in names() if row.kind == kind and not status_of(row.name)] == []


def test_every_kind_of_name_is_on_the_page() -> None:
    assert {row.kind for row in names()} == set(KINDS)


def test_every_feature_has_a_known_status() -> None:
    assert {feature.status for feature in features()} <= set(STATUSES)


SECTIONS = (PAGE.parent / "scope.md").read_text(encoding="utf-8").partition("\n## Planned\n")[::2]


def explained(section: str) -> set[str]:
    """Return the names of the rows of a section of docs/scope.md."""
    return {line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")}


def test_an_unplanned_or_planned_feature_is_explained_on_the_page_scope() -> None:
    for status, section in zip(("scope", "planned"), SECTIONS, strict=True):
        notes = [re.search("scope.md: ([^;]+)", feature.note) for feature in features() if feature.status == status]
        assert notes and None not in notes
        assert {note[1] for note in notes if note} <= explained(section)


def test_a_name_that_is_not_implemented_names_its_row_of_the_page_scope() -> None:
    statuses = [(row.name, with_scope(row.name, KINDS[row.kind][1](row.name))) for row in names()]
    missing = [(name, status) for name, status in statuses if NOT_IMPLEMENTED.match(status)]
    all_rows = explained("".join(SECTIONS))
    assert len(missing) > 50
    assert [each for each in missing if each[1].rpartition("; scope.md: ")[2] not in all_rows] == []


def test_every_reason_of_the_table_is_used_and_has_a_row_of_the_page_scope() -> None:
    reasons = {about for about, _ in sections_of("subject")} | {UNKNOWN_EFFECT}
    assert reasons <= set(scope_rows()) <= reasons | {row.name for row in names()}
    assert set(scope_rows().values()) <= explained("".join(SECTIONS))


def _settings(text: str) -> list[str]:
    words = [re.sub("<[^>]*>", "1", word) for word in re.findall(r"[A-Z][A-Z0-9_]{3,}(?:<\w+>)?", text)]
    return [word for word in words if is_known(word)]


def _commands(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z_]{5,}", text) if "_" in word and word in known_commands()]


def _options(text: str) -> list[tuple[str, str]]:
    """Return the tool options in a feature's text, such as ``status -absent`` or ``condor_submit -i``."""
    tools = r"(?:condor_)?(submit|q|status|history|userprio|vacate_job|drain|off|on)"
    return [(tool, option) for tool, option in re.findall(rf"\b{tools} (-[a-z-]+)", text)]


def _has_option(tool: str, option: str) -> bool:
    """Return True if a tool implements an option."""
    command = command_named(f"condor_{tool}") or tool
    try:
        return not find_option(table_of(command), option)[0].refused
    except UsageError:
        return False


WITHOUT_EFFECT = [name for name in (*attributes("not acted on"), *attributes("no effect")) if COMMANDS_OF.get(name)]
"""The attributes of submit commands that have no effect."""


def test_an_implemented_feature_uses_only_implemented_names() -> None:
    texts = [feature.feature for feature in features() if feature.status == "implemented"]
    without_effect = {command for name in WITHOUT_EFFECT for command in COMMANDS_OF[name]}
    assert [text for text in texts if not all(map(is_supported, _settings(text)))] == []
    assert [text for text in texts if without_effect.intersection(_commands(text))] == []
    assert [text for text in texts if not all(_has_option(*option) for option in _options(text))] == []


def test_an_unimplemented_feature_uses_an_unimplemented_name() -> None:
    texts = [feature.feature for feature in features() if feature.status in ("scope", "rejected")]
    without_effect = {command for name in WITHOUT_EFFECT for command in COMMANDS_OF[name]}
    with_settings = [text for text in texts if _settings(text)]
    with_commands = [text for text in texts if _commands(text)]
    with_options = [text for text in texts if _options(text)]
    assert [text for text in with_settings if all(map(is_supported, _settings(text)))] == []
    assert [text for text in with_commands if not without_effect.intersection(_commands(text))] == []
    assert [text for text in with_options if all(_has_option(*option) for option in _options(text))] == []
    assert all((with_settings, with_commands, with_options))

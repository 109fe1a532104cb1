"""Golden: docs/coverage.md has the status of every name in the five documents."""

from __future__ import annotations

import re

from poolbook.adapters.cli.documentation import table_of
from poolbook.adapters.cli.main import command_named
from poolbook.adapters.condor_tools.options import UsageError, find
from poolbook.domain.config import is_known, is_supported
from poolbook.domain.coverage.attributes import attributes
from poolbook.domain.submit.build import known_commands
from poolbook.domain.submit.unsupported_commands import COMMANDS_OF

from ..together import together
from .page import PAGE, STATUSES, WHAT, features, names, page


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "docs/coverage.md is out of date: run python docs/generate.py"


@together("kind", WHAT)
def test_every_name_in_the_documents_has_a_status(kind: str) -> None:
    _, what = WHAT[kind]
    assert [row.name for row in names() if row.kind == kind and not what(row.name)] == []


def test_every_kind_of_name_is_on_the_page() -> None:
    assert {row.kind for row in names()} == set(WHAT)


def test_every_feature_has_a_known_status() -> None:
    assert {one.status for one in features()} <= set(STATUSES)


def _settings(text: str) -> list[str]:
    words = [re.sub("<[^>]*>", "1", word) for word in re.findall(r"[A-Z][A-Z0-9_]{3,}(?:<\w+>)?", text)]
    return [word for word in words if is_known(word)]


def _commands(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z_]{5,}", text) if "_" in word and word in known_commands()]


def _options(text: str) -> list[tuple[str, str]]:
    """The options of tools that a feature names: ``status -absent``, ``condor_submit -i``."""
    tools = r"(?:condor_)?(submit|q|status|history|userprio|vacate_job|drain|off|on)"
    return [(tool, option) for tool, option in re.findall(rf"\b{tools} (-[a-z-]+)", text)]


def _answered(tool: str, option: str) -> bool:
    """Whether a tool takes an option."""
    command = command_named(f"condor_{tool}") or tool
    try:
        return not find(table_of(command), option)[0].refused
    except UsageError:
        return False


IDLE = [one for one in (*attributes("not acted on"), *attributes("no effect")) if COMMANDS_OF.get(one)]
"""The attributes of submit commands that are kept in the ad, or make none, and act nowhere."""


def test_an_implemented_feature_uses_only_implemented_names() -> None:
    working = [one for one in features() if one.status == "implemented"]
    idle = {command for one in IDLE for command in COMMANDS_OF[one]}
    assert [one.feature for one in working if not all(map(is_supported, _settings(one.feature)))] == []
    assert [one.feature for one in working if idle.intersection(_commands(one.feature))] == []
    assert [one.feature for one in working if not all(_answered(*asked) for asked in _options(one.feature))] == []


def test_an_unimplemented_feature_uses_an_unimplemented_name() -> None:
    told = [one for one in features() if one.status in ("reported", "rejected", "absent")]
    idle = {command for one in IDLE for command in COMMANDS_OF[one]}
    settings = [one for one in told if _settings(one.feature)]
    commands = [one for one in told if _commands(one.feature)]
    options = [one for one in told if _options(one.feature)]
    assert [one.feature for one in settings if all(map(is_supported, _settings(one.feature)))] == []
    assert [one.feature for one in commands if not idle.intersection(_commands(one.feature))] == []
    assert [one.feature for one in options if all(_answered(*asked) for asked in _options(one.feature))] == []
    assert all((settings, commands, options))

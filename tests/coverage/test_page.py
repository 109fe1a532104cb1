"""golden: docs/coverage.md, where no name of the five documents is without an answer."""

from __future__ import annotations

import re

from poolbook.domain.config import is_known, is_supported
from poolbook.domain.coverage.job_attributes import attributes
from poolbook.domain.submit.build import known_commands
from poolbook.domain.submit.unsupported import COMMANDS_OF

from ..together import together
from .page import PAGE, STATUSES, WHAT, features, names, page


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python docs/generate_coverage.py makes it anew"


@together("kind", WHAT)
def test_every_name_of_the_documents_has_an_answer(kind: str) -> None:
    _, what = WHAT[kind]
    assert [row.name for row in names() if row.kind == kind and not what(row.name)] == []


def test_every_kind_of_name_is_on_the_page() -> None:
    assert {row.kind for row in names()} == set(WHAT)


def test_no_feature_is_accepted_in_silence() -> None:
    assert {one.status for one in features()} <= set(STATUSES)


def _settings(text: str) -> list[str]:
    words = [re.sub("<[^>]*>", "1", word) for word in re.findall(r"[A-Z][A-Z0-9_]{3,}(?:<\w+>)?", text)]
    return [word for word in words if is_known(word)]


def _commands(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z_]{5,}", text) if "_" in word and word in known_commands()]


def test_a_feature_that_works_asks_for_nothing_that_is_not_followed() -> None:
    working = [one for one in features() if one.status == "works"]
    idle = {
        command
        for one in (*attributes("not acted on"), *attributes("no effect"))
        for command in COMMANDS_OF.get(one, ())
    }
    assert [one.feature for one in working if not all(map(is_supported, _settings(one.feature)))] == []
    assert [one.feature for one in working if idle.intersection(_commands(one.feature))] == []


def test_a_feature_that_is_told_asks_for_something_that_is_not_followed() -> None:
    told = [one for one in features() if one.status in ("told", "refused") and _settings(one.feature)]
    assert [one.feature for one in told if all(map(is_supported, _settings(one.feature)))] == []

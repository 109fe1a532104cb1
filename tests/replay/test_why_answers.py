"""Property: for any records of a real pool, each answer of ``why`` is short, begins with the thing, and says what to
do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.domain import events as e
from poolbook.domain.ports.log import EventStore
from poolbook.replay.forensics.imported_log import single_entries
from poolbook.replay.narration.evaluation_texts import full_evidence, values
from poolbook.replay.narration.sentence_tables import WORDS
from poolbook.replay.narration.sentences import fill
from poolbook.replay.why.answer import why

from ..importing.folders import TRACES, recorded
from ..sampling import some, spread
from ..together import together
from .read_aloud import check

FOLDERS = [
    folder
    for kind in ("traces", "runs", "points")
    for folder in sorted((TRACES.parent / kind).iterdir())
    if folder.is_dir()
]


MOST = 10
"""How many of a folder's things are checked."""


def things_in(log: EventStore) -> Iterator[str]:
    """Return each job, cluster and slot that a log mentions."""
    names: set[str] = set()
    for _, event in single_entries(log.read()):
        if isinstance(event, e.JobLogged | e.JobReported) and event.cluster > 0 <= event.proc:
            names |= {f"{event.cluster}.{event.proc}", str(event.cluster)}
        elif isinstance(event, e.SlotTransitioned):
            names.add(event.slot)
    yield from sorted(names)


@pytest.mark.parametrize("folder", some(FOLDERS, 16), ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_each_answer_of_a_real_pools_records_can_be_read_aloud(folder: Path) -> None:
    log = recorded(folder)[0]
    names = list(things_in(log))
    for name in spread(names, MOST):
        check(name, why(log, name))


def test_each_sentence_uses_its_facts_once_and_ends_with_a_full_stop() -> None:
    for code, template in WORDS.items():
        sentence = fill(template, dict.fromkeys(re.findall(r"\{(\w+)\}", template), "x"), verbose=True)
        assert sentence.endswith("."), code
        assert not re.search(r"[\[\]{}]|<<|>>", sentence), code
        assert not re.search(r"[\[\]{}]|<<|>>", fill(template, {})), code


NOTED = [
    ("KeyboardIdle < 60", {"MY.KeyboardIdle": "3"}, "KeyboardIdle = 3, limit 60"),
    ("(KeyboardIdle) > 15 * 60", {"MY.KeyboardIdle": "905"}, "KeyboardIdle = 905, limit 900"),
    ("time() - EnteredCurrentActivity > 300", {"MY.EnteredCurrentActivity": "1800000000"},
     "EnteredCurrentActivity 305 s ago, limit 300"),
    ("Owner == \"alice\"", {"TARGET.Owner": "\"alice\""}, "Owner = \"alice\""),
    ("JobStart =!= undefined", {"MY.JobStart": "1800000000"}, ""),
    ("Version == \"x\"", {"MY.Version": "\"" + "x" * 80 + "\""}, ""),
    ("unparsable (", {"MY.Cpus": "1"}, "Cpus = 1"),
]  # fmt: skip


@together(("expression", "read", "expected"), NOTED)
def test_evidence_shows_the_values_of_an_expression_and_their_limits(
    expression: str, read: dict[str, str], expected: str
) -> None:
    evidence = e.EvaluationRecorded(1_800_000_305_000_000, "evaluated", "x", "SUSPEND", expression, "true", read)
    assert values(evidence) == expected
    assert full_evidence(evidence).startswith(f"SUSPEND = {expression} was true, with ")

"""Property: of jobs and slots of real pools, each sentence of ``why`` says what the records say that it cites."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from poolbook.replay.narration.sentences import tell
from poolbook.replay.why.answer import why

from ..importing.folders import TRACES, recorded
from .cited_records import Cited, faults
from .test_why_answers import FOLDERS, things

MOST = 24
"""So many jobs and slots of a folder are asked for: of all folders more than 300."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_each_sentence_says_what_the_records_say_that_it_cites(folder: Path) -> None:
    log = recorded(folder)[0]
    cited = Cited(log)
    names = [name for name in things(log) if "." in name or "@" in name]
    found = [
        f"{name}: {tell(sentence)}: {fault}"
        for name in names[:: 1 + len(names) // MOST]
        for sentence in why(log, name).life
        for fault in faults(name, sentence, cited)
    ]
    assert not found


def test_a_sentence_that_cites_a_record_of_something_else_is_found() -> None:
    log = recorded(TRACES / "04-retirement")[0]
    cited, life = Cited(log), why(log, "1.0").life
    others = {sentence.code: sentence.places[0] for sentence in why(log, "5.0").life}
    for sentence in life:
        assert not list(faults("1.0", sentence, cited))
        wrong = [evolve(sentence, at=sentence.at + 1_000_000), evolve(sentence, places=(others["log_submitted"],))]
        if "slot" in sentence.facts and sentence.code not in ("log_evicted", "log_evicted_said"):
            wrong.append(evolve(sentence, facts=sentence.facts | {"slot": "slot9@localhost"}))
        assert [bool(list(faults("1.0", one, cited))) for one in wrong] == [True] * len(wrong), sentence.full
        assert list(faults("2.0", sentence, cited))

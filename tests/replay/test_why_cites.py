"""Property: each sentence of ``why`` about jobs and slots of real pools says what the records that it cites say."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pytest
from attrs import evolve

from poolbook.domain.ports.log import EventStore
from poolbook.replay.narration.sentence_tables import WORDS
from poolbook.replay.narration.sentences import Sentence, dated_line
from poolbook.replay.why.answer import why

from ..audit.test_honest_recordings import HONEST, packed_log
from ..importing.folders import TRACES, recorded
from ..sampling import some, spread, thorough
from .cited_facts import wrong_statements
from .cited_records import Cited, faults
from .test_why_answers import FOLDERS, things_in

MOST = 3
"""How many of a folder's jobs and slots are checked; half of the folders have more than 50."""
RECORDINGS = sorted(folder for folder in (TRACES.parent / "recordings").iterdir() if folder.is_dir())


def wrong_sentences_in(log: EventStore, most: int) -> list[str]:
    """Return the wrong statements in the sentences about so many of a log's jobs and slots."""
    records = Cited(log)
    names = [name for name in things_in(log) if "." in name or "@" in name]
    return [
        f"{name}: {dated_line(sentence)}: {fault}"
        for name in spread(names, most)
        for life in [why(log, name).life]
        for number, sentence in enumerate(life)
        for fault in (*faults(name, sentence, records), *wrong_statements(name, number, life, records))
    ]


@pytest.mark.parametrize(
    "folder", some([*FOLDERS, *RECORDINGS], 30), ids=lambda folder: f"{folder.parent.name}-{folder.name}"
)
@pytest.mark.parametrize("most", thorough(MOST))
def test_each_sentence_agrees_with_the_records_that_it_cites(folder: Path, most: int) -> None:
    assert wrong_sentences_in(recorded(folder)[0], most) == []


@pytest.mark.parametrize("recording", some(HONEST, 3), ids=lambda path: path.name)
@pytest.mark.parametrize("most", thorough(MOST))
def test_each_sentence_about_a_faulty_pool_agrees_with_its_records(recording: Path, most: int) -> None:
    assert wrong_sentences_in(packed_log(recording), most) == []


def test_a_sentence_with_unfounded_facts_or_a_later_record_is_detected() -> None:
    log = recorded(TRACES / "04-retirement")[0]
    records, life = Cited(log), list(why(log, "1.0").life)
    for number, sentence in enumerate(life):
        for name, value, text in (
            ("slot", "slot9@localhost", "slot9"),
            ("ran", "770 s", "770 s"),
            ("pid", "70707", "70707"),
        ):
            if f"{{{name}}}" in WORDS[sentence.code] and name in sentence.facts:
                life[number] = evolve(sentence, facts=sentence.facts | {name: value})
                assert text in "".join(wrong_statements("1.0", number, life, records)), sentence.full
        life[number] = evolve(sentence, at=sentence.at - 1_000_000)
        assert "is later" in "".join(wrong_statements("1.0", number, life, records)), sentence.full
        life[number] = sentence


def test_a_sentence_that_cites_an_unrelated_record_is_detected() -> None:
    log = recorded(TRACES / "04-retirement")[0]
    records, life = Cited(log), why(log, "1.0").life
    places_of_other = {sentence.code: sentence.places[0] for sentence in why(log, "5.0").life}
    for sentence in life:
        assert not list(faults("1.0", sentence, records))
        wrong_sentences = [
            evolve(sentence, at=sentence.at + 1_000_000),
            evolve(sentence, places=(places_of_other["submitted"],)),
        ]
        if "slot" in sentence.facts and sentence.code not in ("evicted", "requeued"):
            wrong_sentences.append(evolve(sentence, facts=sentence.facts | {"slot": "slot9@localhost"}))
        assert [bool(list(faults("1.0", wrong_sentence, records))) for wrong_sentence in wrong_sentences] == [
            True
        ] * len(wrong_sentences), sentence.full
        assert sentence.code == "later_next" or list(faults("2.0", sentence, records))  # it is about the slot


BEFORE = {
    "started": {"matched", "shadow_began", "shadow_reused"},
    "evicted": {"matched", "shadow_began", "shadow_reused", "started"},
    "requeued": {"matched", "shadow_began", "shadow_reused", "started"},
    "shadow_did_not_find": {"shadow_began"},
    "row 10/Killing": {"log_reported"},
    "row 10/Killing job_ended": {"log_reported"},
    "row 12c released": {"log_reported"},
}
"""Effects -> their causes. If a second has one effect of a kind, its causes precede it."""

OVER = ("evicted", "requeued", "exited")


def is_late(sentence: Sentence, effect: Sentence, run: str) -> bool:
    """Return True if a sentence reports something that must have preceded the effect above it."""
    if sentence.code == "log_reported":
        return is_given_back(sentence) and was_given_back(effect)
    if effect.code == "shadow_did_not_find":  # the shadow that searches for the job, not the next one
        return sentence.code == "shadow_began" and not sentence.facts["slot"]
    return sentence.code in BEFORE[effect.code] and not run


def is_given_back(sentence: Sentence) -> bool:
    return "released the claim" in sentence.facts.get("words", "")


def was_given_back(sentence: Sentence) -> bool:
    return "RELEASE_CLAIM" in sentence.facts.get("evidence", "")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_no_effect_precedes_its_cause(folder: Path) -> None:
    log = recorded(folder)[0]
    names = [name for name in things_in(log) if "." in name or "@" in name]
    misplaced = []
    for name in spread(names, MOST):
        run = ""
        life = why(log, name).life
        for number, effect in enumerate(life):
            simultaneous = [sentence for sentence in life[number + 1 :] if sentence.at == effect.at]
            if effect.code == "started":  # anything after the end of the run belongs to the next one
                simultaneous = [*takewhile(lambda one: one.code not in OVER, simultaneous)]
            if effect.code in BEFORE:
                misplaced += [
                    f"{name}: {sentence.full} < {effect.full}"
                    for sentence in simultaneous
                    if is_late(sentence, effect, run)
                ]
            if is_given_back(effect) and any(map(was_given_back, simultaneous)) and not was_given_back(simultaneous[0]):
                misplaced.append(f"{name}: {effect.full} < {simultaneous[0].full}")
            if effect.code == "started":
                run = effect.facts["slot"]
            elif effect.code in OVER:
                run = ""
    assert not misplaced

"""Golden: what people are told, in transcripts: lines of commands, each with what it answers.

Answers stand in codes: the instant, the code of the sentence, its cause in brackets, its facts (rows, expressions and
values among them). ``sentences.txt`` pins the words, a sentence for each code and cause: a better sentence changes it
alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from poolbook.replay.listing import entries, line, wanted
from poolbook.replay.narration.formatting import instant
from poolbook.replay.why import Answer, Sentence, UnknownThingError, tell, why_job, why_slot
from poolbook.replay.why.answer import why

from .virtual_point import PointPool

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
SENTENCES = Path(__file__).parent / "sentences.txt"
SIGN = "> "


class Session:
    """A person before a pool."""

    def __init__(self, *, words: bool = False) -> None:
        self.words = words
        self.pool = PointPool()
        self.told: list[Sentence] = []

    def answer(self, command: str) -> list[str]:
        verb, *words = command.split()
        if verb == "new":
            self.pool = PointPool(*words)
            return []
        if verb == "why":
            return self._why(words[-1], "-verbose" in words)
        if verb == "log":
            found = entries(self.pool.log, wanted(words[0]))
            return [line(member if self.words else evolve(member, cause=f"[{member.cause}]")) for member in found]
        said = self.pool.say(command)
        return [f"refused: {said.refusal}"] if said is not None and said.refusal else []

    def _why(self, thing: str, verbose: bool) -> list[str]:
        """The answer; asked of the streams that it needs and of the whole log, it is the same."""
        what = wanted(thing)
        everything = self.pool.events()
        kind, _, name = what.stream.partition("/")
        try:
            found = why(self.pool.log, thing)
        except UnknownThingError as error:
            return [f"unknown: {error}"]
        if kind == "slot":
            assert found == why_slot(everything, name)
        else:
            assert found == why_job(everything, int(name), what.proc or 0)
        self.told += [*found.lines, *found.life]
        if self.words:
            return [*found.texts, *([tell(one) for one in found.life] if verbose else [])]
        return coded(found, verbose)


def coded(found: Answer, verbose: bool) -> list[str]:
    """The lines of an answer, each with a sign, and with ``verbose`` the life behind them."""
    lines = [f"| {_code(line)}" for line in found.lines]
    return lines + [f"{instant(one.at)}  {_code(one)}" for one in found.life if verbose]


def _code(sentence: Sentence) -> str:
    """A sentence without its words; those of its cause are pinned with the cause."""
    facts = [f"{name}={text}" for name, text in sentence.facts.items() if text and name not in ("why", "named")]
    return f"{sentence.code} [{sentence.cause}] {'; '.join(facts)}".rstrip()


def replayed(text: str, *, words: bool = False) -> str:
    """The transcript as it comes out now: comments and commands as they are, answers anew, in codes or in words."""
    session, out = Session(words=words), []
    for entry in text.splitlines():
        if entry.startswith(SIGN):
            out += [entry, *session.answer(entry.removeprefix(SIGN))]
        elif not entry or entry.startswith("#"):
            out.append(entry)
    return "\n".join(out) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_people_are_told_what_the_transcript_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert replayed(text) == text


def sentences() -> str:
    """The first sentence of each code and cause in all transcripts, with its evidence."""
    found: dict[tuple[str, str], str] = {}
    for path in TRANSCRIPTS:
        session = Session()
        for entry in path.read_text(encoding="utf-8").splitlines():
            if entry.startswith(SIGN):
                session.answer(entry.removeprefix(SIGN))
        for one in session.told:
            found.setdefault((one.code, one.cause), one.full)
    return "".join(f"{code} [{cause}]\n    {text}\n" for (code, cause), text in sorted(found.items()))


def test_each_sentence_is_worded_as_the_golden_has_it() -> None:
    assert sentences() == SENTENCES.read_text(encoding="utf-8")


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 5

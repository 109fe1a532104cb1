"""Golden: what `why` and `log` answer, in transcripts: lines of commands, each with its answer. Answers are written as
codes: the instant, the sentence's code, its cause in brackets, its facts (including rows, expressions and values).
``sentences.txt`` pins the words, with a sentence for each code and cause: rewording a sentence changes only that file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from poolbook.replay.listing.members import entries, line, parse_filter
from poolbook.replay.narration.formatting import instant
from poolbook.replay.narration.sentences import Explanation, Sentence, UnknownThingError, dated_line
from poolbook.replay.why.answer import why
from poolbook.replay.why.job import why_job
from poolbook.replay.why.slot import why_slot

from .virtual_point import PointPool

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
SENTENCES = Path(__file__).parent / "sentences.txt"
SIGN = "> "


class Session:
    """A user with a pool."""

    def __init__(self, *, as_text: bool = False) -> None:
        self.words = as_text
        self.pool = PointPool()
        self.sentences: list[Sentence] = []

    def answer(self, command: str) -> list[str]:
        verb, *arguments = command.split()
        if verb == "new":
            self.pool = PointPool(*arguments)
            return []
        if verb == "why":
            return self._why(arguments[-1], "-verbose" in arguments)
        if verb == "log":
            log_entries = entries(self.pool.log, parse_filter(arguments[0]))
            return [line(member if self.words else evolve(member, cause=f"[{member.cause}]")) for member in log_entries]
        answer = self.pool.say(command)
        return [f"refused: {answer.refusal}"] if answer is not None and answer.refusal else []

    def _why(self, thing: str, verbose: bool) -> list[str]:
        """Return the answer, after checking that it is the same from the thing's streams as from the whole log."""
        selection = parse_filter(thing)
        all_events = self.pool.events()
        kind, _, name = selection.stream.partition("/")
        try:
            answer = why(self.pool.log, thing)
        except UnknownThingError as error:
            return [f"unknown: {error}"]
        if kind == "slot":
            assert answer == why_slot(all_events, name)
        else:
            assert answer == why_job(all_events, int(name), selection.proc or 0)
        self.sentences += [*answer.lines, *answer.life]
        if self.words:
            return [*answer.texts, *([dated_line(sentence) for sentence in answer.life] if verbose else [])]
        return coded(answer, verbose)


def coded(answer: Explanation, verbose: bool) -> list[str]:
    """Return the lines of an answer, each with a sign, and with ``verbose`` the life that follows them."""
    lines = [f"| {_code(line)}" for line in answer.lines]
    return lines + [f"{instant(sentence.at)}  {_code(sentence)}" for sentence in answer.life if verbose]


def _code(sentence: Sentence) -> str:
    """Return a sentence as codes; the cause's text is pinned with the cause."""
    facts = [f"{name}={text}" for name, text in sentence.facts.items() if text and name not in ("why", "named")]
    return f"{sentence.code} [{sentence.cause}] {'; '.join(facts)}".rstrip()


def replayed(text: str, *, as_text: bool = False) -> str:
    """Return the transcript as it comes out now: comments and commands unchanged, new answers, as codes or as text."""
    session, output = Session(as_text=as_text), []
    for entry in text.splitlines():
        if entry.startswith(SIGN):
            output += [entry, *session.answer(entry.removeprefix(SIGN))]
        elif not entry or entry.startswith("#"):
            output.append(entry)
    return "\n".join(output) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_commands_answer_as_in_the_transcript(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert replayed(text) == text


def sentences() -> str:
    """Return the first sentence of each code and cause in all transcripts, with its evidence."""
    texts: dict[tuple[str, str], str] = {}
    for path in TRANSCRIPTS:
        session = Session()
        for entry in path.read_text(encoding="utf-8").splitlines():
            if entry.startswith(SIGN):
                session.answer(entry.removeprefix(SIGN))
        for sentence in session.sentences:
            texts.setdefault((sentence.code, sentence.cause), sentence.full)
    return "".join(f"{code} [{cause}]\n    {text}\n" for (code, cause), text in sorted(texts.items()))


def test_each_sentence_equals_the_golden() -> None:
    assert sentences() == SENTENCES.read_text(encoding="utf-8")


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 5

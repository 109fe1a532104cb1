"""Golden: what people are told, in transcripts: lines of commands, each with what it answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.replay.listing import entries, line, wanted
from poolbook.replay.why import UnknownThingError, tell, why_job, why_slot
from poolbook.replay.why.answer import why

from .virtual_point import PointPool

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
SIGN = "> "


class Session:
    """A person before a pool."""

    def __init__(self) -> None:
        self.pool = PointPool()

    def answer(self, command: str) -> list[str]:
        verb, *words = command.split()
        if verb == "new":
            self.pool = PointPool(*words)
            return []
        if verb == "why":
            return self._why(words[-1], "-verbose" in words)
        if verb == "log":
            return [line(member) for member in entries(self.pool.log, wanted(words[0]))]
        said = self.pool.say(command)
        return [f"refused: {said.refusal}"] if said is not None and said.refusal else []

    def _why(self, thing: str, verbose: bool) -> list[str]:
        """The answer; asked of the streams that it needs and of the whole log, it is the same."""
        what = wanted(thing)
        everything = self.pool.events()
        kind, _, name = what.stream.partition("/")
        try:
            sentences = why(self.pool.log, thing)
        except UnknownThingError as error:
            return [f"unknown: {error}"]
        if kind == "slot":
            assert sentences == why_slot(everything, name)
        else:
            assert sentences == why_job(everything, int(name), what.proc or 0)
        return [tell(sentence, verbose=verbose) for sentence in sentences]


def replayed(text: str) -> str:
    """The transcript as it comes out now: comments and commands as they are, answers anew."""
    session, out = Session(), []
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


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 5

"""Many commands in one process: what each said, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from poolbook.adapters.cli.main import UNFORESEEN

from .. import forked
from ..pool.real import PATIENCE, Folder, environment

_MANY = """
import contextlib, io, json, signal, sys
from poolbook.adapters.cli.main import main
answers = []
signal.signal(signal.SIGALRM, signal.default_int_handler)
for words in json.load(sys.stdin):
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape", write_through=True) for _ in "oe"
    )
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        signal.alarm(SECONDS)
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
    answers.append([code, *(one.buffer.getvalue().decode("utf-8", "surrogateescape") for one in (out, err))])
json.dump(answers, sys.stdout)
"""


LONGEST = 20  #: seconds after which a command is interrupted; its exit code is then 130


class Call(NamedTuple):
    words: Sequence[str]
    code: int
    out: str
    err: str


def start(
    folder: Folder, calls: Sequence[Sequence[str]], user: int | None = None, longest: int = LONGEST
) -> forked.Process:
    """Begin a process that does these commands one after the other in a folder."""
    env = {**environment(), "HOME": str(folder.path), "XDG_STATE_HOME": str(folder.path / "state")}
    process = forked.start(
        ["-c", _MANY.replace("SECONDS", str(longest))], cwd=folder.path, env=env, stdin=forked.PIPE, user=user
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(list(map(list, calls))))
    return process


def answers(process: forked.Process, calls: Sequence[Sequence[str]]) -> list[Call]:
    """What came of them. None may have failed in a way that nobody foresaw."""
    out, err = process.communicate(2 * PATIENCE)
    assert process.wait() == 0, f"{process.returncode}: {err[-3000:]}"
    done = [Call(words, *answer) for words, answer in zip(calls, json.loads(out), strict=True)]
    for call in done:
        assert call.code != UNFORESEEN and "Traceback" not in call.out + call.err, ascii(call)
    return done


def called(
    folder: Folder, calls: Sequence[Sequence[str]], user: int | None = None, longest: int = LONGEST
) -> list[Call]:
    return answers(start(folder, calls, user, longest), calls)

"""Run many commands in one process, and return the output and exit code of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from poolbook.adapters.cli.main import UNEXPECTED_ERROR_CODE

from .. import forked
from ..pool.real import PATIENCE, Folder, environment

_SCRIPT = """
import contextlib, io, json, signal, sys
from poolbook.adapters.cli.main import main
results = []
signal.signal(signal.SIGALRM, signal.default_int_handler)
for arguments in json.load(sys.stdin):
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape", write_through=True) for _ in "oe"
    )
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        signal.alarm(SECONDS)
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code
    results.append([code, *(file.buffer.getvalue().decode("utf-8", "surrogateescape") for file in (out, err))])
json.dump(results, sys.stdout)
"""


MAX_SECONDS = 20  #: seconds after which a command is interrupted, with exit code 130


class Call(NamedTuple):
    arguments: Sequence[str]
    code: int
    out: str
    err: str


def start(
    folder: Folder, calls: Sequence[Sequence[str]], user: int | None = None, max_seconds: int = MAX_SECONDS
) -> forked.Process:
    """Start a process that runs these commands one after the other in a folder."""
    env = {**environment(), "HOME": str(folder.path), "XDG_STATE_HOME": str(folder.path / "state")}
    process = forked.start(
        ["-c", _SCRIPT.replace("SECONDS", str(max_seconds))], cwd=folder.path, env=env, stdin=forked.PIPE, user=user
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(list(map(list, calls))))
    return process


def finish(process: forked.Process, calls: Sequence[Sequence[str]]) -> list[Call]:
    """Return the results of the commands, and check that none failed with an unexpected error."""
    out, err = process.communicate(2 * PATIENCE)
    assert process.wait() == 0, f"{process.returncode}: {err[-3000:]}"
    results = [Call(arguments, *result) for arguments, result in zip(calls, json.loads(out), strict=True)]
    for call in results:
        assert call.code != UNEXPECTED_ERROR_CODE and "Traceback" not in call.out + call.err, ascii(call)
    return results


def run_calls(
    folder: Folder, calls: Sequence[Sequence[str]], user: int | None = None, max_seconds: int = MAX_SECONDS
) -> list[Call]:
    return finish(start(folder, calls, user, max_seconds), calls)

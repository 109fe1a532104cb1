"""The program of an `Executor`'s jobs: makes a call, and writes its result. It needs nothing but the standard library
and what the call itself needs: `python worker.py NAME` reads NAME.call and writes NAME.result."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import spawn
from typing import Any, TypeVar

T = TypeVar("T")


def run(name: str) -> None:
    """Make the call in a file, and write whether it succeeded, with its result or exception."""
    folder = os.getcwd()
    try:
        with open(f"{name}.call", "rb") as file:
            prepare(pickle.load(file))
            function, arguments, options = pickle.loads(pickle.load(file))
        written = pickle.dumps((True, function(*arguments, **options)))
    except BaseException as error:
        written = failure(error)
    path = os.path.join(folder, f"{name}.result")
    with open(f"{path}.part", "wb") as file:
        file.write(written)
    os.replace(f"{path}.part", path)


def prepare(caller: dict[str, Any]) -> None:
    """Give this process the import path, the working directory and the main module of the caller."""
    folder = caller.pop("dir")
    with suppress(OSError):  # another machine may not have it
        os.chdir(folder)
    spawn.prepare(caller)


def failure(error: BaseException) -> bytes:
    text = traceback.format_exc()
    error.add_note(f"The call failed in a job:\n{text}")
    try:
        written = pickle.dumps((False, error))
        pickle.loads(written)
    except Exception:  # such as an exception whose class cannot be created from its arguments
        return pickle.dumps((False, RuntimeError(f"the call raised an exception that cannot be pickled:\n{text}")))
    return written


def call_each(function: Callable[..., T], chunk: Iterable[tuple[Any, ...]]) -> list[T]:
    """Call a function with each tuple of arguments, and return the results."""
    return [function(*arguments) for arguments in chunk]


if __name__ == "__main__":
    run(sys.argv[1])

"""Forks of the test's own process. They start with its open files and its state, and none of them outlives its test.

A child never returns into the code of the tests, whatever its work raises. It has the default handlers of the signals
that end a process, whatever handlers the test has set, and no one waits for it longer than `PATIENCE`. If the test's
own state is not needed, use a process of `tests/forked.py`.
"""

from __future__ import annotations

import os
import select
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

PATIENCE = 150.0


class Child:
    """A child of this process. Its work is called with the descriptor on which it can write what `read` returns."""

    def __init__(self, work: Callable[[int], object]) -> None:
        self._said, tell = os.pipe()
        self._code: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _work(work, tell)
        os.close(tell)

    def read(self) -> bytes:
        """Return what the child has written since the last call, at least a byte; nothing if it has ended."""
        assert select.select([self._said], [], [], PATIENCE)[0], f"child {self.pid} has written nothing"
        return os.read(self._said, 1 << 16)

    def kill(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Return the exit code when it has ended: 0, 1 if its work raised, or the negative number of the signal."""
        if self._code is None:
            end = os.pidfd_open(self.pid)
            try:
                assert select.select([end], [], [], PATIENCE)[0], f"child {self.pid} has not ended"
            finally:
                os.close(end)
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def close(self) -> None:
        self.kill()
        self.wait()
        os.close(self._said)


@contextmanager
def child(work: Callable[[int], object]) -> Iterator[Child]:
    """Have a child do some work, and kill it at the end if it is still there."""
    started_child = Child(work)
    try:
        yield started_child
    finally:
        started_child.close()


def exit_code(work: Callable[[], object]) -> int:
    """Have a child do all of some work; return its exit code."""
    with child(lambda tell: work()) as started_child:
        return started_child.wait()


def _work(work: Callable[[int], object], tell: int) -> None:
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        work(tell)
        code = 0
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)

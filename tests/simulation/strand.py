"""A program that runs only on request: a thread, of which at most one runs at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Strand:
    """Runs `program` in turns: `resume` lets it run, and returns when it pauses or ends."""

    def __init__(self, program: Callable[[], int | None]) -> None:
        self._program = program
        self._turn, self._rest = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.result: int | None = None
        self.over = False

    def resume(self) -> None:
        """Let the program run. Raise the exception that ended it, unless that is the simulation's own (`Stopped`)."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._turn.release()
        self._rest.acquire()
        if self.over:
            self._thread.join()
        if self._error is not None and not isinstance(self._error, Stopped):
            raise self._error

    def pause(self) -> None:
        """Let the others run until the program is resumed; called by the program."""
        self._rest.release()
        self._turn.acquire()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            self.result = self._program()
        except BaseException as error:
            self._error = error
        self.over = True
        self._rest.release()


class Stopped(BaseException):
    """The program has ended: its next action does not happen."""

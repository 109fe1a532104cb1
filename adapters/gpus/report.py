"""The progress messages of condor_gpu_discovery (HTCondor's print_error.cpp)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO

from attrs import frozen

OpenLibrary = Callable[[str], Any]
"""Opens a shared library by its name. Raises `OSError` if it is not installed."""


@frozen
class ProgressReport:
    """Prints messages as -verbose and -diagnostic select; in the output of -config, they are comments."""

    out: TextIO
    err: TextIO
    is_verbose: bool = False
    is_diagnostic: bool = False
    is_config: bool = False

    def error(self, text: str) -> None:
        self._print(text, self.out if self.is_config else self.err)

    def verbose(self, text: str) -> None:
        if self.is_verbose:
            self._print(text, self.out)

    def diagnose(self, text: str) -> None:
        if self.is_diagnostic:
            self._print(text, self.out)

    def diagnose_error(self, text: str) -> None:
        if self.is_diagnostic:
            self.error(text)

    def _print(self, text: str, stream: TextIO) -> None:
        stream.write(f"#{text}" if self.is_config else text)


def open_reported(name: str, open_library: OpenLibrary, report: ProgressReport) -> Any:
    """Return a shared library, or None if it is not installed."""
    try:
        return open_library(name)
    except OSError as error:
        report.diagnose(f"Can't open library '{name}': '{error}'\n")
        return None

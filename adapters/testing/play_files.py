"""Tests of pytest that play scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ...replay.scenario import PlayError
from .report import Report, play


class ScenarioFailure(Exception):
    """A scenario's expectations are not met, or the scenario is invalid."""


class PlayFile(pytest.File):
    """A `*.play` file."""

    def collect(self) -> Iterator[pytest.Item]:
        yield PlayItem.from_parent(self, name=self.path.stem)


class PlayItem(pytest.Item):
    """The test of a scenario."""

    line = 0  #: the first line that failed, from 1

    def runtest(self) -> None:
        try:
            report = play(self.path, check=False)
        except PlayError as error:
            self.line = error.line
            raise ScenarioFailure(f"{_place(self.path, error.line)}: {error.message}") from None
        self._show_notes(report)
        if report.failures:
            self.line = report.failures[0].line
            texts = [
                "\n  ".join([f"{_place(self.path, each.line)}: at {each.at}: {each.text}", *each.story])
                for each in report.failures
            ]
            raise ScenarioFailure("\n".join(texts))

    def _show_notes(self, report: Report) -> None:
        notes = [*report.warnings, *(f"refused: {text}" for text in report.refused)]
        if notes:
            self.add_report_section("call", "scenario", "\n".join(notes))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, ScenarioFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, self.line - 1 if self.line else None, self.name


def _place(path: Path, line: int) -> str:
    return f"{path.name}:{line}" if line else path.name

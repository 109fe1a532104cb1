"""The options of an import, and its result."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from ....domain import events as e


@frozen
class Options:
    """How to read. ``zone`` and ``machine`` are those of daemons' logs where nothing better is known; an empty one is
    this machine's zone, and the folder's name."""

    zone: str = ""
    machine: str = ""
    time_format: str = ""


@define
class SourceCounts:
    """What an import read of one kind of source."""

    files: int = 0
    new: int = 0
    """Files that the log did not have."""
    lines: int = 0
    bytes: int = 0
    events: int = 0
    refused: int = 0


@define
class ImportResult:
    """What one import did."""

    counts: dict[str, SourceCounts] = field(factory=dict)
    copies: list[tuple[str, str]] = field(factory=list)
    """Files that were not imported, and the file that each repeats."""
    skipped: list[str] = field(factory=list)
    refused: list[e.SourceRefused] = field(factory=list)
    """The first ``KEPT_REFUSALS`` of them."""
    paths: dict[int, str] = field(factory=dict)
    events: int = 0
    seconds: float = 0.0


KEPT_REFUSALS = 1000
Progress = Callable[[str, int, int, int], None]
"""Told of the file that is read, of how many bytes of how many were read in all, and how many events they made."""

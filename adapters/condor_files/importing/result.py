"""Hold the options and the result of an import."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from ....domain import events as e


@frozen
class Options:
    """``zone`` and ``machine`` of daemons' logs that do not say; "" is this machine's zone, and the folder's name."""

    zone: str = ""
    machine: str = ""
    time_format: str = ""


@define
class SourceCounts:
    """The counts of one kind of source."""

    files: int = 0
    new: int = 0  #: files that the log did not have
    lines: int = 0
    bytes: int = 0
    events: int = 0
    refused: int = 0


@define
class ImportResult:
    """The result of one import."""

    counts: dict[str, SourceCounts] = field(factory=dict)
    copies: list[tuple[str, str]] = field(factory=list)  #: (copy, original) of files that were not imported
    skipped: list[str] = field(factory=list)
    refused: list[e.SourceRefused] = field(factory=list)  #: the first ``KEPT_REFUSALS`` of them
    paths: dict[int, str] = field(factory=dict)
    zone: str = ""  #: the zone of local times in the files
    events: int = 0
    seconds: float = 0.0


KEPT_REFUSALS = 1000
Progress = Callable[[str, int, int, int], None]  #: called with a file's path, bytes read and in all, events

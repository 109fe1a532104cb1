"""Compare the lines that end the ads of a history with where they stand.

A schedd or startd that adds an ad to its history notes where the file's last line begins, which is the line that ended
the ad before: ``Offset``, in bytes, 0 in a new file. So an ad that was taken out, or a text of another length, shows in
the next ad's line. From there on all lines stand elsewhere by as much: what follows is compared with that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ...domain.events import DaemonReported, Event, SourceEvent, SourceRefused
from ...domain.imported.record_sources import LEAST_AD
from .reader import SourceFile, State

WITH_OFFSETS: Final = ("history", "startd_history")
_BANNER: Final = re.compile(
    rb"^\*\*\* Offset = (\d{1,15}) ClusterId = (\d{1,10}) ProcId = (\d{1,10})[^\n]*\n|^(?:#+|\.{3,})[ \t]*trimmed",
    re.MULTILINE,
)


class HistoryBanners:
    """The lines that end the ads of one file, as far as they were read."""

    def __init__(self, source: SourceFile, state: State | None) -> None:
        begins = state is None
        state = state or {}
        self._source = source
        self._read: int = state.get("read", 0)  #: how many bytes stand before what is read next
        self._above: int | None = state.get("above", 0)  #: where the last such line begins; None: it was trimmed
        self._by: int | None = state.get(
            "by", 0 if begins else None
        )  #: by how much it says more than that; None: anything fits
        self._line: int = state.get("line", 0)  #: its number in the file
        self._job: str = state.get("job", "")

    def state(self) -> State:
        return {"read": self._read, "above": self._above, "by": self._by, "line": self._line, "job": self._job}

    def doubts(self, data: bytes, line: int, events: Sequence[Event]) -> Iterator[DaemonReported]:
        """Yield what does not fit in the bytes behind a line; `events` are theirs: an ad that could not be read may be
        one that the daemon did not finish. A doubt has the latest time of their records, if they have any."""
        refused = [event.line for event in events if isinstance(event, SourceRefused)]
        times = [event.at for event in events if not isinstance(event, SourceEvent)]
        begun, at = 0, max(times, default=self._source.now)
        for found in _BANNER.finditer(data):
            line, begun = line + data.count(b"\n", begun, found.start()), found.start()
            if found[1] is None:
                self._above = self._by = None
                continue
            offset, number = int(found[1]), line + 1
            job = f"{int(found[2])}.{int(found[3])}"
            if self._above is None:
                pass  # it names the place of a line that was trimmed; the next one is the first that can be compared
            elif self._by is None or any(self._line < one <= number for one in refused):
                self._by = offset - self._above
            elif moved := offset - self._above - self._by:
                facts = {"bytes": str(moved), "job": job, "above": self._job}
                yield self._source.doubted(at, number, "displaced", {k: v for k, v in facts.items() if v})
                # Where a whole ad is missing, so is the line below it, of whatever length: the next one fits.
                self._by = self._by + moved if abs(moved) < LEAST_AD else None
            self._above, self._line, self._job = self._read + found.start(), number, job
        self._read += len(data)

"""The schedd's answer to a command on jobs. This module imports little, because every such command loads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class ActionResult(NamedTuple):
    """The result of a command for some jobs of a cluster."""

    cluster: int
    procs: Sequence[Sequence[int]]  #: ranges (first, last) of process numbers; empty: the result for the cluster itself
    result: str
    """``done``, or why the command failed: ``not found``, ``permission denied``, ``release limit``, or the status to
    which the command does not apply."""
    changes: Mapping[str, str] = {}  #: the attributes set by an edit

    def as_answer(self) -> dict[str, Any]:
        """Return the result as a dict with sorted keys, for the log and for the server's clients."""
        return dict(sorted(self._asdict().items()))

    def jobs(self) -> Iterator[int]:
        """Yield the process numbers."""
        return (proc for first, last in self.procs for proc in range(first, last + 1))

"""What a command about jobs did, as the schedd answers it. Imports little: every such command loads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class ActionResult(NamedTuple):
    """What became of some jobs of a cluster, in ranges (none: of the cluster itself): ``done``, or the reason why not
    (``not found``, ``permission denied``, ``release limit``, or the status that the command does not apply to).
    ``changes``: what an edit set."""

    cluster: int
    procs: Sequence[Sequence[int]]
    result: str
    changes: Mapping[str, str] = {}

    def as_answer(self) -> dict[str, Any]:
        """Return what the log and a server answer, with its keys in order."""
        return dict(sorted(self._asdict().items()))

    def jobs(self) -> Iterator[int]:
        """Yield the numbers of the processes."""
        return (proc for first, last in self.procs for proc in range(first, last + 1))

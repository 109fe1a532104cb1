"""When the jobs that stay in the queue behind their end are asked again whether they still do.

An agenda: for each of them the instant from which on its LeaveJobInQueue may say something else, if nothing happens to
it (``domain/schedd/leave_queue``).
"""

from __future__ import annotations

import heapq
from datetime import tzinfo

from attrs import define, field

from ...domain.classad.allowance import AHEAD, Allowance
from ...domain.decision.draft import context_at, ranges
from ...domain.schedd.job_ends import Jobs
from ...domain.schedd.leave_queue import asked_again, staying
from ...domain.state.state import State

Job = tuple[int, int]


@define
class LeaveInQueue:
    _due: dict[Job, int] = field(factory=dict)
    _agenda: list[tuple[int, Job]] = field(factory=list)

    def reset(self, state: State, zone: tzinfo) -> None:
        """Whatever was known is to be found out again, of this state."""
        self._due.clear()
        self._agenda.clear()
        self.asked(state, staying(state), state.at, zone)

    def asked(self, state: State, jobs: Jobs, now: int, zone: tzinfo) -> None:
        """These jobs were asked at this instant: plan when those are asked again that are still there."""
        context = context_at(state, now, zone, Allowance(most=AHEAD))
        for number, procs in jobs:
            cluster = state.clusters.get(number)
            for proc in (proc for first, last in procs for proc in range(first, last + 1)):
                self._due.pop((number, proc), None)
                due = None if cluster is None or proc not in cluster else asked_again(cluster, proc, now, context)
                if due is not None:
                    self._due[number, proc] = due
                    heapq.heappush(self._agenda, (due, (number, proc)))

    def next(self) -> int | None:
        """The first instant at which a job is to be asked."""
        agenda = self._agenda
        while agenda and self._due.get(agenda[0][1]) != agenda[0][0]:
            heapq.heappop(agenda)  # it has left, or was asked since
        return agenda[0][0] if agenda else None

    def due(self, now: int) -> Jobs:
        """The jobs that are to be asked by now."""
        found: dict[int, list[int]] = {}
        for (number, proc), due in self._due.items():
            if due <= now:
                found.setdefault(number, []).append(proc)
        return tuple((number, ranges(sorted(procs))) for number, procs in found.items())

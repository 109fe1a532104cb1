"""The programs of BENCHMARKS_JOBLIST, which measure the machine while a slot is in Benchmarking."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...domain.ports.stimuli import BenchmarksDone
from .children import Unwatch, Watch
from .cron import Cron
from .cron_settings import DEFAULT_BENCHMARKS

_RESULTS = ("Mips", "KFlops")
_RECORDED = (*_RESULTS, "LastUpdate")  #: the attributes that the slot ads have from the log (as LastBenchmark)


class Benchmarks(Cron):
    """Runs all benchmarks for a slot, as MAX_JOB_LOAD allows: by default, one after the other."""

    def __init__(
        self, watch: Watch, unwatch: Unwatch, report_text: Callable[[str], None], has_room: Callable[[], bool]
    ) -> None:
        super().__init__(watch, unwatch, report_text, has_room=has_room)
        self._slots: dict[str, None] = {}  #: the slots that await the results
        self.configure(DEFAULT_BENCHMARKS, 0)

    def run(self, slot: str, now: int) -> None:
        """Run the benchmarks in separate processes, without blocking the pool."""
        self._slots[slot] = None
        self.start_on_demand()
        self.start_due_programs(now)

    def results(self, now: int) -> list[BenchmarksDone]:
        """Return the results for the slots that await them, or an empty list while benchmarks run. A benchmark that
        did not finish has the result 0."""
        if not (self._slots and self.is_idle()):
            return []
        printed = self.attributes()
        mips, kflops = (int(number) if (number := printed.get(name, "")).isdecimal() else 0 for name in _RESULTS)
        slots, self._slots = list(self._slots), {}
        return [BenchmarksDone(f"benchmarks-{slot}-{now}", slot, mips, kflops) for slot in slots]

    def other_attributes(self) -> Mapping[str, str]:
        """Return what the benchmarks printed, except for the results, which the log has."""
        return {name: text for name, text in self.attributes().items() if name not in _RECORDED}

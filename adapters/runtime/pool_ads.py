"""Make the ads of a pool's own daemons and slots from its views and, for what these lack, its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from ..condor_tools import daemon_ads as tool
from ..condor_tools.daemon_ads import defrag_ads, negotiator_ad

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...domain.ports.log import Log
    from ...projections.views import Views

_SECOND = 1_000_000


class Source(Protocol):
    """A pool's views and its log, the log opened when it is asked for (``queries.Queries``)."""

    @property
    def url(self) -> str: ...

    @property
    def views(self) -> Views: ...

    @property
    def log(self) -> Log: ...


def pool_ads(queries: Source, kind: str, now: int, timezone: tzinfo) -> Iterator[ClassAd]:
    """Yield the ads of a kind (MyType), or all if it is empty, in the order in which a collector shows them."""
    gathered = _Gathered(queries, now, timezone)
    for each, ads in _KINDS.items():
        if kind in (each, ""):
            yield from ads(gathered)


class _Gathered:
    """The sources of ads, each loaded when the first ad needs it. (No attrs class: importing attrs takes long.)"""

    def __init__(self, queries: Source, now: int, timezone: tzinfo) -> None:
        self.queries, self.views, self.now, self.timezone = queries, queries.views, now, timezone

    @cached_property
    def pool(self) -> tool.Pool:
        from .commands import is_served

        since = _since(self.queries.log) if is_served(self.queries.url) else None
        return tool.Pool(self.views.pool().name, self.now, since)

    @cached_property
    def counts(self) -> list[tool.Count]:
        return [tool.Count(*row) for row in self.views.counts()]

    @cached_property
    def slots(self) -> list[ClassAd]:
        return list(self.views.slot_ads(self.now, self.timezone))

    def schedulers(self) -> list[ClassAd]:
        lately = recent(self.queries.log, (self.now - tool.WINDOW) * _SECOND)
        return [tool.scheduler_ad(self.pool, self.counts, lately)]

    def negotiators(self) -> list[ClassAd]:
        from ...domain.state.negotiators import names, several, short

        settings = self.views.pool().settings
        if not several(settings):
            return [negotiator_ad(self.pool, self.views.cycles(), self.views.limits_in_use())]
        limits = self.views.limits_in_use()
        return [negotiator_ad(self.pool, self.views.cycles(short(name)), limits, name) for name in names(settings)]

    def accounting(self) -> list[ClassAd]:
        from ...domain.state.negotiators import names
        from ..condor_tools.userprio_records import ad_of
        from .accounting_records import current_records

        named = names(self.views.pool().settings)
        ads = [ad_of(record) for name in named for record in current_records(self.views, self.now, whose=name)]
        for ad in ads:
            ad["MyType"] = "Accounting"
        return ads


_KINDS: dict[str, Callable[[_Gathered], list[ClassAd]]] = {
    "Defrag": lambda own: defrag_ads(own.pool, *own.views.defrag()),
    "Collector": lambda own: [tool.collector_ad(own.pool, own.counts, own.slots)],
    "Submitter": lambda own: tool.submitter_ads(own.pool, own.counts),
    "StartD": lambda own: [tool.startd_ad(own.pool, *machine, own.slots) for machine in own.views.machines().items()],
    "Scheduler": _Gathered.schedulers,
    "DaemonMaster": lambda own: [tool.master_ad(own.pool, *machine) for machine in own.views.machines().items()],
    "Negotiator": _Gathered.negotiators,
    "Machine": lambda own: own.slots,
    "Accounting": _Gathered.accounting,
}


def _since(log: Log) -> int | None:
    from ...domain.events import WriterBegan

    began = [event.at for _, event in log.read_stream("pool") if isinstance(event, WriterBegan)]
    return began[-1] // _SECOND if began else None


def recent(log: Log, since: int) -> tool.Recent:
    """Return the job starts and completions of the log from an instant on (microseconds)."""
    from ...domain.events import JobActivated, JobExited

    behind, last = 0, log.head.position
    while behind < last:  # events stand in the order of their instants
        middle = (behind + last) // 2
        _, event = next(log.read(middle, 1))
        behind, last = (behind, middle) if event.at >= since else (middle + 1, last)
    found = [event for _, event in log.read(behind) if isinstance(event, JobActivated | JobExited)]
    started = sum(isinstance(event, JobActivated) for event in found)
    completed = sum(isinstance(event, JobExited) and event.target == "Completed" for event in found)
    return tool.Recent(started, completed)

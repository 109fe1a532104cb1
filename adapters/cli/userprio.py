"""``poolbook userprio``: the accountant's records from the views, or as they were at an instant; and changes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from json import dumps, loads
from typing import TYPE_CHECKING, NamedTuple

from ..condor_tools import userprio as tool
from ..condor_tools.options import Refusal
from ..condor_tools.userprio_edits import Request
from ..condor_tools.userprio_records import Cycle, Groups, Record, read_file, recorded, records, weight
from ..runtime.views import views_current
from .common import log_of, setting, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...domain.negotiator.accounting.standing import Book
    from ...domain.ports.log import Log
    from ...projections.views import Views
    from ..condor_tools.cells import Setting

_SECOND = 1_000_000
_IMPORTED = "Imported"
"""The setting of an imported log (``replay.imports``, whose modules take long to load)."""


def userprio(argv: Sequence[str]) -> int:
    query = tool.read(argv)
    if query.edit is not None:
        return _edit(query, query.edit)
    here = setting()
    for text in _asked(query, here):
        sys.stdout.write(text)
    return 0


def _edit(query: tool.Query, edit: Request) -> int:
    from ..machine.host import user_name
    from ..runtime.commands import ask, new_id

    answer = ask(log_of(query.arguments), {**edit.body, "id": new_id(), "user": user_name()})
    if query.arguments.has("json"):
        print(dumps(answer, indent=2))
    else:
        print(edit.done)
    return 0


def _asked(query: tool.Query, here: Setting) -> Iterator[str]:
    if query.file:
        return tool.render(read_file(query.file), query, here)
    url = log_of(query.arguments)
    with views_current(url) as views:
        pool = views.pool()
        if not query.arguments.has("at") and _IMPORTED not in pool.settings:
            return _now(query, views, here)
    return _then(query, url, here)


def _now(query: tool.Query, views: Views, here: Setting) -> Iterator[str]:
    if query.holder:
        slots = [(name, since // _SECOND) for name, since in views.claims_of(query.holder)]
        return tool.slot_list(slots, here)
    return tool.render(own_records(views, here, whole=query.whole), query, here)


def own_records(views: Views, here: Setting, *, whole: bool = True) -> list[Record]:
    """The accountant's records of a pool's own log, as its views have them; ``whole``: with what no table shows."""
    pool, cycle = views.pool(), Cycle()
    if whole:
        cycle = Cycle(views.waiting(), sum(weight(loads(row.ad)) for row in views.slots()))
    return _records(_Books(views.submitters(), pool.settings, pool.accounted or pool.founded, views.at), cycle, here)


class _Books(NamedTuple):
    """A pool's accountant: what it has of submitters, the pool's settings, when the priorities were brought up to date
    last, and when anything happened last."""

    submitters: Iterable[Book]
    settings: Mapping[str, str]
    accounted: int
    at: int


def _records(books: _Books, cycle: Cycle, here: Setting) -> list[Record]:
    """The records of a pool's own books."""
    from ...domain.negotiator.accounting import standings, terms

    rules = terms(books.settings)
    groups = Groups.of(books.settings, rules.default)
    found = standings(books.submitters, rules, groups.names, books.accounted, books.at, here.now * _SECOND)
    return records(found, groups, books.accounted // _SECOND, cycle)


def _then(query: tool.Query, url: str, here: Setting) -> Iterator[str]:
    """What is printed as of an instant, or of an imported log, as of the last instant that it tells of."""
    from ...replay.forensics.imported_log import is_imported
    from ..stores import open_log
    from .time_window import instant_of

    with closing(open_log(url, create=False, read_only=True)) as log:
        at = instant_of("userprio", query.arguments, "at", log)
        if at is not None and not is_imported(log):
            return _folded(query, log, at, here._replace(now=at // _SECOND))
        if query.holder:
            raise Refusal(
                f"poolbook userprio -getreslist: {shown(url)} was imported; `poolbook status` tells who has slots"
            )
        found, last = _imported(log, at, url, here)
    return tool.render(found, query, here._replace(now=(last if at is None else at) // _SECOND))


def _folded(query: tool.Query, log: Log, at: int, then: Setting) -> Iterator[str]:
    """What is printed of a pool's own log as of an instant."""
    from itertools import takewhile

    from ...domain.state.cluster import IDLE
    from ...domain.state.evolve import fold
    from ...replay.narration.wording import instant

    state = fold(takewhile(lambda placed: placed[1].at <= at, log.read(0)))
    if not state.position:
        began = instant(next(event.at for _, event in log.read(0, 1)), then.timezone)
        raise Refusal(f"poolbook userprio -at: the log begins at {began}")
    if query.holder:
        claims = [(slot.name, slot.claim) for slot in state.slots.values()]
        slots = [(name, one.since // _SECOND) for name, one in claims if one and one.submitter == query.holder]
        return tool.slot_list(slots, then)
    waiting = {cluster.submitter for cluster in state.clusters.values() if cluster.counts[IDLE]}
    cycle = Cycle(waiting, sum(weight(slot.ad) for slot in state.slots.values())) if query.whole else Cycle()
    books = _Books(state.submitters.values(), state.settings, state.accounted or at, at)
    return tool.render(_records(books, cycle, then), query, then)


def _imported(log: Log, at: int | None, url: str, here: Setting) -> tuple[list[Record], int]:
    """The records that an imported log has, and as of when."""
    from ...replay.forensics.daemon_tables import NotKnown
    from ...replay.narration.wording import instant

    try:
        return recorded(log, at)
    except NotKnown as error:
        known = f"from {instant(error.since, here.timezone)} on" if error.since else "at no instant"
        raise Refusal(f"poolbook userprio: what {shown(url)} was imported from tells of priorities {known}") from None

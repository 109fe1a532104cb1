"""The views of an imported log at a time: by the times of its records, because their order is that of the import."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from ...domain.units import SECOND
from ...projections.projector import apply
from ...projections.schema import create_temporary
from ...projections.slots_view import SlotsFold
from .views import views_current

if TYPE_CHECKING:
    from ...domain.ports.log import EventStore
    from ...projections.views import Views

_ARCHIVE = (
    "CREATE TEMP VIEW archive AS SELECT id, cluster, proc, qdate, left, position, number, account, wall, cpu, "
    "slot_time, NOT EXISTS (SELECT 1 FROM main.archive later WHERE later.cluster=a.cluster AND later.proc=a.proc AND "
    "later.qdate=a.qdate AND later.id > a.id AND later.left <= {left}) AS counted FROM main.archive a "
    "WHERE left <= {left}"
)
_ACCOUNTS = (
    "INSERT INTO accounts SELECT a.id, a.user, a.owner, a.acct_group, COUNT(*), SUM(j.wall), SUM(j.cpu), "
    "SUM(j.slot_time) FROM main.accounts a JOIN archive j ON j.account = a.id WHERE j.counted GROUP BY a.id"
)
_BEGIN = "SELECT (SELECT MIN(left) * 1000000 FROM main.archive WHERE left > 0), (SELECT MIN(at) FROM main.samples)"


class PastImport(NamedTuple):
    """The views at a time, and the time of the first record that they could contain (None: there is none)."""

    views: Views
    began: int | None


def imported_views_at(url: str, log: EventStore, at: int) -> PastImport:
    """Return the views of the slots and the history of an imported log at an instant: the slots after the last
    transitions that StartLogs had recorded by then, the last sample of ads, and the jobs that had completed. Close the
    views after use. Raise `LogError` if the log or its views cannot be read."""
    views = views_current(url)
    connection = views.connection
    begins = [begin for begin in connection.execute(_BEGIN).fetchone() if begin is not None]
    create_temporary(connection, "machines", "slots", "accounts", "tracking")
    connection.execute(_ARCHIVE.format(left=at // SECOND))
    connection.execute(_ACCOUNTS)
    connection.execute(f"CREATE TEMP VIEW samples AS SELECT * FROM main.samples WHERE at <= {at}")
    kinds = tuple(SlotsFold(connection).handlers)
    events = [(event.at, position, event) for position, event in log.read(1) if isinstance(event, kinds)]
    begins += [min(events, key=itemgetter(0, 1))[0]] if events else []
    by_time = sorted((each for each in events if each[0] <= at), key=itemgetter(0, 1))
    apply(connection, [(position, event) for _, position, event in by_time], folds=(SlotsFold,))
    return PastImport(views, min(begins, default=None))

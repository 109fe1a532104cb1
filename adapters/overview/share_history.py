"""How many cores each user used over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ...projections.use_view import uses
from ...replay.accounts.intervals import RUN_CLASSES, slot_times

if TYPE_CHECKING:
    from ..runtime.queries import Queries

_MOST_POINTS: Final = 240
_MOST_USERS: Final = 24
OTHERS: Final = "others"

_Change = tuple[int, str, float]
"""An instant, a user, and the cores of the user from then on."""


class ShareHistory(Struct, frozen=True):
    """The cores of users from each of ``times`` (microseconds) until the next, the users with the most core time first.
    If there are many, the last one is ``others``."""

    times: list[int]
    users: list[str]
    used: list[list[float]]  #: for each user, a value for each time


def share_history(queries: Queries, since: int, until: int) -> ShareHistory:
    """Return the use between two instants, in periods of ten minutes; for an import, as its runs show it."""
    changes: Iterable[_Change]
    if queries.imported:
        changes = _imported_changes(queries, since, until)
    else:
        rows = uses(queries.views.connection, since, until)
        changes = [(row.at, row.submitter, row.weight / 1000) for row in rows]
    return _history(sorted(changes), since, until)


def _history(changes: list[_Change], since: int, until: int) -> ShareHistory:
    times = sorted({since, until, *(at for at, _, _ in changes)})
    stride = -(-len(times) // _MOST_POINTS)
    times = [*times[:-1:stride], times[-1]] if len(times) > 1 else times
    now: dict[str, float] = {}
    values: defaultdict[str, list[float]] = defaultdict(list)
    index = 0
    for number, time in enumerate(times):
        while index < len(changes) and changes[index][0] <= time:
            now[changes[index][1]] = changes[index][2]
            index += 1
        for user, cores in now.items():
            values[user] += [0.0] * (number - len(values[user])) + [cores]
    totals = {user: sum(cores) for user, cores in values.items() if any(cores)}
    users = sorted(totals, key=lambda user: (-totals[user], user))
    if len(users) > _MOST_USERS:
        rest = [values[user] for user in users[_MOST_USERS - 1 :]]
        users = [*users[: _MOST_USERS - 1], OTHERS]
        values[OTHERS] = [sum(each) for each in zip(*rest, strict=True)]
    return ShareHistory(times, users, [[round(cores, 3) for cores in values[user]] for user in users])


def _imported_changes(queries: Queries, since: int, until: int) -> list[_Change]:
    steps: defaultdict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    history = slot_times(queries.log)
    for part in history.intervals():
        if part.kind in RUN_CLASSES and part.user and part.begin < until and part.end > since:
            steps[part.user][max(part.begin, since)] += part.cores
            steps[part.user][min(part.end, until)] -= part.cores
    changes: list[_Change] = []
    for user, user_steps in steps.items():
        cores = 0.0
        for at, step in sorted(user_steps.items()):
            cores += step
            changes.append((at, user, cores))
    return changes

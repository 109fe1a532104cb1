"""condor_stats: show the history of a pool: from the files in POOL_HISTORY_DIR if KEEP_POOL_HISTORY is true, which may
be HTCondor's, or else from the log.

Source: condor_stats (stats.cpp), and the manual's page of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ..condor_tools.tool_options import ToolEnded, usage_of
from ..runtime.elsewhere import address_of, is_elsewhere
from .common import default_log, is_this_pool

if TYPE_CHECKING:
    from ..metrics.history_files import HistoryEntry

_HOUR: Final = 3600
_DAYS: Final = {"-lastday": 1, "-lastweek": 7, "-lastmonth": 30}
_SAMPLES: Final = 1000  #: the most samples that are shown of a log: the time is printed in thousandths


class Query(NamedTuple):
    """A query: the data set, and the name (None: list the names) in a period, in seconds since 1970."""

    data_set: int
    name: str | None
    since: int
    until: int
    has_times: bool  #: print the times in seconds since 1970, instead of percentages of the period
    file: str
    pool: str
    words: tuple[str, ...]  #: the arguments without -f and -pool


def stats(argv: Sequence[str]) -> int:
    query = _parse(argv, int(time.time()))
    is_elsewhere_pool = query.pool and (is_elsewhere(query.pool) or not is_this_pool(query.pool))
    text = _of_view_server(query) if is_elsewhere_pool else "".join(_lines(query)) or "No Data.\n"
    if not query.file:
        sys.stdout.write(text)
        return 0
    try:
        Path(query.file).write_text(text)
    except OSError:
        raise ToolEnded(1, f"Failed to open file {query.file}\n") from None
    return 0


def _parse(argv: Sequence[str], now: int) -> Query:
    from ...projections.pool_history import CHECKPOINT_SERVERS, GROUPS, SLOTS, SUBMITTERS, USERS

    sets = {"resource": SLOTS, "resgroup": GROUPS, "user": SUBMITTERS, "usergroup": USERS, "ckpt": CHECKPOINT_SERVERS}
    words = list(argv)
    since, until = now - 24 * _HOUR, now
    data_set, name, file, pool, has_times = -1, None, "", "", False
    rest: list[str] = []
    while words:
        option, before = words.pop(0), list(words)
        kind, is_query = option[1:].removesuffix("query"), option.endswith("query")
        try:
            if option in _DAYS:
                since, until = now - _DAYS[option] * 24 * _HOUR, now
            elif option == "-lasthours":
                since, until = now - int(words.pop(0)) * _HOUR, now
            elif option in ("-from", "-to"):
                day = _day(*(int(words.pop(0)) for _ in range(3)))
                since, until = (day, until) if option == "-from" else (since, day)
            elif option == "-f":
                file = words.pop(0)
            elif option == "-pool":
                pool = words.pop(0)
            elif option == "-orgformat":
                has_times = True
            elif is_query and kind in sets:
                data_set, name = sets[kind], words.pop(0)
            else:
                data_set, name = sets[option[1:].removesuffix("list")], None
        except (IndexError, KeyError, ValueError, OverflowError):
            raise ToolEnded(1, usage_of("stats")) from None
        if option not in ("-f", "-pool"):
            rest += [option, *before[: len(before) - len(words)]]
    if data_set < 0 or not 0 <= since <= min(now, until):
        raise ToolEnded(1, usage_of("stats"))
    return Query(data_set, name, since, until, has_times, file, pool, tuple(rest))


def _of_view_server(query: Query) -> str:
    """Return what the view server that -pool names prints."""
    from ..https import messages
    from ..https.client import ManagerError
    from ..https.remote_pool import remote_pool
    from .elsewhere import time_zone

    sent = messages.Query("condor_stats", "stats", list(query.words), zone=time_zone())
    try:
        reply = remote_pool(address_of(query.pool, None)).query(sent)
    except ManagerError as error:
        problem = f"failed to connect to the CondorView server ({query.pool})"
        raise ToolEnded(1, f"{problem}\nNo Data.\n{error}\n") from None
    if reply.code:
        raise ToolEnded(reply.code, reply.err)
    return reply.out


def _day(month: int, day: int, year: int) -> int:
    """Return the start of a day in local time. Two-digit years below 50 are in this century."""
    year += 100 if year < 50 else 0
    year += 1900 if year < 1900 else 0
    return int(time.mktime((year, month, day, 0, 0, 0, 0, 0, -1)))


def _lines(query: Query) -> Iterator[str]:
    entries = _entries(query)
    if query.name is None:
        yield from dict.fromkeys(f"{entry.name}\n" for entry in entries)
        return
    shown = 0
    for entry in entries:
        if query.name not in (entry.name, "*"):
            continue
        if query.has_times:
            yield entry.line
            continue
        share = (entry.time - query.since) / max(1, query.until - query.since)
        if round(1000 * share) != shown:
            shown = round(1000 * share)
            yield _shown(query, share, entry)


def _shown(query: Query, share: float, entry: HistoryEntry) -> str:
    from ...projections.pool_history import SLOTS, STATES

    if query.data_set != SLOTS:
        return f"{share * 100:.2f}{entry.values}\n"
    idle, load, number = entry.values.split()
    state = STATES[int(number) - 1].upper() if 0 < int(number) <= len(STATES) else "UNKNOWN"
    state = state.replace("PREEMPTING", "PRE-EMPTING")
    return f"{round(share * 100, 2):f}\t{int(idle)}\t{float(load):f}\t{state}\n"


def _entries(query: Query) -> list[HistoryEntry]:
    from ..metrics.history_files import HistoryFiles
    from ..metrics.history_keeper import history_folder
    from ..runtime.configuration import load

    configuration = load(subsystem="COLLECTOR")
    if configuration.boolean("KEEP_POOL_HISTORY", False):
        return HistoryFiles(history_folder(configuration)).entries(query.data_set, query.since, query.until)
    return list(_of_log(query))


def _of_log(query: Query) -> Iterator[HistoryEntry]:
    """Yield the entries of a period, sampled from the log at regular intervals from its first event."""
    from ...domain.units import SECOND
    from ...projections.pool_history import SLOTS, USERS, line, values_of
    from ...replay.moments.replay import Replay
    from ..library.read_only_log import Log
    from ..metrics.history_files import parse_entry
    from ..metrics.history_samples import slots_at, states_at, submitters_at

    with Log.open(default_log()) as log:
        replay = Replay(log)
        began = next(event.at for _, event in log.events()) // SECOND + 1
        step = max(1, (query.until - query.since) // _SAMPLES)
        for now in reversed(range(query.until, max(query.since, began) - 1, -step)):
            state = replay.to(now).state
            if query.data_set == SLOTS:
                slots = slots_at(state, now, None if query.name in (None, "*") else [str(query.name)])
                values = values_of((), slots)
            else:
                values = values_of(submitters_at(state), states_at(state) if query.data_set != USERS else ())
            for name, numbers in values[query.data_set].items():
                yield parse_entry(line(query.data_set, now, name, numbers))

"""``poolbook account``: how the slots' time was used, by class, user, machine etc."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...domain.units import SECOND
from ...replay.narration.formatting import EVER, interval, iso
from ..condor_tools.cells import duration_of_us
from ..condor_tools.layout import text_table
from ..condor_tools.options import UsageError, command_table, parse
from ..condor_tools.terminal import width_of, wrap_text
from ..runtime.queries import Queries
from .common import selected_log

if TYPE_CHECKING:
    from ...replay.accounts.account import Account, AccountRow

COMMAND = command_table("account")
_WAIT_HEADS = ("STARTED", "MEAN_WAIT", "MEDIAN", "95%", "LONGEST")
_SHARE_HEADS = ("CORE_TIME", "ENTITLED", "USED")
_Rows = Sequence[tuple[tuple[str, ...], "AccountRow"]]


def account(argv: Sequence[str]) -> int:
    from ...replay.accounts.account import BY, account
    from ..machine.local_time import local_time
    from .time_window import window_of

    arguments = parse(COMMAND, argv)
    keys_text = arguments.value("by", "user")
    by = keys_text.split(",")
    if arguments.words:
        raise UsageError(f"poolbook account {arguments.words[0]}: the command takes no names; choose the rows with -by")
    if not set(by) <= set(BY) or len(set(by)) < len(by):
        raise UsageError(
            f"poolbook account -by {keys_text}: unknown key; use {', '.join(BY)}, or several, such as machine,user"
        )
    zone = local_time()
    with Queries(selected_log(arguments)) as queries:
        window = window_of("account", arguments, "from", "to", queries.log)
        answer = account(queries.log, by, *window, zone)
    order = sorted(answer.rows.items(), key=lambda row: (-row[1].total, row[0]))
    if arguments.has("json"):
        begin, end = (iso(at) if 0 < at < EVER else None for at in window)
        rows = [dict(zip(by, keys, strict=True)) | row.as_dict() for keys, row in order]
        without_slot = {"runs_without_slot_seconds": answer.without_slot / SECOND}
        print(
            json.dumps(
                {"from": begin, "to": end, "rows": rows, "total": answer.total.as_dict()} | without_slot, indent=2
            )
        )
    elif not order:
        print(f"There were no slots{window.words(zone)}.")
    else:
        print("\n\n".join("\n".join(table) for table in _tables(by, order, answer)))
        for line in _notes(answer):
            print(wrap_text(line, width_of()))
    return 0


def _tables(by: Sequence[str], order: _Rows, answer: Account) -> Iterator[Iterator[str]]:
    """Yield the tables: the time by class, the badput by cause, the waiting times, and the shares."""
    from ...replay.accounts.intervals import CLASSES

    heads, total_keys = tuple(map(str.upper, by)), ("total", *[" "] * (len(by) - 1))
    rows = [*((tuple(key or "(none)" for key in keys), row) for keys, row in order), (total_keys, answer.total)]
    kinds = [kind for kind in CLASSES if kind in answer.total.time]

    def table(columns: Sequence[str], cells: Sequence[tuple[str, ...]]) -> Iterator[str]:
        return text_table((*heads, *columns), cells, right=range(len(by), len(by) + len(columns)))

    yield table(
        ("SLOT_TIME", *map(str.upper, kinds)),
        [(*keys, *map(duration_of_us, (row.total, *(row.time[kind] for kind in kinds)))) for keys, row in rows],
    )
    if causes := sorted(answer.total.badput, key=lambda cause: -answer.total.badput[cause]):
        badput_rows = [
            (*keys, *(duration_of_us(row.badput[cause]) for cause in causes)) for keys, row in rows if row.badput
        ]
        yield table([cause.upper() for cause in causes], badput_rows)
    if answer.total.waits:
        yield table(_WAIT_HEADS, [(*keys, *_wait_cells(row)) for keys, row in rows if row.waits])
    if any(row.entitled is not None for _, row in order):
        yield table(_SHARE_HEADS, [(*keys, *_share_cells(row)) for keys, row in rows[:-1] if row.entitled is not None])


def _wait_cells(row: AccountRow) -> tuple[str, ...]:
    from ...replay.accounts.account import Waits

    jobs, *times = Waits.of(row.waits)
    return (str(jobs), *(duration_of_us(round(time)) for time in times))


def _share_cells(row: AccountRow) -> tuple[str, ...]:
    entitled = row.entitled or 0.0
    used = f"{row.total_cores / entitled:.0%}" if entitled else "-"
    return (duration_of_us(round(row.total_cores)), duration_of_us(round(entitled)), used)


def _notes(answer: Account) -> Iterator[str]:
    if answer.without_slot:
        text = interval(answer.without_slot)
        yield f"Not included: {text} of runs without a slot (local or scheduler universe, or no record names the slot)."

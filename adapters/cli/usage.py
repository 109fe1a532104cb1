"""``poolbook usage``: who used how much, of the jobs that have left the queue (the history)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...projections.archive import BY
from ..tools.cells import length
from ..tools.options import HELP, LOG, Command, Option, UsageError, parse
from ..views import views_current
from .common import log_of

if TYPE_CHECKING:
    from ...projections.archive import Spent

COMMAND = Command(
    "usage",
    "[name ...] [options]",
    "Shows what the jobs that have left the queue used, the most first. A job that stands in the history twice counts "
    "once.",
    (
        Option("by", 2, "<what>", "by user (the default), group (AcctGroup) or cluster"),
        HELP,
        Option("json", 1, "", "the same as JSON, in microseconds"),
        LOG,
    ),
    examples=(
        ("poolbook usage", "every user's"),
        ("poolbook usage alice bob", "two users'"),
        ("poolbook usage 12 13 -by cluster", "what two clusters used"),
    ),
    words=(("alice", "a user, with or without the domain; with -by, a group or a cluster"),),
)

_HEADS = ("JOBS", "WALL_TIME", "CPU_TIME", "SLOT_TIME")


def usage(argv: Sequence[str]) -> int:
    arguments = parse(COMMAND, argv)
    given = arguments.last("by")
    by = "user" if given is None else given.values[0]
    if by not in BY:
        raise UsageError(f"poolbook usage -by {by}: usage is told by {', '.join(BY)}")
    with views_current(log_of(arguments)) as views:
        found = views.spent(by)
    words = set(arguments.words)
    rows = [row for row in found if not words or row.name in words or row.name.partition("@")[0] in words]
    rows.sort(key=lambda row: (-row.slot_time, -row.wall, row.name))
    if arguments.has("json"):
        from json import dumps

        print(dumps([row._asdict() for row in rows], indent=2))
    else:
        print("\n".join(_table(by, rows)))
    return 0


def _table(by: str, rows: Sequence[Spent]) -> Iterator[str]:
    """The rows and their sum; lengths of time as condor_history prints them."""
    total = [sum(amounts) for amounts in zip(*(row[1:] for row in rows), strict=True)] or [0, 0, 0, 0]
    texts = [
        (name, str(amounts[0]), *map(_length, amounts[1:]))
        for name, amounts in [*((row.name or "(none)", row[1:]) for row in rows), ("total", total)]
    ]
    heads = (by.upper(), *_HEADS)
    widths = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
    for name, *cells in (heads, *texts):
        right = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        yield f"{name:<{widths[0]}}  {right}"


def _length(amount: int) -> str:
    return length(amount // 1_000_000).strip()

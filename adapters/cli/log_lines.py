"""Print lines of the log for `poolbook log`, and for `poolbook serve -verbose` as events are appended."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import tzinfo
from itertools import islice

from ...domain.events import Event
from ...replay.listing import Member, line, members
from ..condor_tools.terminal import STATES, folded, print_painted, visible, width_of
from .time_window import here

INDENT = 10
"""Columns before a continuation line: the width of the position."""
MANY = 20
"""Jobs of one event that are printed as it happens; the others are counted."""
DECISIONS = frozenset({"match", "no match", "exit"})
"""Lines that are printed as they happen although they are no transition."""


def print_line(member: Member, zone: tzinfo, width: int | None, place: str = "") -> None:
    """Print a line of the log, folded to the terminal's width. `place`: where its imported record stands."""
    text = visible(line(member, zone, place))
    if width is not None and len(text) > width:  # columns are of no use in lines that are folded
        text = text[:INDENT] + re.sub(r" {2,}", "  ", text[INDENT:])
    print_painted(folded(text, width, INDENT), STATES)


ROUTINE = frozenset({"found", "read", "began", "ended", "rejected"})
"""Lines of an import that are not printed as it reads them: each cycle has some."""


def tell_as_it_happens(first: int, events: Sequence[Event], imported: bool = False) -> None:
    """Print the transitions and decisions of `events`, the first of which is at position `first`; of imported ones all
    but the routine."""
    zone, width = here(), width_of()
    for position, event in enumerate(events, first):
        told = (
            member
            for member in members(position, event)
            if (member.what not in ROUTINE if imported else member.target or member.what in DECISIONS)
        )
        for member in islice(told, MANY):
            print_line(member, zone, width)
        more = sum(1 for _ in told)
        if more:
            print(f"{'':{INDENT}}... and {more:,} more like this")
    sys.stdout.flush()

"""What a role remembers of one of its peers, and of the page that it is reading from it.

All of it can be lost. Times are microseconds on a clock that never jumps (CLOCK_BOOTTIME).
"""

from __future__ import annotations

from typing import Final

from attrs import define, field

from ...domain.units import SECOND
from .datagrams import FileAccess, Hint, PageContents

FIRST_RETRY: Final = SECOND // 2  #: a read is repeated after this time, then twice as long ...
_LAST_HINT: Final = 300 * SECOND  #: the longest time after which a hint is repeated; HTCondor's default ALIVE_INTERVAL


@define
class Reading:
    """A page that a peer was asked for."""

    after: int
    retry: int = 0  #: when it is asked for again
    pause: int = FIRST_RETRY
    asked: dict[int, int] = field(factory=dict)  #: when it was asked for, by the number of the request
    parts: dict[int, bytes] = field(factory=dict)
    check: int = 0  #: of the page that the parts belong to
    as_of: int = 0  #: the earliest time at which a request was sent that one of the parts answers


@define
class Link:
    """A peer. ``asked`` is when the last complete page was requested, ``answered`` when this role last answered with
    one, ``heard`` when the peer last sent something."""

    heard: int
    asked: int = 0
    answered: int = 0
    heard_again: int = 0
    """When an execution point with disconnected jobs first asked again; 0: not yet. The jobs reconnect when its outbox
    has been read to the end since then, because it may report that they do not run any more."""
    renewal: tuple[str, int, str, int] | None = None
    """A complete page that renews leases once it is in the log: the peer's log, its last entry and that entry's digest,
    and when it was asked for."""
    is_renewed: bool = False  #: whether a renewal has not been passed on yet
    was_renewed: bool = False  #: whether this role has recorded a renewal since it started
    latest: Hint | None = None  #: the last hint at entries that were not read yet
    log: str = ""  #: the log that the peer used last, if known
    is_read: bool = False  #: whether its outbox was read to the end since this role started
    read_at: int = 0  #: when the outbox was last read to its end
    hint_again: int | None = None  #: when the last hint is repeated, because it may be lost; None: the peer has read
    hint_pause: int = 0
    reading: Reading | None = None
    collected: list[PageContents] = field(factory=list)
    size: int = 0
    files: dict[str, FileAccess] = field(factory=dict)
    """The access to the files of the runs that the last pages start, by the runs' keys."""

    def expect_read(self, now: int, pause: int = FIRST_RETRY) -> None:
        """Have the hint repeated until the peer reads, after a pause that doubles each time."""
        self.hint_pause = min(pause, _LAST_HINT)
        self.hint_again = now + self.hint_pause

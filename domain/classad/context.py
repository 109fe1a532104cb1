"""What an evaluation may know of the outside world.

The engine has no clock, no randomness and no file of its own. A ``Context`` holds what an expression may ask for;
what it does not hold makes the function that asks fail with a clear message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import Any

from .values import ContextError, lower

UserMap = Callable[[str], str | None] | Mapping[str, str]

_MULTIPLIER = 0x5DEECE66D
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Context:
    """The surroundings of an evaluation; immutable.

    :param now: the time, in whole seconds since the epoch; without it ``time()`` and its like raise ContextError
    :param timezone: the zone of local times; UTC unless given
    :param seed: what ``random()`` is drawn from; without it ``random()`` raises ContextError
    :param user_maps: for ``userMap()``: map name to a mapping, or a function, from a user to "group1,group2"
    :param functions: an embedder's own functions, name to callable(*values); a built-in one cannot be
        replaced, as in the reference
    :param user_home: for ``userHome()``: user to home directory or None; without it the function is disabled, as it
        is in
        HTCondor by default
    :param trace: receives the lines that ``debug()`` writes; without it they go nowhere
    """

    __slots__ = ("_draws", "functions", "now", "seed", "timezone", "trace", "user_home", "user_maps")

    def __init__(
        self,
        *,
        now: int | None = None,
        timezone: tzinfo = UTC,
        seed: int | None = None,
        user_maps: Mapping[str, UserMap] = MappingProxyType({}),
        functions: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
        user_home: Callable[[str], str | None] | None = None,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.now = now
        self.timezone = timezone
        self.seed = seed
        self.user_maps = {lower(name): users for name, users in user_maps.items()}
        self.functions = {lower(name): function for name, function in functions.items()}
        self.user_home = user_home
        self.trace = trace

    def replace(self, **changes: Any) -> Context:
        """A context like this one, but for the changes (the constructor's names)."""
        names = ("now", "timezone", "seed", "user_maps", "functions", "user_home", "trace")
        return Context(**{**{name: getattr(self, name) for name in names}, **changes})

    def time(self, asking: str) -> int:
        """The time.

        :param asking: the function that wants it, for the message
        """
        if self.now is None:
            raise ContextError(f"{asking} needs the time: evaluate with Context(now=<seconds since the epoch>)")
        return self.now

    def offset(self, seconds: int) -> int:
        """Seconds east of UTC of local time at a point in time."""
        if self.timezone is UTC:
            return 0
        try:
            local = (_EPOCH + timedelta(seconds=seconds)).astimezone(self.timezone)
        except OverflowError:  # beyond the years that Python's calendar knows
            local = _EPOCH.astimezone(self.timezone)
        east = local.utcoffset()
        return 0 if east is None else int(east.total_seconds())

    def zone_name(self) -> str:
        """The abbreviation of the zone's standard time."""
        name = _EPOCH.astimezone(self.timezone).tzname()
        return "UTC" if name is None else name


class Randomness:
    """The pseudo-random numbers of one evaluation: those of drand48, seeded by the context."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = ((seed & 0xFFFFFFFF) << 16) | 0x330E

    def integer(self) -> int:
        """The next number of 31 bits."""
        self._state = (self._state * _MULTIPLIER + 0xB) & ((1 << 48) - 1)
        return self._state >> 17


DEFAULT = Context()

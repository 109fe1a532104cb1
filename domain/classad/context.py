"""Define what an evaluation may know about the outside world.

The package has no clock, no random numbers and no files. A function whose input is missing in the ``Context`` raises an
error that names the input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import Any

from .function_registry import FUNCTIONS
from .values import ContextError, lower

UserMap = Callable[[str], str | None] | Mapping[str, str]

_MULTIPLIER = 0x5DEECE66D
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Context:
    """The outside world as an evaluation sees it; immutable.

    :param now: the time, in whole seconds since the epoch; without it, functions such as ``time()`` raise ContextError
    :param timezone: the time zone of local times; UTC by default
    :param seed: the seed of ``random()``; without it, ``random()`` raises ContextError
    :param user_maps: for ``userMap()``, maps each map name to a mapping or a function from a user to "group1,group2"
    :param functions: additional functions, by name, called with the values of their arguments; as in HTCondor, they
        cannot replace a built-in function
    :param user_home: for ``userHome()``, a function from a user to a home directory or None; without it, ``userHome()``
        is disabled, which is HTCondor's default
    :param trace: receives the lines that ``debug()`` writes; without it, they are dropped
    :param allowance: limits the steps of all evaluations in this context; without it, each has a full budget
    """

    __slots__ = ("allowance", "functions", "now", "seed", "timezone", "trace", "user_home", "user_maps")

    now: int | None
    timezone: tzinfo
    seed: int | None
    user_maps: Mapping[str, UserMap]
    functions: Mapping[str, Callable[..., Any]]
    user_home: Callable[[str], str | None] | None
    trace: Callable[[str], None] | None
    allowance: Any  # an ``Allowance``, which needs this module

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
        allowance: Any = None,
    ) -> None:
        for name, value, kind in (("now", now, int), ("seed", seed, int), ("timezone", timezone, tzinfo)):
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                descriptions = {
                    int: "a whole number (of seconds, for now)",
                    tzinfo: "a tzinfo, such as ZoneInfo('Europe/Rome')",
                }
                raise TypeError(f"{name} must be {descriptions[kind]}, not {value!r}")
        if functions:
            _check_functions(functions)
        values: dict[str, object] = {
            "now": now,
            "timezone": timezone,
            "seed": seed,
            "user_maps": MappingProxyType({lower(name): users for name, users in user_maps.items()}),
            "functions": MappingProxyType({lower(name): function for name, function in functions.items()}),
            "user_home": user_home,
            "trace": trace,
            "allowance": allowance,
        }
        for name, argument in values.items():
            object.__setattr__(self, name, argument)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Context cannot be changed; use context.replace({name}=...)")

    __delattr__ = None  # type: ignore[assignment]

    def replace(self, **changes: Any) -> Context:
        """Return a copy with some of the constructor's arguments changed."""
        return Context(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

    def time(self, function_name: str) -> int:
        """Return the time in seconds since the epoch; raise ContextError, with the function's name, without ``now``."""
        if self.now is None:
            raise ContextError(f"{function_name} needs the time: evaluate with Context(now=<seconds since the epoch>)")
        return self.now

    def utc_offset(self, seconds: int) -> int:
        """Return the offset of local time from UTC at an instant, in seconds east of UTC."""
        if self.timezone is UTC:
            return 0
        try:
            local = (_EPOCH + timedelta(seconds=seconds)).astimezone(self.timezone)
        except OverflowError:  # beyond the years of Python's calendar
            local = _EPOCH.astimezone(self.timezone)
        offset = local.utcoffset()
        return 0 if offset is None else int(offset.total_seconds())

    def from_standard_time(self, local: int) -> int:
        """Return the instant of a local time, taken as standard time all year, like C's mktime with tm_isdst = 0.

        :param local: the local time in seconds since the epoch, computed as if it were UTC
        """
        offset = self.utc_offset(local)
        if self.timezone is not UTC:
            try:
                saving = (_EPOCH + timedelta(seconds=local - offset)).astimezone(self.timezone).dst()
            except OverflowError:
                saving = None
            offset = self.utc_offset(local - offset) - (0 if saving is None else int(saving.total_seconds()))
        return local - offset

    def zone_name(self) -> str:
        """Return the abbreviation of the zone's standard time."""
        name = _EPOCH.astimezone(self.timezone).tzname()
        return "UTC" if name is None else name


def _check_functions(functions: Mapping[str, Callable[..., Any]]) -> None:
    for name, function in functions.items():
        if lower(name) in FUNCTIONS:
            raise ValueError(f"{name} is a built-in ClassAd function; choose another name")
        if not re.fullmatch(_NAME, name):
            raise ValueError(f"{name!r} is not a function name; use letters, digits and _")
        if not callable(function):
            raise TypeError(f"the function {name} is not callable: {function!r}")


_NAME = r"[A-Za-z_][A-Za-z0-9_]*"


class Randomness:
    """The pseudo-random numbers of one evaluation, generated by drand48's algorithm from the context's seed."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = ((seed & 0xFFFFFFFF) << 16) | 0x330E

    def integer(self) -> int:
        """Return the next 31-bit number."""
        self._state = (self._state * _MULTIPLIER + 0xB) & ((1 << 48) - 1)
        return self._state >> 17


DEFAULT = Context()

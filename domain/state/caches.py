"""What was computed of a state and may be used again, and which slots have changed since somebody looked.

No event made any of this, and nothing that is decided depends on its being there: a ``Caches`` belongs to one state,
and whoever folds the log anew begins an empty one. Change logs are part of the state, as the fold writes them, but no
part of what it says.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

Kind = TypeVar("Kind")


class Caches:
    """One object of each class that somebody keeps something in. Each reader has a class of its own, so that none
    depends on what others keep, and this module on none of them."""

    __slots__ = ("_by_kind",)

    def __init__(self) -> None:
        self._by_kind: dict[type[Any], Any] = {}

    def of(self, kind: type[Kind]) -> Kind:
        """Return the object of this class; an empty one the first time."""
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = kind()
        return cast("Kind", found)

    def renew(self, kind: type[Kind]) -> Kind:
        """Forget what is kept in the object of this class; return the new one."""
        found = self._by_kind[kind] = kind()
        return found


class ChangeLog:
    """The names of what changed, in order, for any number of readers.

    Each reader keeps a cursor: the ``count`` of the log when it looked last. Only the latest changes are kept; a reader
    that is further behind has to look at everything.
    """

    __slots__ = ("_first", "_names")
    KEPT = 500_000
    """How many changes are kept at most."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._first = 0

    @property
    def count(self) -> int:
        """How many changes there have been."""
        return self._first + len(self._names)

    def add(self, name: str) -> None:
        """Note a change."""
        names = self._names
        names.append(name)
        if len(names) > self.KEPT:
            self._forget()

    def _forget(self) -> None:
        gone = self.KEPT // 2
        self._first += gone
        del self._names[:gone]

    def since(self, cursor: int) -> dict[str, None] | None:
        """Return what has changed since there were ``cursor`` changes, each name once; None: that is not kept."""
        if cursor < self._first:
            return None
        return dict.fromkeys(self._names[cursor - self._first :])

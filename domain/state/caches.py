"""What was computed of a state and may be used again, and which slots and jobs have changed since somebody looked.

No event made any of this, and nothing that is decided depends on its being there: a ``Caches`` belongs to one state,
and whoever folds the log anew begins an empty one. Change logs are part of the state, as the fold writes them, but no
part of what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..classad import ClassAd, ClassAdSyntaxError, Expression, parse
from ..classad.tree import Literal

# Ads as events keep them, attribute -> expression text, made into ads that can be evaluated.
#
# The texts are in the language's one syntax (``parse``), whichever form they had where they came from. What a text
# means is kept: expressions are immutable, and the ads of a pool share most of theirs.

_KEPT = 50_000
_meanings: dict[str, Expression | None] = {}


def expression(text: str) -> Expression | None:
    """The expression that a text is; None for what is none, as only a log that was tampered with holds."""
    try:
        return _meanings[text]
    except KeyError:
        pass
    if len(_meanings) >= _KEPT:
        _meanings.clear()
    found: Expression | None
    if _is_plain_string(text):
        found = Literal(text[1:-1])
    else:
        try:
            found = parse(text)
        except ClassAdSyntaxError:
            found = None
    _meanings[text] = found
    return found


def _is_plain_string(text: str) -> bool:
    """Tell whether a text is a string without anything to unquote, as most are: there is nothing to parse."""
    plain = len(text) > 1 and text[0] == '"' == text[-1] and text.count('"') == 2
    return plain and "\\" not in text and text.isprintable()


def ad_of(attributes: Mapping[str, str]) -> ClassAd:
    """An ad from texts; an empty one stands for an attribute that is not there."""
    return ClassAd.from_expressions(
        [(name, found) for name, text in attributes.items() if text and (found := expression(text)) is not None]
    )


Kind = TypeVar("Kind")
Name = TypeVar("Name")


class Caches:
    """One object of each class that somebody keeps something in. Each reader has a class of its own, so that none
    depends on what others keep, and this module on none of them."""

    __slots__ = ("_by_kind",)

    def __init__(self) -> None:
        self._by_kind: dict[type[Any], Any] = {}

    def of(self, kind: type[Kind]) -> Kind:
        """Return the object of this class; an empty one the first time."""
        found: Kind | None = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = kind()
        return found

    def renew(self, kind: type[Kind]) -> Kind:
        """Forget what is kept in the object of this class; return the new one."""
        found = self._by_kind[kind] = kind()
        return found


class ChangeLog(list[Name]):
    """The names of what changed, in order, for any number of readers.

    The fold appends to it, which is as fast as can be. Each reader keeps a cursor: the ``total`` of the log when it
    looked last. ``trim`` leaves only the latest changes; a reader that is further behind has to look at everything.
    """

    __slots__ = ("_gone",)
    KEPT = 500_000
    """How many changes are kept at most, when it is trimmed."""

    def __init__(self) -> None:
        super().__init__()
        self._gone = 0

    @classmethod
    def unknown(cls, total: int) -> ChangeLog[Name]:
        """Return a log of so many changes, of which none is kept."""
        found = cls()
        found._gone = total
        return found

    @property
    def total(self) -> int:
        """How many changes there have been."""
        return self._gone + len(self)

    def trim(self) -> None:
        """Forget the older half, if there are too many."""
        if len(self) > self.KEPT:
            gone = len(self) - self.KEPT // 2
            self._gone += gone
            del self[:gone]

    def since(self, cursor: int) -> dict[Name, None] | None:
        """Return what has changed since there were ``cursor`` changes, each name once; None: that is not kept."""
        if cursor < self._gone:
            return None
        return dict.fromkeys(self[cursor - self._gone :])

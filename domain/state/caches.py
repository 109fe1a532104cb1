"""Caches of values computed from a state, and logs of changed slots and jobs.

A ``Caches`` object belongs to one state, and starts empty when the log is folded again. This changes no decision,
because no decision depends on whether a value is cached. The fold writes the change logs, but the equality of two
states does not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from operator import ne
from typing import Any, TypeVar

from ..classad import ClassAd, ClassAdSyntaxError, Expression, parse
from ..classad.tree import Literal

# Events contain ads as attribute -> expression text; these functions parse the texts. Parsed expressions are cached,
# because they are immutable and a pool's ads have most of them in common.

_MAX_CACHED = 50_000
_parsed: dict[str, Expression | None] = {}


def parse_cached(text: str) -> Expression | None:
    """Parse a text. Return None if it is not an expression, as may happen in a log that was tampered with."""
    try:
        return _parsed[text]
    except KeyError:
        pass
    if len(_parsed) >= _MAX_CACHED:
        _parsed.clear()
    expression: Expression | None
    if _is_plain_string(text):
        expression = Literal(text[1:-1])
    else:
        try:
            expression = parse(text)
        except ClassAdSyntaxError:
            expression = None
    _parsed[text] = expression
    return expression


def _is_plain_string(text: str) -> bool:
    """Return True if the text is a string literal without escapes, as most are; such texts need no parser."""
    is_literal = len(text) > 1 and text[0] == '"' == text[-1] and text.count('"') == 2
    return is_literal and "\\" not in text and text.isprintable()


_MAX_MODELS = 100
_models: dict[tuple[str, ...], tuple[tuple[str, ...], ClassAd]] = {}
"""The latest ad for each list of names, with its texts: the next ad often differs in few attributes."""


def ad_from_attributes(attributes: Mapping[str, str]) -> ClassAd:
    """Return the ad with these attributes. Skip those whose text is empty."""
    names = tuple(attributes)
    texts, model = _models.get(names, ((), None))
    items = attributes.items() if model is None else compress(attributes.items(), map(ne, attributes.values(), texts))
    changes = [(name, parse_cached(text) if text else None) for name, text in items]
    ad = ClassAd.from_expressions([(name, parsed) for name, parsed in changes if parsed is not None], model)
    if model is not None:
        for name in [name for name, parsed in changes if parsed is None]:
            del ad[name]
    if len(ad) == len(names):
        if len(_models) >= _MAX_MODELS:
            _models.clear()
        _models[names] = tuple(attributes.values()), ad.copy()
    return ad


Kind = TypeVar("Kind")
Name = TypeVar("Name")


class Caches:
    """One cache object per class. Each user of the cache has its own class, so this module need not know them."""

    __slots__ = ("_by_kind",)

    def __init__(self) -> None:
        self._by_kind: dict[type[Any], Any] = {}

    def get(self, kind: type[Kind]) -> Kind:
        """Return the object of this class. Create it if necessary."""
        cache: Kind | None = self._by_kind.get(kind)
        if cache is None:
            cache = self._by_kind[kind] = kind()
        return cache

    def replace_with_empty(self, kind: type[Kind]) -> Kind:
        """Replace the object of this class with an empty one, and return it."""
        cache = self._by_kind[kind] = kind()
        return cache


class ChangeLog(list[Name]):
    """The names of changed objects, in order, for any number of readers.

    The fold appends names, which is fast. Each reader stores a cursor: the value of ``total`` at its last read.
    ``trim`` drops old changes; a reader that has not read these must examine all objects.
    """

    __slots__ = ("_dropped",)
    MAX_LENGTH = 500_000
    """A change log with more entries is trimmed to half this length."""

    def __init__(self) -> None:
        super().__init__()
        self._dropped = 0

    @classmethod
    def unknown(cls, total: int) -> ChangeLog[Name]:
        """Return a log from which this number of changes was dropped, and which contains no others."""
        log = cls()
        log._dropped = total
        return log

    @property
    def total(self) -> int:
        """The total number of changes ever logged."""
        return self._dropped + len(self)

    def trim(self) -> None:
        """Drop the older changes if the log is too long."""
        if len(self) > self.MAX_LENGTH:
            excess = len(self) - self.MAX_LENGTH // 2
            self._dropped += excess
            del self[:excess]

    def since(self, cursor: int) -> dict[Name, None] | None:
        """Return the distinct names logged since ``total`` was ``cursor``, or None if some of them were dropped."""
        if cursor < self._dropped:
            return None
        return dict.fromkeys(self[cursor - self._dropped :])

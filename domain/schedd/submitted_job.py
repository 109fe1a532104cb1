"""A job on its way into the queue, as transforms change it and submit requirements see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..classad import ERROR, UNDEFINED, ClassAd, Context, EvaluationError, Expression
from ..classad.old_form import ad_text
from ..events import Ad
from ..state.caches import parse_cached

GONE = "undefined"
"""The text of an attribute that a transform took away."""


class SubmittedJob:
    """:param cluster: what the jobs of the submission say, the first of them where they differ
    :param own: what this job says otherwise
    :param open: the attributes that statements with regular expressions see besides ``own``
    """

    def __init__(self, cluster: ClassAd, own: Mapping[str, str], open: Iterable[str] = ()) -> None:
        self.ad = ClassAd(chained=cluster)
        for name, text in own.items():
            meaning = parse_cached(text)
            if meaning is not None:
                self.ad[name] = meaning
        self._open = {name.lower(): name for name in (*own, *open)}
        self.changed: dict[str, str] = {}
        """The attributes that a transform set or deleted, by their names in small letters."""
        self.changed_ever: set[str] = set()
        """Those that any transform did."""

    def evaluated(self, expression: Expression, context: Context) -> object:
        """The value of an expression in the job's ad; ``ERROR`` where it cannot be evaluated."""
        try:
            value: object = expression.evaluate(self.ad, None, context)
        except EvaluationError:
            return ERROR
        return value

    def open(self) -> list[str]:
        """The attributes that statements with regular expressions see."""
        return [name for name in self._open.values() if self.ad.get(name, UNDEFINED) is not UNDEFINED]

    def set(self, name: str, meaning: Expression) -> None:
        self.ad[name] = meaning
        spelled = self._open.setdefault(name.lower(), name)
        self._note(name, spelled)

    def copy(self, name: str, new: str) -> bool:
        """Copy an attribute's expression to another; False: the attribute does not exist."""
        meaning = self.ad.get(name)
        if meaning is None:
            return False
        self.set(new, meaning)
        return True

    def delete(self, name: str) -> None:
        """Delete an attribute. An attribute of the submission becomes undefined, also in the queue."""
        if name in self.ad:
            del self.ad[name]
            self._note(name, self._open.get(name.lower(), name))

    def _note(self, name: str, spelled: str) -> None:
        self.changed.setdefault(name.lower(), spelled)
        self.changed_ever.add(name.lower())

    def changes(self) -> Ad:
        """What was set or deleted, with the texts that the queue gets."""
        return {name: text_in(self.ad, name) or GONE for name in self.changed.values()}


def text_in(ad: ClassAd, name: str) -> str:
    """The text of an attribute; empty: the ad has none."""
    meaning = ad.get(name)
    return "" if meaning is None else ad_text(meaning)

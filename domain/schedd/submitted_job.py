"""A job during submission, while transforms change it and submit requirements read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..classad import ERROR, UNDEFINED, ClassAd, Context, EvaluationError, Expression
from ..classad.old_form import ad_text
from ..events import Ad
from ..state.caches import parse_cached

DELETED_TEXT = "undefined"
"""The text that marks an attribute as deleted by a transform."""


class SubmittedJob:
    """:param cluster: the submission's attributes; for attributes that differ, the first job's values
    :param own: this job's values that differ from the first job's
    :param open: further attributes, besides ``own``, that regular expressions in statements can match
    """

    def __init__(self, cluster: ClassAd, own: Mapping[str, str], open: Iterable[str] = ()) -> None:
        self.ad = ClassAd(chained=cluster)
        for name, text in own.items():
            expression = parse_cached(text)
            if expression is not None:
                self.ad[name] = expression
        self._visible = {name.lower(): name for name in (*own, *open)}
        self.changed: dict[str, str] = {}
        """The attributes that the current transform set or deleted, by lower-case name."""
        self.ever_changed: set[str] = set()
        """The attributes that any transform set or deleted, in lower case."""

    def evaluate(self, expression: Expression, context: Context) -> object:
        """Evaluate an expression in the job's ad and return its value; ``ERROR`` if it cannot be evaluated."""
        try:
            value: object = expression.evaluate(self.ad, None, context)
        except EvaluationError:
            return ERROR
        return value

    def visible_attributes(self) -> list[str]:
        """Return the attributes that regular expressions in statements can match."""
        return [name for name in self._visible.values() if self.ad.get(name, UNDEFINED) is not UNDEFINED]

    def set(self, name: str, expression: Expression) -> None:
        self.ad[name] = expression
        spelling = self._visible.setdefault(name.lower(), name)
        self._note_change(name, spelling)

    def copy(self, name: str, new: str) -> bool:
        """Copy an attribute's expression to another; return False if the attribute does not exist."""
        expression = self.ad.get(name)
        if expression is None:
            return False
        self.set(new, expression)
        return True

    def delete(self, name: str) -> None:
        """Delete an attribute. An attribute set by the submission becomes undefined, also in the queue."""
        if name in self.ad:
            del self.ad[name]
            self._note_change(name, self._visible.get(name.lower(), name))

    def _note_change(self, name: str, spelling: str) -> None:
        self.changed.setdefault(name.lower(), spelling)
        self.ever_changed.add(name.lower())

    def changes(self) -> Ad:
        """Return the attributes that the current transform set or deleted, with their texts for the queue."""
        return {name: attribute_text(self.ad, name) or DELETED_TEXT for name in self.changed.values()}


def attribute_text(ad: ClassAd, name: str) -> str:
    """Return an attribute's text, or an empty string if the ad lacks the attribute."""
    expression = ad.get(name)
    return "" if expression is None else ad_text(expression)

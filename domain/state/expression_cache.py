"""Ads as events keep them, attribute -> expression text, made into ads that can be evaluated.

The texts are in the language's one syntax (``parse``), whichever form they had where they came from. What a text means
is kept: expressions are immutable, and the ads of a pool share most of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..classad import ClassAd, ClassAdSyntaxError, Expression, parse
from ..classad.tree import Literal

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
    found = ((name, expression(text)) for name, text in attributes.items() if text)
    return ClassAd.of_expressions((name, meaning) for name, meaning in found if meaning is not None)

"""How a sentence is made of its words and its facts.

``{name}`` is a fact. What stands in ``[...]`` is left out where one of its facts is missing; what stands in ``<<...>>``
is evidence, and is left out unless that is asked for. A part may stand in another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

_FACT = re.compile(r"\{(\w+)\}")
_PART = re.compile(r"\[([^\[\]]*)\]")
_DOTS = re.compile(r"(?<!\.)\.{2}(?!\.)|\.{4,}")
_EXPRESSION = re.compile(r" expression '.*'(?= evaluated to )")
"""What a schedd writes of a policy: the name before it says which."""
_TRUTH = re.compile(r" == (True|False)\b")  #: what a negotiator writes of a condition
_EVIDENCE = re.compile(r"<<(.*?)>>")
_SMALL = frozenset({"a", "every", "it", "its", "job", "jobs", "no", "nobody", "none", "of", "somebody", "the", "what"})
LONGEST = 120  #: so many characters of one fact stand in a sentence without its evidence
LINE = 200  #: so many characters a sentence has without its evidence, if its facts allow
_KEPT = {"reason", "hold", "advice"}  #: facts that are cut only where a sentence would be longer, and not at their ends
_LISTS = {"cause", "evictions"}  #: facts whose parts are short, and of which none is left out


def fill(template: str, facts: Mapping[str, str], verbose: bool = False) -> str:
    """Put facts into a template; ``verbose``: with the evidence, and with each fact at its full length."""
    said = _part_of(template, verbose)
    while (less := _PART.sub(lambda part: _kept(part[1], facts), said)) != said:  # the innermost first
        said = less
    short = facts if verbose else {name: text if name in _KEPT | _LISTS else cut(text) for name, text in facts.items()}
    text = _FACT.sub(lambda fact: short.get(fact[1], ""), said)
    for name in sorted(_KEPT & facts.keys()) if len(text) > LINE and not verbose else ():
        least = max(LONGEST, len(facts[name]) - (len(text) - LINE))
        text = text.replace(facts[name], _without_middle(_EXPRESSION.sub("", facts[name]), least))
    text = _DOTS.sub(lambda dots: "." if len(dots[0]) == 2 else "...", text)
    return f"{text[:1].upper()}{text[1:]}" if said.startswith("{") and _begins(text) else text


def _kept(part: str, facts: Mapping[str, str]) -> str:
    return part if all(facts.get(name) for name in _FACT.findall(part)) else ""


@cache
def _part_of(template: str, verbose: bool) -> str:
    return _EVIDENCE.sub(r"\1" if verbose else "", template)


def _begins(text: str) -> bool:
    """Whether a text begins with a word that is written large only at the beginning of a sentence."""
    return text.partition(" ")[0] in _SMALL


def _without_middle(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    begin = text[: length // 2 - 5].rpartition(" ")[0] or text[: length // 2 - 5]
    return f"{begin} ... {text[-(length - len(begin) - 5) :].partition(' ')[2]}"


def cut(text: str, length: int = LONGEST) -> str:
    """Leave an expression's text out, and cut what is longer between two words."""
    text = _TRUTH.sub(lambda truth: f" is {truth[1].lower()}", _EXPRESSION.sub("", text))
    if len(text) <= length:
        return text
    whole = text[: length - 3].rpartition(" ")[0] or text[: length - 3]
    return f"{whole.rstrip(' ,;:')}..."

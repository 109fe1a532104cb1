"""Job transforms in the old syntax of the job router's routes, made into statements.

``[ Requirements = ...; copy_A = "B"; delete_C = true; set_D = expr; eval_set_E = expr; F = value ]``: copies come
first, then deletions, settings, and evaluations, each by name; what is none of them is a macro. HTCondor 25.14 reads
this syntax no more, and leaves such a transform out; the manual still has it.

Source: ConvertClassadJobRouterRouteToXForm (xform_utils.cpp) of the reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..classad import ClassAd, ClassAdSyntaxError, Expression
from ..classad.tree import Literal
from ..classad.unparse import unparse_old

_PREFIXES: Final = {"copy_": "COPY", "delete_": "DELETE", "set_": "SET", "eval_set_": "EVALSET"}
"""What the names of attributes begin with, and the statement of each."""
_ORDER: Final = ("COPY", "DELETE", "SET", "EVALSET")


def is_old(text: str) -> bool:
    """Whether a transform is in the old syntax."""
    return text.lstrip().startswith("[")


def statements(text: str) -> str:
    """The same transform as lines.

    :raises ClassAdSyntaxError: it is no ad
    """
    ad = ClassAd.from_new(text)
    about: list[str] = []
    found: dict[str, list[tuple[str, str]]] = {word: [] for word in _ORDER}
    macros: list[tuple[str, Expression]] = []
    for name, meaning in ad.items():
        prefix = next((one for one in _PREFIXES if name.lower().startswith(one)), "")
        if prefix:
            _note(found[_PREFIXES[prefix]], _PREFIXES[prefix], name[len(prefix) :], meaning)
        elif name.lower() == "requirements":
            about.append(f"REQUIREMENTS {_line(meaning)}")
        elif name.lower() == "targetuniverse":
            about.append(f"UNIVERSE {_line(meaning)}")
        elif name.lower() != "name":
            macros.append((name, meaning))
    ordered = [line for word in _ORDER for _, line in sorted(found[word], key=lambda one: one[0].lower())]
    mentioned = _mentioned((line for word, line in ((one[:7], one) for one in ordered) if word == "EVALSET"), macros)
    lines = [*about, *(f"{name} = {_value(meaning)}" for name, meaning in _by_name(macros))]
    at = next((place for place, line in enumerate(ordered) if line.startswith("EVALSET")), len(ordered))
    lines += [*ordered[:at], *(f"SET {name} {_line(meaning)}" for name, meaning in _by_name(mentioned)), *ordered[at:]]
    return "\n".join([*lines, *(f"DELETE {name}" for name, _ in _by_name(mentioned))])


def _by_name(of: Iterable[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    return sorted(of, key=lambda one: one[0].lower())


def _note(found: list[tuple[str, str]], word: str, name: str, meaning: Expression) -> None:
    if word == "DELETE":
        found.append((name, f"DELETE {name}"))
    elif word == "COPY":
        if isinstance(meaning, Literal) and isinstance(meaning.value, str):
            found.append((name, f"COPY {name} {meaning.value}"))
    else:
        found.append((name, f"{word} {name} {_line(meaning)}"))


def _mentioned(lines: Iterable[str], macros: list[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    """The macros that evaluations refer to: the job has them meanwhile."""
    import re

    words = {word.lower() for line in lines for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", line)}
    return [one for one in macros if one[0].lower() in words]


def _line(meaning: Expression) -> str:
    return " ".join(unparse_old(meaning).split("\n"))


def _value(meaning: Expression) -> str:
    return meaning.value if isinstance(meaning, Literal) and isinstance(meaning.value, str) else _line(meaning)


__all__ = ["ClassAdSyntaxError", "is_old", "statements"]

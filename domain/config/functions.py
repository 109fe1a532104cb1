"""Evaluate function macros of configurations, where they differ from those of submit descriptions.

An argument that is no macro's name stands for itself; ``$BASENAME`` takes a suffix to leave out. Source: the manual's
page "Introduction to Configuration"; HTCondor's behaviour where it is silent.
"""

from __future__ import annotations

from ..macros import functions as shared
from ..macros.macros import Function, Macros


def _file(macros: Macros, function: str, body: str) -> str:
    name, suffix = body, ""
    if function == "BASENAME" and "," in body:
        name, _, suffix = body.rpartition(",")
    value = macros.value(name)
    path = macros.expand_but_dollars(name) if value is None else value
    part = shared.part_of_path(path, function, macros.environment.get("PWD", ""))
    suffix = suffix.lstrip()
    return part[: -len(suffix)] if suffix and part.lower().endswith(suffix.lower()) else part


def _eval(macros: Macros, function: str, body: str) -> str:
    value = macros.lookup(body)
    text = body if value is None else value
    nothing = "$" not in text and shared.evaluated(text) is None
    return "" if nothing else shared.FUNCTIONS["EVAL"](macros, function, body)


def _substr(macros: Macros, function: str, body: str) -> str:
    name = body.partition(",")[0]
    return "" if macros.lookup(name) is None else shared.FUNCTIONS["SUBSTR"](macros, function, body)


FUNCTIONS: dict[str, Function] = {
    **shared.FUNCTIONS,
    "BASENAME": _file,
    "DIRNAME": _file,
    "EVAL": _eval,
    "F": _file,
    "SUBSTR": _substr,
}

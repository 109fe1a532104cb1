"""Warn of settings that nothing reads and whose name is almost that of a known one.

A name that any value mentions is not misspelled: it is a macro or an attribute of the owner's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from ..classad import Expression
from ..classad.syntax_errors import cause, fault
from ..classad.tree import Binary, children
from ..suggestions import NearMisses
from .config_errors import ConfigError
from .configuration import Configuration
from .param_info import is_expression, without_prefix
from .setting_values import Values
from .tables import defaults, without_default

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def misspelled(values: Values) -> Iterator[str]:
    """Yield a sentence for each setting of files and the environment that is probably misspelled."""
    written = {
        key: definition
        for key, definition in values.definitions.items()
        if values.source(key).kind in ("file", "environment")
    }
    names = {word.lower() for definition in values.definitions.values() for word in _WORD.findall(definition.value)}
    for key, definition in written.items():
        bare = without_prefix(key)
        if bare in names or key in names or _numberless(bare) in _known():
            continue
        near = similar_setting(bare)
        if near is not None:
            source = values.source(key)
            place = f"{source.file}:{source.line}: " if source.line else f"{source.file}: "
            yield f"{place}{definition.name}: no such setting; did you mean {near}?"


def similar_setting(name: str) -> str | None:
    """Return the setting that a name is a near miss of; None where there is none."""
    return _near_misses().suggested(_numberless(name))


def _numberless(name: str) -> str:
    return re.sub("[0-9]+", "n", name.lower())


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    chosen = [name.replace("<N>", "N") for name in without_default()]
    names = [name for name in chosen if "<" not in name]
    names += [default.name.rpartition(".")[2] for default in defaults().values()]
    return {_numberless(name): name for name in names}


@lru_cache(maxsize=1)
def _near_misses() -> NearMisses:
    return NearMisses(_known())


# Warn of policy expressions that are an error for every job: a START that starts none, a RANK that prefers none.

_OF_JOBS = ("system_periodic_", "system_on_", "submit_requirement_", "periodic_expr_")
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


def policy_errors(values: Values) -> Iterator[str]:
    """Yield a sentence for each configured policy expression that is an error for every job."""
    configuration = Configuration(values, ())
    for key, definition in values.definitions.items():
        source = values.source(key)
        of_jobs = key.startswith(_OF_JOBS) and not key.endswith(("_names", "_is_warning"))
        if source.kind == "detected" or not (is_expression(key) or of_jobs):
            continue
        try:
            expression = configuration.expression(key)
        except ConfigError:
            if of_jobs:
                continue  # who uses it says so
            raise
        culprit = None if expression is None else fault(expression)
        if expression is None or culprit is None:
            continue
        place = f"{source.file}:{source.line}: " if source.line else f"{source.file}: "
        hints = "".join(f". {hint}" for hint in _hints(expression, culprit))
        yield f"{place}{definition.name} is an error for every job: {cause(culprit)}{hints}"


def _hints(expression: Expression, culprit: Expression) -> Iterator[str]:
    """Yield fixes for the most common mistakes."""
    parts = list(_parts(expression))
    for part in parts:
        if isinstance(part, Binary) and part.op in _COMPARISONS and culprit in (part.left, part.right):
            if isinstance(culprit, Binary) and culprit.op in _COMPARISONS:
                yield "two comparisons are joined by &&"
            elif isinstance(culprit, Binary):
                yield f"{culprit.op} goes before {part.op}: put the comparison in parentheses"
            break
    if any(isinstance(part, Binary) and part.op == "^" for part in parts):
        yield "^ is exclusive or, and no power: write pow(10, 12), or 1e12"


def _parts(expression: Expression) -> Iterator[Expression]:
    yield expression
    for part in children(expression):
        yield from _parts(part)

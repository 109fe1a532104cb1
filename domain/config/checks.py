"""Warn of settings that nothing reads and whose names resemble a known setting.

A name that occurs in any value is not reported, because the administrator may use it as a macro or an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from ..classad import Expression
from ..classad.syntax_errors import explain_error, find_error
from ..classad.tree import Binary, children
from ..suggestions import NearMisses
from .config_errors import ConfigError
from .configuration import Configuration
from .param_info import is_expression, without_prefix
from .setting_values import SettingValues
from .tables import defaults, names_without_default

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def misspelling_warnings(values: SettingValues) -> Iterator[str]:
    """Yield a warning for each setting in the files or the environment whose name is probably misspelled."""
    user_definitions = {
        key: definition
        for key, definition in values.definitions.items()
        if values.source(key).kind in ("file", "environment")
    }
    names = {word.lower() for definition in values.definitions.values() for word in _WORD.findall(definition.value)}
    for key, definition in user_definitions.items():
        base_name = without_prefix(key)
        if base_name in names or key in names or _without_numbers(base_name) in _known_names():
            continue
        suggestion = similar_setting(base_name)
        if suggestion is not None:
            source = values.source(key)
            place = f"{source.file}:{source.line}: " if source.line else f"{source.file}: "
            yield f"{place}{definition.name}: no such setting; did you mean {suggestion}?"


def similar_setting(name: str) -> str | None:
    """Return the known setting whose name is most similar to a name, or None if no name is similar."""
    return _near_misses().suggested(_without_numbers(name))


def _without_numbers(name: str) -> str:
    return re.sub("[0-9]+", "n", name.lower())


@lru_cache(maxsize=1)
def _known_names() -> dict[str, str]:
    chosen = [name.replace("<N>", "N") for name in names_without_default()]
    names = [name for name in chosen if "<" not in name]
    names += [default.name.rpartition(".")[2] for default in defaults().values()]
    return {_without_numbers(name): name for name in names}


@lru_cache(maxsize=1)
def _near_misses() -> NearMisses:
    return NearMisses(_known_names())


# Warn of policy expressions that evaluate to error for every job, such as a START that therefore starts no job.

_JOB_POLICY_PREFIXES = ("system_periodic_", "system_on_", "submit_requirement_", "periodic_expr_")
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


def policy_error_warnings(values: SettingValues) -> Iterator[str]:
    """Yield a warning for each configured policy expression that evaluates to error for every job."""
    configuration = Configuration(values, ())
    for key, definition in values.definitions.items():
        source = values.source(key)
        is_job_policy = key.startswith(_JOB_POLICY_PREFIXES) and not key.endswith(("_names", "_is_warning"))
        if source.kind == "detected" or not (is_expression(key) or is_job_policy):
            continue
        try:
            expression = configuration.expression(key)
        except ConfigError:
            if is_job_policy:
                continue  # reported where the setting is used
            raise
        erroneous_part = None if expression is None else find_error(expression)
        if expression is None or erroneous_part is None:
            continue
        place = f"{source.file}:{source.line}: " if source.line else f"{source.file}: "
        hints = "".join(f". {hint}" for hint in _hints(expression, erroneous_part))
        yield f"{place}{definition.name} is an error for every job: {explain_error(erroneous_part)}{hints}"


def _hints(expression: Expression, erroneous_part: Expression) -> Iterator[str]:
    parts = list(_subexpressions(expression))
    for part in parts:
        if isinstance(part, Binary) and part.op in _COMPARISONS and erroneous_part in (part.left, part.right):
            if isinstance(erroneous_part, Binary) and erroneous_part.op in _COMPARISONS:
                yield "join two comparisons with &&"
            elif isinstance(erroneous_part, Binary):
                yield f"{erroneous_part.op} binds tighter than {part.op}: put the comparison in parentheses"
            break
    if any(isinstance(part, Binary) and part.op == "^" for part in parts):
        yield "^ is exclusive or, not a power: write pow(10, 12) or 1e12"


def _subexpressions(expression: Expression) -> Iterator[Expression]:
    yield expression
    for part in children(expression):
        yield from _subexpressions(part)

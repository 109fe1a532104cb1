"""Warn of settings that nothing reads and whose name is almost that of a known one.

A name that any value mentions is not misspelled: it is a macro or an attribute of the owner's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from ..suggestions import NearMisses
from .param_info import without_prefix
from .tables import defaults, without_default
from .values import Values

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def misspelled(values: Values) -> Iterator[str]:
    """Yield a sentence for each setting of files and the environment that is probably misspelled."""
    written = {
        key: one for key, one in values.definitions.items() if values.source(key).kind in ("file", "environment")
    }
    words = {word.lower() for one in values.definitions.values() for word in _WORD.findall(one.value)}
    for key, one in written.items():
        bare = without_prefix(key)
        if bare in words or key in words or _numberless(bare) in _known():
            continue
        near = similar_setting(bare)
        if near is not None:
            source = values.source(key)
            place = f"{source.file}:{source.line}: " if source.line else f"{source.file}: "
            yield f"{place}{one.name}: no such setting; did you mean {near}?"


def similar_setting(name: str) -> str | None:
    """Return the setting that a name is a near miss of; None where there is none."""
    return _near_misses().suggested(_numberless(name))


def _numberless(name: str) -> str:
    return re.sub("[0-9]+", "n", name.lower())


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    chosen = [name.replace("<N>", "N") for name in without_default()]
    names = [name for name in chosen if "<" not in name]
    names += [one.name.rpartition(".")[2] for one in defaults().values()]
    return {_numberless(name): name for name in names}


@lru_cache(maxsize=1)
def _near_misses() -> NearMisses:
    return NearMisses(_known())

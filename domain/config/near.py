"""Near misses: settings that nothing asks for and that are almost the name of one.

A name is near another if one letter too many, too few or wrong, or two that changed places, make the difference. A
name that any value mentions is no miss: it is a macro or an attribute of the owner's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from .names import without_prefix
from .tables import defaults, without_default
from .values import Values

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LEAST_LETTERS = 4


def misspelled(values: Values) -> Iterator[str]:
    """A sentence for each setting of files and the environment that is probably misspelled."""
    written = {
        key: one for key, one in values.definitions.items() if values.source(key).kind in ("file", "environment")
    }
    words = {word.lower() for one in values.definitions.values() for word in _WORD.findall(one.value)}
    for key, one in written.items():
        bare = without_prefix(key)
        if bare in words or key in words or _numberless(bare) in _known():
            continue
        near = nearest(bare)
        if near is not None:
            source = values.source(key)
            place = f"{source.file}:{source.line}: " if source.line else f"{source.file}: "
            yield f"{place}{one.name}: no such setting; did you mean {near}?"


def nearest(name: str) -> str | None:
    """The setting that a name is a near miss of; None where there is none."""
    if len(name) < LEAST_LETTERS - 1:  # KIL is KILL
        return None
    return next((known for part in _shortened(_numberless(name)) for known in _index().get(part, ())), None)


def _numberless(name: str) -> str:
    return re.sub("[0-9]+", "n", name.lower())


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    chosen = [name.replace("<N>", "N") for name in without_default()]
    names = [name for name in chosen if "<" not in name]
    names += [one.name.rpartition(".")[2] for one in defaults().values()]
    return {_numberless(name): name for name in names}


@lru_cache(maxsize=1)
def _index() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, name in _known().items():
        if len(key) >= LEAST_LETTERS:
            for part in _shortened(key):
                found.setdefault(part, []).append(name)
    return found


def _shortened(name: str) -> Iterator[str]:
    """The name, and the name without each of its letters in turn."""
    yield name
    for at in range(len(name)):
        yield name[:at] + name[at + 1 :]

"""Convert a pool's state to bytes and back, for its snapshot. Only instances of the state's own classes can be read."""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

from ...domain.state.agenda import Agendas
from ...domain.state.caches import ChangeLog
from ...domain.state.state import State
from ...domain.state_machines.dialects import Dialect, dialect_named

_CLASSES: Final = frozenset(f"poolbook.domain.{package}" for package in ("events", "names", "state", "state_machines"))
_OTHERS: Final = {
    ("array", "_array_reconstructor"),
    ("array", "array"),
    ("collections", "Counter"),
    (dialect_named.__module__, dialect_named.__name__),
}
"""The objects to which a snapshot may refer, in addition to the classes of these packages."""


class _Pickler(pickle.Pickler):
    """Pickles a state without its agendas and change logs, which are recomputed after a start."""

    dispatch_table = {  # noqa: RUF012 - the library's name
        Agendas: lambda agendas: (Agendas, ()),
        ChangeLog: lambda changes: (ChangeLog, ()),
        Dialect: lambda dialect: (dialect_named, (dialect.name,)),
    }


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return a class of the state, but nothing else that a module of the state has imported."""
        if (module, name) in _OTHERS:
            return super().find_class(module, name)
        if ".".join(module.split(".")[:3]) in _CLASSES:
            kind = super().find_class(module, name)
            if isinstance(kind, type) and kind.__module__ == module:
                return kind
        raise pickle.UnpicklingError(f"a snapshot cannot contain {module}.{name}")


def pickle_state(state: State) -> bytes:
    written = io.BytesIO()
    _Pickler(written, pickle.HIGHEST_PROTOCOL).dump(state)
    return written.getvalue()


def unpickle_state(content: bytes) -> object:
    """Return the state that `pickle_state` wrote. Raise `pickle.UnpicklingError`, or another error, for other bytes."""
    return _Unpickler(io.BytesIO(content)).load()

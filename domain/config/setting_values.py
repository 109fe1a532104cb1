"""Hold the definitions of a configuration, and find the value of a name: by the rules of ``macros.macros``, and beyond.

A daemon's own settings go before the others: ``X`` is ``LOCALNAME.X`` if that is set, else ``SUBSYSTEM.X``, else ``X``;
at each step a set value goes before a default. In its own definition a name stands for its value so far; within
``STARTD.X`` so does ``X``. A value that equals the default is not kept, unless the name was set before. Source: the
manual's page "Introduction to Configuration"; HTCondor's behaviour for the last rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..macros.functions import FUNCTIONS, by_text, drawing
from ..macros.macro_errors import MacroError
from ..macros.macros import Definition, Macro, Macros, macros_in
from .config_errors import DEFAULT, SettingSource
from .tables import defaults

# Beyond this a value is a mistake or an attack.
MAX_LENGTH = 4_000_000

_SLOT_PREFIX = re.compile(r"(?:[^.]*\.)?(slot(?:_type_)?[0-9]+_)")


class Values(Macros):
    """The values that files, templates, the environment and detection set so far, over the defaults.

    :param environment: for ``$ENV()``
    :param seed: for ``$RANDOM_INTEGER()`` and ``$RANDOM_CHOICE()``
    """

    def __init__(self, environment: Mapping[str, str], subsystem: str, local_name: str, seed: int) -> None:
        self.defaults = defaults()
        functions = {**FUNCTIONS, **drawing(by_text(seed))}
        super().__init__({key: default.value for key, default in self.defaults.items()}, functions, environment)
        self.sources: dict[str, SettingSource] = {}
        self._slot_prefixes: frozenset[str] | None = None
        self._prefixes = tuple(f"{name.lower()}." for name in (local_name, subsystem) if name)

    def put(self, name: str, value: str, source: SettingSource) -> None:
        """Set a name; raise MacroError for a value that is too long."""
        key = name.lower()
        if "$" in value:
            value = self._without(value, key)
        if len(value) > MAX_LENGTH:
            raise MacroError(f"{name} grows beyond {MAX_LENGTH // 1_000_000} million characters")
        default = self.defaults.get(key)
        if key in self.definitions or default is None or not _same(default.value, value):
            self.sources[key] = source
            self._slot_prefixes = None
            self.define(Definition(self.definitions[key].name if key in self.definitions else name, value))

    def _without(self, value: str, key: str) -> str:
        """Replace a value's references to its own name by the value so far."""
        own = {key} | {key.removeprefix(prefix) for prefix in self._prefixes}
        out, at = [], 0
        for macro in macros_in(value, self._function_names):
            if macro.body.lower() in own and (not macro.function or macro.function[0] == "F"):
                out += [value[at : macro.start], self._so_far(macro)]
                at = macro.end
        return "".join([*out, value[at:]])

    def _so_far(self, macro: Macro) -> str:
        if macro.function:
            return FUNCTIONS["F"](self, macro.function, macro.body)
        return self.lookup(macro.body) or macro.default or ""

    def resolved(self, name: str) -> str | None:
        """Return the key of a name's value, by the order of look-ups; None if there is no value."""
        key = name.lower()
        for candidate in (*(prefix + key for prefix in self._prefixes), key):
            if candidate in self.definitions or candidate in self.defaults:
                return candidate
        return None

    def slot_prefixes(self) -> frozenset[str]:
        """Return the lower-case prefixes of slots and slot types under which anything is set."""
        if self._slot_prefixes is None:
            matches = map(_SLOT_PREFIX.match, self.definitions)
            self._slot_prefixes = frozenset(match[1] for match in matches if match is not None)
        return self._slot_prefixes

    def source(self, key: str) -> SettingSource:
        return self.sources.get(key, DEFAULT)

    def spelled(self, key: str) -> str:
        """Return the name under a key, as it was written first."""
        return self.definitions[key].name if key in self.definitions else self.defaults[key].name

    def _lookup(self, key: str) -> str | None:
        definition = self.resolved(key)
        return None if definition is None else super()._lookup(definition)


def _same(default: str, value: str) -> bool:
    """Return whether a value is the default's; an empty default equals nothing."""
    if not default:
        return False
    return default == value or (default.lower() in ("true", "false") and default.lower() == value.lower())

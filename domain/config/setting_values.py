"""Store the definitions of a configuration, and look up values by the rules of ``macros.macros`` and the rules below.

A daemon's settings override general ones: ``X`` is ``LOCALNAME.X`` if that is set, else ``SUBSYSTEM.X``, else ``X``. At
each step, a defined value overrides a default. In its own definition, a name refers to its previous value, and so does
``X`` in the definition of ``STARTD.X``. A value that equals the default is not stored, unless the name was defined
before. Source: the manual's page "Introduction to Configuration"; HTCondor's behaviour for the last rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy

from ..macros.functions import FUNCTIONS, draw_by_text, random_functions
from ..macros.macro_errors import MacroError
from ..macros.macros import Definition, Macro, Macros, macros_in
from .config_errors import DEFAULT, SettingSource
from .tables import defaults

# Only mistakes and attacks exceed this limit.
MAX_LENGTH = 4_000_000

_SLOT_PREFIX = re.compile(r"(?:[^.]*\.)?(slot(?:_type_)?[0-9]+_)")


class SettingValues(Macros):
    """The values set by files, templates, the environment and detection, and the defaults.

    :param environment: the environment variables that ``$ENV()`` reads
    :param seed: determines the results of ``$RANDOM_INTEGER()`` and ``$RANDOM_CHOICE()``
    """

    def __init__(self, environment: Mapping[str, str], subsystem: str, local_name: str, seed: int) -> None:
        self.defaults = defaults()
        functions = {**FUNCTIONS, **random_functions(draw_by_text(seed))}
        super().__init__({key: default.value for key, default in self.defaults.items()}, functions, environment)
        self.sources: dict[str, SettingSource] = {}
        self.assigned: set[str] = set()  #: the keys that were assigned, also those assigned the default
        self._slot_prefixes: frozenset[str] | None = None
        self._prefixes = tuple(f"{name.lower()}." for name in (local_name, subsystem) if name)

    def as_local(self, name: str) -> SettingValues:
        """Return the values for the daemon with this local name: macros in them also read NAME.X instead of X."""
        values = copy(self)
        values._prefixes, values._expanded = (f"{name.lower()}.", *self._prefixes), {}
        return values

    def set_value(self, name: str, value: str, source: SettingSource) -> None:
        """Define a name; raise MacroError if its value is too long."""
        key = name.lower()
        if "$" in value:
            value = self._replace_own_names(value, key)
        if len(value) > MAX_LENGTH:
            raise MacroError(f"{name} grows beyond {MAX_LENGTH // 1_000_000} million characters")
        self.assigned.add(key)
        default = self.defaults.get(key)
        if key in self.definitions or default is None or not _equals_default(default.value, value):
            self.sources[key] = source
            self._slot_prefixes = None
            self.define(Definition(self.definitions[key].name if key in self.definitions else name, value))

    def _replace_own_names(self, value: str, key: str) -> str:
        own_names = {key} | {key.removeprefix(prefix) for prefix in self._prefixes}
        parts, position = [], 0
        for macro in macros_in(value, self._function_names):
            if macro.body.lower() in own_names and (not macro.function or macro.function[0] == "F"):
                parts += [value[position : macro.start], self._current_value(macro)]
                position = macro.end
        return "".join([*parts, value[position:]])

    def _current_value(self, macro: Macro) -> str:
        if macro.function:
            return FUNCTIONS["F"](self, macro.function, macro.body)
        return self.lookup(macro.body) or macro.default or ""

    def key_of(self, name: str) -> str | None:
        """Return the first key, in look-up order, that has a value for a name, or None if no key has a value."""
        key = name.lower()
        for candidate in (*(prefix + key for prefix in self._prefixes), key):
            if candidate in self.definitions or candidate in self.defaults:
                return candidate
        return None

    def slot_prefixes(self) -> frozenset[str]:
        """Return the lower-case prefixes of slots and slot types that have settings."""
        if self._slot_prefixes is None:
            matches = map(_SLOT_PREFIX.match, self.definitions)
            self._slot_prefixes = frozenset(match[1] for match in matches if match is not None)
        return self._slot_prefixes

    def source(self, key: str) -> SettingSource:
        return self.sources.get(key, DEFAULT)

    def original_name(self, key: str) -> str:
        """Return the original spelling of the name that has this key."""
        return self.definitions[key].name if key in self.definitions else self.defaults[key].name

    def _lookup(self, key: str) -> str | None:
        definition = self.key_of(key)
        return None if definition is None else super()._lookup(definition)


def _equals_default(default: str, value: str) -> bool:
    """Check whether a value equals a default that is not empty."""
    if not default:
        return False
    return default == value or (default.lower() in ("true", "false") and default.lower() == value.lower())

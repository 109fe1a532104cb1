"""Define a configuration: settings by name, expanded and converted to numbers, booleans, durations and expressions.

Source: the manual's page "Configuration Macros", and HTCondor's behaviour for conversions to numbers and booleans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..classad import ClassAdSyntaxError, Expression
from ..classad.syntax import parse_old_value
from ..macros.functions import evaluate_integer, evaluate_text
from ..macros.macro_errors import MacroError
from ..settings_classes import values
from .config_errors import ConfigError, SettingSource
from .param_info import RANGES, is_expression
from .setting_values import SettingValues
from .tables import defaults
from .unsupported_settings import UnsupportedSetting, describe_unenforced, unsupported_settings

if TYPE_CHECKING:
    from attrs import AttrsInstance

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class Configuration:
    """An immutable set of settings with case-insensitive names. ``warnings`` are messages for the user."""

    def __init__(
        self,
        values: SettingValues,
        warnings: Sequence[str],
        prefixes: tuple[str, ...] = (),
        read_file: Callable[[str], str] | None = None,
    ) -> None:
        self._values = values
        self._read_file = read_file
        self.warnings = list(warnings)
        self._prefixes = prefixes
        self._keys: dict[str, str | None] = {}
        self._expanded: dict[str, str] = {}
        self._expressions: dict[str, Expression | None] = {}

    def as_local(self, name: str) -> Configuration:
        """Return the settings of the daemon with this local name. For this daemon, NAME.X overrides X."""
        return Configuration(self._values.as_local(name), self.warnings, (f"{name.lower()}.", *self._prefixes))

    def of_daemon(self, name: str) -> Configuration:
        """Return the settings of an additional daemon in DAEMON_LIST; raise ConfigError for invalid arguments."""
        return self.as_local(self.local_name(name))

    def local_name(self, name: str) -> str:
        """Return the local name of an additional daemon in DAEMON_LIST, which is in its arguments. Without arguments,
        the master passes the daemon's name.

        :raises ConfigError: if it has other arguments
        """
        args = self.get(f"{name}_ARGS").split()
        if args and (len(args) != 2 or args[0] not in ("-local-name", "-localname")):
            text = f"{name}_ARGS = {' '.join(args)}: only -local-name NAME is implemented"
            raise self.error(f"{name}_ARGS", text)
        return args[1] if args else name

    def _key(self, name: str) -> str | None:
        if name not in self._keys:
            prefixes = reversed(self._prefixes) if is_expression(name) else self._prefixes
            candidates = (*(prefix + name for prefix in prefixes), name)
            keys = (self._values.key_of(candidate) for candidate in candidates)
            self._keys[name] = next((key for key in keys if key is not None), None)
        return self._keys[name]

    def get(self, name: str, default: str = "") -> str:
        """Return the expanded value of a setting, or ``default`` if it is empty; raise ConfigError if that fails."""
        key = self._key(name)
        if key is None:
            return default
        value = self._expanded.get(key)
        if value is None:
            try:
                value = self._values.value(key) or ""
            except MacroError as error:
                raise self._error(name, error.message) from None
            self._expanded[key] = value
        return value or default

    def expand_text(self, text: str) -> str:
        """Return a text with its macros expanded by this configuration; raise ConfigError if that fails."""
        try:
            return self._values.expand(text)
        except MacroError as error:
            raise ConfigError(error.message) from None

    def raw_value(self, name: str) -> str | None:
        """Return the unexpanded value of a setting, or None if it has no value."""
        key = self._key(name)
        return None if key is None else self._values.lookup(key)

    def is_defined(self, name: str) -> bool:
        """Check whether a setting has a nonempty value, like ``if defined NAME``."""
        return bool(self.raw_value(name))

    def is_assigned(self, name: str) -> bool:
        """Check whether a setting was assigned a value, even if that is HTCondor's default."""
        return (self._key(name) or name.lower()) in self._values.assigned

    def assigned_names(self) -> list[str]:
        """Return the names that were assigned a value, even if that is HTCondor's default, sorted."""
        return sorted(self._values.original_name(key) for key in self._values.assigned)

    def source(self, name: str) -> SettingSource:
        """Return the source of a setting's value; ``<Default>`` if the setting has no value."""
        key = self._key(name)
        return self._values.source(name.lower() if key is None else key)

    def error(self, name: str, message: str) -> ConfigError:
        """Return a ConfigError about a setting, with the file and line that set it."""
        source = self.source(name)
        return ConfigError(message, source.file, source.line)

    def original_name(self, name: str) -> str:
        """Return the original name of the setting that provides a value, for example SLOT1_START for START."""
        key = self._key(name)
        return name if key is None else self._values.original_name(key)

    def default(self, name: str) -> str | None:
        """Return HTCondor's default for a setting, unexpanded, or None if it has no default."""
        default = defaults().get(name.lower())
        return None if default is None else default.value

    def file(self, path: str) -> str:
        """Return the text of a file that a setting names; raise OSError if it cannot be read."""
        if self._read_file is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self._read_file(path)

    def _error(self, name: str, message: str) -> ConfigError:
        source = self.source(name)
        written = f" (use {source.template})" if source.template else ""
        return ConfigError(f"{self.original_name(name)}{written}: {message}", source.file, source.line)

    def expression(self, name: str) -> Expression | None:
        """Return a setting as a ClassAd expression, or None if it is empty; raise ConfigError if it is invalid."""
        key = self._key(name)
        if key is None:
            return None
        if key not in self._expressions:
            text = self.get(name)
            try:
                self._expressions[key] = parse_old_value(text, strict=True) if text else None
            except ClassAdSyntaxError as error:
                raise self._error(name, f"{text} is not an expression: {error}") from None
        return self._expressions[key]

    def integer(self, name: str, default: int) -> int:
        """Return a setting as an integer. Expressions such as ``10 * $(MINUTE)`` are evaluated, and reals truncated.

        If the setting is empty, return HTCondor's default, or ``default`` if HTCondor has none.

        :raises ConfigError: if the value is not a number, or out of range
        """
        text = self._number_text(name)
        if not text:
            return default
        match = re.fullmatch(r"\s*([+-]?[0-9]+)\s*", text)
        value = int(match[1]) if match else evaluate_integer(text)
        if value is None:
            raise self._error(name, f"{text} is not an integer; write an integer or an integer expression")
        return int(self._check_range(name, value))

    def seconds(self, name: str, default: int) -> int:
        """Return a setting as a duration in whole seconds."""
        return self.integer(name, default)

    def number(self, name: str, default: float) -> float:
        """Return a setting as a real number, by the rules of ``integer``."""
        text = self._number_text(name)
        if not text:
            return default
        value = evaluate_text(text)
        if not isinstance(value, (bool, int, float)):
            raise self._error(name, f"{text} is not a number; write a number or a numeric expression")
        return float(self._check_range(name, float(value)))

    def boolean(self, name: str, default: bool) -> bool:
        """Return a setting as a boolean (nonzero numbers are true); raise ConfigError for any other type."""
        text = self._number_text(name)
        if not text:
            return default
        if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        value = evaluate_text(text)
        if not isinstance(value, (bool, int, float)):
            raise self._error(name, f"{text} is neither true nor false; write one of them")
        return bool(value)

    def field_values(self, kind: type[AttrsInstance]) -> dict[str, Any]:
        """Return the values for the fields of a settings class: strings, integers and booleans."""
        readers: dict[type, Callable[..., Any]] = {str: self.get, int: self.integer, bool: self.boolean}
        return values(kind, lambda name, read, default: readers[read](name, default))

    def _number_text(self, name: str) -> str:
        text = self.get(name)
        if text:
            return text
        default = self.default(name)
        return self.expand_text(default) if default else ""

    def _check_range(self, name: str, value: float) -> float:
        lowest, highest = RANGES.get(name.upper(), (None, None))
        if (lowest is not None and value < lowest) or (highest is not None and value > highest):
            limits = f"at least {lowest}" if highest is None else f"from {lowest} to {highest}"
            raise self._error(name, f"{self.get(name)} is out of range; it must be {limits}")
        return value

    def for_slot(self, slot_id: int, type_id: int) -> Configuration:
        """Return the settings of a slot, for which SLOT<N>_X overrides SLOT_TYPE_<N>_X, which overrides X.

        For policy expressions, SLOT_TYPE_<N>_X overrides SLOT<N>_X, because HTCondor's startd ignores SLOT<N>_X then.
        As in HTCondor, ``$(X)`` in a value always refers to X.
        """
        prefixes = tuple(
            prefix for prefix in (f"slot{slot_id}_", f"slot_type_{type_id}_") if prefix in self._values.slot_prefixes()
        )
        if prefixes == self._prefixes:
            return self
        slot_configuration = Configuration(self._values, self.warnings, prefixes, self._read_file)
        slot_configuration._expanded = self._expanded
        slot_configuration._expressions = self._expressions
        return slot_configuration

    def names(self) -> list[str]:
        """Return the names that files, templates and the environment set, in the order of their first definitions."""
        sources = self._values.sources
        return [entry.name for key, entry in self._values.definitions.items() if sources[key].kind != "detected"]

    def all_names(self) -> list[str]:
        """Return all names that have a value, including defaults, sorted; with the daemon's prefix if it was used."""
        keys = dict.fromkeys(self._values.definitions)
        for key in self._values.defaults:
            if "." not in key:
                keys.setdefault(self._values.key_of(key) or key)
        return sorted((self._values.original_name(key) for key in keys), key=str.lower)

    def unsupported_settings(self) -> list[UnsupportedSetting]:
        """Return the user's settings that Poolbook does not implement, in the order of their definitions."""
        return unsupported_settings(self._values)

    def check_enforced(self, alternative: str) -> None:
        """Reject a configuration that restricts users in ways that Poolbook does not enforce (quotas, limits ...).

        :param alternative: tells the user how to continue in spite of these restrictions
        :raises ConfigError: if the configuration has such restrictions
        """
        unenforced = [setting for setting in self.unsupported_settings() if setting.unenforced]
        if unenforced:
            raise ConfigError(f"{describe_unenforced(unenforced)}. Leave them out, or {alternative}")

    def changed_names(self, other: Configuration) -> list[str]:
        """Return the names whose expanded values differ in another configuration, sorted."""
        names = {name.lower(): name for name in (*self.all_names(), *other.all_names())}
        return sorted(
            (name for name in names.values() if self._comparable_value(name) != other._comparable_value(name)),
            key=str.lower,
        )

    def _comparable_value(self, name: str) -> str:
        try:
            return self.get(name)
        except ConfigError:
            return self.raw_value(name) or ""

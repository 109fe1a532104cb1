"""Hold a configuration: settings by name, expanded, as numbers, truth values, times and expressions.

Source: the manual's page "Configuration Macros"; for conversions to numbers and truth values, HTCondor's behaviour.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..classad import ClassAdSyntaxError, Context, EvaluationError, Expression
from ..classad.syntax import parse_old_value
from ..macros.functions import whole_number
from ..macros.macro_errors import MacroError
from ..settings_classes import values
from .config_errors import ConfigError, SettingSource
from .param_info import RANGES, is_expression
from .setting_values import Values
from .tables import defaults
from .unsupported_settings import UnsupportedSetting, not_enforced, unsupported_settings

if TYPE_CHECKING:
    from attrs import AttrsInstance

_WORDS = {"true": True, "1": True, "false": False, "0": False}


class Configuration:
    """All settings in force; immutable. Names are compared without case, ``warnings`` are sentences for the user."""

    def __init__(
        self,
        values: Values,
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
        """Return the same settings as a daemon with this local name has them: NAME.X goes before X."""
        return Configuration(self._values, self.warnings, (f"{name.lower()}.", *self._prefixes))

    # -- by name -----------------------------------------------------------------------------------------------------

    def _key(self, name: str) -> str | None:
        """Return the key of a name's value; None where it has none."""
        if name not in self._keys:
            prefixes = reversed(self._prefixes) if is_expression(name) else self._prefixes
            candidates = (*(prefix + name for prefix in prefixes), name)
            keys = (self._values.resolved(candidate) for candidate in candidates)
            self._keys[name] = next((key for key in keys if key is not None), None)
        return self._keys[name]

    def get(self, name: str, default: str = "") -> str:
        """Return a setting's value, expanded, or ``default`` if it is empty; raise ConfigError if expansion fails."""
        key = self._key(name)
        if key is None:
            return default
        value = self._expanded.get(key)
        if value is None:
            try:
                value = self._values.value(key) or ""
            except MacroError as problem:
                raise self._error(name, problem.message) from None
            self._expanded[key] = value
        return value or default

    def expanded(self, text: str) -> str:
        """Return a text with its macros replaced by this configuration's values; raise ConfigError where that fails."""
        try:
            return self._values.expand(text)
        except MacroError as problem:
            raise ConfigError(problem.message) from None

    def raw(self, name: str) -> str | None:
        """Return a setting's value as it was written; None where there is none."""
        key = self._key(name)
        return None if key is None else self._values.lookup(key)

    def defined(self, name: str) -> bool:
        """Return whether a setting has a value that is not empty, as ``if defined NAME`` asks."""
        return bool(self.raw(name))

    def source(self, name: str) -> SettingSource:
        """Return where a setting's value comes from; ``<Default>`` also for a name that has none."""
        key = self._key(name)
        return self._values.source(name.lower() if key is None else key)

    def error(self, name: str, problem: str) -> ConfigError:
        """Return the error that a setting is wrong, with where it is set."""
        source = self.source(name)
        return ConfigError(problem, source.file, source.line)

    def spelled(self, name: str) -> str:
        """Return the name under which a setting's value was found, as it was written: SLOT1_START for START."""
        key = self._key(name)
        return name if key is None else self._values.spelled(key)

    def default(self, name: str) -> str | None:
        """Return HTCondor's default, raw; None where there is none."""
        default = defaults().get(name.lower())
        return None if default is None else default.value

    def file(self, path: str) -> str:
        """Return the text of a file that a setting names; raise OSError where it cannot be read."""
        if self._read_file is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self._read_file(path)

    def _error(self, name: str, message: str) -> ConfigError:
        source = self.source(name)
        written = f" (use {source.template})" if source.template else ""
        return ConfigError(f"{self.spelled(name)}{written}: {message}", source.file, source.line)

    # -- by kind -----------------------------------------------------------------------------------------------------

    def expression(self, name: str) -> Expression | None:
        """Return a setting as a ClassAd expression, None where it is empty; raise ConfigError where it is none."""
        key = self._key(name)
        if key is None:
            return None
        if key not in self._expressions:
            text = self.get(name)
            try:
                self._expressions[key] = parse_old_value(text, strict=True) if text else None
            except ClassAdSyntaxError as problem:
                raise self._error(name, f"{text} is no expression: {problem}") from None
        return self._expressions[key]

    def integer(self, name: str, default: int) -> int:
        """Return a setting as a whole number; expressions such as ``10 * $(MINUTE)`` are evaluated, reals cut.

        Where it is empty, HTCondor's default applies, and ``default`` where there is none.

        :raises ConfigError: the value is not a number, or outside of the setting's range
        """
        text = self._number_text(name)
        if not text:
            return default
        match = re.fullmatch(r"\s*([+-]?[0-9]+)\s*", text)
        value = int(match[1]) if match else whole_number(text)
        if value is None:
            raise self._error(name, f"{text} is no whole number; write one, or an expression that gives one")
        return int(self._ranged(name, value))

    def seconds(self, name: str, default: int) -> int:
        """Return a setting as a length of time in whole seconds."""
        return self.integer(name, default)

    def number(self, name: str, default: float) -> float:
        """Return a setting as a real number, by the same rules as ``integer``."""
        text = self._number_text(name)
        if not text:
            return default
        value = _evaluated(text)
        if not isinstance(value, (bool, int, float)):
            raise self._error(name, f"{text} is no number; write one, or an expression that gives one")
        return float(self._ranged(name, float(value)))

    def boolean(self, name: str, default: bool) -> bool:
        """Return a setting as a truth value, numbers but 0 being true; raise ConfigError for what is neither."""
        text = self._number_text(name)
        if not text:
            return default
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        value = _evaluated(text)
        if not isinstance(value, (bool, int, float)):
            raise self._error(name, f"{text} is neither true nor false; write one of them")
        return bool(value)

    def values_of(self, kind: type[AttrsInstance]) -> dict[str, Any]:
        """Return the values of a class's fields that are settings: texts, whole numbers and truth values."""
        readers: dict[type, Callable[..., Any]] = {str: self.get, int: self.integer, bool: self.boolean}
        return values(kind, lambda name, read, default: readers[read](name, default))

    def _number_text(self, name: str) -> str:
        text = self.get(name)
        if text:
            return text
        default = self.default(name)
        return self.expanded(default) if default else ""

    def _ranged(self, name: str, value: float) -> float:
        least, most = RANGES.get(name.upper(), (None, None))
        if (least is not None and value < least) or (most is not None and value > most):
            limits = f"at least {least}" if most is None else f"from {least} to {most}"
            raise self._error(name, f"{self.get(name)} is out of range; it must be {limits}")
        return value

    # -- as a whole --------------------------------------------------------------------------------------------------

    def for_slot(self, slot_id: int, type_id: int) -> Configuration:
        """Return the settings of one slot: SLOT<N>_X goes before SLOT_TYPE_<N>_X, and that before X.

        For a policy expression the type's goes first, since a real startd has none of single slots. Within a value,
        ``$(X)`` is X, as in HTCondor.
        """
        prefixes = tuple(
            prefix for prefix in (f"slot{slot_id}_", f"slot_type_{type_id}_") if prefix in self._values.slot_prefixes()
        )
        if prefixes == self._prefixes:
            return self
        view = Configuration(self._values, self.warnings, prefixes, self._read_file)
        view._expanded = self._expanded
        view._expressions = self._expressions
        return view

    def names(self) -> list[str]:
        """Return the names that files, templates and the environment set, in the order in which each was set first."""
        sources = self._values.sources
        return [
            definition.name for key, definition in self._values.definitions.items() if sources[key].kind != "detected"
        ]

    def all_names(self) -> list[str]:
        """Return all names that have a value, defaults too, sorted; as the daemon's own if it has one."""
        keys = dict.fromkeys(self._values.definitions)
        for key in self._values.defaults:
            if "." not in key:
                keys.setdefault(self._values.resolved(key) or key)
        return sorted((self._values.spelled(key) for key in keys), key=str.lower)

    def unsupported_settings(self) -> list[UnsupportedSetting]:
        """Return what a person set and Poolbook does not follow, in the order in which it was written."""
        return unsupported_settings(self._values)

    def check_enforced(self, way_out: str) -> None:
        """Refuse a configuration that would keep out what Poolbook lets in: job transforms, quotas, limits ...

        :raises ConfigError: where it would; ``way_out`` says how to continue in spite of it
        """
        unenforced = [setting for setting in self.unsupported_settings() if setting.unenforced]
        if unenforced:
            raise ConfigError(f"{not_enforced(unenforced)}. Leave them out, or {way_out}")

    def changed(self, other: Configuration) -> list[str]:
        """Return the names whose expanded values differ in another configuration, sorted."""
        names = {name.lower(): name for name in (*self.all_names(), *other.all_names())}
        return sorted((name for name in names.values() if self._told(name) != other._told(name)), key=str.lower)

    def _told(self, name: str) -> str:
        try:
            return self.get(name)
        except ConfigError:
            return self.raw(name) or ""


def _evaluated(text: str) -> object:
    try:
        return parse_old_value(text, strict=True).evaluate(context=Context())
    except (ClassAdSyntaxError, EvaluationError):
        return None

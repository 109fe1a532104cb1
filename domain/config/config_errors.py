"""Define a configuration's error and warning, and the source of a setting."""

from __future__ import annotations

from attrs import frozen

from ..errors import PoolbookError


class ConfigError(PoolbookError, ValueError):
    """A configuration is refused: the fault, the rule that it breaks and the way out.

    :ivar file: the file at fault; empty where none is
    :ivar line: the number of its line, from 1; 0 where no one line is
    """

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        place = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(place + message)
        self.message = message
        self.file = file
        self.line = line


class ConfigWarning(UserWarning):
    """Part of a configuration has no effect, or perhaps an unintended one; the configuration is taken."""


@frozen
class SettingSource:
    """The place where the value of a setting was written."""

    file: str  #: the file's name as it was given; ``<Default>``, ``<Detected>`` or ``<Environment>`` elsewhere
    line: int = 0  #: the number of the line, from 1, on which the value ends; 0 outside of files
    kind: str = "file"  #: ``file``, ``template``, ``environment``, ``detected`` or ``default``
    template: str = ""  #: within one its name and the number of its line from 0, as in ``POLICY:DESKTOP+10``
    used: str = ""  #: within a template the name of the one that the file's line uses, which may use others

    def __str__(self) -> str:
        """Return the source as condor_config_val names it."""
        if self.kind not in ("file", "template"):
            return self.file
        return f"{self.file}, line {self.line}" + (f", use {self.template}" if self.template else "")


DEFAULT = SettingSource("<Default>", kind="default")
DETECTED = SettingSource("<Detected>", kind="detected")
ENVIRONMENT = SettingSource("<Environment>", kind="environment")

"""Define the error and the warning of configurations, and the source of a setting."""

from __future__ import annotations

from attrs import frozen

from ..errors import PoolbookError


class ConfigError(PoolbookError, ValueError):
    """A configuration is invalid. The message says what is wrong, the rule and the fix.

    :ivar file: the file at fault, or empty
    :ivar line: the number of its line, from 1, or 0
    """

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        place = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(place + message)
        self.message = message
        self.file = file
        self.line = line


class ConfigWarning(UserWarning):
    """Part of an accepted configuration has no effect, or possibly an unintended one."""


@frozen
class SettingSource:
    """Where the value of a setting is defined."""

    file: str  #: the name of the file, or ``<Default>``, ``<Detected>`` or ``<Environment>``
    line: int = 0  #: the number of the value's last line, from 1; 0 if it is not in a file
    kind: str = "file"  #: ``file``, ``template``, ``environment``, ``detected`` or ``default``
    template: str = ""  #: in a template its name and the number of the line from 0, as in ``POLICY:DESKTOP+10``
    used: str = ""  #: in a template the name of the template that the file uses, which may use others

    def __str__(self) -> str:
        """Return the source as condor_config_val prints it."""
        if self.kind not in ("file", "template"):
            return self.file
        return f"{self.file}, line {self.line}" + (f", use {self.template}" if self.template else "")


DEFAULT = SettingSource("<Default>", kind="default")
DETECTED = SettingSource("<Detected>", kind="detected")
ENVIRONMENT = SettingSource("<Environment>", kind="environment")

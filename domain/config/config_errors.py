"""The error and the warning about configurations, and the source of a setting."""

from __future__ import annotations

from attrs import frozen

from ..errors import PoolbookError


class ConfigError(PoolbookError, ValueError):
    """A configuration is invalid. The message names the problem, the rule and the fix.

    >>> pool.configure("START = Cpus >")
    Traceback (most recent call last):
    ConfigError: ...

    :ivar file: the file with the error, or empty if there is none
    :ivar line: the number of the line with the error, from 1, or 0 if no single line is wrong
    """

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        place = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(place + message)
        self.message = message
        self.file = file
        self.line = line


class ConfigWarning(UserWarning):
    """A setting has no effect, or probably not the intended one. The configuration is accepted.

    >>> warnings.simplefilter("error", ConfigWarning)  # raise an error instead
    """


@frozen
class SettingSource:
    """Where the value of a setting is defined."""

    file: str  #: the name of the file, or ``<Default>``, ``<Detected>`` or ``<Environment>``
    line: int = 0  #: the number of the value's last line, from 1, or 0 if the value is not from a file
    kind: str = "file"  #: ``file``, ``template``, ``environment``, ``detected`` or ``default``
    template: str = ""  #: for a template, its name and the line number from 0, as in ``POLICY:DESKTOP+10``
    used: str = ""  #: for a template, the name of the template that the file uses; that one may use others

    def __str__(self) -> str:
        """Return the source as condor_config_val prints it."""
        if self.kind not in ("file", "template"):
            return self.file
        return f"{self.file}, line {self.line}" + (f", use {self.template}" if self.template else "")


DEFAULT = SettingSource("<Default>", kind="default")
DETECTED = SettingSource("<Detected>", kind="detected")
ENVIRONMENT = SettingSource("<Environment>", kind="environment")

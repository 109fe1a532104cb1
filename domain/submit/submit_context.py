"""Hold, as values, all that a submission asks of the machine; and its errors and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import define, field

from ..macros.errors import MacroError
from ..state.settings import SUBMISSION


@define(kw_only=True)
class Facts:
    """The facts that condor_submit asks of the machine, its user and its configuration."""

    now: int  #: the time of submission, seconds since the epoch
    owner: str
    uid_domain: str
    filesystem_domain: str
    iwd: str  #: the absolute path of the user's working directory
    version: str  #: text of CondorVersion, as ``$CondorVersion: 25.14.1 ... $``
    platform: str  #: text of CondorPlatform
    arch: str = "X86_64"
    opsys: str = "LINUX"
    environment: Mapping[str, str] = field(factory=dict)  #: for ``$ENV()`` and ``getenv``
    submit_file: str = ""  #: JobSubmitFile and ``$(SUBMIT_FILE)``; empty where the description is no file
    cluster: int = 1
    settings: Mapping[str, str] = field(factory=dict)  #: those that differ from ``settings.SUBMISSION``, in capitals

    def setting(self, name: str) -> str:
        """Return a configuration entry; empty where it is not set."""
        value = self.settings.get(name)
        return SUBMISSION[name] if value is None else value


class Files(Protocol):
    """The view of the disk that a submission needs. Relative paths are relative to ``Facts.iwd``."""

    def read(self, path: str) -> str:
        """Return a file's text; raise OSError where it cannot be read."""

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        """Return the paths that match, sorted; a directory's ends in a slash.

        :param directories: True: only directories; False: no directories; None: both
        """

    def size(self, path: str) -> int | None:
        """Return the bytes of a file, or of all files below a directory; None where there is no such file."""


class SubmitWarning(UserWarning):
    """Part of a description has no effect, or perhaps an unintended one; the jobs are submitted."""


class SubmitError(MacroError):
    """A description cannot be submitted: the fault, the rule, and what to do."""

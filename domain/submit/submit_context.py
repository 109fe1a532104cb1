"""Hold, as values, all that a submission asks of the machine; and its errors and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from attrs import define, field

from ..macros import includes
from ..macros.errors import MacroError
from ..state.settings import NOT_EMPTY, SUBMISSION

STANDARD_INPUT: Final = "-"
"""What a description that was read from standard input has as its file's name."""


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
    submit_file: str = ""  #: JobSubmitFile and ``$(SUBMIT_FILE)``; empty or - where the description is no file
    cluster: int = 1
    seed: int = 0  #: decides what ``$RANDOM_INTEGER`` and ``$RANDOM_CHOICE`` draw
    settings: Mapping[str, str] = field(factory=dict)  #: those that differ from ``settings.SUBMISSION``, in capitals

    def setting(self, name: str) -> str:
        """Return a configuration entry; empty where it is not set."""
        value = self.settings.get(name)
        return SUBMISSION[name] if value is None or (not value and name in NOT_EMPTY) else value


class Files(includes.Files, Protocol):
    """The view of the disk, and of what programs print, that a submission needs. Relative paths are relative to
    ``Facts.iwd``. What must not be done for this description is refused by a MacroError."""

    def standard_input(self) -> str:
        """Return what stands on standard input; raise OSError where there is none."""

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        """Return the paths that match, sorted; a directory's ends in a slash.

        :param directories: True: only directories; False: no directories; None: both
        """

    def size(self, path: str) -> int | None:
        """Return the bytes of a file, or of all files below a directory; None where there is no such file."""


class NoFiles:
    """A disk of which nothing is known: every file is there, and empty. ``why``: why none can be read."""

    def __init__(self, why: str) -> None:
        self._why = why

    def read(self, path: str) -> str:
        raise OSError(self._why)

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        return []

    def size(self, path: str) -> int | None:
        return 0

    def run(self, command: str) -> str:
        raise OSError(self._why)

    def write(self, path: str, text: str) -> None:
        raise OSError(self._why)

    def standard_input(self) -> str:
        raise OSError(self._why)


class SubmitWarning(UserWarning):
    """Part of a description has no effect, or perhaps an unintended one; the jobs are submitted."""


class SubmitError(MacroError):
    """A description cannot be submitted: the fault, the rule, and what to do."""

"""What a submission asks of the world, handed in as values; and how it says no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import define, field

from ..macros.errors import MacroError
from ..state.settings import SUBMISSION


@define(kw_only=True)
class Facts:
    """What condor_submit would ask the machine, its user and its configuration.

    :param now: the time of submission, seconds since the epoch
    :param iwd: the absolute path of the directory in which the user stands
    :param version: text of CondorVersion, as ``$CondorVersion: 25.14.1 ... $``
    :param platform: text of CondorPlatform
    :param environment: for ``$ENV()`` and ``getenv``
    :param submit_file: JobSubmitFile and ``$(SUBMIT_FILE)``; empty where the description is no file
    :param settings: configuration that differs from ``settings.SUBMISSION``, under its name in capitals
    """

    now: int
    owner: str
    uid_domain: str
    filesystem_domain: str
    iwd: str
    version: str
    platform: str
    arch: str = "X86_64"
    opsys: str = "LINUX"
    environment: Mapping[str, str] = field(factory=dict)
    submit_file: str = ""
    cluster: int = 1
    settings: Mapping[str, str] = field(factory=dict)

    def setting(self, name: str) -> str:
        """A configuration entry; empty where it is not set."""
        value = self.settings.get(name)
        return SUBMISSION[name] if value is None else value


class Files(Protocol):
    """The view of the disk that a submission needs. Relative paths are relative to ``Facts.iwd``."""

    def read(self, path: str) -> str:
        """A file's text.

        :raises OSError: where it cannot be read
        """

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        """The paths that match, sorted; a directory's ends in a slash.

        :param directories: True: only directories; False: only what is none; None: both
        """

    def size(self, path: str) -> int | None:
        """Bytes of a file, or of all files below a directory; None where there is no such file."""


class SubmitWarning(UserWarning):
    """Something in a description has no effect, or another one than may be meant; the jobs are submitted."""


class SubmitError(MacroError):
    """A description cannot be submitted: what is wrong, by which rule, and what to do."""

"""What a submission asks of the world, handed in as values; and how it says no."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from attrs import define, field

from ..errors import PoolbookError

# The configuration that shapes a job's ad, with the defaults of the manual's page "Configuration Macros" (the entries
# of condor_submit, and JOB_DEFAULT_*). A pool passes what it sets differently as `Facts.settings`; an empty text
# unsets an entry.
DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "APPEND_RANK": "",
        "APPEND_RANK_VANILLA": "",
        "APPEND_REQUIREMENTS": "",
        "APPEND_REQ_VANILLA": "",
        "DEFAULT_JOB_MAX_RETRIES": "2",
        "DEFAULT_RANK": "",
        "DEFAULT_RANK_VANILLA": "",
        "DEFAULT_UNIVERSE": "vanilla",
        "ENABLE_DEPRECATION_WARNINGS": "true",
        "JOB_DEFAULT_LEASE_DURATION": "2400",
        "JOB_DEFAULT_NOTIFICATION": "NEVER",
        "JOB_DEFAULT_REQUESTCPUS": "1",
        "JOB_DEFAULT_REQUESTDISK": "MAX({1024, (TransferInputSizeMB+1) * 1.25}) * 1024",
        "JOB_DEFAULT_REQUESTGPUS": "",
        "JOB_DEFAULT_REQUESTMEMORY": "128",
        "NICE_USER_ACCOUNTING_GROUP_NAME": "nice-user",
        "SCHEDD_INTERVAL": "300",
        "SUBMIT_ALLOW_GETENV": "true",
        "SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES": "IF_NEEDED",
        "SUBMIT_PREVENT_MULTI_QUEUE": "false",
        "SUBMIT_REQUEST_MISSING_UNITS": "",
    }
)


@define(kw_only=True)
class Facts:
    """What condor_submit would ask the machine, its user and its configuration.

    :param now: the time of submission, seconds since the epoch
    :param iwd: the absolute path of the directory in which the user stands
    :param version: text of CondorVersion, as ``$CondorVersion: 25.14.1 ... $``
    :param platform: text of CondorPlatform
    :param environment: for ``$ENV()`` and ``getenv``
    :param submit_file: JobSubmitFile and ``$(SUBMIT_FILE)``; empty where the description is no file
    :param settings: configuration that differs from ``DEFAULTS``, under its name in capitals
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
        return DEFAULTS[name] if value is None else value


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


class SubmitError(PoolbookError):
    """A description cannot be submitted: what is wrong, by which rule, and what to do.

    :ivar line: the number of the description's line at fault, from 1; None where no one line is
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.message = message
        self.line = line

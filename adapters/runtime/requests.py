"""Requests to a pool: submit files, the terms of a submission, rejections.

This module imports little, because every command with a request loads it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...domain.state.state import State

Request = Mapping[str, Any]
LONGEST_DESCRIPTION = 256 << 10  #: maximum characters of a submit file, or bytes of a file in it, that a server reads


class SubmitTerms(NamedTuple):
    """The pool's data that a submission needs: the number of its cluster, and the settings that affect it
    (``pool_settings.submission_settings``)."""

    cluster: int
    settings: Mapping[str, str]

    @classmethod
    def from_state(cls, state: State, cluster: int) -> SubmitTerms:
        """Return the terms of a pool in this state."""
        from ...domain.state.pool_settings import submission_settings

        return cls(cluster, submission_settings(state.settings, state.dialect.setting_defaults))


class SubmitDescription(NamedTuple):
    """A submit file, and the user's environment that is needed to read it."""

    id: str
    text: str
    file: str  #: the submit file's name, as the user gave it
    folder: str  #: the directory, as an absolute path, to which relative paths refer
    macros: Mapping[str, str]  #: the macros defined on the command line
    append: Sequence[str]
    queue: str | None
    environment: Mapping[str, str]
    most_jobs: int = 0  #: reject a submission of more jobs; 0 and -1 mean no limit
    toggle_unused: bool = False  #: invert the setting that controls warnings about unused lines
    crlf_scripts: bool = False  #: warn about a script with DOS line endings, instead of rejecting it
    spool: bool = False  #: hold the jobs until their files are in the spool
    elsewhere: bool = False  #: the pool is on another machine
    view: Sequence[str] = ()  #: the `view_of_disk` of the directory

    def as_request(self) -> dict[str, Any]:
        """Return the request with this submit file."""
        return {"kind": "SubmitDescription", **self._asdict(), "view": view_of_disk(self.folder)}


class Submitted(NamedTuple):
    cluster: int
    jobs: int
    warnings: Sequence[str]  #: lines for the user
    parsed: Any = None  #: the ``Submission``, unless the server read the submit file
    warning: str = ""  #: the schedd's warnings: a heading, and the warnings on the lines below it
    factory: bool = False  #: whether the cluster creates its jobs gradually


NOT_FOUND, IMMUTABLE, SECURE, POLICY, NO_JOBS, DENIED = (
    "not found", "immutable", "secure", "policy", "no jobs", "permission denied",
)  # fmt: skip
"""Codes of rejections, in this order: the slot or machine is unknown; a job attribute is protected; the schedd's policy
rejects the submission, with condor_submit's message; the queue statements create no jobs; only
the pool's owner may do that."""


class RequestRefused(Exception):
    """The pool rejected the request. The message contains the reason and what would be accepted. ``warnings`` are about
    the submit file, ``code`` is the type of rejection, and ``tool`` is the HTCondor tool's message."""

    def __init__(self, text: str, warnings: Sequence[str] = (), code: str = "", tool: str = "") -> None:
        super().__init__(text)
        self.warnings, self.code, self.tool = warnings, code, tool

    def as_answer(self) -> dict[str, Any]:
        """Return the server's answer."""
        details = {"warnings": self.warnings, "code": self.code, "tool": self.tool}
        return {"refusal": str(self), **{name: value for name, value in details.items() if value}}


def view_of_disk(folder: str) -> list[str]:
    """Return the properties that must be equal for two processes of one user to read and write the same files: the
    umask, the groups, and the identity of the root directory and of `folder`. Unreadable properties are unequal."""
    try:
        with open("/proc/self/status") as status:
            rights = [line for line in status if line.startswith(("Umask:", "Gid:", "Groups:"))]
        return rights + [f"{place.st_dev}:{place.st_ino}" for place in map(os.stat, ("/", folder))]
    except OSError:
        return [new_id()]


def new_id() -> str:
    return f"{time.time_ns():x}-{os.urandom(4).hex()}"

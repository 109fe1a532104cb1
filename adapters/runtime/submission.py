"""From a user's submit description to a request: what the description asks of the disk and the machine is found
here."""

from __future__ import annotations

import base64
import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from ...domain.ports.stimuli import Submit
from ...domain.state.job_ad import quoted, unquoted
from ...domain.state.proc_ads import pack
from ...domain.state.settings import FILESYSTEM_DOMAIN, UID_DOMAIN, for_submissions
from ...domain.submit import Facts, Submission, SubmitError, from_mapping, parse_submit
from ..machine.host import CONDOR_VERSION, architecture, condor_platform, operating_system
from .commands import Terms
from .userlog.files import unwritable

UNWRITABLE_LOG = 22
"""HoldReasonCode of a job whose user log cannot be written."""


class DiskFiles:
    """The disk, as a submission made in `folder` sees it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: str) -> str:
        return (self._folder / path).read_text(encoding="utf-8", errors="surrogateescape")

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        found = []
        for path in sorted(glob.glob(pattern, root_dir=self._folder)):
            folder = (self._folder / path).is_dir()
            if directories is None or folder == directories:
                found.append(f"{path}/" if folder else path)
        return found

    def size(self, path: str) -> int | None:
        whole = self._folder / path
        try:
            if not whole.is_dir():
                return whole.stat().st_size
            return sum(
                os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(whole) for name in names
            )
        except OSError:
            return None


def configured() -> tuple[dict[str, str], list[str]]:
    """What the configuration of whoever submits (``configuration.load``) says to submissions, and its warnings.

    :raises ConfigError: it cannot be read
    """
    from ...domain.negotiator.pool_configuration import submissions
    from .configuration import config_files, environment_settings, load

    if not config_files() and not environment_settings():
        return {}, []
    configuration = load(subsystem="SUBMIT")
    return for_submissions(submissions(configuration)), configuration.warnings


def not_followed(own: Mapping[str, str], terms: Terms) -> list[str]:
    """What the configuration of whoever submits says otherwise than the pool's, which counts; in sentences."""
    return [
        f"{name} = {text} is not followed: by the configuration that this pool read last it is "
        f"{terms.settings[name] or 'empty'}; poolbook reconfig has a pool read its configuration again"
        for name, text in own.items()
        if terms.settings.get(name, text) != text
    ]


def submission_of(
    description: str | Mapping[str, object],
    *,
    user: str,
    folder: Path,
    terms: Terms,
    now: int,
    file: str = "",
    count: int = 1,
    macros: Mapping[str, str] | None = None,
    append: Sequence[str] = (),
    queue: str | None = None,
    own: Mapping[str, str] | None = None,
) -> Submission:
    """What a description, a text or a mapping of commands, asks for; relative paths in it are relative to `folder`.
    `own` are settings of whoever submits: they count where the pool's ``terms`` say nothing.

    :raises SubmitError: the description is wrong
    """
    facts = Facts(
        now=now,
        owner=user,
        uid_domain=terms.settings[UID_DOMAIN],
        filesystem_domain=terms.settings[FILESYSTEM_DOMAIN],
        iwd=str(folder.absolute()),
        version=CONDOR_VERSION,
        platform=condor_platform(),
        arch=architecture(),
        opsys=operating_system(),
        environment=os.environ,
        submit_file=file,
        cluster=terms.cluster,
        settings={**(own or {}), **terms.settings},
    )
    files = DiskFiles(folder)
    if isinstance(description, str):
        return parse_submit(description, facts, files, macros=macros, append=append, queue=queue)
    return from_mapping(description, facts, files, count=count)


def checked(parsed: Submission) -> Submission:
    """The submission, once the disk was asked what a submission is refused or held for.

    :raises SubmitError: the executable cannot be run
    """
    command = unquoted(parsed.ad.get("Cmd", ""))
    if command.startswith("/") and parsed.ad.get("JobUniverse") in ("5", "12"):
        _check_executable(command)
    path = unquoted(parsed.ad.get("UserLog", ""))
    reason = unwritable(path) if path else ""
    if not reason or parsed.ad.get("JobStatus") != "1":
        return parsed
    held = {
        "JobStatus": "5",
        "HoldReasonCode": str(UNWRITABLE_LOG),
        "HoldReasonSubCode": "0",
        "HoldReason": quoted(f"Failed to initialize user log to {path}: {reason}"),
    }
    return evolve(parsed, ad={**parsed.ad, **held})


def _check_executable(path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise SubmitError(f"Can't access executable file {path}: {error.strerror}") from None
    if not os.access(path, os.X_OK):
        raise SubmitError(f"Can't run executable file {path}: it is not executable; chmod +x makes it so")


def submit_request(parsed: Submission, id: str, user: str, cluster: int, file: str = "") -> Submit:
    """The request to submit what was parsed."""
    return Submit(id, user, cluster, parsed.ad, parsed.count, pack(parsed.columns), file)


def as_json(request: Submit) -> dict[str, Any]:
    """The request as it goes over a socket."""
    return {
        "kind": "Submit",
        "id": request.id,
        "user": request.user,
        "cluster": request.cluster,
        "ad": request.ad,
        "count": request.count,
        "columns": [base64.b64encode(chunk).decode() for chunk in request.columns],
        "file": request.file,
    }

"""Make a request of a user's submit description; look up on the disk and the machine what the description needs."""

from __future__ import annotations

import base64
import glob
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import evolve

from ...domain.ports.stimuli import Submit
from ...domain.state.job_ad import quoted, unquoted
from ...domain.state.proc_ads import pack
from ...domain.state.settings import FILESYSTEM_DOMAIN, UID_DOMAIN, for_submissions
from ...domain.submit import Facts, Submission, SubmitError, from_mapping, parse_submit
from ..machine.host import CONDOR_VERSION, architecture, condor_platform, operating_system, user_name
from .config_sources import config_files, environment_settings
from .requests import Refused, SubmitDescription, Terms
from .userlog.files import unwritable

if TYPE_CHECKING:
    from .configuration import Disk

UNWRITABLE_LOG = 22  #: HoldReasonCode of a job whose user log cannot be written


class DiskFiles:
    """The disk as seen by a submission made in `folder`."""

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


def not_followed(own: Mapping[str, str], terms: Terms) -> list[str]:
    """Return sentences on the submitter's own settings that are ignored because the pool's differ."""
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
    environment: Mapping[str, str] = os.environ,
    files: DiskFiles | None = None,
) -> Submission:
    """Parse a description, a text or a mapping of commands. Relative paths in it are relative to `folder`. `own` are
    the submitter's settings: they count where the pool's ``terms`` say nothing.

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
        environment=environment,
        submit_file=file,
        cluster=terms.cluster,
        settings={**(own or {}), **terms.settings},
    )
    disk = DiskFiles(folder) if files is None else files
    if isinstance(description, str):
        return parse_submit(description, facts, disk, macros=macros, append=append, queue=queue)
    return from_mapping(description, facts, disk, count=count)


def checked(parsed: Submission) -> Submission:
    """Check on the disk what a submission is refused or held for, and return the submission. Raise `SubmitError` if the
    executable cannot be run."""
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


class Reading:
    """What a submit file needs of its user's environment, looked up in this process."""

    def __init__(self, description: SubmitDescription) -> None:
        self.description = description
        self.folder = Path(description.folder)

    def files(self) -> DiskFiles:
        return DiskFiles(self.folder)

    def config_disk(self) -> Disk:
        from .configuration import Disk

        return Disk(self.folder)

    def configured(self) -> tuple[dict[str, str], list[str]]:
        """Return the submission settings of the user's own configuration, and its warnings. Raise `ConfigError` if it
        cannot be read."""
        environment = self.description.environment
        if not config_files((), environment, self.folder) and not environment_settings(environment):
            return {}, []
        from ...domain.negotiator.pool_configuration import submissions
        from .configuration import load

        configuration = load(environment=environment, subsystem="SUBMIT", disk=self.config_disk())
        return for_submissions(submissions(configuration)), configuration.warnings

    def parsed(self, terms: Terms, own: Mapping[str, str]) -> tuple[Submission, list[str]]:
        """Parse the submit file, and return its warnings, too. Files that it names need not exist. Raise `SubmitError`
        if the submit file is wrong."""
        said = self.description
        found = submission_of(
            said.text, user=user_name(), folder=self.folder, terms=terms, now=int(time.time()), file=said.file,
            macros=said.macros, append=said.append, queue=said.queue, own=own, environment=said.environment,
            files=self.files(),
        )  # fmt: skip
        return found, [f"WARNING: {warning}" for warning in (*found.warnings, *not_followed(own, terms))]

    def request(self, terms: Terms, own: Mapping[str, str]) -> ReadDescription:
        """Make the request that submits the jobs. Raise `SubmitError` if the submit file is wrong, `Refused` if the
        executable cannot be run."""
        parsed, warnings = self.parsed(terms, own)
        try:
            parsed = checked(parsed)
        except SubmitError as error:
            raise Refused(str(error), warnings) from None
        said = self.description
        return ReadDescription(submit_request(parsed, said.id, user_name(), terms.cluster, said.file), parsed, warnings)


class ReadDescription(NamedTuple):
    """A submit file that was read: the request that submits its jobs, and its warnings."""

    request: Submit
    parsed: Submission
    warnings: list[str]


def submit_request(parsed: Submission, id: str, user: str, cluster: int, file: str = "") -> Submit:
    return Submit(id, user, cluster, parsed.ad, parsed.count, pack(parsed.columns), file)


def as_json(request: Submit) -> dict[str, Any]:
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

"""Convert a user's submit description to a request, with the required information about the disk and the machine."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from ...domain.ports.stimuli import Submit
from ...domain.state.job_ad import quoted, unquoted
from ...domain.state.pool_settings import FILESYSTEM_DOMAIN, UID_DOMAIN, submission_settings
from ...domain.state.proc_ads import pack
from ...domain.submit import Submission, SubmitError, SubmitFacts, from_mapping, parse_submit
from ...domain.submit.submission import hold_for_spooling
from ..machine.host import CONDOR_VERSION, architecture, condor_platform, operating_system, user_name
from .config_sources import config_files, environment_settings
from .disk import Disk
from .requests import RequestRefused, SubmitDescription, SubmitTerms
from .userlog.files import why_unwritable

UNWRITABLE_LOG = 22  #: HoldReasonCode of a job whose user log cannot be written


def ignored_settings(settings: Mapping[str, str], terms: SubmitTerms) -> list[str]:
    """Return a message for each of the submitter's own settings that is ignored because the pool's setting differs."""
    return [
        f"{name} = {text} has no effect: the pool last read {terms.settings[name] or 'an empty value'}; `poolbook "
        f"reconfig` makes it read its configuration again"
        for name, text in settings.items()
        if terms.settings.get(name, text) != text
    ]


def submission_of(
    description: str | Mapping[str, object],
    *,
    user: str,
    disk: Disk,
    terms: SubmitTerms,
    now: int,
    file: str = "",
    count: int = 1,
    macros: Mapping[str, str] | None = None,
    append: Sequence[str] = (),
    queue: str | None = None,
    user_settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] = os.environ,
    seed: int = 0,
    toggle_unused: bool = False,
) -> Submission:
    """Parse a submit description, which is a text or a mapping of commands. Its relative paths are relative to the
    disk's folder. `user_settings` apply if the pool's ``terms`` do not contain a setting. `seed` determines
    ``$RANDOM_INTEGER`` and ``$RANDOM_CHOICE``. Raise `SubmitError` if the description is invalid."""
    facts = SubmitFacts(
        now=now,
        owner=user,
        uid_domain=terms.settings[UID_DOMAIN],
        filesystem_domain=terms.settings[FILESYSTEM_DOMAIN],
        iwd=str(disk.folder.absolute()),
        version=CONDOR_VERSION,
        platform=condor_platform(),
        arch=architecture(),
        opsys=operating_system(),
        environment=environment,
        submit_file=file,
        cluster=terms.cluster,
        seed=seed,
        settings={**(user_settings or {}), **terms.settings},
    )
    if isinstance(description, str):
        return parse_submit(
            description, facts, disk, macros=macros, append=append, queue=queue, toggle_unused=toggle_unused
        )
    return from_mapping(description, facts, disk, count=count)


def check_files(parsed: Submission, folder: Path, crlf_scripts: bool = False) -> Submission:
    """Check a submission's files on the disk. Return the submission and warnings. Raise `SubmitError` if an initial
    directory does not exist or cannot be entered, or an executable cannot be read, is empty, or is a script with DOS
    line ends, which no kernel runs (with `crlf_scripts` that is a warning). If the executable is not transferred, it is
    looked up where the job runs."""
    for initial in map(unquoted, dict.fromkeys(_each(parsed, "Iwd", '""'))):
        if not os.access(initial, os.F_OK | os.X_OK):
            raise SubmitError(f"No such directory: {initial}", tool=f"No such directory: {initial}")
    transfers_executable = "false" not in map(str.lower, _each(parsed, "TransferExecutable", "true"))
    for command in map(unquoted, dict.fromkeys(_each(parsed, "Cmd", '""'))):
        if transfers_executable and command.startswith("/") and "$$" not in command:
            name = command.removeprefix(f"{folder}/")
            wrong = _check_executable(command, name)
            if wrong and not crlf_scripts:
                way_out = f"you should probably run 'dos2unix {name}' -- or a similar tool -- before you resubmit."
                raise SubmitError(f"{wrong}.\nThis generally doesn't work, and {way_out}")
            parsed = structs.replace(parsed, warnings=[*parsed.warnings, wrong]) if wrong else parsed
    return parsed


def _each(parsed: Submission, attribute: str, default: str) -> list[str]:
    """Return an attribute's value in each job, or the value that all jobs share."""
    return parsed.columns.get(attribute) or [parsed.ad.get(attribute, default)]


def _without_log(parsed: Submission) -> Submission:
    """Remove the job event log, which an access point on another machine could not write here."""
    if "UserLog" not in parsed.ad and "UserLog" not in parsed.columns:
        return parsed
    warning = (
        "log is ignored: the access point is another machine, and writes no job event log here; `poolbook q` and "
        "`poolbook why` show what happens to the jobs"
    )
    ad = {name: value for name, value in parsed.ad.items() if name != "UserLog"}
    columns = {name: values for name, values in parsed.columns.items() if name != "UserLog"}
    return structs.replace(parsed, ad=ad, columns=columns, warnings=[*parsed.warnings, warning])


def _held_for_log(parsed: Submission) -> Submission:
    """Hold the jobs if their user log cannot be written."""
    path = unquoted(parsed.ad.get("UserLog", ""))
    reason = why_unwritable(path) if path else ""
    if not reason or parsed.ad.get("JobStatus") != "1":
        return parsed
    reasons = {
        "JobStatus": "5",
        "HoldReasonCode": str(UNWRITABLE_LOG),
        "HoldReasonSubCode": "0",
        "HoldReason": quoted(f"Failed to initialize user log to {path}: {reason}"),
    }
    return structs.replace(parsed, ad={**parsed.ad, **reasons})


def _check_executable(path: str, name: str) -> str:
    """Return a message if a script has DOS line ends, otherwise an empty string. Raise `SubmitError` if the file cannot
    be read, or is empty."""
    try:
        with open(path, "rb") as file:
            first = file.readline(_LONGEST_FIRST_LINE)
    except OSError as error:
        raise SubmitError(f"Can't access executable file {name}: {error.strerror}") from None
    if not first:
        raise SubmitError(f"Executable file {name} has zero length")
    crlf = first.startswith(b"#!") and first.endswith(b"\r\n")
    return f"Executable file {name} is a script with CRLF (DOS/Windows) line endings" if crlf else ""


_LONGEST_FIRST_LINE = 127
"""The number of bytes of a script's first line that the kernel reads."""


class Reading:
    """Reads a submit file in this process, with the user's environment.

    :param user: who submits; empty: this process's user
    :param checks_files: whether to check that the executables can be read
    """

    def __init__(
        self, description: SubmitDescription, disk: Disk | None = None, user: str = "", checks_files: bool = True
    ) -> None:
        self.description = description
        self.disk = disk or Disk(Path(description.folder))
        self._user, self._checks_files = user or user_name(), checks_files

    def user_settings(self) -> tuple[dict[str, str], list[str]]:
        """Return the submission settings in the user's own configuration, and its warnings. Raise `ConfigError` if it
        cannot be read."""
        environment = self.description.environment
        if not config_files((), environment, self.disk.folder) and not environment_settings(environment):
            return {}, []
        from ...domain.decide.pool_configuration import configured_submission_settings
        from .configuration import load

        configuration = load(environment=environment, subsystem="SUBMIT", disk=self.disk)
        return submission_settings(configured_submission_settings(configuration)), configuration.warnings

    def policy(self) -> dict[str, str]:
        """Return the pool's settings in the user's own configuration, or an empty dictionary if none of them is a
        schedd policy. Raise `ConfigError` if it cannot be read."""
        environment = self.description.environment
        if not config_files((), environment, self.disk.folder) and not environment_settings(environment):
            return {}
        from ...domain.decide.pool_configuration import configured_pool_settings
        from ...domain.state.pool_settings import schedd_kind
        from .configuration import load

        settings = configured_pool_settings(
            lambda daemon: load(environment=environment, subsystem=daemon, disk=self.disk)
        )
        return settings if any(schedd_kind(name) for name in settings) else {}

    def parse_with_terms(self, terms: SubmitTerms, settings: Mapping[str, str]) -> tuple[Submission, list[str]]:
        """Parse the submit file. Return the submission and its warnings. Files that it names need not exist. Raise
        `SubmitError` if the submit file is invalid."""
        source = self.description
        parsed = submission_of(
            source.text, user=self._user, disk=self.disk, terms=terms, now=int(time.time()), file=source.file,
            macros=source.macros, append=source.append, queue=source.queue, user_settings=settings,
            environment=source.environment, seed=int.from_bytes(os.urandom(8)), toggle_unused=source.toggle_unused,
        )  # fmt: skip
        if 0 < source.most_jobs < parsed.count:
            raise SubmitError(f"Number of submitted jobs would exceed -maxjobs ({source.most_jobs})")
        return parsed, [f"WARNING: {warning}" for warning in (*parsed.warnings, *ignored_settings(settings, terms))]

    def request(self, terms: SubmitTerms, settings: Mapping[str, str]) -> ReadDescription:
        """Return the request that submits the jobs. Raise `SubmitError` if the submit file is invalid, `RequestRefused`
        if the executable cannot be read."""
        parsed, warnings = self.parse_with_terms(terms, settings)
        try:
            warning_count = len(parsed.warnings)
            if self._checks_files:
                parsed = check_files(parsed, self.disk.folder, self.description.crlf_scripts)
            parsed = _without_log(parsed) if self.description.elsewhere else _held_for_log(parsed)
            parsed = hold_for_spooling(parsed) if self.description.spool else parsed
            warnings += [f"WARNING: {warning}" for warning in parsed.warnings[warning_count:]]
        except SubmitError as error:
            raise RequestRefused(str(error), warnings, error.code, error.tool) from None
        source = self.description
        request = submit_request(parsed, source.id, self._user, terms.cluster, source.file)
        return ReadDescription(request, parsed, warnings)


class ReadDescription(NamedTuple):
    """The result of reading a submit file, which is the request with its jobs, and the warnings."""

    request: Submit
    parsed: Submission
    warnings: list[str]


def submit_request(parsed: Submission, id: str, user: str, cluster: int, file: str = "") -> Submit:
    return Submit(id, user, cluster, parsed.ad, parsed.count, pack(parsed.columns), file, parsed.job_set)


def as_json(request: Submit) -> dict[str, Any]:
    columns = [base64.b64encode(chunk).decode() for chunk in request.columns]
    return {"kind": "Submit", **structs.asdict(request), "columns": columns}

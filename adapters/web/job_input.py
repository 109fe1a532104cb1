"""Receive the input files of jobs: from a tar archive or a form into the job's directory in the spool."""

from __future__ import annotations

import email.message
import io
import os
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Self

from msgspec import Struct

from ...domain.schedd.submitted_job import attribute_text
from ..https.requests import Rejected
from ..machine.execution.supervisor.plugins import scheme
from ..machine.spool import Spool
from ..runtime.activations import ReadAd
from ..runtime.job_users import files_account, rights_of
from ..runtime.spooled_files import changes_after_spooling
from ..stores.log_paths import log_paths
from .commands import job_results
from .endpoints import WRITE, Endpoint, Upload
from .job_actions import Job, check_result, parse_id
from .jobs import find_own_job
from .pool_access import Call

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

SPOOLING: Final = 16  #: HoldReasonCode of a job that waits for its files
_LARGEST: Final = 10 << 30
_LARGEST_FORM: Final = 100 << 20
_MOST_MEMBERS: Final = 100_000


class Received(Struct, frozen=True):
    """The files of a job have arrived."""

    message: str
    job_id: str


class Member(NamedTuple):
    """A file or directory (``data`` is None) that a client sends."""

    name: str
    mode: int
    data: IO[bytes] | None


def put_input(call: Call, job: Job, body: Upload) -> Received:
    """Send a job's input files, as a tar archive, and release the job.

    The archive has the executable, standard input and the files in `transfer_input_files`, under the names in the
    submit file or their last parts. Other members are ignored.
    """
    return _receive(call, job.id, _members_of_tar(body.file))


def post_input(call: Call, job: Job, body: Upload) -> Received:
    """Send a job's input files, as a form, and release the job.

    The field `executable` is the executable; all other fields are further files. The files' names are as for the tar
    archive.
    """
    return _receive(call, job.id, _members_of_form(body))


def _receive(call: Call, id: str, members: Iterator[Member]) -> Received:
    ad = find_own_job(call, id)
    if ad.eval("JobStatus") != 5 or ad.eval("HoldReasonCode") != SPOOLING:
        if needed_files(texts_of(ad)):
            raise Rejected(409, "not spooling", f"job {id} does not wait for its input: it has been sent already")
        return Received("The job needs no input files; the files were ignored", id)
    ignored = spool(call, parse_id(id), ad, members)
    request = {"kind": "ReleaseSpooled", "reason": "Data files spooled", "selection": {"jobs": [parse_id(id)]}}
    check_result("ReleaseSpooled", "release", id, job_results(call, request))
    note = f"; ignored, because the submit file does not name them: {', '.join(ignored[:10])}" if ignored else ""
    return Received(f"Job input files uploaded successfully{note}", id)


def texts_of(ad: ClassAd) -> dict[str, str]:
    return {name: attribute_text(ad, name) for name in ad}


def needed_files(texts: dict[str, str]) -> list[str]:
    """Return the names in a job's submit file of the files that the client sends."""
    read = ReadAd(texts)
    names = [name.strip() for name in read.text("TransferInput").split(",")]
    if read.value("TransferIn") is not False and read.text("In") != os.devnull:
        names.append(read.text("In"))
    command, folder = read.text("Cmd"), read.text("Iwd")
    if read.value("TransferExecutable") is not False and command.startswith(f"{folder}/"):
        names.append(command.removeprefix(f"{folder}/"))
    return [name for name in names if name and not scheme(name)]


def spool(call: Call, job: tuple[int, int], ad: ClassAd, members: Iterable[Member]) -> list[str]:
    """Store a job's files in its spool directory, and update the job. Return the names of members that the job does
    not need. Raise `ValueError` if a file is missing, or a name is invalid."""
    texts, owner = texts_of(ad), str(ad.eval("Owner"))
    place = Spool(log_paths(call.url).folder).path(*job, files_account(owner))
    with rights_of(owner):
        staging = f"{place}.tmp"
        shutil.rmtree(staging, ignore_errors=True)
        os.makedirs(staging, 0o700)
        try:
            ignored = _store(members, needed_files(texts), staging)
            shutil.rmtree(place, ignore_errors=True)
            os.rename(staging, place)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        changes = changes_after_spooling(place, texts)
    job_name = "{}.{}".format(*job)
    check_result("Edit", "edit", job_name, job_results(
        call, {"kind": "Edit", "selection": {"jobs": [job]}, "changes": changes}
    ))  # fmt: skip
    return ignored


_EXTENDED: Final = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip
_LONGEST_HEADER: Final = 4096  #: bytes of an extended header, such as one for a long name


def _store(members: Iterable[Member], needed: list[str], folder: str) -> list[str]:
    missing, ignored = set(needed), list[str]()
    for member in members:
        wanted = next((name for name in needed if _path_within(member.name, name) is not None), None)
        if wanted is None:
            ignored += [member.name] if member.data is not None else []
            continue
        missing.discard(wanted)
        path = os.path.join(folder, _path_within(member.name, wanted) or "")
        if member.data is None:
            os.makedirs(path, 0o700, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(path, "wb") as file:
            shutil.copyfileobj(member.data, file)
            os.fchmod(file.fileno(), stat.S_IMODE(member.mode) & 0o755 | 0o600)
    if missing:
        raise ValueError(f"the job needs {', '.join(sorted(missing)[:10])}, which was not sent; name files as in the "
                         "submit file")  # fmt: skip
    return ignored


def _path_within(name: str, wanted: str) -> str | None:
    """Return the path in the job's directory of a member that belongs to a needed file or directory, else None."""
    target = wanted.strip("/")
    base = os.path.basename(target)
    for prefix in (target, base):
        if name == prefix or name.startswith(f"{prefix}/"):
            rest = name[len(prefix) :].strip("/")
            return rest if wanted.endswith("/") else os.path.join(base, rest) if rest else base
    return None


def _checked_name(name: str) -> str:
    normal = os.path.normpath(name)
    if not name or "\0" in name or os.path.isabs(name) or normal.split("/")[0] in ("..", ""):
        raise ValueError(
            f"{name[:200]!r} is not the name of a file in the job's directory; use relative names without .."
        )
    return normal


class _LimitedHeader(tarfile.TarInfo):
    """A header of an archive. ``tarfile`` parses extended headers in quadratic time, and unpacks sparse files to their
    full size, so a small archive could stop the service or fill the disk."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        if info.type in _EXTENDED and info.size > _LONGEST_HEADER:
            raise ValueError(f"the archive has an extended header of {info.size} bytes; the limit is {_LONGEST_HEADER}")
        if info.size < 0:
            raise ValueError("the archive has a file of negative size")
        return info


def _members_of_tar(file: IO[bytes]) -> Iterator[Member]:
    try:
        with tarfile.open(fileobj=file, mode="r:", tarinfo=_LimitedHeader) as archive:
            count = size = 0
            for info in archive:
                name, count, size = _checked_name(info.name), count + 1, size + info.size
                if count > _MOST_MEMBERS or size > _LARGEST:
                    raise ValueError(
                        f"the archive has over {_MOST_MEMBERS} files or {_LARGEST} bytes, which is the limit"
                    )
                if not (info.isreg() or info.isdir()) or info.issparse():
                    kind = "is sparse" if info.issparse() else "is neither a file nor a directory"
                    raise ValueError(f"{info.name[:200]!r} {kind}; send only plain files and directories")
                yield Member(name, info.mode, archive.extractfile(info))
    except tarfile.ReadError as error:
        if file.seek(0, os.SEEK_END):
            raise ValueError(f"the body is not a tar archive: {error}") from None


def _members_of_form(upload: Upload) -> Iterator[Member]:
    header = email.message.Message()
    header["Content-Type"] = upload.media_type
    boundary = header.get_boundary()
    if header.get_content_type() != "multipart/form-data" or not boundary:
        raise Rejected(415, "type", "the body must have the type multipart/form-data, with a boundary")
    for part in (b"\r\n" + upload.file.read()).split(b"\r\n--" + boundary.encode())[1:-1]:
        head, blank, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        fields = email.message_from_bytes(head + b"\r\n\r\n")
        name = fields.get_filename()
        if not blank or name is None:
            raise ValueError("the form has a field without a file; each field must be a file with a name")
        is_program = fields.get_param("name", header="content-disposition") == "executable"
        yield Member(_checked_name(name), 0o755 if is_program else 0o644, io.BytesIO(data))


def _find_job(call: Call, job: Job) -> None:
    find_own_job(call, job.id)


ENDPOINTS: Final = (
    Endpoint(
        "PUT", "/jobs/{id}/input", put_input, WRITE, largest_body=_LARGEST, media_type="application/x-tar",
        check=_find_job,
    ),
    Endpoint(
        "POST", "/jobs/{id}/input/multipart", post_input, WRITE, largest_body=_LARGEST_FORM,
        media_type="multipart/form-data", check=_find_job,
    ),
)  # fmt: skip

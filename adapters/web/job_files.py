"""Read the files of jobs. Only a job's owner and the pool's administrators may do this; the owner's rights apply."""

from __future__ import annotations

import os
import re
import stat
import tarfile
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct

from ...domain.schedd.submitted_job import attribute_text
from ..machine.spool import Spool
from ..runtime.activations import ReadAd, remaps
from ..runtime.job_output import STREAM_ATTRIBUTES, output_files
from ..runtime.job_users import files_account, rights_of
from ..runtime.spooled_files import output_names
from ..stores.log_paths import log_paths
from .endpoints import WRITE, Content, Endpoint
from .job_actions import Job, JobId, parse_id
from .jobs import find_own_job
from .pool_access import Call
from .problems import NotFound

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

_PEEKED: Final = 64 << 10
_MOST_PEEKED: Final = 4 << 20
_LARGEST_LOG: Final = 1 << 20
_ENTRY: Final = re.compile(
    r"^(\d{3}) \((\d+)\.(\d+)\.(\d+)\) (\d\S*[ T]\d\d:\d\d:\d\d\S*) ([^\n]*)\n([\s\S]*?)^\.\.\.\n",
    re.ASCII | re.MULTILINE,
)
Offset = Annotated[int, Meta(ge=-1, le=2**62, description="where to start, in bytes; -1: so that the end is returned")]


class JobFile(Struct, frozen=True):
    id: JobId
    name: Annotated[str, Meta(description="the name of an output, relative to the job's directory")]


class Peek(Struct, frozen=True):
    id: JobId
    stream: Annotated[str, Meta(pattern="^(stdout|stderr|both)$", description="stdout, stderr or both")] = "both"
    stdout_offset: Offset = -1
    stderr_offset: Offset = -1
    max_bytes: Annotated[
        int, Meta(ge=1, le=2**62, description=f"the most bytes of a stream, at most {_MOST_PEEKED}")
    ] = _PEEKED


class PeekedStream(Struct, frozen=True):
    """A part of an output stream."""

    text: str
    offset: Annotated[int, Meta(description="where to start the next time")]


class Peeked(Struct, frozen=True, omit_defaults=True):
    """The output of a job. A stream that does not exist is missing."""

    stdout: PeekedStream | None = None
    stderr: PeekedStream | None = None


class LogEntry(Struct, frozen=True):
    """An entry of a job event log."""

    event_number: int
    event_time: Annotated[str, Meta(description="as in the log")]
    cluster_id: int
    proc_id: int
    sub_proc_id: int
    description: Annotated[str, Meta(description="the rest of its first line")]
    body: Annotated[str, Meta(description="its other lines")]


class JobLog(Struct, frozen=True, rename={"job_id": "jobId"}):
    """The entries about a job in its job event log."""

    job_id: str
    filename: str
    truncated: Annotated[bool, Meta(description=f"whether only the first {_LARGEST_LOG} bytes were read")]
    events: list[LogEntry]


def get_stdout(call: Call, job: Job) -> Content:
    """Return a job's standard output, even while it runs."""
    return _stream(call, job.id, "stdout")


def get_stderr(call: Call, job: Job) -> Content:
    """Return a job's standard error, even while it runs."""
    return _stream(call, job.id, "stderr")


def _stream(call: Call, id: str, stream: str) -> Content:
    file = _open_stream(call, id, stream)
    return Content(file, "text/plain; charset=utf-8")


def _open_stream(call: Call, id: str, stream: str) -> IO[bytes]:
    ad, job = find_own_job(call, id), parse_id(id)
    owner = str(ad.eval("Owner"))
    places = list(output_files(call.url, job, ad, call.queries.run(*job), stream))
    with rights_of(owner):
        path = next((place for place in places if place.is_file()), None)
        if path is not None:
            return _open(path)
    name = ad.eval(STREAM_ATTRIBUTES[stream])
    rule = f"it is in {name}, or not yet written" if isinstance(name, str) else "its submit file names no file for it"
    raise NotFound(f"job {id}: there is no {stream} here: {rule}")


def _open(path: Path) -> IO[bytes]:
    """Open a regular file; opening anything else could wait forever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotFound(f"{path.name} is not a file")
    return os.fdopen(descriptor, "rb")


def peek(call: Call, query: Peek) -> Peeked:
    """Return the end of a job's output, or its continuation, while it runs."""
    requested = [stream for stream in STREAM_ATTRIBUTES if query.stream in (stream, "both")]
    return Peeked(**{stream: _peeked(call, query, stream) for stream in requested})


def _peeked(call: Call, query: Peek, stream: str) -> PeekedStream | None:
    try:
        file = _open_stream(call, query.id, stream)
    except NotFound:
        return None
    with file:
        size, most = os.fstat(file.fileno()).st_size, min(query.max_bytes, _MOST_PEEKED)
        offset = query.stdout_offset if stream == "stdout" else query.stderr_offset
        file.seek(max(0, size - most) if offset < 0 else min(offset, size))
        data = file.read(most)
        return PeekedStream(data.decode(errors="replace"), file.tell())


def get_output(call: Call, job: Job) -> Content:
    """Return a job's outputs as a tar archive: the files that are transferred back, with output and error."""
    ad = find_own_job(call, job.id)
    owner = str(ad.eval("Owner"))
    archive = tempfile.TemporaryFile()  # noqa: SIM115 (the response closes it)
    with rights_of(owner), tarfile.open(fileobj=archive, mode="w") as tar:
        for name, path in _outputs(call, parse_id(job.id), ad).items():
            if os.path.lexists(path):
                tar.add(path, name)
    archive.seek(0)
    return Content(archive, "application/x-tar", f"job-{job.id}-output.tar")


def get_file(call: Call, query: JobFile) -> Content:
    """Return one output of a job, which may be in a directory that is an output."""
    ad = find_own_job(call, query.id)
    with rights_of(str(ad.eval("Owner"))):
        outputs = _outputs(call, parse_id(query.id), ad)
        first, _, rest = query.name.partition("/")
        name = query.name if query.name in outputs else first
        if name not in outputs:
            raise NotFound(f"{query.name[:200]!r} is not an output of job {query.id}: these are {', '.join(outputs)}")
        place = outputs[name]
        path = place if name == query.name else place / rest
        real, root = os.path.realpath(path), os.path.realpath(place)
        if not (real == root or real.startswith(f"{root}/")) or not os.path.isfile(real):
            raise NotFound(f"{query.name[:200]!r} is not a file in the outputs of job {query.id}")
        return Content(_open(Path(real)), "application/octet-stream", os.path.basename(path))


def _outputs(call: Call, job: tuple[int, int], ad: ClassAd) -> dict[str, Path]:
    """Return the paths of a job's outputs by name: in its spool directory, or where they are transferred to."""
    texts = {name: attribute_text(ad, name) for name in ad}
    read = ReadAd(texts)
    if "SUBMIT_Iwd" in ad:
        place = Path(Spool(log_paths(call.url).folder).path(*job, files_account(str(ad.eval("Owner")))))
        names = output_names(str(place), texts) if place.is_dir() else []
        return {name: place / name for name in names}
    folder, renamed = Path(read.text("Iwd")), remaps(read.text("TransferOutputRemaps"))
    names = [os.path.basename(name.strip().rstrip("/")) for name in read.text("TransferOutput").split(",")]
    named = {name: folder / renamed.get(name, name) for name in names if name and "://" not in renamed.get(name, "")}
    streams = [read.text(attribute) for attribute in STREAM_ATTRIBUTES.values()]
    return {**named, **{os.path.basename(name): folder / name for name in streams if name not in ("", os.devnull)}}


def get_job_log(call: Call, job: Job) -> JobLog:
    """Return the entries about a job in its job event log, the file that `log` in the submit file names."""
    ad = find_own_job(call, job.id)
    path = ad.eval("UserLog")
    if not isinstance(path, str):
        raise NotFound(f"job {job.id} has no job event log (`log = FILE`); GET /log has its events")
    with rights_of(str(ad.eval("Owner"))), _open(Path(str(ad.eval("Iwd"))) / path) as file:
        data = file.read(_LARGEST_LOG + 1)
    entries = [_log_entry(match) for match in _ENTRY.finditer(data[:_LARGEST_LOG].decode(errors="replace"))]
    own = [entry for entry in entries if (entry.cluster_id, entry.proc_id) == parse_id(job.id)]
    return JobLog(job.id, os.path.basename(path), len(data) > _LARGEST_LOG, own)


def _log_entry(match: re.Match[str]) -> LogEntry:
    number, cluster, proc, subproc = map(int, match.group(1, 2, 3, 4))
    time, description, body = match.group(5, 6, 7)
    return LogEntry(number, time, cluster, proc, subproc, description, body)


ENDPOINTS: Final = (
    Endpoint("GET", "/jobs/{id}/stdout", get_stdout, WRITE, is_live=True),
    Endpoint("GET", "/jobs/{id}/stderr", get_stderr, WRITE, is_live=True),
    Endpoint("GET", "/jobs/{id}/peek", peek, WRITE, is_live=True),
    Endpoint("GET", "/jobs/{id}/output", get_output, WRITE, is_live=True),
    Endpoint("GET", "/jobs/{id}/files/{name:path}", get_file, WRITE, is_live=True),
    Endpoint("GET", "/jobs/{id}/log", get_job_log, WRITE, is_live=True),
)

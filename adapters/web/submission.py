"""Submit jobs. As in golang-htcondor's HTTP service, the client sends the files: the jobs are held until
``PUT /jobs/{id}/input`` has sent them. With ``folder``, the files are in a directory of the service's machine."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

from msgspec import Meta, Struct

from ...projections.job_query import SelectedJobs
from ..runtime.disk import Disk
from ..runtime.job_users import rights_of
from ..runtime.pool_client import is_served
from ..runtime.queries import Queries
from ..runtime.requests import RequestRefused, SubmitDescription, SubmitTerms
from ..runtime.submit_request import Reading, as_json
from ..stores.log_paths import log_paths
from .endpoints import WRITE, Endpoint, NoParameters
from .job_input import SPOOLING, needed_files, spool, texts_of
from .pool_access import Call

_SEPARATOR: Final = "\x1f"  #: between an item's values: condor_submit's own
_STANDARD_INPUT: Final = "-"
_LARGEST: Final = 64 << 20
_MOST_RELEASED: Final = 1000  #: jobs of a submission that are released at once if they need no files
_MOST_IDS: Final = 100_000  #: job ids in an answer


class Submission(Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs to submit."""

    submit_file: Annotated[
        str, Meta(min_length=1, description="the text of a submit file", examples=["executable = /bin/true\nqueue"])
    ]
    itemdata: Annotated[
        list[dict[str, str]],
        Meta(description="submit jobs for each item, with these variables; the submit file has no queue statement"),
    ] = []
    count: Annotated[int, Meta(ge=1, description="the number of jobs for each item")] = 1
    folder: Annotated[
        str,
        Meta(description="the directory of the jobs' files on the service's machine, as an absolute path; "
             "empty: the client sends the files"),
    ] = ""  # fmt: skip
    spool: Annotated[
        bool, Meta(description="hold the jobs until their files have been sent, even if they need none")
    ] = False


class Submitted(Struct, frozen=True):
    """The jobs that were submitted."""

    cluster_id: int
    job_ids: Annotated[list[str], Meta(description=f"the jobs' ids, at most the first {_MOST_IDS}")]
    jobs: Annotated[int, Meta(description="the number of jobs")]
    warnings: Annotated[list[str], Meta(description="the warnings about the submit file")]
    needs_input: Annotated[bool, Meta(description="the jobs are held until `PUT /jobs/{id}/input` sends their files")]


class ClientFiles(Disk):
    """A client's directory, whose files this machine cannot read. Standard input contains the items."""

    def __init__(self, folder: Path, items: str) -> None:
        super().__init__(folder)
        self._items = items

    def read(self, path: str) -> NoReturn:
        raise OSError("the service does not read files for a submission; send items as itemdata, or set folder")

    def write(self, path: str, text: str) -> NoReturn:
        self.read(path)

    def run(self, command: str) -> NoReturn:
        self.read(command)

    def listing(self, path: str) -> list[str]:
        return []

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        return []

    def size(self, path: str) -> int | None:
        return 0

    def standard_input(self) -> str:
        return self._items


class ServerFiles(ClientFiles):
    """A directory of this machine, in which a submission may read files, but not run programs or write."""

    def read(self, path: str) -> str:  # type: ignore[override]
        return Disk.read(self, path)

    listing, glob, size = Disk.listing, Disk.glob, Disk.size


def submit_jobs(call: Call, parameters: NoParameters, body: Submission) -> Submitted:
    """Submit jobs: the text of a submit file, as for condor_submit.

    Without `folder`, input files, the executable and output are transferred: the jobs are held until their input has
    been sent with `PUT /jobs/{id}/input`, and `GET /jobs/{id}/output` returns their output.
    """
    if not is_served(call.url):
        raise RequestRefused("the pool is not running, so it accepts no jobs; start `poolbook serve`")
    if body.folder and not (os.path.isabs(body.folder) and os.path.normpath(body.folder) == body.folder.rstrip("/")):
        raise ValueError(f"folder: {body.folder[:200]!r} is not an absolute path without `..`, such as /home/ann/jobs")
    terms = SubmitTerms(**call.ask({"kind": "ReserveCluster"}))
    with rights_of(call.caller.user) if body.folder else nullcontext():
        read = _reading(call, body).request(terms, {})
    answer = call.ask(as_json(read.request))
    cluster, count = answer["cluster"], answer["count"]
    ids = [f"{cluster}.{proc}" for proc in range(min(count, _MOST_IDS))]
    needs_input = not body.folder and (body.spool or not _spool_nothing(call, cluster, count))
    return Submitted(cluster, ids, count, [*read.warnings, *filter(None, [answer.get("warning")])], needs_input)


def _spool_nothing(call: Call, cluster: int, count: int) -> bool:
    """Release jobs for which the client has no files to send. Return False if it has, or if they are many."""
    selection = SelectedJobs(((cluster, None),))
    with Queries(call.url) as queries:
        ads = [] if count > _MOST_RELEASED else list(queries.queue(selection).ads)
        if not ads or any(needed_files(texts_of(ad)) for ad in ads):
            return False
        for ad in (ad for ad in ads if ad.eval("HoldReasonCode") == SPOOLING):  # a repeated request finds none
            spool(call, (cluster, int(ad.eval("ProcId"))), ad, ())
    call.ask({"kind": "ReleaseSpooled", "reason": "No data files", "selection": {"clusters": [cluster]}})
    return True


def _reading(call: Call, body: Submission) -> Reading:
    names = list(body.itemdata[0]) if body.itemdata else []
    queue = f"{body.count} {','.join(names)} from {_STANDARD_INPUT}" if names else None
    folder = body.folder or str(log_paths(call.url).folder / "spool")
    files = ServerFiles if body.folder else ClientFiles
    description = SubmitDescription(
        id="", text=body.submit_file, file="", folder=folder, macros={}, append=[], queue=queue, environment={},
        spool=not body.folder, elsewhere=not body.folder,
    )  # fmt: skip
    disk = files(Path(folder), _items(body.itemdata, names))
    return Reading(description, disk, call.caller.user, checks_files=bool(body.folder))


def _items(items: list[dict[str, Any]], names: list[str]) -> str:
    """Return the items as the lines of a queue statement. Raise `ValueError` if an item is invalid."""
    for number, item in enumerate(items):
        if list(item) != names:
            raise ValueError(f"itemdata: item {number} must have the variables of the first item: {', '.join(names)}")
        if any(character in value for value in item.values() for character in f"\n\r{_SEPARATOR}\0"):
            raise ValueError(f"itemdata: item {number} has a value with a line feed or control character")
    return "".join(f"{_SEPARATOR.join(item.values())}\n" for item in items)


ENDPOINTS: Final = (Endpoint("POST", "/jobs", submit_jobs, WRITE, status=201, largest_body=_LARGEST),)

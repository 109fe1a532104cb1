"""The files of jobs that were submitted with -spool: the submitter copies them into the spool, and fetches them later.

The job's initial directory then is its spool directory; the former values of this and all other changed attributes are
in attributes with the prefix SUBMIT_. The code that transfers files for a run also moves these files.

Source: spoolJobFiles and receiveJobSandbox (dc_schedd.cpp) and the ads of jobs in an HTCondor pool.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from ...domain.state.job_ad import quoted
from ..machine.execution.supervisor import transfer
from ..machine.execution.supervisor.copying import sync_disks
from ..machine.execution.supervisor.plugins import scheme
from ..machine.execution.supervisor.remote_files import RemoteAccessPoint, RemoteOutputs, pull
from ..machine.execution.supervisor.sandbox import STREAMS
from ..machine.execution.supervisor.scratch import CATALOG
from ..machine.execution.supervisor.spool import KEPT
from ..machine.execution.supervisor.transfer import list_inputs
from ..machine.execution.supervisor.usage_meter import RECEIVING, SENDING, TransferError, UsageMeter
from ..machine.spool import Spool
from ..sockets import make_private
from .activations import ReadAd, remaps

BROUGHT: Final = ".poolbook-brought"  #: in the spool directory: the files that were put there, with sizes and times
SUBMIT: Final = "SUBMIT_"
_PATHS: Final = {"stdout": "Out", "stderr": "Err"}


class SpoolError(Exception):
    """Files could not be copied into the spool, or fetched from it."""


def copy_to_spool(folder: Path, job: tuple[int, int], ad: dict[str, str]) -> dict[str, str]:
    """Copy a job's files into its spool directory. Return the changes to its ad. ``folder`` is the pool's directory.
    Raise `SpoolError` if a file cannot be copied."""
    began, read = int(time.time()), ReadAd(ad)
    place = Spool(folder).path(*job)
    staging = f"{place}.tmp"
    order = _order(read, [name for name in _names(read.text("TransferInput")) if not scheme(name)])
    try:
        make_private(folder)
        shutil.rmtree(staging, ignore_errors=True)
        os.makedirs(f"{staging}/files", 0o700)
        _raise_if_failed(transfer.transfer_inputs(order, f"{staging}/files"))
        os.rename(f"{staging}/{CATALOG}", f"{staging}/files/{BROUGHT}")
        shutil.rmtree(place, ignore_errors=True)
        os.rename(f"{staging}/files", place)
        os.rmdir(staging)
        sync_disks([os.path.dirname(place)])  # the job may run from now on
    except OSError as error:
        raise SpoolError(f"{error.filename or place}: {error.strerror}") from None
    return {**_changes(read, place), "StageInStart": str(began), "StageInFinish": str(int(time.time()))}


def _order(read: ReadAd, inputs: list[str]) -> dict[str, Any]:
    program = read.value("TransferExecutable") is not False
    stdin = read.text("In") if read.value("TransferIn") is not False else ""
    return {
        "key": f"spool{os.getpid()}",
        "iwd": read.text("Iwd"),
        "executable": read.text("Cmd"),
        "stdin": stdin,
        "environment": {},
        "transfer": {
            "executable": program,
            "brought": ("stdin",) if stdin else (),
            "inputs": inputs,
            "preserve": read.value("PreserveRelativePaths") is True,
            "max_input_mb": None,
            "plugins": {},
            "plugin_seconds": 0,
        },
    }


def _changes(read: ReadAd, place: str) -> dict[str, str]:
    """Return the changes to a job's ad after its files are in its spool directory."""
    copied_names = {os.path.basename(read.text("Cmd")), os.path.basename(read.text("In"))}
    urls = [name for name in _names(read.text("TransferInput")) if scheme(name)]
    names = sorted(name for name in os.listdir(place) if name not in copied_names and not name.startswith(".poolbook-"))
    new, before = {"Iwd": place}, {"Iwd": read.text("Iwd")}
    if names or urls:
        new["TransferInput"], before["TransferInput"] = ",".join([*names, *urls]), read.text("TransferInput")
    if read.value("TransferExecutable") is not False and os.path.basename(read.text("Cmd")) in os.listdir(place):
        new["Cmd"], before["Cmd"] = os.path.basename(read.text("Cmd")), read.text("Cmd")
    if read.text("In") and read.value("TransferIn") is not False:
        new["In"], before["In"] = os.path.basename(read.text("In")), read.text("In")
    moved = [read.text("TransferOutputRemaps")]
    for stream, attribute in _PATHS.items():
        path = read.text(attribute)
        if "/" in path and path != os.devnull and read.value(f"Transfer{attribute}") is not False:
            new[attribute] = STREAMS[stream]
            moved.insert(0, f"{STREAMS[stream]}={path}")
    if any(moved):
        before["TransferOutputRemaps"] = ";".join(filter(None, moved))
    texts = {**new, **{f"{SUBMIT}{name}": text for name, text in before.items()}}
    return {name: quoted(text) for name, text in texts.items()} | {"TransferOutputRemaps": "undefined"}


def send_to_spool(ad: dict[str, str], access_point: Mapping[str, Any]) -> None:
    """Send a job's files to the spool of an access point on another machine (the fields of ``AccessPoint``). Raise
    `SpoolError`."""
    read = ReadAd(ad)
    order = _order(read, [name for name in _names(read.text("TransferInput")) if not scheme(name)])
    meter = UsageMeter("input", None)
    with closing(RemoteAccessPoint(access_point, SENDING)) as connection:
        files = list_inputs(order, meter)
        outputs = RemoteOutputs(connection, "checkpoint")
        for file in files:
            try:
                outputs.copy_or_move(file, "", meter)
            except TransferError as error:
                meter.count_failed(error)
        if not meter.failures:
            outputs.commit(meter)
    _raise_if_failed(meter.result())


def changes_after_spooling(place: str, ad: dict[str, str]) -> dict[str, str]:
    """Return the changes to the ad of a job whose files have arrived in its spool directory from another machine. Raise
    `OSError` if they have not."""
    read, now = ReadAd(ad), str(int(time.time()))
    os.makedirs(place, 0o700, exist_ok=True)  # perhaps the job has no files
    with suppress(FileNotFoundError):
        os.unlink(f"{place}/{KEPT}")
    program = f"{place}/{os.path.basename(read.text('Cmd'))}"
    if read.value("TransferExecutable") is not False and os.path.exists(program):
        os.chmod(program, 0o755)
    Path(place, BROUGHT).write_text(transfer.catalog_text(place))
    sync_disks([os.path.dirname(place)])
    return {**_changes(read, place), "StageInStart": now, "StageInFinish": now}


def output_names(place: str, ad: dict[str, str]) -> list[str]:
    """Return the names of a job's outputs in its spool directory."""
    read = ReadAd(ad)
    if "TransferOutput" in ad:
        return list(_outputs(read, place))
    with _like_scratch(place) as scratch:
        return transfer.changed(_order(read, []), scratch, ())


def receive_outputs(ad: dict[str, str], access_point: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Receive a job's outputs from the spool of an access point on another machine, and bring them to their
    destinations. Return the changes to its ad. Raise `SpoolError`."""
    began = int(time.time())
    with tempfile.TemporaryDirectory(prefix="poolbook-") as scratch:
        meter = UsageMeter("output", None)
        with closing(RemoteAccessPoint(access_point, RECEIVING)) as connection:
            pull(connection, "inputs", scratch, meter)
        _raise_if_failed(meter.result())
        return _deliver(ReadAd(ad), scratch, names, began)


def fetch_outputs(folder: Path, job: tuple[int, int], ad: dict[str, str]) -> dict[str, str]:
    """Copy a job's outputs from its spool directory to their destinations. Return the changes to its ad. Raise
    `SpoolError`."""
    began, read = int(time.time()), ReadAd(ad)
    place = Spool(folder).path(*job)
    if not os.path.isdir(place):
        raise SpoolError(f"{place}: no files of this job are kept")
    with _like_scratch(place) as scratch:
        return _deliver(read, scratch, list(_outputs(read, place)) if "TransferOutput" in ad else None, began)


@contextmanager
def _like_scratch(place: str) -> Iterator[str]:
    """Yield a path by which a spool directory looks like a scratch directory with its catalog."""
    with tempfile.TemporaryDirectory(prefix="poolbook-") as outer:
        os.symlink(os.path.realpath(place), f"{outer}/files")
        if os.path.exists(f"{place}/{BROUGHT}"):
            shutil.copyfile(f"{place}/{BROUGHT}", f"{outer}/{CATALOG}")
        yield f"{outer}/files"


def _deliver(read: ReadAd, scratch: str, names: Sequence[str] | None, began: int) -> dict[str, str]:
    """Copy outputs (None: all new or changed files) to their destinations. Return the changes to the job's ad."""
    order = _order(read, [])
    order |= {"iwd": read.text(f"{SUBMIT}Iwd"), "stdout": "", "stderr": ""}
    order["transfer"] |= {
        "brought": (),
        "outputs": names,
        "remaps": remaps(read.text(f"{SUBMIT}TransferOutputRemaps")),
        "max_output_mb": None,
        "destination": "",
    }
    try:
        _raise_if_failed(transfer.transfer_outputs(order, scratch, failed=False))
    except OSError as error:
        raise SpoolError(f"{error.filename or order['iwd']}: {error.strerror}") from None
    return {"StageOutStart": str(began), "StageOutFinish": str(int(time.time()))}


def _outputs(read: ReadAd, place: str) -> Iterator[str]:
    """Yield the names of the listed outputs of a job, and of its standard output and error."""
    yield from (os.path.basename(name.rstrip("/")) for name in _names(read.text("TransferOutput")) if not scheme(name))
    yield from (name for name in map(read.text, _PATHS.values()) if name and os.path.isfile(f"{place}/{name}"))


def _names(text: str) -> list[str]:
    return [name for each in text.split(",") if (name := each.strip())]


def _raise_if_failed(result: Mapping[str, Any]) -> None:
    if "failure" in result:
        raise SpoolError(result["failure"]["words"])

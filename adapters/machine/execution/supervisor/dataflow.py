"""Skip a job whose outputs are newer than its inputs (skip_if_dataflow).

Source: FileTransfer::IsDataflowJob (file_transfer.cpp) of HTCondor.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from . import rights
from .launch import Order, StartError

SKIPPED = "dataflow"  #: the part of a start that "fails" because the job need not run
NEWER = "its outputs are newer than its inputs"
NOT_NEEDED = -1000 - errno.EALREADY
"""The number of the failure with which an access point answers instead of listing the inputs of such a job."""


def check_dataflow(order: Order) -> None:
    """Raise `StartError` if all outputs of the job exist and are newer than its inputs. Inputs that do not exist are
    ignored, except for the executable and the standard input."""
    if order.get("dataflow") is None or order.get("access_point"):  # that access point checks when it lists the inputs
        return
    with rights.acting_as(rights.ids_of_account(order.get("files"))):
        if are_outputs_newer(order):
            raise StartError(SKIPPED, 0, NEWER)


def are_outputs_newer(order: Order) -> bool:
    """Check, with the current rights, whether a job need not run."""
    files = order.get("dataflow")
    if files is None:
        return False
    iwd, stdin = order["iwd"], order["stdin"]
    required = [order["executable"], *([stdin] if stdin not in ("", os.devnull) else [])]
    try:
        inputs = [*_times(iwd, required), *_times(iwd, files["inputs"], skips_missing=True)]
        outputs = list(_times(iwd, files["outputs"]))
    except OSError:
        return False
    return bool(outputs) and min(outputs) > max(inputs)


def _times(iwd: str, names: Iterable[str], skips_missing: bool = False) -> Iterable[int]:
    for name in names:
        try:
            yield os.stat(os.path.join(iwd, name)).st_mtime_ns
        except OSError:
            if not skips_missing:
                raise

"""What a job that transfers its files finds where it runs: everything in its scratch directory, by its own name.

Such a job's order has a ``transfer``: the fields of ``FileTransfer``, by name.
"""

from __future__ import annotations

import os
from typing import Any

from .launch import Order
from .plugins import file_name, scheme

STREAMS = {"stdout": "_condor_stdout", "stderr": "_condor_stderr"}
"""What output and error are called in the scratch directory until they come to where they belong."""
OWN_FILES = frozenset({".job.ad", ".machine.ad", ".update.ad", ".chirp.config"})
"""What the starter puts there itself: it is never an output."""

Transfer = dict[str, Any]


def inside(order: Order, scratch: str, again: bool = False) -> Order:
    """Return the order as it is carried out in the scratch directory. ``again``: the job goes on there after a
    checkpoint, and what it wrote stays."""
    transfer = order["transfer"]
    if transfer is None:
        return order
    there = {**order, "iwd": scratch}
    if transfer["executable"]:
        there["executable"] = f"{scratch}/{os.path.basename(order['executable'])}"
    else:
        there["executable"] = os.path.join(scratch, order["executable"])
    if "stdin" in transfer["brought"]:
        there["stdin"] = file_name(order["stdin"]) if scheme(order["stdin"]) else os.path.basename(order["stdin"])
    for name in STREAMS:
        if name in transfer["brought"]:
            there[name] = STREAMS[name]
        elif name in transfer["streamed"]:
            there[name] = os.path.join(order["iwd"], order[name])
    if "stderr" in transfer["brought"] and order["stderr"] == order["stdout"]:
        there["stderr"] = there["stdout"]
    if again or transfer.get("appends"):
        there["append_stdout"] = there["append_stderr"] = True
    return there

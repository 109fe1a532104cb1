"""Map the paths of a job that transfers its files into its scratch directory.

Such a job's order has a ``transfer``: the fields of ``FileTransfer``, by name.
"""

from __future__ import annotations

import os
from typing import Any

from .launch import Order
from .plugins import file_name, scheme

STREAMS = {"stdout": "_condor_stdout", "stderr": "_condor_stderr"}
"""The names of output and error in the scratch directory, until they are transferred."""
OWN_FILES = frozenset({".job.ad", ".machine.ad", ".update.ad", ".chirp.config"})
"""The starter's own files in the scratch directory, which are never outputs."""

Transfer = dict[str, Any]


def order_in_scratch(order: Order, scratch: str, resumed: bool = False) -> Order:
    """Return the order with its paths in the scratch directory. If the job ``resumed`` after a checkpoint, keep its
    output."""
    transfer = order["transfer"]
    if transfer is None:
        return order
    result = {**order, "iwd": scratch}
    if transfer["executable"]:
        result["executable"] = f"{scratch}/{os.path.basename(order['executable'])}"
    else:
        result["executable"] = os.path.join(scratch, order["executable"])
    if "stdin" in transfer["brought"]:
        result["stdin"] = file_name(order["stdin"]) if scheme(order["stdin"]) else os.path.basename(order["stdin"])
    for name in STREAMS:
        if name in transfer["brought"]:
            result[name] = STREAMS[name]
        elif name in transfer["streamed"] and order.get("access_point"):
            result[name] = STREAMS[name]  # transferred at the end: its destination is on another machine
        elif name in transfer["streamed"]:
            result[name] = os.path.join(order["iwd"], order[name])
    is_copied = "stderr" in transfer["brought"] or (order.get("access_point") and "stderr" in transfer["streamed"])
    if is_copied and order["stderr"] == order["stdout"]:
        result["stderr"] = result["stdout"]
    if resumed or transfer.get("appends"):
        result["append_stdout"] = result["append_stderr"] = True
    return result

"""condor_qedit: ``poolbook qedit``, with what HTCondor's tool says of wrong usage."""

from __future__ import annotations

from collections.abc import Sequence

from ...condor_tools.options import Help, UsageError
from ...condor_tools.tool_options import ToolEnded, usage_of
from ..job_actions import qedit as edited

_LACKING = {
    "name": "a SCHEDD name as an argument",
    "pool": "a HTCondor collector name or address as an argument",
    "constraint": "a ClassAd expression an argument",
    "owner": "a owner name argument",
    "jobids": "a list of job ids as an argument",
    "edits": "a filename as an argument",
}
"""What HTCondor's tool says that an option without its value requires."""


def qedit(argv: Sequence[str]) -> int:
    usage = usage_of("qedit")
    try:
        return edited(argv)
    except Help:
        raise ToolEnded(0, out=usage) from None
    except UsageError as wrong:
        if wrong.lacks in _LACKING:
            raise ToolEnded(1, f"condor_qedit: -{wrong.lacks} requires {_LACKING[wrong.lacks]}\n") from None
        told = f"condor_qedit: {wrong.option} is not a valid option\n" if wrong.option else wrong.told
        raise ToolEnded(1, f"{wrong}\n" if told is None else told + usage) from None

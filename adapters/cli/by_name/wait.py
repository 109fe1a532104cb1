"""condor_wait: ``poolbook wait``, with what HTCondor's tool says of wrong usage."""

from __future__ import annotations

from collections.abc import Sequence

from ...condor_tools.options import Help, UsageError
from ...condor_tools.tool_options import ToolEnded, usage_of
from ..wait import wait as waited


def wait(argv: Sequence[str]) -> int:
    usage = usage_of("wait")
    try:
        return waited(argv)
    except Help:
        raise ToolEnded(0, usage) from None
    except UsageError as wrong:
        raise ToolEnded(1, usage if wrong.option or wrong.told is not None else f"{wrong}\n") from None

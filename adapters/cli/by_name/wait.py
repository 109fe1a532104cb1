"""condor_wait: ``poolbook wait``, with what HTCondor's tool says of wrong usage. Source: wait.cpp of the reference."""

from __future__ import annotations

from collections.abc import Sequence

from ...condor_tools.options import Help, UsageError
from ...condor_tools.tool_options import ToolEnded, usage_of, version
from ..wait import wait as waited

_LACKING = {
    "num": "-num requires an argument\n",
    "wait": "-wait requires an argument\n",
    "log": "-log requires an argument\n",
    "event-id": "-event-id requires an id\n",
}
_NUMBERS = {"num": "-num must be greater than zero\n"}
"""What is said before the help of an option without its value, and of one whose value is no such number."""


def wait(argv: Sequence[str]) -> int:
    if "-version" in argv:
        raise ToolEnded(1, out=version())
    usage = usage_of("wait")
    try:
        return waited(argv)
    except Help:
        raise ToolEnded(0, usage) from None
    except UsageError as wrong:
        told = _LACKING.get(wrong.lacks) or _NUMBERS.get(wrong.number) or wrong.told
        if told is None and not wrong.option:
            raise ToolEnded(1, f"{wrong}\n") from None
        raise ToolEnded(1, (told or "") + usage) from None

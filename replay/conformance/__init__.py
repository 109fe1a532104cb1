"""Golden traces of cycles: what a real negotiator and its accountant made of what happened, and what ours make of it.

``record`` is what was recorded: what happened to the machines and the queue, the cycles, what the accountant wrote,
and samples of priorities. ``sight`` says which of the slots' changes a cycle had heard of, ``books`` and ``accounts``
keep the accounts from cycle to cycle, ``decided`` holds a cycle of ours in the state in which the real one found the
pool, ``compare`` puts the two side by side, and ``telling`` tells of it. What is recorded is read by
``adapters/conformance/trace_cycles``; nothing here is special to a folder.
"""

if __name__ != "poolbook.replay.conformance":
    raise ImportError(f"import this folder as poolbook.replay.conformance, not as {__name__}")

from .compare import REASONS, Report, compare, off
from .recording import Record

__all__ = ["REASONS", "Record", "Report", "compare", "off"]

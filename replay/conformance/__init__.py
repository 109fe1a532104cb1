"""Conformance of negotiation cycles: recorded cycles of a real negotiator and its accountant, compared with ours.

* ``recording`` is the data: what happened to machines and queue, the cycles, the accountant's table, samples.
* ``visibility`` finds which changes of slots a cycle had heard of.
* ``accountant`` and ``account_walk`` keep the accounts from cycle to cycle.
* ``redecide`` holds our cycle in the state in which the real one found the pool.
* ``compare`` compares the two and names the reason of each difference; ``report`` prints it.

``adapters/conformance/trace_cycles`` reads a recording from files. Nothing here is special to one recording.
"""

if __name__ != "poolbook.replay.conformance":
    raise ImportError(f"import this folder as poolbook.replay.conformance, not as {__name__}")

from .compare import REASONS, Report, compare_cycles, off
from .recording import NegotiatorRecording

__all__ = ["REASONS", "NegotiatorRecording", "Report", "compare_cycles", "off"]

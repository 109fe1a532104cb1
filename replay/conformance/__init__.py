"""Compare recorded negotiation cycles, and the accountant's, of a real negotiator with ours.

* ``recording`` is the data: machines, queue, cycles, the accountant's log, samples.
* ``visibility`` finds which changes of slots a cycle had seen.
* ``accountant`` and ``account_walk`` keep the accounts from cycle to cycle.
* ``redecide`` holds our cycle on the real one's state of the pool; ``compare`` names the reason of each difference;
  ``report`` prints it.

``adapters/conformance/trace_cycles`` reads a recording from files. Nothing here is special to one recording.
"""

from .compare import REASONS, Report, compare_cycles, off
from .recording import NegotiatorRecording

__all__ = ["REASONS", "NegotiatorRecording", "Report", "compare_cycles", "off"]

"""The sensors of this machine: who sits at it, how busy it is, how fast it is.

``idle`` tells when a key was pressed last, ``load`` what load the slots' jobs make, ``benchmarks`` measures the
machine, in a process of its own. ``Sensors`` puts together what the policy reads of it.
"""

if __name__ != "poolbook.adapters.machine.sensors":
    raise ImportError(f"import this folder as poolbook.adapters.machine.sensors, not as {__name__}")

from . import benchmarks
from .load import CondorLoad
from .sensors import Sensors, machine_load

__all__ = ["CondorLoad", "Sensors", "benchmarks", "machine_load"]

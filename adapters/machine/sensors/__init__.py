"""The sensors of this machine: its owner's activity, its load, its speed.

``idle`` reads when a key was pressed last, ``load`` computes the load of the slots' jobs, ``cron`` runs the STARTD_CRON
jobs, ``benchmarks`` measures the machine in a process of its own. ``Sensors`` combines what the policy reads.
"""

from . import benchmarks
from .load import CondorLoad
from .sensors import Sensors, machine_load

__all__ = ["CondorLoad", "Sensors", "benchmarks", "machine_load"]

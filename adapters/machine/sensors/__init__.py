"""The sensors of this machine: its owner's activity, its load, its speed.

``idle`` reads when a key was pressed last, ``cron`` runs the STARTD_CRON jobs, ``benchmarks`` measures the machine in a
process of its own. ``Sensors`` combines what the policy reads, and the load of the slots' jobs.
"""

from . import benchmarks
from .sensors import CondorLoad, Sensors, machine_load

__all__ = ["CondorLoad", "Sensors", "benchmarks", "machine_load"]

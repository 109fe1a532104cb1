"""All attacks, in the order of the documentation."""

from . import clocks, commands, crowds, damage, disks, files, fuzz, kills, sockets, strangers
from .attacks import ATTACKS

_MODULES = (kills, disks, damage, crowds, clocks, sockets, fuzz, files, strangers, commands)
ALL = [name for module in _MODULES for name, attack in ATTACKS.items() if attack.run.__module__ == module.__name__]
"""The names of all attacks."""

"""All attacks, in the order in which they are told."""

from . import clocks, commands, crowds, damage, disks, files, fuzz, kills, sockets, strangers
from .attacks import ATTACKS

_ROOMS = (kills, disks, damage, crowds, clocks, sockets, fuzz, files, strangers, commands)
ALL = [
    name for room in _ROOMS for name, attack in ATTACKS.items() if attack.go.__module__ == room.__name__
]  #: their names

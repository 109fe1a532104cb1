"""Accounts of the slots' time: ``intervals`` divides it into classes, for a pool's own log and for an imported log."""

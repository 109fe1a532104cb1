"""The negotiation cycle: who gets which slot, and why.

A cycle (``cycle.hold``) is a function of the log: of the slots' published ads, the jobs that wait, the submitters'
priorities (``accounting``) and the settings in force, at an instant. It appends no event, changes no state and reads no
clock: ``matches`` turns what was decided into events.
"""

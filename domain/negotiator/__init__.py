"""The negotiation cycle: which job is matched with which slot, and why.

A cycle (``cycle.hold``) depends only on the log: on the slots' published ads, the waiting jobs, the submitters'
priorities (``accounting``) and the settings in force at a given time. It appends no events, changes no state and reads
no clock; ``matches`` converts its decisions into events.
"""

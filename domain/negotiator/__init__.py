"""The negotiation cycle: who gets which slot, and why.

A cycle is a function of the log: of the slots' published ads, the jobs that wait, the submitters' priorities and the
settings in force (``settings``), at an instant. ``cycle.hold`` is the way in. Nothing here appends an event, changes
the state, or reads a clock: ``domain/negotiator/matches.py`` turns what was decided into events, and
``domain/negotiator/accounting.py`` says what a priority is.
"""

if __name__ != "poolbook.domain.negotiator":
    raise ImportError(f"import this folder as poolbook.domain.negotiator, not as {__name__}")

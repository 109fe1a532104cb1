"""The stores of a log: memory, an SQLite file, or a PostgreSQL schema; its seal, and the mark next to it.

``opening.open_log`` opens a log by its URL. ``opening.verify_seal`` checks that it is unaltered. ``fast_head.head_of``
returns its head without loading the event classes, which is too slow for a short command. No store depends on what an
event means. A store imports its library only when a log of its kind is opened. ``persistence`` makes a log readable for
applications of the eventsourcing library. docs/log.md documents what the stores guarantee.
"""

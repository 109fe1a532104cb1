"""The stores of a log: memory, an SQLite file, or a PostgreSQL schema; its seal, and the mark next to it.

``opening.open_log`` opens a log by its URL. ``opening.verify_seal`` checks that a log is unaltered.
``fast_head.head_of`` returns a log's head without loading the event classes, since loading them is too slow for a short
command. No store depends on the meaning of events. A store imports its library only when a log of its kind is opened.
``persistence`` makes a log readable for applications of the eventsourcing library. docs/log.md documents what the
stores guarantee.
"""

"""The stores of a log: memory, an SQLite file, or a PostgreSQL schema; its seal, and the mark beside it.

``opening.open_log`` opens a log by its URL, ``opening.verify_seal`` checks that it still holds what was appended, and
``fast_head.head_of`` returns its head without loading events, which takes longer than a short command may run. No store
knows what an event means to a pool. A store imports its library when a log of its kind is opened. ``persistence``
gives a log to applications of the eventsourcing library. docs/log.md says what the stores promise.
"""

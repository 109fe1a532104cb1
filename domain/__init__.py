"""Model a pool and its decisions: no clock, no I/O, no randomness, no order that depends on hashing.

The same arguments give the same events, on every machine. The state is changed in place: ``evolve`` brings it forward
by an event, and ``decide`` does so with each event that it makes (docs/decisions.md, 8).
"""

if __name__ != "poolbook.domain":
    raise ImportError(f"import this folder as poolbook.domain, not as {__name__}")

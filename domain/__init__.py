"""Model a pool and its decisions, without a clock, I/O, random numbers or an order that depends on hashing.

The same arguments give the same events on every machine. The state is changed in place: ``evolve`` applies an event to
it, and ``decide`` applies each event that it creates (docs/decisions.md, 8).
"""

if __name__ != "poolbook.domain":
    raise ImportError(f"import this package as poolbook.domain, not as {__name__}")

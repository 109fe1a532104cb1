"""Poolbook: an HTCondor pool whose only truth is an append-only log of events.

Queue, pool status, accounting and history are views of that log, which can be thrown away and
rebuilt, for now or for any moment of the past.
"""

__version__ = "0.1.0"

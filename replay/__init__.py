"""Tools that read or replay a log, and the simulation of a pool in virtual time."""

if __name__ != "poolbook.replay":
    raise ImportError(f"import this directory as poolbook.replay, not as {__name__}")

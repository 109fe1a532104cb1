"""The state of a pool, and the one fold that changes it: the queue, the slots, the claims, the submitters."""

if __name__ != "poolbook.domain.state":
    raise ImportError(f"import this folder as poolbook.domain.state, not as {__name__}")

"""The records of a real HTCondor pool, imported: auditing them, explaining them, listing their runs."""

if __name__ != "poolbook.replay.forensics":
    raise ImportError(f"import this folder as poolbook.replay.forensics, not as {__name__}")

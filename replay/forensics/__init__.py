"""Audit, explain and list the runs of an import: the records of a real HTCondor pool."""

if __name__ != "poolbook.replay.forensics":
    raise ImportError(f"import this folder as poolbook.replay.forensics, not as {__name__}")

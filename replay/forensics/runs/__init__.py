"""The runs of jobs on slots that the records of a real pool tell of."""

if __name__ != "poolbook.replay.forensics.runs":
    raise ImportError(f"import this folder as poolbook.replay.forensics.runs, not as {__name__}")

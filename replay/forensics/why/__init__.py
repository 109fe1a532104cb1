"""Explain jobs and slots of a real pool by its records."""

if __name__ != "poolbook.replay.forensics.why":
    raise ImportError(f"import this folder as poolbook.replay.forensics.why, not as {__name__}")

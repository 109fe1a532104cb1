"""What is done with a log, and with a pool in virtual time."""

if __name__ != "poolbook.replay":
    raise ImportError(f"import this folder as poolbook.replay, not as {__name__}")

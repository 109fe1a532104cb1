"""What a pool is and how it decides: pure functions of what they are given."""

if __name__ != "poolbook.domain":
    raise ImportError(f"import this folder as poolbook.domain, not as {__name__}")

"""Everything outside the pool's domain: stores, processes, commands, and HTCondor's own files."""

if __name__ != "poolbook.adapters":
    raise ImportError(f"import this folder as poolbook.adapters, not as {__name__}")

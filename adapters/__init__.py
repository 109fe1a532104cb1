"""The world around the pool: stores, processes, commands and HTCondor's own files."""

if __name__ != "poolbook.adapters":
    raise ImportError(f"import this folder as poolbook.adapters, not as {__name__}")

"""A running pool: the engine, the server, the door for commands, the log's subscribers."""

if __name__ != "poolbook.adapters.runtime":
    raise ImportError(f"import this folder as poolbook.adapters.runtime, not as {__name__}")

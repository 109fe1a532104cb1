"""Read models of the pool, each a fold over the events of the log."""

if __name__ != "poolbook.projections":
    raise ImportError(f"import this folder as poolbook.projections, not as {__name__}")

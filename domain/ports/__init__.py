"""The ports of the domain: the log, the world, its stimuli and readings, and the effects on it."""

if __name__ != "poolbook.domain.ports":
    raise ImportError(f"import this folder as poolbook.domain.ports, not as {__name__}")

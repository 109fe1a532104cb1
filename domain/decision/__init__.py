"""A decision in the making: the draft that every handler of a stimulus writes its events to."""

if __name__ != "poolbook.domain.decision":
    raise ImportError(f"import this folder as poolbook.domain.decision, not as {__name__}")

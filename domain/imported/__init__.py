"""Describe the records of a real HTCondor pool: kinds of sources, entries of job event logs, packed ads."""

if __name__ != "poolbook.domain.imported":
    raise ImportError(f"import this folder as poolbook.domain.imported, not as {__name__}")

"""Recorded traces of real pools, played against ours."""

if __name__ != "poolbook.adapters.conformance":
    raise ImportError(f"import this folder as poolbook.adapters.conformance, not as {__name__}")

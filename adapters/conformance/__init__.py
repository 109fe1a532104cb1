"""Replay recorded traces of real pools and compare the results with ours."""

if __name__ != "poolbook.adapters.conformance":
    raise ImportError(f"import this folder as poolbook.adapters.conformance, not as {__name__}")

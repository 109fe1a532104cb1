"""This machine: its hardware, its sensors, and the supervisor that runs jobs on it."""

if __name__ != "poolbook.adapters.machine":
    raise ImportError(f"import this folder as poolbook.adapters.machine, not as {__name__}")

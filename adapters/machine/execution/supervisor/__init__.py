"""The supervisor process: starts jobs, watches them and all their descendants, and keeps the record of their ends.

Only the standard library, and nothing of Poolbook outside this folder: it has to start at once, stay small (its memory
is the floor under every job's measured peak) and go on while the package around it is replaced. ``run`` is the program;
``server`` its loop; ``jobs`` a job's life, ``families`` whose process is whose, ``processes`` what /proc tells,
``launch`` a start, ``scratch`` the directories, ``records`` what survives on disk, ``inherit`` what a predecessor left.
"""

if __name__ != "poolbook.adapters.machine.execution.supervisor":
    raise ImportError(f"import this folder as poolbook.adapters.machine.execution.supervisor, not as {__name__}")

"""The schedd: the queue, the users' actions on jobs, claims and their reuse, the jobs' own policy, their processes."""

if __name__ != "poolbook.domain.schedd":
    raise ImportError(f"import this folder as poolbook.domain.schedd, not as {__name__}")

"""The runs of jobs on slots: who had which slot from when to when, what came of it, and why it ended too early.

``own`` reads them in a pool's own log, ``imported`` in what real daemons wrote (``records`` gathers that); both give
``JobRun``s. ``causes`` is the one table of why a run is ended before its job is done; ``evictions`` lists such ends,
``sums`` adds up what runs used.
Nothing here decides anything: it tells what events say.
"""

if __name__ != "poolbook.replay.runs":
    raise ImportError(f"import this folder as poolbook.replay.runs, not as {__name__}")

"""The runs of jobs on slots: who had which slot from when to when, what came of it, and why it ended too early.

``native_runs`` reads them in a pool's own log, ``imported_runs`` in the records of HTCondor's daemons; both give
``JobRun``s. ``run_end_causes`` is the one table of why a run is ended before its job is done.
"""

"""The runs of jobs on slots: which job had which slot when, how the run ended, and why it ended early.

``native_runs`` reads them from a pool's own log, ``imported_runs`` from the records of HTCondor daemons; both return
``JobRun``s. ``run_end_causes`` is the table of the causes that end a run before its job is done.
"""

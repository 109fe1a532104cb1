"""The runs of jobs on slots: which job had which slot and when, how the run ended, and why it ended early.

``native_runs`` reads the runs from a pool's own log, and ``imported_runs`` from the records of HTCondor daemons; both
return ``JobRun``s. ``run_end_causes`` is the table of causes that end a run before its job completes.
"""

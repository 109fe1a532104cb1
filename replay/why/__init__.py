"""Explain the state of a job, a cluster or a slot in at most five lines, with evidence.

``answer`` is the entry point. ``own_job`` reads a job's history from a pool's own events, ``imported_job`` from
HTCondor records, and ``job_facts`` builds the answer. ``slot`` explains slots from both kinds of logs, and ``cluster``
summarizes the jobs of a cluster. ``rejections`` determines why the negotiator rejected a job, and what the next cycle
would decide. ``select_events`` selects the events to read, and ``narration`` contains the sentences. Expressions are
evaluated only to find requests that no slot can meet, and to repeat a cycle. All other statements come from events.
"""

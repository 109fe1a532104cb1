"""Audit an import: was what its records tell allowed, and do its sources agree?

``examine`` reads the log once and passes each event to every auditor: of slots ``startd_log_rules``, of jobs
``event_log_rules``, of the facts that several sources state ``contradictions``. Nothing here reads HTCondor's files,
changes a log or decides anything.
"""

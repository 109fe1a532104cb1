"""Audit an import: check whether its records follow HTCondor's rules, and whether its sources agree.

``examine`` reads the log once and passes each event to every auditor: ``startd_log_rules`` for slots,
``event_log_rules`` for jobs, and ``contradictions`` for facts that several sources state. Nothing here reads HTCondor's
files, changes a log or makes decisions.
"""

"""Audit an import: was what its records tell allowed, and do its sources agree?

``examine`` reads the log once and passes each event to every auditor. ``replay/audit_result`` holds their findings,
``rules`` names the rules. ``replay/validation/native_audit`` audits a log of Poolbook's own.

* Slots: ``startd_log_rules`` audits StartLogs, with ``expected_lines`` (lines that a startd always writes).
* Jobs: ``event_log_rules`` audits each job event log; ``lost_ends`` compares them about a job's end.
* Both use ``log_parts``: the order of a rotated log's parts.
* Facts: ``contradictions`` compares the facts of ``compared_facts``. They come from entries (``event_log_facts``), ads
  (``job_ad_facts``; ``job_records`` joins both), tables (``table_folds``), slots and submitters (``slot_facts``).
  ``statements`` finds which records are about one job or run, ``scratch_db`` keeps statements outside of memory,
  ``duplicates`` finds what one source tells twice.

Nothing here reads HTCondor's files, changes a log or decides anything.
"""

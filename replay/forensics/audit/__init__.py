"""The audit: what a log tells of, whether it was allowed, and where its sources disagree.

What an audit finds is ``verdict``, where records stand ``sources``, what they can be accused of ``rules``;
``examine`` is the pass over a log that asks all judges:

* ``slots`` judges what StartLogs tell, with ``occasions`` (lines that a startd always says) and ``order`` (times).
* ``jobs`` judges job event logs, each by itself; ``ends`` compares which of them tell of a job's end.
* ``contradictions`` compares what several sources state of the ``facts``: ``readings`` and ``job_ads`` take it from
  entries and ads (``tellings`` has both of one job), ``folds`` from tables, ``holders`` from slots and submitters;
  ``statements`` says which records are one job or run, ``spool`` keeps what was stated outside of memory, ``twice``
  judges what one source says twice.
* ``own`` is the audit of a log of Poolbook's own, which ``replay/validation`` judges; ``page`` draws the tables of
  docs/import.md.

Nothing here reads HTCondor's files, changes a log or takes a decision.
"""

if __name__ != "poolbook.replay.forensics.audit":
    raise ImportError(f"import this folder as poolbook.replay.forensics.audit, not as {__name__}")

"""Read models of the pool, each a fold over the events of the log, in tables of one SQLite database.

``projector`` brings the tables of ``schema`` up to date: ``queue_view`` (jobs and history), ``slots_view``,
``accounting_view`` and ``defrag_view`` each say what the kinds of event mean for their rows, and ``checkpoint``
remembers how far they came. ``views`` reads: ``job_query`` finds rows, ``job_ads`` and ``job_columns`` turn them into
ads and texts. A connection is handed in; nothing here opens a file, waits for a lock, knows a log's store or asks for
the time, and what only reads imports neither the events nor the codec. docs/log.md describes the tables.
"""

if __name__ != "poolbook.projections":
    raise ImportError(f"import this folder as poolbook.projections, not as {__name__}")

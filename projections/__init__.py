"""Read models of the pool: folds of the log's events into tables of an SQLite database.

``projector`` updates the tables of ``schema`` with the folds of ``queue_view`` (jobs and history), ``slots_view``,
``accounting_view`` and ``defrag_view``; ``checkpoint`` stores their position in the log. ``views`` reads the tables:
``job_query`` selects rows, and ``job_ads`` and ``job_columns`` convert them to ads and texts. The caller provides the
connection: this package opens no files, waits for no locks and reads no clock. The readers do not import events or the
codec. docs/log.md describes the tables.
"""

if __name__ != "poolbook.projections":
    raise ImportError(f"import this directory as poolbook.projections, not as {__name__}")

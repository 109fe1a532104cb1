"""The audit: what a log tells of, whether it was allowed, and where its sources disagree.

Here stand what an audit finds (``verdict``), where records stand (``sources``), the judges of what was imported: of
slots (``slots``), of job event logs (``jobs``), of all that several sources state (``facts``, ``contradictions``); and
the pass over a log that asks all of them (``examine``). Nothing here reads a file, changes a log or takes a decision:
what the pool's own log allows is judged by ``replay/legality``.
"""

if __name__ != "poolbook.replay.audit":
    raise ImportError(f"import this folder as poolbook.replay.audit, not as {__name__}")

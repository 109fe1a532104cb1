"""Write users' job event logs in HTCondor's format.

``UserLogs`` folds the pool's events into texts for files (``fold``; ``logged_clusters`` has its state, ``event_text``
the text of each event). ``UserLogWriter`` appends each text to its file exactly once (``writer``, ``files``). Nothing
here makes decisions, and the pool never reads these files. docs/userlog.md describes the events.
"""

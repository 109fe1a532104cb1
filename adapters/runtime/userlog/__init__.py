"""Write the users' job event logs, in HTCondor's format.

``UserLogs`` folds the pool's events into texts, each with its file (``fold``; ``logged_clusters`` is its state,
``event_text`` has the text of each event). ``UserLogWriter`` appends them to the files, each exactly once (``writer``,
``files``). Nothing here decides about a job, and the pool never reads these files. docs/userlog.md says what is written
when.
"""

"""Real execution: jobs as processes of this machine, under a supervisor process that outlives the pool.

``activation`` is the protocol, ``client`` the pool's side, ``supervisor/`` the process itself. Nothing here decides
about a job: the pool says when to start, signal or hold it, and what the violation of a limit means.
"""

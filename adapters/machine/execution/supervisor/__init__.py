"""The supervisor process: starts jobs, watches them and all their descendants, and records their ends.

It imports only the standard library, this folder and ``adapters/sockets``: it has to start at once, stay small (its
memory is the floor under every job's measured peak) and go on while the package around it is replaced. ``run`` is the
program, ``server`` its loop, ``supervised_jobs`` a job's life, ``process_trees`` maps processes to jobs, ``processes``
reads /proc, ``launch`` starts a job, ``scratch`` has the directories, ``mover`` the processes that move files,
``transfer`` says which files go where, ``spool`` has what is kept of a job, ``chirp_requests`` answers a job that asks
for files, ``records`` has the state on disk.
"""

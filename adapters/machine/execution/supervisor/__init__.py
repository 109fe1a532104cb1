"""The supervisor process: starts jobs, watches them and all their descendants, and records their ends.

It imports only the standard library, this folder and ``adapters/sockets``: it must start quickly, stay small (its
memory is the minimum of every job's measured peak) and keep running while the package is upgraded. ``run`` is the
program, ``server`` its loop, ``supervised_jobs`` the life cycle of a job, ``process_trees`` maps processes to jobs,
``processes`` reads /proc, ``launch`` starts a job, ``scratch`` has the directories, ``mover`` the processes that move
files, ``transfer`` decides which files go where, ``remote_files`` transfers files of an access point on another machine
in the format of ``file_pieces``, ``spool`` keeps a job's checkpoints and outputs, ``chirp_requests`` answers a job's
condor_chirp, ``records`` has the state on disk.
"""

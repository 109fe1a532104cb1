"""The schedd: the queue, the users' actions on jobs, claims and their reuse, the jobs' own policy, their processes."""

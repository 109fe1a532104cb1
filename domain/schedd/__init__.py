"""The schedd: the queue, users' actions on jobs, claims and their reuse, job policies, and jobs' processes."""

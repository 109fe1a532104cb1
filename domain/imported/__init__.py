"""Read and store the records of an HTCondor pool: kinds of sources, entries of job event logs, packed ads."""

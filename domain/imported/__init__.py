"""Read and store the records of an HTCondor pool: kinds of sources, job event log entries, packed ads."""

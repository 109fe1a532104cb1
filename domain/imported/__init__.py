"""Describe the records of a real HTCondor pool: kinds of sources, entries of job event logs, packed ads."""

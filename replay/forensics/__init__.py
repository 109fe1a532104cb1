"""Audit, explain and list the runs of an import: the records of a real HTCondor pool."""

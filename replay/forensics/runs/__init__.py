"""The runs of jobs on slots that the records of a real pool tell of."""

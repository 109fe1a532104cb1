"""This machine: its hardware, its sensors, and the supervisor that runs jobs on it."""

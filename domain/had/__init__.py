"""High availability: which of several managers of a pool is active (HTCondor's ``src/condor_had``).

``election`` decides, from messages and time alone. ``had_settings`` reads the settings in force. ``transitions`` writes
what was decided to the manager's log, from which every other part learns whether its manager is active.
"""

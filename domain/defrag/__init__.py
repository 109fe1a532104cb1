"""Defragmentation: drain machines so that large jobs find whole machines (the manual's "Defragmenting Dynamic Slots";
HTCondor's ``src/defrag/defrag.cpp``).

``defrag_settings`` reads the policy in force, ``drain_candidates`` evaluates it on the published slot ads, and
``choice`` decides which machines are drained, and how many. ``poll`` drains them and schedules the next poll.
"""

"""Defragmentation: draining machines so that large jobs find whole machines (the manual's "Defragmenting Dynamic
Slots"; HTCondor's ``src/defrag/defrag.cpp``).

``defrag_settings`` reads the policy in force, ``drain_candidates`` evaluates it on the slots' published ads, and
``choice`` determines which machines are drained, and how many. ``poll`` drains them and schedules the next poll.
"""

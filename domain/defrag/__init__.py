"""Defragmentation: which machines are drained so that large jobs find one that is whole (the manual's "Defragmenting
Dynamic Slots"; HTCondor's ``src/defrag/defrag.cpp``).

``defrag_settings`` reads the policy that is in force, ``drain_candidates`` asks the policy of the slots' published ads,
``choice`` decides which machines are drained and how many, and ``poll`` does it, and says when the next one is due.
"""

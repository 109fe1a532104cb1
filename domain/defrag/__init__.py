"""Defragmentation: which machines are drained so that large jobs find one that is whole (the manual's "Defragmenting
Dynamic Slots"; the reference's ``src/defrag/defrag.cpp``).

``settings`` reads the policy that is in force, ``budget`` turns a rate per hour into a number for each poll,
``candidates`` asks the policy of the slots' published ads, ``choice`` decides, and ``poll`` does what was decided. A
poll is a timer of the state: ``schedule`` says when it is due. ``daemon_ad`` is what the state tells of all polls.
"""

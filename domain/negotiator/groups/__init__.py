"""Accounting groups with hierarchical quotas: how many cores the submitters of each group may have in a cycle.

The groups are a tree (``group_tree``). A cycle divides the pool's cores by it (``quotas``), gives what some groups
leave to others that accept it, and lets one group negotiate after the other (``rounds``).

Source: the manual, "Accounting Groups with Hierarchical Group Quotas"; the reference (GroupEntry.cpp) for the
arithmetic, which is followed step by step.
"""

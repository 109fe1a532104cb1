"""Accounting groups with hierarchical quotas: how many cores the submitters of each group may have in a cycle.

The groups are a tree (``group_tree``). A cycle divides the pool's cores among its nodes (``quotas``), gives the surplus
of some groups to others that accept it, and lets one group negotiate after the other (``rounds``).

Source: the manual, "Accounting Groups with Hierarchical Group Quotas"; HTCondor's GroupEntry.cpp, whose arithmetic is
repeated step by step.
"""

"""Accounting groups with hierarchical quotas: how many cores the submitters of each group may have in a cycle.

The groups form a tree (``group_tree``). A cycle divides the pool's cores among the groups of the tree (``quotas``).
Groups that accept surplus receive the cores that other groups leave unused, and the groups negotiate one after another
(``rounds``).

Source: the manual, "Accounting Groups with Hierarchical Group Quotas"; HTCondor's GroupEntry.cpp, whose arithmetic is
reproduced step by step.
"""

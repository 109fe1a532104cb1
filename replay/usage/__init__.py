"""The usage of users and machines, and evicted runs, both for a pool's own log and for an imported log.

``eviction_costs`` lists evicted runs and their costs by cause, ``usage_sums`` totals the usage of runs between two
instants, and ``preemptions`` shows for whom runs were evicted.
"""

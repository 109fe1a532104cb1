"""Who used what, and which runs were evicted: asked alike of a pool's own log and of an imported one.

``eviction_costs`` lists the runs between two instants and shows them, ``usage_sums`` adds up what they used.
"""

"""Folding events into the state: one module per topic, and ``evolve``, which combines them."""

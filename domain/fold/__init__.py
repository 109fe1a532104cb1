"""Fold events into the state: a module for each topic, and ``evolve``, which combines them."""

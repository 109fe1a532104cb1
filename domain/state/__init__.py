"""The state of a pool, and the one fold that changes it: the queue, the slots, the claims, the submitters."""

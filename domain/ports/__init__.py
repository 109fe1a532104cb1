"""The ports of the domain: the log, the world, its stimuli and readings, and the effects on it."""

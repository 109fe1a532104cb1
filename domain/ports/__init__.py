"""The ports of the domain: the log and the world, stimuli and sensor readings, effects and messages."""

"""The ports of the domain: the log and the world, stimuli, sensor readings, effects and messages."""

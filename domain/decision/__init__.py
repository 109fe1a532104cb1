"""A decision in the making: the draft that every handler of a stimulus writes its events to."""

"""The version of a log's content. Imports nothing, for commands that must be quick."""

FORMAT = 3
"""A release that changes a log's tables, its seal, the event kinds or their fields increments this; an earlier release
then refuses a log to which the new one has appended."""

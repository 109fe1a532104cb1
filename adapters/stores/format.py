"""The version of a log's content. Imports nothing, for commands that must be quick."""

FORMAT = 3
"""Counts the changes of a log's tables, of its seal, of the kinds of event and of their fields. A release that changes
any of these raises it; an earlier release then refuses a log to which the new one has appended."""

"""The version of what a log holds. Imports nothing, for the sake of commands that must be quick."""

FORMAT = 3
"""Counts the changes of a log's tables, of its seal, of the kinds of event and of their fields. A release that changes
any of these raises it; an earlier release then refuses the log as soon as the new one has appended to it."""

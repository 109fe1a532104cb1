"""Roles with separate logs: what one role sends to another, and what it does with what it receives.

A message from one role to another is an event in the sender's log. After each decision, the sender adds the events
that concern a peer to the outbox for that peer (``outboxes``). The receiver reads the outbox in order, and decides each
event that it contains by its own rules (``following``). The receiver's log records how far it has read in the same
append as the results, so each event has its effect exactly once, however often it is read.

``elsewhere`` lists what a role does instead of calling the rule of a role that is elsewhere.
"""

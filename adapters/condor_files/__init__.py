"""Read HTCondor's own files: a module for each family of formats turns bytes into events.

Every reader is a ``SourceReader`` (``source_reader``): it is fed a source piece by piece, never opens a file, and can
be stopped at any byte and continued later. ``importing`` decides what a folder holds and joins sources;
``replay/forensics/audit`` judges what they say.
"""

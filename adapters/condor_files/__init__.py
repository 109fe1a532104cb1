"""Read HTCondor's own files: a module for each family of formats converts bytes to events.

Every reader is a ``SourceReader`` (``source_reader``). It receives a source in pieces, never opens a file, and can be
interrupted at any byte and continued later. ``importing`` recognizes the files in a directory and joins rotated ones;
``replay/forensics/audit`` checks the events.
"""

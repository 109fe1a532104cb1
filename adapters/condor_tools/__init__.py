"""The options and the output of the commands ``q``, ``status``, ``history``, ``rm``, ``hold`` and similar ones.

Argument lists become queries and selections, ads become lines in HTCondor's columns. Nothing here opens a
log, talks to a server, reads a clock or writes to a stream: the command line passes ads, the time and the terminal's
width, and writes the result. Short commands must be quick, so no module here imports the ClassAd engine before it
evaluates an expression.
"""

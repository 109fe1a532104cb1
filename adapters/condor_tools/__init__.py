"""The options and the output of the commands: ``q``, ``status``, ``history``, ``rm``, ``hold`` and kin.

Argument lists become queries and selections, ads become lines in the columns of HTCondor's tools. Nothing here opens a
log, talks to a server, reads a clock or writes to a stream: the command line passes ads, the time and the terminal's
width, and writes the result. A short command must answer at once, so no module here imports the ClassAd engine before
an expression has to be evaluated.
"""

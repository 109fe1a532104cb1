"""What the commands print, and the options that they take: ``q``, ``status``, ``history``, ``rm``, ``hold`` and kin.

Text in, text out: argument lists become queries and selections, ads become lines in the columns that HTCondor's tools
of these names print. Nothing here opens a log, talks to a server, reads a clock or writes to a stream; the command
line hands in ads, the time and the width of the terminal, and writes what comes back. A short command must answer at
once, so no module here imports the ClassAd engine before an expression has to be evaluated.
"""

if __name__ != "poolbook.adapters.condor_tools":
    raise ImportError(f"import this folder as poolbook.adapters.condor_tools, not as {__name__}")

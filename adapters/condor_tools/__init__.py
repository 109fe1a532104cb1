"""The options and the output of ``q``, ``status``, ``history``, ``rm``, ``hold`` and similar commands.

This package parses arguments into queries and selections, and formats ClassAds like the HTCondor tools. No code here
opens a log, connects to a server, reads a clock or writes to a stream: the command line passes the ads, the time and
the terminal's width, and prints the result. Short commands must be fast, so no module here imports the ClassAd engine
before it evaluates an expression."""

"""Tell which of HTCondor's settings, submit commands and slot attributes Poolbook follows.

The tables are data files, each beside the module that reads it. ``config`` and ``submit`` warn by them,
docs/coverage.md is generated from them, and ``tests/coverage/`` checks them against the code that reads these names.
"""

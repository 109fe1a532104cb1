"""List which of HTCondor's settings, submit commands and attributes Poolbook implements.

The tables are data files. ``config`` and ``submit`` use them for warnings, docs/coverage.md is generated from them, and
``tests/coverage/`` compares them with the code that reads these names.
"""

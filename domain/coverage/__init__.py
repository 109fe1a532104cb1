"""List the HTCondor settings, submit commands and attributes that Poolbook implements.

The tables are data files. ``config`` and ``submit`` use them for warnings, docs/coverage.md is generated from them, and
``tests/coverage/`` compares them with the code that reads these names.
"""

"""The HTCondor settings, submit commands and attributes that Poolbook implements, as data files.

``config`` and ``submit`` use these tables for warnings, and docs/coverage.md is generated from them.
``tests/coverage/`` compares them with the code that reads these names.
"""

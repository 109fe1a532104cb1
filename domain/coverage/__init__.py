"""What Poolbook follows of HTCondor's names, and what it does not: settings, submit commands, attributes of slots.

The tables are data files, each beside the module that reads it. ``config`` and ``submit`` tell by them what a person
set in vain, and docs/coverage.md is drawn from them. ``tests/coverage/`` holds each against the code that reads these
names.
"""

if __name__ != "poolbook.domain.coverage":
    raise ImportError(f"import this folder as poolbook.domain.coverage, not as {__name__}")

"""The command ``poolbook``: one module per group of commands, imported when one of them is called.

A command reads its arguments, asks the pool or its views, and prints. ``condor_tools`` formats the output; nothing here
decides about a pool.
"""

"""The ``poolbook`` command: one module per group of commands, imported only when one of its commands is called.

A command parses its arguments, sends a request to the pool or reads its views, and prints the result. ``condor_tools``
formats the output. No code here makes decisions for a pool.
"""

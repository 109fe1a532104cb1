"""The command ``poolbook``: one module for each group of commands, imported when one of them is called.

A command here reads its arguments, asks the pool or its views, and prints; what is printed how is for ``tools``, and no
decision about a pool is taken here.
"""

if __name__ != "poolbook.adapters.cli":
    raise ImportError(f"import this folder as poolbook.adapters.cli, not as {__name__}")

"""The programs of this folder: ``python -I -S run.py MODULE ARGUMENT...``.

``server FOLDER`` exits at once, the supervisor is a process of its own. Exit code 0: a supervisor serves FOLDER now,
this one or an earlier one. Else the reason is printed. ``url_plugin ...`` is a file transfer plugin.
"""

import os
import sys
import types
from importlib import import_module

# The packages around this one import more than a supervisor may hold (see the folder's docstring), so they are stood in
# for: an empty module under each name; two of them know where to look for what is in them.
_AROUND = ("poolbook", "poolbook.adapters", "poolbook.adapters.machine", "poolbook.adapters.machine.execution")
_SOUGHT = (_AROUND[1], _AROUND[3])  #: where modules are looked for: ``sockets`` in the one, this folder in the other


def main() -> int:
    """Stub the packages around this one, then run the module."""
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in reversed(_AROUND):
        folder = os.path.dirname(folder)
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [folder] if name in _SOUGHT else []
    try:
        code: int = import_module(f"{_AROUND[-1]}.supervisor.{sys.argv[1]}").main(*sys.argv[2:])
    except OSError as error:
        print(error)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())

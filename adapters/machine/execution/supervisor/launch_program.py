"""The programs of this folder: ``python -I -S launch_program.py MODULE ARGUMENT...``.

``server FOLDER`` starts the supervisor in the background. With exit status 0, a supervisor (this one or an earlier one)
now serves FOLDER. Otherwise the program prints the reason. ``url_plugin ...`` is a file transfer plugin.
"""

import os
import sys
import types
from importlib import import_module

# The parent packages import more than a supervisor may load (see the folder's docstring). So replace each one with an
# empty module; two of these have a search path.
_AROUND = ("poolbook", "poolbook.adapters", "poolbook.adapters.machine", "poolbook.adapters.machine.execution")
_SOUGHT = (_AROUND[1], _AROUND[3])  #: the packages with a search path, for ``sockets`` and for this folder


def main() -> int:
    """Replace the parent packages with empty modules, then run the module."""
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

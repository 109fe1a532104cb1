"""The executor `poolbook` for PSI/J, which reads the modules in each directory `psij-descriptors` on Python's path."""

from packaging.version import Version
from psij.descriptor import Descriptor

from poolbook import __version__

__PSI_J_EXECUTORS__ = [
    Descriptor(
        name="poolbook",
        nice_name="Poolbook",
        version=Version(__version__),
        cls="poolbook.adapters.library.psij_executor.PoolbookExecutor",
    )
]

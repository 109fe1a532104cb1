"""Whether the pool's processes leave core files: CREATE_CORE_FILES.

Source: HTCondor's check_core_files (daemon_core_main.cpp).
"""

from __future__ import annotations

import resource

from ...domain.config import Configuration


def limit_core_files(configuration: Configuration) -> None:
    """Set the soft limit on core files of this process and its future children: the hard limit, or none."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    soft = hard if configuration.boolean("CREATE_CORE_FILES", True) else 0
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))

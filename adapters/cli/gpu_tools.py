"""condor_gpu_discovery and condor_gpu_utilization: list the GPUs of this machine, and measure their use."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping, Sequence

from ..gpus.cuda import load_nvidia
from ..gpus.discovery import DiscoveryFailed, Load, discover, error_line
from ..gpus.options import parse_discovery_options
from ..gpus.report import ProgressReport


def gpu_discovery(argv: Sequence[str]) -> int:
    """Print the GPUs of this machine, as condor_gpu_discovery does."""
    return print_discovery(argv, os.environ, load_nvidia)


def print_discovery(argv: Sequence[str], environment: MutableMapping[str, str], load: Load) -> int:
    options = parse_discovery_options(argv, _program("condor_gpu_discovery"))
    report = ProgressReport(sys.stdout, sys.stderr, options.verbose, options.diagnostic, options.config)
    try:
        discovery = discover(options, environment, report, load)
    except DiscoveryFailed as failure:
        sys.stderr.write(failure.detail)
        sys.stdout.write(error_line(str(failure)))
        return 1
    sys.stdout.writelines(f"{line}\n" for line in discovery.lines(options))
    return 0


def _program(name: str) -> str:
    """Return the tool's name as it was called."""
    return sys.argv[0] if os.path.basename(sys.argv[0]) == name else name

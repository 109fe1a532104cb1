"""condor_gpu_discovery and condor_gpu_utilization: list the GPUs of this machine, and measure their use."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import MutableMapping, Sequence
from ctypes import CDLL
from typing import Any

from ..gpus.cuda import load_nvidia
from ..gpus.devices import OpenLibrary, ProgressReport
from ..gpus.discovery import VISIBLE_DEVICES, DiscoveryFailed, discover, error_line
from ..gpus.options import DiscoveryOptions, parse_discovery_options
from ..gpus.utilization import MonitorFailed, print_utilization, start_meters

_LONG_SLEEP = 1024.0


def gpu_discovery(
    argv: Sequence[str], environment: MutableMapping[str, str] = os.environ, open_library: OpenLibrary = CDLL,
    pynvml: Any = None,
) -> int:  # fmt: skip
    """Print the GPUs of this machine, as condor_gpu_discovery does. For the other arguments, see `discover`."""
    options = parse_discovery_options(argv, _program("condor_gpu_discovery"))
    report = ProgressReport(sys.stdout, sys.stderr, options.verbose, options.diagnostic, options.config)
    try:
        discovery = discover(options, environment, report, open_library, pynvml)
    except DiscoveryFailed as failure:
        sys.stderr.write(failure.detail)
        sys.stdout.write(error_line(str(failure)))
        return 1
    sys.stdout.writelines(f"{line}\n" for line in discovery.lines(options))
    return 0


def gpu_utilization(argv: Sequence[str]) -> int:
    """Print the use of this machine's GPUs every ten seconds, as condor_gpu_utilization does."""
    for name in VISIBLE_DEVICES:
        os.environ.pop(name, None)
    report = ProgressReport(sys.stdout, sys.stderr)
    try:
        print_utilization(start_meters(*load_nvidia(DiscoveryOptions(), os.environ, report), report), sys.stdout)
    except MonitorFailed as failure:
        sys.stderr.write(f"{failure}Hanging to prevent process churn.\n")
    while True:  # the startd would restart the program
        time.sleep(_LONG_SLEEP)


def _program(name: str) -> str:
    """Return the tool's name as it was called."""
    return sys.argv[0] if os.path.basename(sys.argv[0]) == name else name

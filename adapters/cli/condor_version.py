"""``condor_version``: what programs look for that ask for HTCondor's version."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ..machine.host import CONDOR_VERSION, architecture, condor_platform, operating_system

_VERSION_HELP: Final = """\
Usage: condor_version [options]
   If no options are specified, print the version and platform strings
   where the tool was built.  Valid options are:
   -help	(this message)
   -arch	(print the ARCH string)
   -opsys	(print the OPSYS string)
"""


def condor_version(argv: Sequence[str]) -> int:
    """Print what condor_version prints, for programs that look for a version."""
    if argv[:1] == ["-help"]:
        sys.stderr.write(_VERSION_HELP)
        return 0
    shown = {"-arch": architecture, "-opsys": operating_system}
    unknown = [word for word in argv if word not in shown]
    if unknown:
        sys.stderr.write(f"ERROR: unrecognized argument: '{unknown[0]}'\n{_VERSION_HELP}")
        return 1
    lines = [shown[word]() for word in argv] or [CONDOR_VERSION, condor_platform()]
    print("\n".join(lines))
    return 0

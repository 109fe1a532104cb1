"""The version of Poolbook that is installed now, which may differ from that of the running process."""

from __future__ import annotations

from importlib import metadata

from ..machine.host import VERSION


def installed_version() -> str:
    try:
        return metadata.version("poolbook")
    except metadata.PackageNotFoundError:  # it is being replaced, or runs from a source tree
        return VERSION

"""``poolbook view``: show a log on a web page, and serve the HTTP API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from ..condor_tools.options import Arguments, ToolError, UsageError, command_table, parse
from ..stores.location import safe_url
from .common import selected_log
from .stop_signal import StopSignal

if TYPE_CHECKING:
    from ...domain.config import Configuration

VIEW = command_table("view")
_LISTEN = "127.0.0.1:0"


def view(argv: Sequence[str]) -> int:
    arguments = parse(VIEW, argv)
    if len(arguments.words) > 1:
        raise UsageError("poolbook view: it shows one log at a time; name one: poolbook view pool.db")
    url = arguments.words[0] if arguments.words else selected_log(arguments)
    try:
        from ..https.service import Address
        from ..web.service import WebService
    except ModuleNotFoundError as error:
        message = f"poolbook view: the page needs {error.name}, which is not installed: pip install 'poolbook[http]'"
        raise ToolError(message) from None
    try:
        address = Address.parse(arguments.value("listen", _LISTEN))
    except ValueError as error:
        raise UsageError(f"-listen: {error}") from None
    stop = StopSignal(arguments.has("stdin"))
    with closing(WebService(url, address, lambda: _configuration(arguments), origins(arguments))) as service:
        service.start()
        print(f"poolbook: {safe_url(url)} is shown at {service.address}; Ctrl-C stops it", flush=True)
        if not (arguments.has("no-browser") or arguments.has("stdin")):
            import webbrowser

            webbrowser.open(service.address)
        stop.wait()
    return 0


def origins(arguments: Arguments) -> list[str]:
    """Return the other origins whose pages may use the API. Raise `UsageError` if one is invalid."""
    sites: list[str] = arguments.values("origin")
    for origin in sites:
        if not re.fullmatch(r"https?://[^/\s]+", origin):
            raise UsageError(
                f"-origin: {origin!r} is not an origin; use a URL without a path, such as https://portal.example"
            )
    return sites


def _configuration(arguments: Arguments) -> Configuration:
    from ..runtime.config_sources import config_files
    from ..runtime.configuration import load

    return load([path.absolute() for path in config_files(arguments.values("config"))], subsystem="SCHEDD")

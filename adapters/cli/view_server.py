"""``poolbook metrics -view-server``: receive the ads of pools that forward them (CONDOR_VIEW_HOST), and keep their
history."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ..condor_tools.options import Arguments, ToolError, UsageError

if TYPE_CHECKING:
    from ...domain.config import Configuration
    from ...domain.ports.stimuli import RejectedRequests

_LISTEN: Final = ":9618"
_MAINTENANCE_S: Final = 600


def serve_view(
    arguments: Arguments, url: str, load: Callable[[], Configuration], is_stopped: Callable[[float], bool],
    warn: Callable[[str], None],
) -> None:  # fmt: skip
    """Serve until ``is_stopped``, which waits for so many seconds, returns True.

    :param url: the log whose tokens senders need; it is created if it does not exist
    """
    from ...domain.state.pool_settings import UID_DOMAIN
    from ..metrics.history_keeper import history_folder, keep_history
    from ..metrics.view_ads import ViewAds
    from ..runtime.open_pool import open_pool_log
    from ..runtime.queries import Queries
    from ..stores.log_paths import log_paths

    try:
        from ..https.rejections import Rejections
        from ..https.service import Address, HttpsService
        from ..metrics.view_server import ViewServer
        from ..security.pool_security import pool_security
    except ModuleNotFoundError as error:
        raise ToolError(
            f"poolbook metrics: a view server needs {error.name}, which is not installed: pip install "
            f"'poolbook[cluster]'"
        ) from None
    try:
        address = Address.parse(arguments.value("listen", _LISTEN))
    except ValueError as error:
        raise UsageError(f"-listen: {error}") from None
    base = log_paths(url).base
    if not base.exists():
        open_pool_log(url, create=True).close()
    with Queries(url) as queries:
        uid_domain = queries.views.pool().settings[UID_DOMAIN]
    configuration = load()
    ads = ViewAds(configuration.integer("CLASSAD_LIFETIME", 900), int(time.time()))

    def report(rejected: RejectedRequests) -> None:
        times = f" {rejected.count} times" if rejected.count > 1 else ""
        warn(f"rejected a request from {rejected.address}{times}: {rejected.text}")

    service = HttpsService(address)
    server = ViewServer(
        service, url, uid_domain, lambda: pool_security(base, uid_domain, load()), ads, Rejections(report).record
    )
    with closing(server):
        keeps_history = configuration.boolean("KEEP_POOL_HISTORY", False)
        if keeps_history:  # condor_stats reads the same files, although it does not know the local name
            os.environ["_CONDOR_KEEP_POOL_HISTORY"] = "true"
            os.environ["_CONDOR_POOL_HISTORY_DIR"] = str(history_folder(configuration).absolute())
        else:
            warn("KEEP_POOL_HISTORY is false: the view server shows the present ads, but writes no history")
        server.start()
        print(f"poolbook: the view server listens at {server.url}; Ctrl-C stops it", flush=True)

        def wait(seconds: float) -> bool:
            server.maintain(warn)
            return is_stopped(seconds)

        if keeps_history:
            keep_history(lambda now: (ads.ads("Submitter", now), ads.ads("Machine", now)), configuration, wait)
        while not wait(_MAINTENANCE_S):
            pass

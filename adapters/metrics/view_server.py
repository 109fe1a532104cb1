"""A view server: receives the ads that pools forward (CONDOR_VIEW_HOST), and answers condor_status and condor_stats.

A sender needs a token of the view server, and the authorization level of an ad's type, as in HTCondor's collector.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from starlette.responses import Response

from ...domain.classad import ClassAd
from ...domain.errors import PoolbookError
from ..condor_tools.options import Help, UsageError, Version
from ..condor_tools.status import parse_arguments
from ..https.application import Gate
from ..https.commands import LARGEST_SUBMISSION, RoleCommands
from ..https.messages import LARGEST_BODY, Advertise, PoolInfo, Query, Sender
from ..https.requests import Record, Rejected
from ..https.service import HttpsService
from ..https.token_checks import TokenChecks
from ..machine.host import host_addresses, host_name
from ..security.pool_security import PoolSecurity
from ..security.private_files import write_private
from .view_ads import ViewAds

_LEVELS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("machine", "slot", "startd"), "ADVERTISE_STARTD"),
    **dict.fromkeys(("scheduler", "submitter"), "ADVERTISE_SCHEDD"),
    "daemonmaster": "ADVERTISE_MASTER", **dict.fromkeys(("negotiator", "accounting"), "NEGOTIATOR"),
}  # fmt: skip
"""The authorization level that each type of ads needs; others need DAEMON. Source: ``CollectorDaemon::Init``."""


class _Kind(msgspec.Struct):
    kind: str = ""


class ViewCommands(RoleCommands):
    """Answers commands at a view server: forwarded ads, queries of them, and requests for tokens."""

    def __init__(
        self, log: str, uid_domain: str, security: Callable[[], PoolSecurity], ads: ViewAds, file: Path
    ) -> None:
        super().__init__(log, "COLLECTOR", uid_domain, security)
        self._ads, self._file = ads, file

    def _largest_body(self, sender: Sender) -> int:
        return LARGEST_SUBMISSION if sender.name else LARGEST_BODY

    def _answer(self, body: bytes, sender: Sender) -> Response:
        kind = ""
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            kind = msgspec.json.decode(body, type=_Kind).kind
        if kind != "Advertise":
            return super()._answer(body, sender)
        try:
            sent = msgspec.json.decode(body, type=Advertise)
            ads = [ClassAd.from_old(text) for text in sent.ads]
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise Rejected(400, "malformed", f"the ads are invalid: {error}", sender.identity) from None
        if any(str(ad.eval("MyType")).lower() != sent.type.lower() for ad in ads):
            raise Rejected(400, "malformed", f"all ads must have the MyType {sent.type[:80]}", sender.identity)
        self._authorize(sender, _LEVELS.get(sent.type.lower(), "DAEMON"))
        self._ads.update(sender.identity, sent, ads, time.time())
        return Response(b"{}", media_type="application/json")

    def _prepared(self, query: Query) -> Query:
        """Let condor_status read the ads that are held here."""
        if query.command == "stats":
            return query
        if query.command != "status":
            raise UsageError(f"a view server answers condor_status and condor_stats, not {query.command}")
        try:
            status = parse_arguments(query.words)
        except (Help, Version):
            return query
        if status.arguments.has("at"):
            raise UsageError("a view server holds the present ads; omit -at (condor_stats shows the history)")
        write_private(self._file, "\n".join(ad.to_old() for ad in self._ads.ads(status.kind, time.time())).encode())
        return msgspec.structs.replace(query, words=[*query.words, "-ads:long", str(self._file)])


class ViewServer:
    """The HTTPS service of a view server, from `start` to `close`.

    :param load_security: reads the configuration, and returns the security
    :param record: called, in a thread, with each rejected request
    """

    def __init__(
        self, service: HttpsService, log: str, uid_domain: str, load_security: Callable[[], PoolSecurity],
        ads: ViewAds, record: Record,
    ) -> None:  # fmt: skip
        self._service, self._load_security = service, load_security
        self._security = load_security()
        self._security.create_first_key()
        self._authority = self._security.authority(time.time())
        self._certificate = b""
        info = PoolInfo(
            host_name(), self._authority.certificate_path.read_text(), self._authority.fingerprint, time.time(),
            self._security.trust_domain,
        )  # fmt: skip
        tokens = TokenChecks(lambda: self._security, self._authority.fingerprint)
        file = self._security.folder / f"view-ads-{service.address.port}"
        commands = ViewCommands(log, uid_domain, lambda: self._security, ads, file)
        self._application = Gate(info, tokens, record).application(commands, [])

    @property
    def url(self) -> str:
        """Return the URL with the fingerprint of the authority, for CONDOR_VIEW_HOST and -pool."""
        return f"https://{host_name()}:{self._service.address.port}#sha256={self._authority.fingerprint}"

    def start(self) -> None:
        self._service.start(self._application, self._current_certificate())

    def maintain(self, warn: Callable[[str], None]) -> None:
        """Read the configuration again, and renew the certificate if it is time."""
        try:
            self._security = self._load_security()
            used, path = self._certificate, self._current_certificate()
            if self._certificate != used:
                self._service.replace_certificate(path)
        except (PoolbookError, OSError, ValueError) as error:  # it is retried
            warn(f"the view server needs attention: {error}")

    def _current_certificate(self) -> Path:
        hosts = [host_name(), "localhost", "127.0.0.1", *host_addresses()]
        path = self._authority.certificate_for(hosts, time.time())
        self._certificate = path.read_bytes()
        return path

    def close(self) -> None:
        self._service.close()

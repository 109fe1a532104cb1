"""Answers the commands of users on other machines, at the role whose log they concern.

The manager authenticates a user (POST /v1/commands), and forwards commands for an access point through the relay
(POST /v1/access-points/NAME/commands). The role authorizes each by its own configuration. Then it sends the request to
its server's socket in the name of the user, or starts the command if it only reads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from threading import BoundedSemaphore
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..condor_tools.options import UsageError
from ..runtime.command_codec import LEVELS as COMMAND_LEVELS
from ..runtime.command_codec import MACHINE_COMMANDS
from ..runtime.pool_client import PATIENCE, ServerConnection
from ..runtime.requests import RequestRefused
from ..security.authorization import Verdict, is_authorized
from ..security.pool_security import PoolSecurity
from ..security.token_authority import ClientTokens
from ..security.tokens import POOL
from ..stores.log_paths import log_paths
from .messages import LARGEST_BODY, Query, Sender
from .remote_query import check_query, run_query
from .requests import Record, Rejected, json_response, read_body, recording_application
from .spooling import SPOOL_KINDS, OfferFiles, SpoolTransfers, TakeFiles
from .token_requests import METHODS, TokenCommand, call_authority

SENDER: Final = "Poolbook-Sender"  #: the header with the `Sender`, as JSON
LARGEST_SUBMISSION: Final = 64 << 20  #: bytes of a request that may contain jobs
_MOST_QUERIES: Final = 4  #: queries that run at the same time; others wait
LEVELS: Final[Mapping[str, str]] = {
    "Query": "READ",
    **{kind: level for kind, level in COMMAND_LEVELS.items() if kind not in MACHINE_COMMANDS},
    **dict.fromkeys(SPOOL_KINDS, "WRITE"),
    **dict.fromkeys(METHODS, "ALLOW"),  # a client without a token may request one; `ClientTokens` limits the others
}
"""The kinds of requests that are accepted from other machines, with the authorization level that each needs."""


class RoleCommands:
    """Answers commands for the log of one role.

    :param daemon: the role as in the names of settings: SCHEDD or COLLECTOR
    :param security: returns the security by the present configuration
    """

    def __init__(
        self, log: str, daemon: str, uid_domain: str, security: Callable[[], PoolSecurity],
        spool: SpoolTransfers | None = None,
    ) -> None:  # fmt: skip
        self._log, self._daemon, self._uid_domain, self._security = log, daemon, uid_domain, security
        self._spool = spool
        self._turns = BoundedSemaphore(_MOST_QUERIES)

    async def answer(self, request: Request, sender: Sender) -> Response:
        """Raise `Rejected` if the sender may not do that."""
        body = await read_body(request, self._largest_body(sender))
        return await run_in_threadpool(self._answer, bytes(body), sender)

    def _largest_body(self, sender: Sender) -> int:
        return LARGEST_SUBMISSION if sender.name and self._spool is not None else LARGEST_BODY

    async def answer_forwarded(self, request: Request) -> Response:
        """Answer a request that the manager has forwarded."""
        if SENDER not in request.headers:
            raise Rejected(403, "sender", "send commands to the manager: POST /v1/access-points/NAME/commands")
        return await self.answer(request, _sender_of(request))

    def _answer(self, body: bytes, sender: Sender) -> Response:
        try:
            command = json.loads(body)
            kind = command["kind"]
            level = LEVELS[kind]
        except (ValueError, RecursionError, TypeError, KeyError):
            kinds = ", ".join(LEVELS)
            message = f"the request is not a command for a pool on another machine; its kind must be one of {kinds}"
            raise Rejected(400, "malformed", message, sender.identity) from None
        self._authorize(sender, level)
        if kind == "Query":
            return self._run(command, sender)
        if kind in SPOOL_KINDS or kind in METHODS:
            return self._call(command, sender)
        with closing(ServerConnection(log_paths(self._log))) as server:
            line = json.dumps({**command, "on_behalf": self._user(sender)}).encode()
            return Response(server.exchange(line), media_type="application/json")

    def _authorize(self, sender: Sender, level: str) -> None:
        verdict = self._verdict(sender, level)
        if not verdict.allowed or (sender.name is None and level not in ("READ", "ALLOW")):
            raise Rejected(
                403 if sender.name else 401, "level", f"{sender.identity} from {sender.address} may not do that, which "
                f"needs the level {level}: {verdict.reason} ({verdict.rule}); use a token with that level, or allow it "
                f"in the configuration there", sender.identity,
            )  # fmt: skip

    def _call(self, command: Mapping[str, Any], sender: Sender) -> Response:
        """Answer a request about a job's files or about tokens, which are not in the log."""
        try:
            if command["kind"] in METHODS:
                answer = call_authority(self._authority(sender), msgspec.convert(command, TokenCommand))
            elif self._spool is None:
                raise RequestRefused("this role has no jobs' files; name an access point (-name)")
            else:
                answer = self._spool.answer(msgspec.convert(command, OfferFiles | TakeFiles), self._user(sender))
            reply: dict[str, Any] = {"answer": answer}
        except RequestRefused as refused:
            reply = refused.as_answer()
        except OSError as error:
            reply = {"refusal": error.strerror or str(error)}
        except msgspec.ValidationError as error:
            reply = {"refusal": str(error)}
        return Response(msgspec.json.encode(reply), media_type="application/json")

    def _authority(self, sender: Sender) -> ClientTokens:
        """Return the pool as the sender's authority for tokens."""
        security = self._security()
        if not security.keys.path(POOL).exists():
            raise RequestRefused("only the manager issues tokens; omit -name")
        administers = self._verdict(sender, "ADMINISTRATOR").allowed and sender.name is not None
        return ClientTokens(security, sender.name, sender.scopes, sender.address, administers)

    def _verdict(self, sender: Sender, level: str) -> Verdict:
        settings = self._security().settings
        return is_authorized(settings, sender.name, sender.address, level, sender.scopes, self._daemon)

    def _user(self, sender: Sender) -> str:
        """Return the user as whom the sender acts: users of another domain own no jobs here."""
        user, _, domain = (sender.name or "").partition("@")
        return user if domain.lower() == self._uid_domain.lower() else sender.name or ""

    def _run(self, command: Mapping[str, Any], sender: Sender) -> Response:
        try:
            query = msgspec.convert({name: command[name] for name in command if name != "kind"}, Query)
            check_query(query)
            query = self._prepared(query)
        except (msgspec.ValidationError, UsageError) as error:
            raise Rejected(400, "malformed", str(error), sender.identity) from None
        if not self._turns.acquire(timeout=PATIENCE):
            raise Rejected(503, "busy", "too many queries are running; try again later", sender.identity)
        try:
            return json_response(run_query(query, os.path.abspath(self._log), self._user(sender)))
        finally:
            self._turns.release()

    def _prepared(self, query: Query) -> Query:
        """Return a checked query as it is to run here. Raise `UsageError` if it does not work here."""
        return query


def commands_application(commands: RoleCommands, record: Record) -> Starlette:
    """Return the application that answers the commands that the manager has forwarded."""
    routes = [Route("/", commands.answer_forwarded, methods=["POST"])]
    return recording_application(routes, record, lambda request: _sender_of(request).address)


def _sender_of(request: Request) -> Sender:
    """Return the sender of a request that the manager has forwarded. Others cannot send the header with the sender."""
    if SENDER not in request.headers:
        return Sender(None, None, "")
    return msgspec.json.decode(request.headers[SENDER], type=Sender)

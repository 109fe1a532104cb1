"""``poolbook token``: create, list and revoke tokens, and approve requests for them."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..condor_tools.layout import text_table
from ..condor_tools.options import Arguments, ToolError, UsageError, command_table, last_number, parse
from ..condor_tools.terminal import as_one_line
from ..machine.host import host_name, user_name
from ..runtime.elsewhere import is_elsewhere
from .common import log_option, selected_log

if TYPE_CHECKING:
    from ...domain.config import Configuration
    from ..security.pool_security import PoolSecurity
    from ..security.token_authority import TokenAuthority
    from ..security.token_store import IssuedToken, TokenRequest

COMMAND = command_table("token")
POLL: Final = 1.0  #: seconds between two looks at whether a request was approved
_TIME: Final = "%Y-%m-%d %H:%M:%S"


def token(argv: Sequence[str]) -> int:
    arguments = parse(COMMAND, argv)
    action, ids = (arguments.words or ("",))[0], arguments.words[1:]
    if action not in _ACTIONS:
        raise UsageError(f"poolbook token: specify one of {', '.join(_ACTIONS)}, not {action!r}")
    if ids and action not in ("revoke", "approve"):
        raise UsageError(f"poolbook token {action}: remove {ids[0]!r}; only revoke and approve take ids")
    return _ACTIONS[action](arguments, ids)


def security_of(url: str, configuration: Configuration) -> PoolSecurity:
    """Return the security of a log's pool, with its first signing key. Raise `ToolError` if the log belongs to another
    user, `LogError` if it cannot be read."""
    from ...domain.state.pool_settings import UID_DOMAIN
    from ..runtime.queries import Queries
    from ..security.pool_security import pool_security
    from ..stores.log_paths import log_paths

    with Queries(url) as queries:
        uid_domain = queries.views.pool().settings[UID_DOMAIN]
    base = log_paths(url).base
    owner = base.stat().st_uid if base.exists() else os.geteuid()
    if owner != os.geteuid():
        raise ToolError(f"poolbook: the log's tokens belong to {user_name(owner)}; run this command as that user")
    security = pool_security(base, uid_domain, configuration)
    security.create_first_key()
    return security


def loaded(files: Sequence[str] = ()) -> Configuration:
    from ..runtime.configuration import load

    return load(files)


def store_token(arguments: Arguments, configuration: Configuration, text: str) -> Path | None:
    """Write a token to the file that -token or -file names, which only this user can read. Return the file, or None
    without these options. Raise `ToolError` with HTCondor's message if the name of -token is a path, or writing
    fails."""
    from ..security.private_files import make_private_folder, write_private
    from ..security.user_tokens import tokens_folder

    option = arguments.last("token", "file")
    if option is None:
        return None
    (name,) = option.values
    path = Path(name)
    if option.name == "token":
        if name != os.path.basename(name) or name in ("", ".", ".."):
            raise ToolError("Token name isn't a plain filename")
        path = tokens_folder(configuration) / name
        make_private_folder(path.parent)
    try:
        write_private(path, f"{text}\n".encode())
    except OSError as error:
        raise ToolError(f"Cannot write token to {path}: {error.strerror} (errno={error.errno})") from None
    return path


def token_authority(url: str, configuration: Configuration) -> TokenAuthority:
    """Return what issues tokens for the pool of a log, to its owner, or for a pool on another machine."""
    if is_elsewhere(url):
        from ..https.token_requests import RemoteTokens

        return RemoteTokens(url)
    from ..security.token_authority import ClientTokens

    security = security_of(url, configuration)
    return ClientTokens(security, f"{user_name()}@{security.trust_domain}", None, "127.0.0.1", is_administrator=True)


def requested_token(authority: TokenAuthority, identity: str, levels: Sequence[str], lifetime: int | None) -> str:
    """Request a token, print the request's id, and return the token when the request is approved.

    :raises RequestError: the request is not possible, or has expired
    """
    client = f"{host_name().partition('.')[0]}-{secrets.randbelow(100_000)}"
    id, secret, is_approved = authority.request(client, identity, levels, lifetime)
    if not is_approved:
        print(f"Token request enqueued.  Ask an administrator to please approve request {id}.", flush=True)
    while not (text := authority.collect(id, client, secret)):
        time.sleep(POLL)
    return text


def _security(arguments: Arguments) -> PoolSecurity:
    url = selected_log(arguments, "pool")
    if is_elsewhere(url):
        action = arguments.words[0]
        raise UsageError(f"poolbook token {action}: this needs the manager's signing keys; run it on that machine")
    return security_of(url, loaded(arguments.values("config")))


def _authority(arguments: Arguments) -> TokenAuthority:
    return token_authority(selected_log(arguments, "pool"), loaded(arguments.values("config")))


def _print_token(arguments: Arguments, text: str) -> int:
    path = store_token(arguments, loaded(arguments.values("config")), text)
    if path is not None:
        print(f"The token was written to {path}", file=sys.stderr)
    elif arguments.has("json"):
        print(json.dumps({"token": text}))
    else:
        print(text)
    return 0


def _create(arguments: Arguments, _: Sequence[str]) -> int:
    if not arguments.has("identity"):
        raise UsageError("poolbook token create: a token needs a holder; specify it with -identity user@domain")
    security, lifetime = _security(arguments), last_number(COMMAND, arguments, "lifetime")
    identity, levels = arguments.value("identity"), arguments.values("authz")
    _check_levels(levels)
    try:
        text = security.issue(identity, time.time(), levels, lifetime, arguments.value("key"))
    except ValueError as error:
        raise UsageError(f"poolbook token create: {error}") from None
    return _print_token(arguments, text)


def _check_levels(levels: Sequence[str]) -> None:
    from ..security.authorization import LEVELS

    if unknown_levels := [level for level in levels if level not in LEVELS]:
        text = f"{unknown_levels[0]!r} is not an authorization level; use one of {', '.join(LEVELS)}"
        raise UsageError(f"poolbook token -authz: {text}")


def _list(arguments: Arguments, _: Sequence[str]) -> int:
    issued, now = _security(arguments).store.issued(), time.time()
    if arguments.has("json"):
        print(json.dumps([{**each._asdict(), "state": _state(each, now)} for each in issued], indent=2))
        return 0
    rows = [
        (each.id, as_one_line(each.identity), each.levels or "all", each.key, _time(each.at), _time(each.expires),
         _state(each, now))
        for each in issued
    ]  # fmt: skip
    print(*text_table(("ID", "IDENTITY", "LEVELS", "KEY", "CREATED", "EXPIRES", "STATE"), rows), sep="\n")
    return 0


def _time(seconds: int | None) -> str:
    return "never" if seconds is None else time.strftime(_TIME, time.localtime(seconds))


def _state(issued: IssuedToken, now: float) -> str:
    return (
        "revoked" if issued.revoked else "expired" if issued.expires is not None and issued.expires < now else "valid"
    )


def _revoke(arguments: Arguments, ids: Sequence[str]) -> int:
    from ..security.tokens import ID

    if not ids:
        raise UsageError("poolbook token revoke: specify the ids of tokens; `poolbook token list` shows them")
    if invalid_ids := [id for id in ids if not ID.fullmatch(id)]:
        raise UsageError(
            f"poolbook token revoke: {invalid_ids[0]!r} is not the id of a token; see `poolbook token list`"
        )
    store = _security(arguments).store
    known_ids = {each.id for each in store.issued()}
    for id in ids:
        store.revoke(id, time.time())
        note = "" if id in known_ids else "; this pool has no record that it created it"
        print(f"The token {as_one_line(id)} is revoked{note}.")
    return 0


def _request(arguments: Arguments, _: Sequence[str]) -> int:
    _check_levels(arguments.values("authz"))
    authority, lifetime = _authority(arguments), last_number(COMMAND, arguments, "lifetime")
    identity, levels = arguments.value("identity"), arguments.values("authz")
    return _print_token(arguments, requested_token(authority, identity, levels, lifetime))


def _requests(arguments: Arguments, _: Sequence[str]) -> int:
    pending = _authority(arguments).pending()
    if arguments.has("json"):
        print(json.dumps([each._asdict() for each in pending], indent=2))
        return 0
    headings = ("ID", "IDENTITY", "LEVELS", "CLIENT", "ADDRESS", "REQUESTER", "REQUESTED")
    print(*text_table(headings, map(_cells, pending)), sep="\n")
    return 0


def _cells(request: TokenRequest) -> list[str]:
    cells = (request.id, request.identity, request.levels or "all", request.client, request.address, request.requester)
    return [*map(as_one_line, cells), _time(request.at)]


def _approve(arguments: Arguments, ids: Sequence[str]) -> int:
    if bool(ids) == arguments.has("netblock"):
        raise UsageError("poolbook token approve: specify either the ids of requests, or a network with -netblock")
    authority = _authority(arguments)
    if netblock := arguments.value("netblock"):
        from ..security.token_store import LONGEST_RULE

        lifetime = last_number(COMMAND, arguments, "lifetime", least=1) or LONGEST_RULE
        authority.approve_network(netblock, lifetime)
        print(f"Requests of daemons in {netblock} are approved for {lifetime} s.")
    for id in ids:
        requests = authority.pending(id)
        if not requests:
            command = f"`poolbook token requests{log_option(selected_log(arguments, 'pool'))}`"
            raise ToolError(f"poolbook token approve: no request {as_one_line(id)} waits for approval; see {command}")
        authority.approve(id, requests[0].client)
        print(f"Request {id} approved: {as_one_line(requests[0].identity)}, {requests[0].levels or 'all levels'}.")
    return 0


_ACTIONS: Final[dict[str, Callable[[Arguments, Sequence[str]], int]]] = {
    "create": _create, "list": _list, "revoke": _revoke, "request": _request, "requests": _requests,
    "approve": _approve,
}  # fmt: skip

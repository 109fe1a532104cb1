"""condor_token_create, condor_token_list and condor_token_request with its variants, in HTCondor's format.

They act on the log that POOLBOOK_LOG names, and only for its owner; requests also on the manager that -pool names.
Source: HTCondor's token_*.cpp, and the output of its tools."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..condor_tools.options import Arguments, ToolError
from ..condor_tools.terminal import as_one_line
from ..condor_tools.tool_options import Tool, ToolEnded, parse_tool_arguments, tool
from .common import default_log, pool_log
from .token_commands import loaded, requested_token, security_of, store_token, token_authority

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..security.token_authority import TokenAuthority
    from ..security.token_store import TokenRequest

CREATE, LIST, REQUEST, REQUESTS, APPROVE, AUTO_APPROVE, FETCH = map(tool, (
    "token_create", "token_list", "token_request", "token_request_list", "token_request_approve",
    "token_request_auto_approve", "token_fetch",
))  # fmt: skip
_DAEMONS: Final = ("collector", "schedd", "startd", "master", "negotiator")
_KEY_ERROR_CODE: Final = 2  #: the exit code of condor_token_create if the signing key cannot be used


def create(argv: Sequence[str]) -> int:
    if len(argv) < 2:
        raise CREATE.usage_error("{usage}")
    arguments = _parse(CREATE, argv)
    lifetime, security = _lifetime(CREATE, arguments), security_of(default_log(), loaded())
    from ..security.tokens import SigningKeyError

    try:
        identity, levels = arguments.value("identity"), arguments.values("authz")
        text = security.issue(identity, time.time(), levels, lifetime, arguments.value("key"))
    except (SigningKeyError, ValueError) as error:
        reason = getattr(error, "tool", "") or f"TOKEN:1:{error}"
        raise ToolEnded(_KEY_ERROR_CODE, f"Failed to generate a token.\n{reason}\n") from None
    return _put(arguments, text)


def list_tokens(argv: Sequence[str]) -> int:
    from ..security.user_tokens import token_files, tokens_folder, tokens_in

    arguments = _parse(LIST, argv)
    configuration = loaded()
    if arguments.has("file"):
        files = [Path(arguments.value("file"))]
    else:
        files = token_files(Path(arguments.value("dir") or tokens_folder(configuration)), configuration)
    for token in (token for file in files for token in tokens_in(file)):
        header, payload = as_one_line(token.header), as_one_line(token.payload)
        print(f"Header: {header} Payload: {payload} File: {as_one_line(str(token.path))}")
    return 0


def request(argv: Sequence[str]) -> int:
    arguments = _parse(REQUEST, argv)
    lifetime, identity, levels = _lifetime(REQUEST, arguments), arguments.value("identity"), arguments.values("authz")
    with _reporting("Failed to request a new token"):
        text = requested_token(_authority(arguments), identity, levels, lifetime)
    return _put(arguments, text)


def fetch(argv: Sequence[str]) -> int:
    """Run condor_token_fetch. The pool has one authority for tokens, so -type and -name do not matter."""
    arguments = _parse(FETCH, argv)
    if arguments.has("remote") and arguments.value("type", "schedd").lower() != "schedd":
        raise ToolEnded(1, "condor_token_fetch: Remote fetch (-remote) is only valid with the schedd.\n")
    lifetime = _lifetime(FETCH, arguments)
    with _reporting("Failed to request a session token"):
        text = _authority(arguments).fetch(arguments.values("authz"), lifetime, arguments.value("key"))
    return _put(arguments, text)


def request_list(argv: Sequence[str]) -> int:
    arguments = _parse(REQUESTS, argv)
    id = arguments.value("reqid")
    requests = _pending(_authority(arguments), id)
    if id and not requests:
        raise ToolEnded(1, f"Remote daemon did not provide information for request ID {as_one_line(id)}.\n")
    if not requests:
        sys.stderr.write("Remote daemon reports no requests pending.\n")
        return 0
    from ..condor_tools.formats import whole_ads

    form = "json" if arguments.has("json") else "long"
    sys.stdout.writelines(whole_ads(form, map(_request_ad, requests), sorted(_request_ad(requests[0]), key=str.lower)))
    return 0


def _pending(authority: TokenAuthority, id: str) -> list[TokenRequest]:
    if id and not re.fullmatch(r"[0-9]+", id, re.ASCII):
        text = (
            f"Failed to locate request corresponding to ID {as_one_line(id)}: DAEMON:2:Unable to convert request ID to"
        )
        raise ToolEnded(1, f"{text} integer.\n")
    return authority.pending(id)


def _request_ad(request: TokenRequest) -> ClassAd:
    from ...domain.classad import ClassAd

    values = {
        "RequestId": request.id, "ClientId": request.client, "AuthenticatedIdentity": request.requester,
        "RequestedIdentity": request.identity, "PeerLocation": request.address,
        "LimitAuthorization": request.levels or None, "TokenLifetime": request.lifetime,
    }  # fmt: skip
    return ClassAd({name: value for name, value in values.items() if value is not None})


def request_approve(argv: Sequence[str]) -> int:
    arguments = _parse(APPROVE, argv)
    id, authority = arguments.value("reqid"), _authority(arguments)
    requests = _pending(authority, id)
    if not requests:
        text = f"did not provide information for request ID {as_one_line(id)}" if id else "has no request to approve"
        raise ToolEnded(1, f"Remote daemon {text}.\n")
    for each in requests:
        print(f"Request contents:\n{_request_ad(each).to_old()}\nTo approve, please type 'yes'", flush=True)
        if sys.stdin.readline().rstrip("\n") != "yes":
            raise ToolEnded(1, "Request was NOT approved.\n")
        with _reporting("Failed to approve token request"):
            authority.approve(each.id, each.client)
        print(f"Request {each.id} approved successfully.")
    return 0


def request_auto_approve(argv: Sequence[str]) -> int:
    arguments = _parse(AUTO_APPROVE, argv)
    lifetime, netblock = _lifetime(AUTO_APPROVE, arguments), arguments.value("netblock")
    if not netblock:
        name = "condor_token_request_auto_approve"
        text = f"{name}: -netblock argument is required.\nExample: {name} -netblock 192.168.0.0/24\n"
        raise ToolEnded(1, text)
    authority = _authority(arguments)
    from ..security.token_store import LONGEST_RULE

    seconds = LONGEST_RULE if lifetime is None and not arguments.has("lifetime") else lifetime or 0
    with _reporting("Failed to create new auto-approval rule: DAEMON:2", separator=":"):
        authority.approve_network(netblock, seconds)
    hours = f"lifetime of {seconds / 3600:.2f} hours"
    print(f"Successfully installed auto-approval rule for netblock {as_one_line(netblock)} with {hours}", flush=True)
    _print_remaining(authority.pending())
    return 0


def _print_remaining(requests: Sequence[TokenRequest]) -> None:
    if not requests:
        sys.stderr.write("Remote daemon reports no un-approved requests pending.\n")
        return
    line = "=" * 50
    print("The following requests remain after auto-approval rule was installed:", line, sep="\n")
    print(*(_request_ad(each).to_old() for each in requests), line, sep="\n")
    print("To approve these requests, please run condor_token_request_approve manually.")


def _parse(tool: Tool, argv: Sequence[str]) -> Arguments:
    arguments = parse_tool_arguments(tool, argv)
    if arguments.words:
        raise tool.usage_error(tool.unknown, option=arguments.words[0])
    daemon = arguments.value("type", "collector")
    if daemon.lower() not in _DAEMONS:
        raise tool.usage_error(f"ERROR: unrecognized daemon type: {as_one_line(daemon)}\n{{usage}}")
    return arguments


@contextmanager
def _reporting(problem: str, separator: str = ": ") -> Iterator[None]:
    """End the tool with HTCondor's message if the pool rejects a request."""
    from ...domain.errors import PoolbookError

    try:
        yield
    except PoolbookError as error:
        raise ToolEnded(1, f"{problem}{separator}{error}\n") from None


def _authority(arguments: Arguments) -> TokenAuthority:
    unknown, no_pool = "ERROR: couldn't locate daemon {name}!\n", "ERROR: unknown host {name}\n"
    return token_authority(pool_log(arguments, unknown, no_pool, at_manager=True), loaded())


def _lifetime(tool: Tool, arguments: Arguments) -> int | None:
    """Return the lifetime in seconds; None if it is not limited. Like C's strtol, ignore text after the number."""
    text = arguments.value("lifetime", "-1")
    number = re.match(r"\s*[+-]?[0-9]{1,18}", text, re.ASCII)
    if number is None:
        raise ToolEnded(1, f"condor_{tool.name}: Invalid argument for -lifetime: {as_one_line(text)}.\n")
    return int(number[0]) if int(number[0]) >= 0 else None


def _put(arguments: Arguments, text: str) -> int:
    try:
        if store_token(arguments, loaded(), text) is None:
            print(text)
    except ToolError as error:
        raise ToolEnded(1, f"{error}\n") from None
    return 0

"""condor_ping: check whether the pool can be reached, and what this user may request.

A pool identifies its users by the socket's peer credentials (HTCondor: FS). Nothing is encrypted, because no data
leaves the machine. Users may read and submit (READ, WRITE); owners may also administer the pool. No user has the levels
that daemons use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..condor_tools.options import data_text, texts_by_name
from ..condor_tools.tool_options import ToolEnded, parse_tool_arguments, tool
from ..machine.host import CONDOR_VERSION, user_name
from .common import pool_log

TOOL = tool("ping")
_LEVELS: Final = ("ALLOW", "READ", "WRITE", "NEGOTIATOR", "ADMINISTRATOR", "OWNER", "CONFIG", "DAEMON",
                  "ADVERTISE_STARTD", "ADVERTISE_SCHEDD", "ADVERTISE_MASTER")  # fmt: skip
_USERS: Final = frozenset({"ALLOW", "READ", "WRITE"})  #: the levels of every user who can connect to the pool
_OWNERS: Final = _USERS | {"ADMINISTRATOR", "OWNER"}
_COMMANDS: Final = {"DC_NOP": "READ", "QMGMT_READ_CMD": "READ", "QMGMT_WRITE_CMD": "WRITE", "ACT_ON_JOBS": "WRITE",
                    "1111": "READ", "1112": "WRITE", "478": "WRITE", "60011": "READ"}  # fmt: skip
"""The commands that tools send, by name and number, and the authorization level that each requires."""
_COMMAND_OF_LEVEL: Final = dict(zip(_LEVELS, range(60019, 60030), strict=True)) | {"READ": 60020, "WRITE": 60021}
_TYPES: Final = ("schedd", "collector", "startd", "negotiator", "master")
_TABLE_HEAD: Final = "         Instruction Authentication Encryption Integrity Decision Identity"


def ping(argv: Sequence[str]) -> int:
    arguments = parse_tool_arguments(TOOL, argv)
    daemon = arguments.value("type", arguments.value("subsystem", "schedd")).lower()
    if daemon not in _TYPES:
        raise ToolEnded(1, f"ERROR: unknown daemon type {daemon!r}: there are {', '.join(_TYPES)}\n")
    tokens = [word for token in arguments.words or ("WRITE",) for word in (_LEVELS if token == "ALL" else (token,))]
    levels = {token: _authorization_level(token) for token in tokens}
    url = pool_log(arguments, "ERROR: couldn't locate {name}!\n", "ERROR: unknown host {name}\n")
    user, is_allowed = _user_and_levels(url)
    form = arguments.last_name("table") or arguments.last_name("verbose") or "plain"
    answer_texts = texts_by_name(data_text("tools", "ping_answers").splitlines())
    if form == "table" and not arguments.has("quiet"):
        print(_TABLE_HEAD)
    for token in tokens if not arguments.has("quiet") else ():
        text = answer_texts[form if levels[token] in is_allowed else f"{form} failed"].encode().decode("unicode_escape")
        command = _COMMAND_OF_LEVEL.get(token, token)
        print(text.format(token=token, user=user, daemon=daemon, command=command, version=CONDOR_VERSION))
    return 0 if is_allowed.issuperset(levels.values()) else 1


def _authorization_level(token: str) -> str:
    """Return the authorization level for a level, a command's name or its number. Raise ``ToolEnded`` for other
    words."""
    level = token if token in _LEVELS else _COMMANDS.get(token)
    if level is None:
        level_text = "" if re.fullmatch(r"[0-9]+", token) is None else "; its level is not known here"
        raise ToolEnded(1, f'ERROR: Could not understand TOKEN "{token}"{level_text}.\n')
    return level


def _user_and_levels(url: str) -> tuple[str, frozenset[str]]:
    """Return this user's name in the pool and authorization levels. Raise `LogError` if the pool does not exist."""
    from ...domain.state.pool_settings import SUPER_USERS, UID_DOMAIN
    from ..runtime.queries import Queries

    with Queries(url) as queries:
        settings = queries.views.pool().settings
    owners = settings.get(SUPER_USERS, "").replace(",", " ").split()
    name = user_name()
    return f"{name}@{settings.get(UID_DOMAIN, '')}", _OWNERS if name in owners else _USERS

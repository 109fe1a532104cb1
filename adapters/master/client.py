"""Send a command to the master of this machine."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any, Final

from ...domain.errors import PoolbookError
from ..sockets import connect
from ..stores.log_paths import log_paths

SOCKET: Final = "socket"
_PATIENCE_S: Final = 30.0


class MasterRefused(PoolbookError):
    """The master rejects a command, or does not answer."""


def ask_master(url: str, **request: object) -> dict[str, Any] | None:
    """Return the answer of the master whose log is at ``url``, or None if none is running. Raise `MasterRefused`."""
    place = log_paths(url)
    try:
        connection = connect(place.master_folder / SOCKET, place.trusted_users(), _PATIENCE_S)
    except PermissionError as error:
        raise MasterRefused(f"the master cannot be reached: {error}; only its user and root may command it") from None
    except OSError:
        return None
    with closing(connection):
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile("rb").readline())
        except (OSError, ValueError):
            raise MasterRefused("the master has not answered; `poolbook master -events` shows what it did") from None
    if "refusal" in answer:
        raise MasterRefused(str(answer["refusal"]))
    return answer

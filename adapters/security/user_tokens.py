"""The tokens that a user has: the files in the directory SEC_TOKEN_DIRECTORY, by default ~/.condor/tokens.d."""

from __future__ import annotations

import base64
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .private_files import LONGEST
from .tokens import ALGORITHM

if TYPE_CHECKING:
    from ...domain.config import Configuration


class UserToken(NamedTuple):
    """A token in a file. Its claims are not verified."""

    path: Path
    text: str = ""
    header: str = ""  #: as JSON
    payload: str = ""  #: its claims, as JSON

    @property
    def issuer(self) -> str:
        return str(json.loads(self.payload).get("iss", ""))

    @property
    def id(self) -> str:
        return str(json.loads(self.payload).get("jti", ""))

    @property
    def subject(self) -> str:
        return str(json.loads(self.payload).get("sub", ""))

    @property
    def expires(self) -> int | None:
        expires = json.loads(self.payload).get("exp")
        return expires if isinstance(expires, int) else None


def tokens_folder(configuration: Configuration) -> Path:
    return Path(configuration.get("SEC_TOKEN_DIRECTORY") or Path.home() / ".condor" / "tokens.d")


def token_files(folder: Path, configuration: Configuration) -> list[Path]:
    """Return the files in a directory of tokens, by name. LOCAL_CONFIG_DIR_EXCLUDE_REGEXP excludes some."""
    excluded = re.compile(configuration.get("LOCAL_CONFIG_DIR_EXCLUDE_REGEXP") or r"$^")
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    return [folder / name for name in names if not excluded.search(name) and not (folder / name).is_dir()]


def tokens_in(path: Path) -> list[UserToken]:
    """Return the tokens in a file, one in a line. Other lines are ignored."""
    try:
        with open(path, "rb") as stream:
            lines = stream.read(LONGEST).decode(errors="replace").splitlines()
    except OSError:
        return []
    tokens = []
    for line in map(str.strip, lines):
        with suppress(ValueError, AttributeError):
            header, payload, _ = line.split(".")
            token = UserToken(path, line, _decoded(header), _decoded(payload))
            if json.loads(token.header).get("alg") == ALGORITHM and isinstance(json.loads(token.payload), dict):
                tokens.append(token)
    return tokens


def _decoded(part: str) -> str:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode(errors="replace")

"""Who may have written a file: whether what it says is the user's own word.

A file that may run programs counts only if nobody but the user and root can have written it, put it there, or put
another in its place. Imports little: short commands ask.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def why_not_own(path: Path) -> str:
    """Return why a file, or a folder on the way to it, is not the user's or root's alone; empty if it is. Raise
    `OSError` if it cannot be looked at."""
    real = Path(os.path.realpath(path))
    places = {real, real.parent, Path(os.path.realpath(path.parent))}  # a link may lead elsewhere
    for place in sorted(places, reverse=True):
        found = place.stat()
        if found.st_uid not in (0, os.geteuid()):
            return f"{place} belongs to {_name(found.st_uid)}"
        if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid)):
            return f"others may write {place}"
    for place in {above for one in places for above in one.parents} - places:
        found = place.stat()
        movable = found.st_mode & (stat.S_IWOTH | stat.S_IWGRP) and not found.st_mode & stat.S_ISVTX
        if movable and not (found.st_mode & stat.S_IWOTH == 0 and _is_private(found.st_gid)):
            return f"others may write {place}, and so put another folder in its place"
    return ""


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _is_private(gid: int) -> bool:
    """Tell whether a group is a user's own: named as the user, or root, with nobody else in it."""
    import grp

    name = _name(os.geteuid())
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name in (name, "root") and not set(group.gr_mem) - {name, "root"}

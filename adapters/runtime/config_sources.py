"""Find a pool's configuration: files and environment variables; ``configuration.load`` reads them.

A file that can run programs is used only if no one except the user and root could have written, created or replaced it.
Imports little, because short commands use this module.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path


def why_not_own(path: Path) -> str:
    """Return why someone other than the user and root could write a file or a directory on its path, or an empty string
    if no one could. Raise `OSError` if the path cannot be examined."""
    real = Path(os.path.realpath(path))
    places = {real, real.parent, Path(os.path.realpath(path.parent))}  # a link may point to another directory
    for place in sorted(places, reverse=True):
        status = place.stat()
        if status.st_uid not in (0, os.geteuid()):
            return f"{place} belongs to {_name(status.st_uid)}"
        if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid)):
            return f"others may write {place}"
    for place in {parent for inner in places for parent in inner.parents} - places:
        status = place.stat()
        movable = status.st_mode & (stat.S_IWOTH | stat.S_IWGRP) and not status.st_mode & stat.S_ISVTX
        if movable and not (status.st_mode & stat.S_IWOTH == 0 and _is_private(status.st_gid)):
            return f"others may write {place}, and so replace the folder"
    return ""


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _is_private(gid: int) -> bool:
    """Check whether a group is private: it is named after the user or root, and has no other members."""
    import grp

    name = _name(os.geteuid())
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name in (name, "root") and not set(group.gr_mem) - {name, "root"}


VARIABLE = "POOLBOOK_CONFIG"
FILE = "poolbook.conf"


def config_files(
    files: Sequence[Path | str] = (), environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> list[Path]:
    """Return the configuration files, which may be none if only defaults apply. A directory represents its files, as
    in LOCAL_CONFIG_DIR. `folder` is by default the current directory. Raise `ConfigError` if another user could have
    written the folder's own file, which may run programs. A file that the caller names is trusted."""
    if files:
        return [path for file in files for path in files_of(Path(file), folder or Path())]
    named = (os.environ if environment is None else environment).get(VARIABLE)
    if named:
        return [Path(named)]
    own_file = Path(folder or "", FILE)
    if not own_file.exists():
        return []
    _check_own(own_file)
    return [Path(FILE)]


def files_of(path: Path, folder: Path = Path()) -> list[Path]:
    """Return the path, which is relative to a folder, or, if it is a directory, its configuration files in the order in
    which HTCondor reads them."""
    if not (folder / path).is_dir():
        return [path]
    from ...domain.config.tables import defaults

    exclude = re.compile(defaults()["local_config_dir_exclude_regexp"].value)
    files = sorted(file.name for file in (folder / path).iterdir() if file.is_file())
    return [path / name for name in files if not exclude.search(name)]


def _check_own(path: Path) -> None:
    why = why_not_own(path.absolute())
    if why:
        from ...domain.config.config_errors import ConfigError

        raise ConfigError(
            f"it is ignored: {why}, and a configuration can run programs as you. To use it, check its contents and "
            f"name it (-config {FILE}, or {VARIABLE}={FILE}), or make it and its folder writable only for you. "
            f"{VARIABLE}=/dev/null silences this",
            str(path),
        )


def environment_settings(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the environment variables that set an HTCondor setting (``_CONDOR_START``), which take effect even without
    a file. Other variables with this prefix belong to a job's environment (``_CONDOR_SCRATCH_DIR``)."""
    variables = os.environ if environment is None else environment
    named = sorted(name for name in variables if name[:8].lower() == "_condor_")
    if not named:
        return []
    from ...domain.config import is_known  # it takes long to load

    return [name for name in named if is_known(name[8:])]

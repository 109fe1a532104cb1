"""Find a pool's configuration: files and environment variables. ``configuration.load`` reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

VARIABLE = "POOLBOOK_CONFIG"
FILE = "poolbook.conf"


def config_files(
    files: Sequence[Path | str] = (), environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> list[Path]:
    """Return the files that hold the configuration; none if only defaults apply. `folder`: the current one unless
    given. Raise `ConfigError` if the folder's own file is not the user's: it may run programs, so nobody else may have
    written it. A file that is named is the word of who names it."""
    if files:
        return [Path(file) for file in files]
    named = (os.environ if environment is None else environment).get(VARIABLE)
    if named:
        return [Path(named)]
    found = Path(folder or "", FILE)
    if not found.exists():
        return []
    _check_own(found)
    return [Path(FILE)]


def _check_own(path: Path) -> None:
    from .ownership import why_not_own

    why = why_not_own(path.absolute())
    if why:
        from ...domain.config.errors import ConfigError

        raise ConfigError(
            f"it does not count: {why}, and a configuration may run programs as you. Read it; if it is to count, name "
            f"it (-config {FILE}, or {VARIABLE}={FILE}), or make it and its folder yours alone to write; "
            f"{VARIABLE}=/dev/null does without it",
            str(path),
        )


def environment_settings(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the variables that set one of HTCondor's settings (``_CONDOR_START``), which count even without a file.
    Other variables with that prefix belong to a job's environment (``_CONDOR_SCRATCH_DIR``)."""
    given = os.environ if environment is None else environment
    named = sorted(name for name in given if name[:8].lower() == "_condor_")
    if not named:
        return []
    from ...domain.config import is_known  # it takes long to load

    return [name for name in named if is_known(name[8:])]

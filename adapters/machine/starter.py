"""Read the starter's settings from a machine's configuration, such as JOB_RENICE_INCREMENT and EXECUTE."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import field, frozen

from ...domain.classad import EvaluationError, Expression
from ...domain.config import Configuration
from ...domain.events import Ad
from ...domain.schedd.job_edits import attributes_not_settable
from ...domain.settings_classes import setting
from ...domain.startd.provisioning import EXECUTE, execute_directories
from ...domain.state.caches import ad_from_attributes
from ...domain.state.pool_settings import ATTRIBUTE_LISTS
from .accounts import JobAccountSettings
from .containers import Containers
from .execution.activation import Chirp
from .job_variables import JobVariables
from .limit_policy import LimitPolicy
from .transfer_plugins import ENABLED, plugins_by_method

RENICE: Final = "JOB_RENICE_INCREMENT"
_NICEST = 19
_CLOSED, _PASSABLE = 0o700, 0o711
_NO_NUMBER = 10  #: the increment if the expression is not a number, as in HTCondor


_PLAIN_CHIRP: Final = Chirp(True, ("Chirp*",), 100, tuple(sorted(attributes_not_settable({}))))


def _chirp(configuration: Configuration) -> Chirp | None:
    if not (configuration.boolean("ENABLE_CHIRP", True) and configuration.boolean("ENABLE_CHIRP_IO", True)):
        return None
    has_delayed = configuration.boolean("ENABLE_CHIRP_DELAYED", True)
    prefixes = configuration.get("CHIRP_DELAYED_UPDATE_PREFIX", "Chirp*").replace(",", " ").split()
    return Chirp(
        updates=configuration.boolean("ENABLE_CHIRP_UPDATES", True),
        delayed=tuple(prefixes) if has_delayed else (),
        most=configuration.integer("CHIRP_DELAYED_UPDATE_MAX_ATTRS", 100),
        refused=tuple(
            sorted(
                attributes_not_settable({name: configuration.get(name, text) for name, text in ATTRIBUTE_LISTS.items()})
            )
        ),
    )


@frozen
class Starter:
    renice: Expression | None = None  #: JOB_RENICE_INCREMENT; None: it is not set
    execute: Mapping[int, str] = field(factory=dict)
    """This pool's directories below EXECUTE and SLOT<N>_EXECUTE, by slot number (0: all other slots)."""
    urls: bool = field(default=True, metadata=setting(ENABLED, bool))
    plugins: Mapping[str, Sequence[str]] = field(factory=plugins_by_method)  #: the plugin command for each URL scheme
    plugin_seconds: int = field(default=72_000, metadata=setting("MAX_FILE_TRANSFER_PLUGIN_LIFETIME", int))
    extra_checkpoints: int = field(default=1, metadata=setting("DEFAULT_NUM_EXTRA_CHECKPOINTS", int))
    """How many checkpoints at a URL are kept in addition to the last one."""
    wrapper: str = field(default="", metadata=setting("USER_JOB_WRAPPER", str))  #: starts jobs; empty: none does
    update_every: int = field(default=300, metadata=setting("STARTER_UPDATE_INTERVAL", int))  #: seconds
    first_update: int = field(default=0, metadata=setting("STARTER_INITIAL_UPDATE_INTERVAL", int))  #: seconds
    accounts: JobAccountSettings = field(factory=JobAccountSettings)  #: the users jobs run as
    containers: Containers = field(factory=Containers)
    variables: JobVariables = field(factory=JobVariables)  #: additions to jobs' environments
    limits: LimitPolicy = field(factory=LimitPolicy)  #: what jobs may not exceed
    chirp: Chirp | None = _PLAIN_CHIRP
    """What jobs may do with condor_chirp, by ENABLE_CHIRP_<setting> and CHIRP_<setting>; None: nothing."""

    @classmethod
    def from_configuration(cls, configuration: Configuration, folder: Path) -> Starter:
        """Read the configuration of a pool whose supervisor uses ``folder``, and create the directories. Raise
        `ConfigError` if an expression cannot be parsed, or a directory is missing or not writable."""
        renice = configuration.expression(RENICE) if configuration.source(RENICE).kind != "default" else None
        execute_folders = {}
        for number, directory in execute_directories(configuration).items():
            name = f"SLOT{number}_{EXECUTE}" if number else EXECUTE
            try:
                execute_folders[number] = make_own_directory(directory, folder)
            except OSError as error:
                problem = f"{name} = {directory}: {error.strerror}: jobs run below it; create it, or name another"
                raise configuration.error(name, problem) from None
        return cls(
            **configuration.field_values(cls),
            renice=renice,
            execute=execute_folders,
            plugins=plugins_by_method(configuration),
            accounts=JobAccountSettings.from_configuration(configuration),
            containers=Containers.from_configuration(configuration),
            variables=JobVariables.from_configuration(configuration),
            limits=LimitPolicy.from_configuration(configuration),
            chirp=_chirp(configuration),
        )

    def nice(self, job: Ad) -> int:
        """Return the increment of a job's nice value, from 0 to 19: the expression evaluated in the job's ad."""
        if self.renice is None:
            return 0
        try:
            value = self.renice.evaluate(ad_from_attributes(job))
        except EvaluationError:
            return _NO_NUMBER
        return max(0, min(int(value), _NICEST)) if isinstance(value, int | float) else _NO_NUMBER

    def directory(self, slot: int) -> str:
        """Return the execute directory of a slot, or an empty string if none is configured."""
        return self.execute.get(slot) or self.execute.get(0, "")


def make_own_directory(directory: str, folder: Path) -> str:
    """Create the pool's own directory, readable only to its user, in a directory that others may share. Raise `OSError`
    if the parent is missing, or it cannot be created, or belongs to another user."""
    if not directory.startswith("/"):
        raise OSError(0, "the path is not absolute")
    os.stat(directory)
    digest = hashlib.blake2b(os.fsencode(folder.absolute()), digest_size=8).hexdigest()
    own_folder = f"{directory.rstrip('/')}/poolbook-{digest}"
    make_private_directory(own_folder)
    return own_folder


def make_private_directory(own_folder: str, passable: bool = False) -> None:
    """Create a directory for jobs that no other user may read or write. With ``passable``, other users may enter the
    directory to access their own files. Raise `OSError` if that fails, or it belongs to another user."""
    try:
        os.mkdir(own_folder, _PASSABLE if passable else _CLOSED)
    except FileExistsError:
        info = os.lstat(own_folder)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077 & ~_PASSABLE:
            raise OSError(0, f"{own_folder} is not a private directory of this user") from None
        if not os.access(own_folder, os.W_OK | os.X_OK):
            raise OSError(0, f"{own_folder} cannot be written") from None
    if passable:
        os.chmod(own_folder, _PASSABLE)

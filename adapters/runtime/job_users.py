"""Choose the users as whom jobs run in a pool served by root, and whose rights apply to their files.

Work for another user's job is done with that user's privileges: the supervisor's processes become the user
(``supervisor/rights``), and this process uses ``rights_of``, which changes the rights only of the calling thread.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from ...domain.ports.world import ClientLaunch, Launch
from ...domain.state.job_ad import unquoted
from ..machine.accounts import JobAccountSettings, NoAccount, account_named, with_primary_group
from ..machine.execution import activation as execution
from ..machine.execution.supervisor.rights import acting_as
from ..machine.host import user_name
from ..machine.starter import make_private_directory
from .hold_reasons import NOT_ROOTS, rights_in

NO_ACCOUNT = 23  #: HoldReasonCode of a job whose user's account cannot be used: FailedToAccessUserAccount
NO_GROUP = 49  #: HoldReasonCode of a job whose primary group cannot be set: CannotSwitchPrimaryGroup
NO_STARTER = 1007  #: VacateReasonCode of a job whose starter could not start
NO_SCRATCH = 1024  #: VacateReasonCode of a job whose scratch directory cannot be created: ScratchDirError

Whom = tuple[execution.UnixAccount | None, execution.UnixAccount | None]
"""The user as whom a job runs, and the owner of its files. None means this process's user."""


class NotRun(Exception):
    """Raised if a job must not run. The error contains the HoldReasonCode or VacateReasonCode, and the reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class JobUsers:
    """The users of a pool that is served by root and has its processes in ``folder``."""

    def __init__(self, folder: Path, refuses_root: bool) -> None:
        self._folder = folder
        self._refuses_root = refuses_root
        self._own_name = user_name()

    def user_of_launch(self, launch: Launch, accounts: JobAccountSettings) -> Whom:
        """Return the user as whom a job runs, and the owner of its files. Raise `NotRun`."""
        try:
            if launch.owner == self._own_name:
                return self._roots(launch, accounts), None
            # A job of another pool may run as the slot user, although its owner has no account here.
            needs_owner = not launch.holder or accounts.runs_as_owner(launch.job_ad, launch.owner)
            owner = accounts.owner_account(launch.owner) if needs_owner else None
            account = accounts.account_of(launch.job_ad, launch.slot, launch.owner)
        except NoAccount as none:
            if none.of_job:
                why = f"Failed to decide which account the job of {launch.owner} runs as: {none}"
                raise NotRun(NO_ACCOUNT, why) from None
            why = f"Error from {launch.slot}: Starter failed to initialize: {none}"
            raise NotRun(NO_STARTER, why) from None
        group = unquoted(launch.job_ad.get("PrimaryUnixGroup", ""))
        if group and owner is not None and account.uid == owner.uid:
            try:
                account = with_primary_group(account, group)
            except NoAccount as none:
                why = f"Could not install primary unix group {group} from supplemental groups: {none}"
                raise NotRun(NO_GROUP, why) from None
        return account, owner or account

    def _roots(self, launch: Launch, accounts: JobAccountSettings) -> execution.UnixAccount | None:
        """Return the user as whom root's job runs, or None if it runs as root."""
        if self._refuses_root:
            raise NotRun(NO_ACCOUNT, NOT_ROOTS)
        if accounts.runs_as_owner(launch.job_ad, launch.owner):
            return None
        return accounts.account_of(launch.job_ad, launch.slot, launch.owner)

    def scratch_parent(self, configured: str) -> str:
        """Return the parent of users' scratch directories. Unless it is configured, it is next to the pool's directory,
        because users cannot enter the pool's directory itself. Raise `NotRun` if users cannot enter it."""
        place = configured or str(self._folder.with_name(self._folder.name.removesuffix(".d") + ".execute"))
        try:
            make_private_directory(place, passable=True)
        except OSError as error:
            raise NotRun(NO_SCRATCH, f"{place} cannot be used: {error.strerror}") from None
        return place


def client_account(launch: ClientLaunch) -> execution.UnixAccount | None:
    """Return the user as whom a backfill client runs (None: the pool's user). Raise `NotRun` if the user is unknown."""
    owner = launch.client.get("Owner", "")
    if os.geteuid() != 0 or owner in ("", user_name()):
        return None
    try:
        return account_named(owner)
    except NoAccount as none:
        raise NotRun(NO_ACCOUNT, str(none)) from None


def rights_of(owner: str) -> AbstractContextManager[None]:
    """Run the block with the file rights of the job's user, in this thread only, if this process runs as root and the
    user is another one. Raise `OSError` if the user is unknown."""
    account = files_account(owner)
    return acting_as(None if account is None else rights_in(account))


def files_account(owner: str) -> execution.UnixAccount | None:
    """Return the account whose rights apply to the files of a user; None: this process's rights. Raise `OSError` if the
    user is unknown."""
    if os.geteuid() != 0 or owner in ("", user_name()):
        return None
    try:
        return JobAccountSettings(soft=True).owner_account(owner)
    except NoAccount as none:
        raise PermissionError(1, str(none)) from None

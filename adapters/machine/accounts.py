"""Choose the account of this machine that a job runs as, where root serves the pool.

Source: the manual's "User Accounts in HTCondor on Unix Platforms" and the settings it names. The starter's choice of a
user decides what the manual leaves open: the names of dynamic slots, jobs of the local universe, root's rights.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Mapping
from typing import Final

from attrs import evolve, field, frozen

from ...domain.classad import ClassAd, EvaluationError, Expression
from ...domain.config import Configuration
from ...domain.events import Ad
from ...domain.settings_classes import setting
from ...domain.state.caches import ad_from_attributes
from ...domain.state.job_ad import unquoted
from .execution.activation import UnixAccount
from .host import host_name

ALLOW: Final = "STARTER_ALLOW_RUNAS_OWNER"
NOBODY: Final = "nobody"
_SLOT_USERS: Final = "NOBODY_SLOT_USER"
_DEDICATED: Final = "DEDICATED_EXECUTE_ACCOUNT_REGEXP"
_ALL_DEDICATED: Final = "EXECUTE_LOGIN_IS_DEDICATED"
_SLOT_USER = re.compile(r"SLOT\d+(?:_\d+)?_USER", re.IGNORECASE)
_SLOT_NAME = re.compile(r"\$\(STARTER_SLOT_NAME\)", re.IGNORECASE)
_SHORTEST_SLOT = 5  #: minimum length of a slot's name: the starter treats a shorter name as slot1
_UID_RULES = frozenset({"7", "12"})  #: the universes scheduler and local


class NoAccount(Exception):
    """No account can run a job; the text is the reason. ``of_job`` is true if the job is the cause, not the machine."""

    def __init__(self, reason: str, is_of_job: bool = False) -> None:
        super().__init__(reason)
        self.of_job = is_of_job


@frozen
class JobAccountSettings:
    """The settings that choose the user jobs run as. Without any, each job runs as its owner."""

    allow: Expression | None = None  #: STARTER_ALLOW_RUNAS_OWNER; None: it is true
    domain: str = field(default="", metadata=setting("UID_DOMAIN", str))  #: of the machine; empty: that of the pool
    trusted: bool = True  #: whether to trust the domain that the pool claims
    soft: bool = field(default=False, metadata=setting("SOFT_UID_DOMAIN", bool))  #: owners may lack an account here
    slots: Mapping[str, str] = field(factory=dict)  #: SLOT<N>_USER, by the slot's name in capital letters
    nobodys: tuple[str, ...] = ()  #: NOBODY_SLOT_USER, split where the slot's name goes; empty: not set
    dedicated: re.Pattern[str] | None = None  #: the dedicated accounts: all their processes belong to a job

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> JobAccountSettings:
        """Read a configuration. Raise `ConfigError` if a value is invalid, or this process is not root but must be."""
        get_setting, slots = configuration.get, {}
        for name in configuration.names():
            if _SLOT_USER.fullmatch(name) and get_setting(name):
                slots[name.upper().removesuffix("_USER")] = get_setting(name)
        nobody_text = configuration.raw_value(_SLOT_USERS) or ""
        _check_root(configuration, [*(f"{slot}_USER" for slot in slots), *([_SLOT_USERS] if nobody_text else [])])
        is_local_trusted = configuration.boolean("TRUST_LOCAL_UID_DOMAIN", True)
        is_domain_trusted = is_local_trusted or configuration.boolean("TRUST_UID_DOMAIN", False)
        return cls(
            **configuration.field_values(cls),
            allow=configuration.expression(ALLOW) if configuration.is_defined(ALLOW) else None,
            trusted=is_domain_trusted or _is_within(host_name(), get_setting("UID_DOMAIN")),
            slots=slots,
            nobodys=tuple(configuration.expand_text(nobody_user) for nobody_user in _SLOT_NAME.split(nobody_text))
            if nobody_text
            else (),
            dedicated=_dedicated_account_pattern(configuration),
        )

    def in_pool_of(self, domain: str) -> JobAccountSettings:
        """Return the settings for a machine in a pool with this UID_DOMAIN, which receives jobs of other pools."""
        return self if self.domain or not domain else evolve(self, domain=domain)

    def account_of(self, job: Ad, slot: str, owner: str) -> UnixAccount:
        """Return the account that a job of this owner runs as on this slot. Raise `NoAccount` if the account does not
        exist on this machine or has root's privileges."""
        account = self.owner_account(owner) if self.runs_as_owner(job, owner) else account_named(self.slot_user(slot))
        return evolve(account, dedicated=self.dedicated is not None and self.dedicated.search(account.name) is not None)

    def owner_account(self, owner: str) -> UnixAccount:
        """Return the account of a job's owner, to whom its files belong. Raise `NoAccount` as ``account_named``
        does."""
        try:
            return account_named(owner)
        except NoAccount as no_account:
            if not (self.soft and owner.isdecimal() and int(owner)):
                raise NoAccount(str(no_account), is_of_job=True) from None
            return UnixAccount(owner, int(owner), account_named(NOBODY).gid)

    def runs_as_owner(self, job: Ad, owner: str) -> bool:
        """Return True if a job runs as its owner. Raise `NoAccount` if the configured expression is not a Boolean."""
        if job.get("JobUniverse") in _UID_RULES:
            return True
        if not self._allows(job) or job.get("RunAsOwner", "true").lower() == "false":
            return False
        user_domain = unquoted(job.get("User", "")).partition("@")[2]
        return not self.domain or (user_domain.lower() == self.domain.lower() and self.trusted)

    def _allows(self, job: Ad) -> bool:
        if self.allow is None:
            return True
        try:
            value = self.allow.evaluate(ClassAd(), ad_from_attributes(job))
        except EvaluationError:
            value = None
        if not isinstance(value, bool | int | float):
            raise NoAccount(f"{ALLOW} is neither true nor false for this job", is_of_job=True)
        return bool(value)

    def slot_user(self, slot: str) -> str:
        """Return the account for jobs that do not run as their owners, given the slot's name: slot1 or slot1_2."""
        name = slot.partition("@")[0]
        name = name if len(name) >= _SHORTEST_SLOT else "slot1"
        user = self.slots.get(name.upper()) or name.join(self.nobodys)
        return user if user not in ("", "root") else NOBODY


def account_named(name: str) -> UnixAccount:
    """Return an account of this machine. Raise `NoAccount` if no account has this name, or it has root's privileges."""
    try:
        user = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise NoAccount(f"this machine has no user {name}") from None
    if user.pw_uid == 0 or user.pw_gid == 0:
        raise NoAccount(f"{name} has root's privileges; jobs of other users never run with these")
    return UnixAccount(name, user.pw_uid, user.pw_gid, tuple(os.getgrouplist(name, user.pw_gid)), user.pw_dir)


def with_primary_group(account: UnixAccount, group: str) -> UnixAccount:
    """Return the account with another of its groups as the primary one. Raise `NoAccount` if the account is not a
    member of the group."""
    try:
        gid = grp.getgrnam(group).gr_gid
    except (KeyError, ValueError):
        gid = -1
    if gid not in account.groups or gid == 0:
        raise NoAccount(f"{account.name} is not in the group {group}")
    return evolve(account, gid=gid)


def _dedicated_account_pattern(configuration: Configuration) -> re.Pattern[str] | None:
    """Return the pattern of dedicated accounts: like the starter, the setting between ^ and $, even with
    alternatives."""
    pattern = configuration.get(_DEDICATED)
    if not pattern:
        return re.compile("") if configuration.boolean(_ALL_DEDICATED, False) else None
    try:
        return re.compile(f"^{pattern}$")
    except re.error as error:
        raise configuration.error(_DEDICATED, f"{_DEDICATED} = {pattern}: {error}") from None


def _check_root(configuration: Configuration, names: list[str]) -> None:
    if names and os.geteuid() != 0:
        raise configuration.error(
            names[0],
            f"{names[0]} = {configuration.get(names[0])}: only a pool served by root can run jobs as other users; "
            "run `poolbook serve` as root, or remove this setting",
        )


def _is_within(host: str, domain: str) -> bool:
    host, domain = host.lower(), domain.lower()
    return host == domain or host.endswith(domain if domain.startswith(".") else f".{domain}")

"""Golden: the account in which a job runs if root serves the pool, by the machine's settings and the job. The table has
what /usr/bin/id printed in the jobs of root's HTCondor pool under the same settings; a case says if Poolbook differs on
purpose."""

from __future__ import annotations

import os
import pwd

import pytest

from poolbook.adapters.machine.accounts import JobAccountSettings, NoAccount, account_named, with_primary_group
from poolbook.domain.config import ConfigError, read

from .. import forked
from ..together import together

OWNER, SLOTS, OTHER, NOBODY = "games", "mail", "news", "nobody"  # users that every Debian system has

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="settings of other accounts are taken by root alone")
pytestmark = needs_root

NOT = "STARTER_ALLOW_RUNAS_OWNER = false\n"
DOMAIN = "UID_DOMAIN = here.example\n"
OURS = {"User": f'"{OWNER}@here.example"', "Owner": f'"{OWNER}"'}

# The settings, the job's attributes, its slot, and the account.
TABLE: list[tuple[str, dict[str, str], str, str]] = [
    ("", {}, "slot1@m", OWNER),
    ("", {"RunAsOwner": "false"}, "slot1@m", NOBODY),
    ("", {"RunAsOwner": "true"}, "slot1@m", OWNER),
    (NOT, {}, "slot1@m", NOBODY),
    (NOT, {"RunAsOwner": "true"}, "slot1@m", NOBODY),
    (NOT, {"JobUniverse": "12"}, "slot1@m", OWNER),
    # Slot users: of the slot by its complete name, else of all slots, and never root.
    (f"{NOT}SLOT1_USER = {SLOTS}", {}, "slot1@m", SLOTS),
    (f"{NOT}SLOT1_USER = {SLOTS}", {}, "slot1_1@m", NOBODY),
    (f"{NOT}SLOT1_1_USER = {SLOTS}", {}, "slot1_1@m", SLOTS),
    (f"{NOT}slot1_1_user = {SLOTS}", {}, "slot1_1@m", SLOTS),
    (f"{NOT}SLOT1_1_USER = {SLOTS}", {}, "slot1_2@m", NOBODY),
    (f"{NOT}NOBODY_SLOT_USER = {SLOTS}", {}, "slot1_1@m", SLOTS),
    (f"{NOT}NOBODY_SLOT_USER = {SLOTS}\nSLOT2_USER = {OTHER}", {}, "slot2@m", OTHER),
    (f"{NOT}NOBODY_SLOT_USER = root", {}, "slot1_1@m", NOBODY),
    (f"{NOT}SLOT1_USER = root", {}, "slot1@m", NOBODY),
    (f"SLOT1_USER = {SLOTS}", {}, "slot1@m", OWNER),
    (f"SLOT1_USER = {SLOTS}", {"RunAsOwner": "false"}, "slot1@m", SLOTS),
    # An expression about the job, which is its target.
    (f'STARTER_ALLOW_RUNAS_OWNER = TARGET.Owner == "{OWNER}"', {}, "slot1@m", OWNER),
    (f'STARTER_ALLOW_RUNAS_OWNER = TARGET.Owner == "{OTHER}"', {}, "slot1@m", NOBODY),
    ("STARTER_ALLOW_RUNAS_OWNER = TARGET.RunAsOwner =?= true", {}, "slot1@m", NOBODY),
    ("STARTER_ALLOW_RUNAS_OWNER = TARGET.RunAsOwner =?= true", {"RunAsOwner": "true"}, "slot1@m", OWNER),
    # Domains: the pool's must be the machine's, and trusted.
    ("UID_DOMAIN = other.example", {}, "slot1@m", NOBODY),
    ("UID_DOMAIN = HERE.example", {}, "slot1@m", OWNER),
    ("TRUST_LOCAL_UID_DOMAIN = false", {}, "slot1@m", NOBODY),
    ("TRUST_LOCAL_UID_DOMAIN = false\nTRUST_UID_DOMAIN = true", {}, "slot1@m", OWNER),
]


def accounts(text: str) -> JobAccountSettings:
    return JobAccountSettings.from_configuration(read(DOMAIN + text))


@together("settings", TABLE)
def test_the_settings_and_the_job_decide_the_account(settings: tuple[str, dict[str, str], str, str]) -> None:
    text, job, slot, name = settings
    user = pwd.getpwnam(name)
    account = accounts(text).account_of({**OURS, **job}, slot, OWNER)
    assert (account.name, account.uid, account.gid, account.home) == (name, user.pw_uid, user.pw_gid, user.pw_dir)
    assert user.pw_gid in account.groups


def test_the_name_of_the_slot_can_be_the_account() -> None:
    """The manual says so. HTCondor gave nobody: its startd does not pass the slot's name to the starter."""
    assert accounts(f"{NOT}NOBODY_SLOT_USER = $(STARTER_SLOT_NAME)").slot_user("slot1_2@m") == "slot1_2"
    assert accounts(f"{NOT}NOBODY_SLOT_USER = c$(starter_slot_name)$(X)\nX = x").slot_user("slot7@m") == "cslot7x"


# Owners without an account, or with root's: their jobs do not run.
REFUSED: list[tuple[str, str, dict[str, str], str]] = [
    ("", "root", {}, "has root's privileges"),
    ("", "no-such-user", {}, "this machine has no user no-such-user"),
    ("", "4711", {}, "this machine has no user 4711"),
    ("SOFT_UID_DOMAIN = true", "0", {}, "this machine has no user 0"),
    (f"{NOT}SLOT1_USER = no-such-user", OWNER, {}, "this machine has no user no-such-user"),
    ("STARTER_ALLOW_RUNAS_OWNER = TARGET.Nothing", OWNER, {}, "neither true nor false"),
]


@together("case", REFUSED)
def test_a_job_without_an_account_does_not_run(case: tuple[str, str, dict[str, str], str]) -> None:
    text, owner, job, message = case
    with pytest.raises(NoAccount, match=message):
        accounts(text).account_of({**OURS, "User": f'"{owner}@here.example"', **job}, "slot1@m", owner)


def test_an_owner_without_an_account_runs_under_its_number_if_domains_are_soft() -> None:
    account = accounts("SOFT_UID_DOMAIN = true").account_of({"User": '"4711@here.example"'}, "slot1@m", "4711")
    assert (account.uid, account.gid, account.groups) == (4711, pwd.getpwnam(NOBODY).pw_gid, ())


# A pattern, an account, and whether all its processes belong to a job. The starter puts ^ before a pattern and $ after
# it.
DEDICATED = [
    (f"DEDICATED_EXECUTE_ACCOUNT_REGEXP = {OWNER}", True),
    ("DEDICATED_EXECUTE_ACCOUNT_REGEXP = gam", False),
    ("DEDICATED_EXECUTE_ACCOUNT_REGEXP = ames", False),
    ("DEDICATED_EXECUTE_ACCOUNT_REGEXP = gam|x", True),
    ("EXECUTE_LOGIN_IS_DEDICATED = true", True),
    ("EXECUTE_LOGIN_IS_DEDICATED = true\nDEDICATED_EXECUTE_ACCOUNT_REGEXP = slot[0-9]+", False),
    ("", False),
]


@together("case", DEDICATED)
def test_dedicated_accounts_match_by_their_whole_names(case: tuple[str, bool]) -> None:
    text, dedicated = case
    assert accounts(text).account_of(OURS, "slot1@m", OWNER).dedicated is dedicated


def test_an_invalid_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match="DEDICATED_EXECUTE_ACCOUNT_REGEXP = \\[: "):
        accounts("DEDICATED_EXECUTE_ACCOUNT_REGEXP = [")


def test_a_job_can_only_select_one_of_its_own_groups() -> None:
    account = account_named(OWNER)
    assert with_primary_group(account, OWNER).gid == account.gid
    for group in ("root", "shadow", "no-such-group"):
        with pytest.raises(NoAccount, match=f"{OWNER} is not in the group {group}"):
            with_primary_group(account, group)


@pytest.mark.parametrize("setting", ["SLOT1_USER", "NOBODY_SLOT_USER", "SLOT1_2_USER"])
def test_a_users_pool_reports_that_slot_users_need_root(setting: str) -> None:
    code = (
        "import sys; from poolbook.adapters.machine.accounts import JobAccountSettings\n"
        "from poolbook.domain.config import read\n"
        "try: JobAccountSettings.from_configuration(read(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    completed = forked.run(["-c", code, f"{setting} = {SLOTS}\n"], user=65534, check=True)
    assert f"{setting} = {SLOTS}: only a pool served by root can run jobs as other users" in completed.stdout

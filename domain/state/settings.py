"""The settings that decisions read, under HTCondor's names, with their defaults.

They stand in the log (``PoolFounded``, ``PoolConfigured``), so that a decision can be taken again under what was in
force. Times are seconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from .. import concurrency_limits
from ..classad import ClassAdSyntaxError, parse
from .defrag_settings import DEFRAG, unfit_for_defrag
from .negotiators import NEGOTIATORS, misnamed, own_part
from .schedd_settings import schedd_kind


class Setting(NamedTuple):
    default: str
    words: str


SETTINGS: dict[str, Setting] = {
    "NEGOTIATOR_INTERVAL": Setting("60", "longest time between two negotiation cycles while jobs wait"),
    "MATCH_TIMEOUT": Setting("120", "how long a matched slot waits to be claimed"),
    "CLAIM_WORKLIFE": Setting("1200", "age at which a claim gets no further job; negative: never"),
    "MachineMaxVacateTime": Setting("600", "how long a job that is told to end may take, at most"),
    "KILLING_TIMEOUT": Setting("30", "how long until processes that were killed are killed again"),
}


class Negotiators(NamedTuple):
    """A setting of the negotiator: ``kind`` is seconds, factor, number, whole, part (of 1), count, rate, limit, truth,
    expression, or text."""

    kind: str
    default: str
    words: str


NEGOTIATOR: Final[dict[str, Negotiators]] = {
    name: Negotiators(*rest)
    for name, *rest in (
        ("PRIORITY_HALFLIFE", "seconds", "86400", "time in which a real priority moves half of its way"),
        ("DEFAULT_PRIO_FACTOR", "factor", "1000", "the priority factor that most new submitters begin with"),
        ("NICE_USER_PRIO_FACTOR", "factor", "1e10", "that of jobs submitted with nice_user"),
        ("REMOTE_PRIO_FACTOR", "factor", "1e7", "that of users from other domains than ACCOUNTANT_LOCAL_DOMAIN"),
        ("ACCOUNTANT_LOCAL_DOMAIN", "text", "", "whose users are local; empty: all are"),
        ("NEGOTIATOR_CONSIDER_PREEMPTION", "truth", "true", "whether slots that others use are looked at"),
        ("NEGOTIATOR_CONSIDER_EARLY_PREEMPTION", "truth", "false", "whether, while their jobs have retirement time"),
        ("NEGOTIATOR_USE_SLOT_WEIGHTS", "truth", "true", "whether a slot counts for its SlotWeight, or for 1"),
        ("NEGOTIATOR_IGNORE_USER_PRIORITIES", "truth", "false", "whether everybody may have everything"),
        ("NEGOTIATOR_CROSS_SLOT_PRIOS", "truth", "false", "whether slots know of the users of their neighbours"),
        ("NEGOTIATE_ALL_JOBS_IN_CLUSTER", "truth", "false", "whether the like of a job that got nothing are asked for"),
        ("SIGNIFICANT_ATTRIBUTES", "text", "", "the attributes that tell jobs apart, in place of those computed"),
        ("ADD_SIGNIFICANT_ATTRIBUTES", "text", "", "further ones"),
        (
            "REMOVE_SIGNIFICANT_ATTRIBUTES",
            "text",
            "CpusUsage,DiskUsage,GPUsUsage,MemoryUsage,ResidentSetSize",
            "those that do not count",
        ),
        ("NEGOTIATOR_SLOT_CONSTRAINT", "expression", "", "which slots there are for the negotiator"),
        ("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT", "expression", "", "which slots make the pie"),
        ("NEGOTIATOR_JOB_CONSTRAINT", "expression", "", "which jobs the negotiator looks at"),
        (
            "NEGOTIATOR_PRE_JOB_RANK",
            "expression",
            "(10000000 * My.Rank) + (1000000 * (RemoteOwner =?= UNDEFINED)) - (100000 * Cpus) - Memory",
            "of the slots that match a job, those with more go first",
        ),
        (
            "NEGOTIATOR_POST_JOB_RANK",
            "expression",
            "(RemoteOwner =?= UNDEFINED) * (ifthenElse(isUndefined(KFlops), 1000, Kflops) - SlotID - "
            "1.0e10*(Offline=?=True))",
            "which of those that the job's own Rank values alike",
        ),
        ("PREEMPTION_REQUIREMENTS", "expression", "False", "whether a slot may change hands by priority"),
        ("PREEMPTION_REQUIREMENTS_STABLE", "truth", "true", "whether that stays the same during a cycle"),
        (
            "PREEMPTION_RANK",
            "expression",
            "(RemoteUserPrio * 1000000) - ifThenElse(isUndefined(TotalJobRuntime), 0, TotalJobRuntime)",
            "which of the slots that may change hands goes first",
        ),
        ("PREEMPTION_RANK_STABLE", "truth", "true", "whether that stays the same during a cycle"),
        (
            "ALLOW_PSLOT_PREEMPTION",
            "truth",
            "false",
            "whether dynamic slots go for a job on the whole they are part of",
        ),
        ("SCHEDD_ENABLE_PER_USER_MATCH_LIMITS", "truth", "true", "whether, under htcondor-25, matches are limited so"),
        ("MAX_CONCURRENT_UPLOADS_PER_USER", "number", "20", "matches that a submitter gets in a spin, at most"),
        ("GROUP_NAMES", "text", "", "the accounting groups that there are"),
        ("GROUP_ACCEPT_SURPLUS", "truth", "false", "whether groups may have what others leave"),
        ("GROUP_AUTOREGROUP", "truth", "false", "whether submitters of groups negotiate once more, with those of none"),
        (
            "GROUP_SORT_EXPR",
            "expression",
            'ifThenElse(AccountingGroup=?="<none>",3.4e+38,'
            "ifThenElse(GroupQuota>0,GroupResourcesInUse/GroupQuota,3.3e+38))",
            "which group negotiates first: the smallest value",
        ),
        ("GROUP_QUOTA_MAX_ALLOCATION_ROUNDS", "count", "3", "how often a cycle allocates cores to groups, at most"),
        ("GROUP_QUOTA_ROUND_ROBIN_RATE", "rate", "1e100", "cores that a group is given at a time"),
        ("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION", "truth", "", "whether static quotas are kept that are too much"),
        (
            "NEGOTIATOR_USE_WEIGHTED_DEMAND",
            "truth",
            "true",
            "whether groups request cores, or as many as they have jobs",
        ),
        ("NEGOTIATOR_STRICT_ENFORCE_QUOTA", "truth", "true", "whether a group without surplus caps its subgroups"),
        ("CONCURRENCY_LIMIT_DEFAULT", "limit", "2308032", "units of each limit without a setting of its own"),
        ("CLAIM_RECYCLING_CONSIDER_LIMITS", "truth", "true", "whether claims are kept for jobs of the same limits"),
    )
}
"""What the negotiator and its accountant read of the configuration. The log has those that are not as here."""

FAMILIES: Final[dict[str, str]] = {
    "GROUP_PRIO_FACTOR_": "factor",
    "GROUP_ACCEPT_SURPLUS_": "truth",
    "GROUP_AUTOREGROUP_": "truth",
    "GROUP_QUOTA_DYNAMIC_": "part",
    "GROUP_QUOTA_": "number",
}
"""Settings of which there is one for each accounting group, with their kinds."""


UID_DOMAIN: Final = "UID_DOMAIN"
FILESYSTEM_DOMAIN: Final = "FILESYSTEM_DOMAIN"
DOMAINS: Final = (UID_DOMAIN, FILESYSTEM_DOMAIN)
"""Whose the pool's users are, and who sees the same files. A pool always has both: unless a configuration says
otherwise, they are the domain that it was founded with."""

SUBMISSION: Final[dict[str, str]] = {
    "APPEND_RANK": "",
    "APPEND_RANK_VANILLA": "",
    "APPEND_REQUIREMENTS": "",
    "APPEND_REQ_VANILLA": "",
    "CONTAINER_SHARED_FS": "/cvmfs",
    "DEFAULT_JOB_MAX_RETRIES": "2",
    "DEFAULT_RANK": "",
    "DEFAULT_RANK_VANILLA": "",
    "DEFAULT_UNIVERSE": "vanilla",
    "ENABLE_DEPRECATION_WARNINGS": "true",
    "JOB_DEFAULT_LEASE_DURATION": "2400",
    "JOB_DEFAULT_NOTIFICATION": "NEVER",
    "JOB_DEFAULT_REQUESTCPUS": "1",
    "JOB_DEFAULT_REQUESTDISK": "MAX({1024, (TransferInputSizeMB+1) * 1.25}) * 1024",
    "JOB_DEFAULT_REQUESTGPUS": "",
    "JOB_DEFAULT_REQUESTMEMORY": "128",
    "NICE_USER_ACCOUNTING_GROUP_NAME": "nice-user",
    "SCHEDD_INTERVAL": "300",
    "SUBMIT_ALLOW_GETENV": "true",
    "SUBMIT_CONTAINER_NEVER_XFER_ABSOLUTE_CMD": "false",
    "SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES": "IF_NEEDED",
    "SUBMIT_PREVENT_MULTI_QUEUE": "false",
    "SUBMIT_REQUEST_MISSING_UNITS": "",
    "SUBMIT_TEMPLATE_NAMES": "",
    "WARN_ON_UNUSED_SUBMIT_FILE_MACROS": "true",
}
"""All that a submission reads of a configuration, with the defaults of the manual's page "Configuration Macros" (the
entries of condor_submit, and JOB_DEFAULT_*). An empty text unsets an entry. The log has those that the pool's
configuration sets."""

NOT_EMPTY: Final = frozenset({
    "DEFAULT_JOB_MAX_RETRIES", "DEFAULT_UNIVERSE", "ENABLE_DEPRECATION_WARNINGS", "JOB_DEFAULT_NOTIFICATION",
    "NICE_USER_ACCOUNTING_GROUP_NAME", "SCHEDD_INTERVAL", "SUBMIT_ALLOW_GETENV",
    "SUBMIT_CONTAINER_NEVER_XFER_ABSOLUTE_CMD", "SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES", "SUBMIT_PREVENT_MULTI_QUEUE",
    "WARN_ON_UNUSED_SUBMIT_FILE_MACROS",
})  # fmt: skip
"""Those whose default counts where they are set to nothing."""

SUBMIT_TEMPLATE: Final = "SUBMIT_TEMPLATE_"
"""How the setting of each template begins that SUBMIT_TEMPLATE_NAMES names; its name is in capitals."""

PACE: Final[dict[str, str]] = {
    "NEGOTIATOR_INTERVAL": "60",
    "NEGOTIATOR_CYCLE_DELAY": "20",
    "NEGOTIATOR_MIN_INTERVAL": "5",
}
"""When cycles are held, in seconds, with HTCondor's defaults: how far apart they are, how long after the end of one the
next may begin, and how long after its begin. Where none of them is set, a pool holds a cycle whenever one may help; as
soon as one of them is, the log has all three."""


NOTHING: Final = " "
"""The text of a setting that was set to nothing, where nothing is not the default."""


def negotiators(name: str) -> str | None:
    """The kind of a setting of the negotiator's; None: it is none of them."""
    if name in NEGOTIATOR:
        return NEGOTIATOR[name].kind
    found = next((kind for prefix, kind in FAMILIES.items() if name.startswith(prefix)), None)
    return "limit" if found is None and concurrency_limits.named_by(name) else found


def configurable(name: str) -> str | None:
    """The kind of a setting that a configuration puts in force and leaves again; None: it is none of these."""
    if name == NEGOTIATORS:
        return "text"
    negotiator, own = own_part(name)
    if negotiator:
        return "number" if own in PACE else negotiators(own)
    if name in DOMAINS:
        return "domain"
    if name in SUBMISSION or name.startswith(SUBMIT_TEMPLATE):
        return "text"
    if name in DEFRAG:
        return DEFRAG[name].kind
    if name in PACE and name not in SETTINGS:
        return "number"
    return negotiators(name) or schedd_kind(name)


def as_founded(uid_domain: str, given: Mapping[str, str]) -> dict[str, str]:
    """The settings that a pool has which was founded so."""
    return {**dict.fromkeys(DOMAINS, uid_domain), **given}


def for_submissions(in_force: Mapping[str, str]) -> dict[str, str]:
    """What of a pool's settings a submission goes by: the domains, and what the pool's configuration sets."""
    templates = (name for name in in_force if name.startswith(SUBMIT_TEMPLATE))
    return {name: in_force[name].strip() for name in (*DOMAINS, *SUBMISSION, *templates) if name in in_force}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None


def unfit(name: str, text: str) -> str:
    """What is wrong with the text of a setting that is ``configurable``; empty: nothing."""
    if name in DEFRAG:
        return unfit_for_defrag(name, text)
    kind, number = configurable(name), _number(text)
    if kind == "domain" and not _DOMAIN.fullmatch(text):
        return f"{name} = {text}: a domain is wanted, such as example.org"
    if kind == "truth" and text.lower() not in ("true", "false"):
        return f"{name} = {text}: true or false is wanted"
    if kind == "seconds" and (number is None or number <= 0):
        return f"{name} = {text}: a number of seconds, more than 0, is wanted"
    if kind == "factor" and (number is None or number < 1):
        return f"{name} = {text}: a number of at least 1 is wanted"
    if kind == "limit" and number is None:
        return f"{name} = {text}: a number is wanted"
    if kind == "number" and (number is None or number < 0):
        return f"{name} = {text}: a number, 0 or more, is wanted"
    if kind == "whole" and (number is None or number != int(number)):
        return f"{name} = {text}: a whole number is wanted"
    if kind == "part" and (number is None or not 0 <= number <= 1):
        return f"{name} = {text}: a part of the cores is wanted, from 0 to 1"
    if kind == "count" and (number is None or number < 1 or number != int(number)):
        return f"{name} = {text}: a whole number, 1 or more, is wanted"
    if kind == "rate" and (number is None or number < 1):
        return f"{name} = {text}: a number, 1 or more, is wanted"
    if kind == "expression" and text.strip():
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            return f"{name} = {text}: {error}"
    return ""


SUPER_USERS = "QUEUE_SUPER_USERS"
"""Of the settings that are not the negotiator's, the one that is no time: who may act on everybody's jobs and on the
machines, parted by commas. Whoever begins a log is one of them."""
_THE_SUPER_USERS = "root, condor"


def super_users(in_force: Mapping[str, str]) -> frozenset[str]:
    """Those who may do everything, by a pool's settings."""
    return frozenset(in_force.get(SUPER_USERS, _THE_SUPER_USERS).replace(",", " ").split())


_DOMAIN = re.compile(r"[^\s@\"\\]+")
_MAY_BE_NEGATIVE = frozenset({"CLAIM_WORKLIFE"})
LONGEST: Final = 10**10
"""Seconds that a time may be, at most."""


def _is_time(text: str) -> bool:
    try:
        return abs(float(text)) < LONGEST
    except ValueError:
        return False


def settings(given: dict[str, str]) -> dict[str, str]:
    """All settings, with `given` ones in place of defaults.

    :raises ValueError: for a name that is not known, or a value that is no number of seconds.
    """
    others = {name: text for name, text in given.items() if configurable(name) is not None}
    for name, text in others.items():
        if words := unfit(name, text):
            raise ValueError(words)
    if words := misnamed(given):
        raise ValueError(words)
    times = {name: text for name, text in given.items() if name != SUPER_USERS and name not in others}
    for name, text in times.items():
        if name not in SETTINGS:
            there_are = ", ".join((*SETTINGS, SUPER_USERS, *NEGOTIATOR, *DOMAINS, *SUBMISSION, *DEFRAG))
            raise ValueError(f"{name} is no setting of a pool; there are {there_are}")
        if not _is_time(text) or (float(text) < 0 and name not in _MAY_BE_NEGATIVE):
            raise ValueError(f"{name} = {text}: a number of seconds is wanted, as in {name} = 60")
    found = {name: given.get(name, setting.default) for name, setting in SETTINGS.items()} | others
    if any(name in given for name in PACE):
        found = {**PACE, **found}
    return {**found, SUPER_USERS: given[SUPER_USERS]} if SUPER_USERS in given else found

"""The schedd's policy among a pool's settings, under HTCondor's names: what it makes of a submission, what it refuses,
what users may not edit, how many jobs it takes.

A transform stands in the log as it was written, since its macros are expanded for each job. ``$(NAME)`` is what the
configuration had for a macro that a transform refers to. A user map stands there with its lines, so that whoever
replays the log looks names up in the map that was in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from . import user_maps

TRANSFORMS: Final = "JOB_TRANSFORM_NAMES"
TRANSFORM: Final = "JOB_TRANSFORM_"
REQUIREMENTS: Final = "SUBMIT_REQUIREMENT_NAMES"
REQUIREMENT: Final = "SUBMIT_REQUIREMENT_"
REASON: Final = "_REASON"
IS_WARNING: Final = "_IS_WARNING"
MACRO: Final = "$("
"""How the name of a setting begins that is a macro of the configuration, as ``$(NAME)``."""

SYSTEM_IMMUTABLE: Final = "SYSTEM_IMMUTABLE_JOB_ATTRS"
SYSTEM_PROTECTED: Final = "SYSTEM_PROTECTED_JOB_ATTRS"
SYSTEM_SECURE: Final = "SYSTEM_SECURE_JOB_ATTRS"
IGNORE_SECURE: Final = "IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS"
GUARDED: Final[dict[str, str]] = {
    SYSTEM_IMMUTABLE: "Owner ClusterId JobUniverse ProcId MyType TargetType User OsUser",
    "IMMUTABLE_JOB_ATTRS": "",
    SYSTEM_PROTECTED: "",
    "PROTECTED_JOB_ATTRS": "",
    SYSTEM_SECURE: "x509userProxySubject x509UserProxyEmail x509UserProxyVOName x509UserProxyFirstFQAN "
    "x509UserProxyFQAN TotalSubmitProcs AuthTokenSubject AuthTokenIssuer AuthTokenGroups AuthTokenId AuthTokenScopes "
    "AuthTokenProject OsUser",
    "SECURE_JOB_ATTRS": "",
}
"""Lists of attributes of jobs, with HTCondor's defaults: immutable ones stay as they were submitted, protected ones
only a super user of the queue may edit, secure ones the schedd alone sets."""

JOBS_SUBMITTED: Final = "MAX_JOBS_SUBMITTED"
JOBS_PER_OWNER: Final = "MAX_JOBS_PER_OWNER"
JOBS_PER_SUBMISSION: Final = "MAX_JOBS_PER_SUBMISSION"
JOBS_RUNNING: Final = "MAX_JOBS_RUNNING"
JOBS_MADE: Final = "MAX_MATERIALIZED_JOBS_PER_CLUSTER"
SCHEDULER_JOBS_RUNNING: Final = "MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER"
LIMITS: Final = (JOBS_SUBMITTED, JOBS_PER_OWNER, JOBS_PER_SUBMISSION, JOBS_RUNNING, JOBS_MADE, SCHEDULER_JOBS_RUNNING)
"""How many jobs there may be: in the queue, of one user in the queue, in one submission, running, of a factory in the
queue; of one user's in the scheduler universe, running. One that is not set is none, but for the last: HTCondor's
defaults (100,000 of an owner, 20,000 in a submission, 10,000 running) count where they are set."""

STARTS: Final[dict[str, tuple[str, str]]] = {
    "12": ("START_LOCAL_UNIVERSE", "TotalLocalJobsRunning < 200"),
    "7": ("START_SCHEDULER_UNIVERSE", "TotalSchedulerJobsRunning < 500"),
}
"""For the universes whose jobs the access point runs itself: the expression that says whether another one may begin,
with HTCondor's default."""
SCHEDULER_JOBS_DEFAULT: Final = 200
"""HTCondor's default of MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER, which is in force."""

PERIODIC: Final = tuple(f"SYSTEM_PERIODIC_{what}" for what in ("HOLD", "RELEASE", "REMOVE", "VACATE"))
"""The access point's policies for all jobs: of each there may be a nameless one and named ones (``NAMES``), each with
what it says of its reason and subcode (``REASON``, ``SUBCODE``)."""
NAMES: Final = "_NAMES"
SUBCODE: Final = "_SUBCODE"
INTERVAL: Final = "PERIODIC_EXPR_INTERVAL"
MAX_INTERVAL: Final = "MAX_PERIODIC_EXPR_INTERVAL"
TIMESLICE: Final = "PERIODIC_EXPR_TIMESLICE"
MAX_RELEASES: Final = "SYSTEM_MAX_RELEASES"
GRACEFULLY: Final = "GRACEFULLY_REMOVE_JOBS"
COOL_DOWN: Final = "SYSTEM_ON_VACATE_COOL_DOWN"
LEAST_COOL_DOWN: Final = "SYSTEM_COOLDOWN_DURATION"
"""The fewest seconds of a cool-down by SYSTEM_ON_VACATE_COOL_DOWN."""
FAILED: Final = "SCHEDULER_UNIVERSE_COOL_DOWN_DURATION"
"""How many seconds a scheduler universe job rests that has exited with another code than 0."""
NOW_VACATE: Final = "SCHEDD_NOW_JOB_VACATE_TIMEOUT"
EMAIL_DOMAIN: Final = "EMAIL_DOMAIN"
SIGNATURE: Final = "EMAIL_SIGNATURE"
ADMIN: Final = "CONDOR_ADMIN"
SUPPORT: Final = "CONDOR_SUPPORT_EMAIL"
OF_MAILS: Final = (EMAIL_DOMAIN, SIGNATURE, ADMIN, SUPPORT)
"""What the mails to jobs' users say."""
PACE: Final[dict[str, str]] = {INTERVAL: "60", MAX_INTERVAL: "1200", TIMESLICE: "0.01"}
"""When periodic policies are asked, with HTCondor's defaults: how far apart two passes are, at least and at most, in
seconds, and which part of the time they may take."""

MAX_INPUT: Final = "MAX_TRANSFER_INPUT_MB"
MAX_OUTPUT: Final = "MAX_TRANSFER_OUTPUT_MB"
MOST_MOVED: Final[tuple[str, ...]] = (MAX_INPUT, MAX_OUTPUT)
"""Expressions over a job's ad: how many MiB of its files may be moved, where it does not say so itself; below 0, or not
set: there is no limit."""

_TEXTS: Final = frozenset({TRANSFORMS, REQUIREMENTS, user_maps.NAMES, *GUARDED, *OF_MAILS})


def schedd_kind(name: str) -> str | None:
    """The kind of a setting of the schedd's: text, truth, expression or number; None: it is none of them."""
    if name in _TEXTS:
        return "text"
    if name in LIMITS or name in (INTERVAL, MAX_INTERVAL, FAILED, LEAST_COOL_DOWN):
        return "number"
    if name == TIMESLICE:
        return "part"
    if name in (*MOST_MOVED, COOL_DOWN) or any(name == setting for setting, _ in STARTS.values()):
        return "expression"
    if name in (MAX_RELEASES, NOW_VACATE):
        return "whole"
    if name.startswith(PERIODIC):
        return "text" if name.endswith(NAMES) else "expression"
    if name in (IGNORE_SECURE, GRACEFULLY) or name.startswith(user_maps.PREFIX):
        return "truth"
    if name.startswith(REQUIREMENT):
        return "truth" if name.endswith(IS_WARNING) else "expression"
    if name.startswith((TRANSFORM, MACRO, user_maps.DATA)):
        return "text"
    return None


def names_in(settings: Mapping[str, str], name: str) -> list[str]:
    """The words of a list among the settings, each once."""
    return list(dict.fromkeys(settings.get(name, "").replace(",", " ").split()))


def pace(settings: Mapping[str, str], name: str) -> float:
    """One of ``PACE``."""
    return float(settings.get(name, PACE[name]))


def now_vacate_timeout(settings: Mapping[str, str]) -> int:
    """How long jobs have to go for one that is to run at once, in microseconds; HTCondor's default is 20 s."""
    return int(float(settings.get(NOW_VACATE, "20"))) * 1_000_000


def after_failure(settings: Mapping[str, str]) -> int:
    """``FAILED``, by HTCondor's default 300."""
    return int(float(settings.get(FAILED, "300")))


def least_cool_down(settings: Mapping[str, str]) -> int:
    """Return ``LEAST_COOL_DOWN``, by HTCondor's default 20."""
    return int(float(settings.get(LEAST_COOL_DOWN, "20")))


def limit(settings: Mapping[str, str], name: str) -> int | None:
    """One of ``LIMITS``, or SYSTEM_MAX_RELEASES; None: there is none."""
    text = settings.get(name, "").strip()
    return int(float(text)) if text else None

"""A pool's two dialects: HTCondor's manual, and the daemons of HTCondor 25.

All differences are defined here, as tables for each dialect or as boolean fields. A field's default is the manual's
behaviour; HTCondor's daemons behave in the opposite way. Code checks these fields, never the dialect's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from ..errors import PoolbookError
from .job_rows import JOB, JOB_HTCONDOR_25, JOB_STATUS_NUMBERS, JOB_STATUS_NUMBERS_HTCONDOR_25
from .rows import TransitionRow, states
from .slot_rows import NUMBERED, NUMBERED_HTCONDOR_25, STATE_ACTIVITIES
from .slot_rules import RULES, RULES_HTCONDOR_25, Rules
from .slot_triggers import TRIGGERS, TRIGGERS_HTCONDOR_25, Steps, Triggers


class Dialect(NamedTuple):
    name: str
    slot_rows: tuple[TransitionRow, ...]
    state_activities: tuple[str, ...]  #: all states/activities of a slot, the manual's first
    triggers: Triggers
    rules: Rules
    job_rows: tuple[TransitionRow, ...]
    job_status_numbers: Mapping[str, int]  #: status -> JobStatus
    setting_defaults: Mapping[str, str]  #: the defaults of the access point's settings that differ from settings.txt

    informs_startd_of_matches: bool = True
    """The negotiator notifies slots of their matches (NEGOTIATOR_INFORM_STARTD, off by default in HTCondor)."""
    limits_matches_of_submitters: bool = False
    """A submitter receives at most MAX_CONCURRENT_UPLOADS_PER_USER matches in a spin
    (SCHEDD_ENABLE_PER_USER_MATCH_LIMITS)."""
    preempts_only_worse_priorities: bool = True
    """A slot is preempted only for a better priority. In HTCondor, PREEMPTION_REQUIREMENTS determines this."""
    oversubscribes_quotas: bool = False
    """Static group quotas may add up to more than the pool without NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION, as in
    HTCondor. In the manual, they are then scaled down (CM, "Hierarchical Group Quotas")."""
    relaxes_group_quotas: bool = False
    """A group's limit in a cycle is rounded down; submitters without a slot may exceed the limit by one; preemption may
    exceed it; and slots left after the last round stay free, as in HTCondor."""
    puts_unfillable_quotas_first: bool = True
    """By default, groups whose quotas exceed the pool negotiate first, in descending order of quota: the manual's
    strict priority ("will always negotiate first"). HTCondor considers only the used part of a quota, so a group
    without slots negotiates before a group with slots."""
    asks_each_access_point: bool = False
    """The jobs of a submitter are negotiated separately for each access point, so their priorities are compared only
    within an access point, and the jobs of each may exceed the submitter's share by one slot, as in HTCondor (its
    negotiator asks the schedds one after another)."""
    preempts_idle_claims: bool = False
    """Claims without a job count as preemptible slots, as in HTCondor."""
    takes_job_rank_for_missing_rank: bool = False
    """A slot without a RANK uses the job's Rank of the slot, because HTCondor looks up attributes missing from the
    slot's ad in the job's ad (Resource::compute_rank). In the manual, such a slot ranks all jobs equally."""
    shares_load_by_cores: bool = False
    """Each slot is assigned at most its number of cores of the owner's load, and excess load is dropped, as in
    HTCondor. In the manual, slots are assigned 1.0 in turn ("Load Average for Multi-core Machines")."""
    hides_true_start: bool = True
    """A START that is always true is omitted from the published ad (the manual, "Machine States")."""
    drain_waits_for_longest_retirement: bool = True
    """In a graceful drain, all jobs may stay until the longest retirement time is over (the manual, "Drained State").
    HTCondor evicts a job earlier, when its own retirement is over."""
    quick_drain_keeps_last_start: bool = False
    """A quick or fast drain uses the START of the last graceful drain, unless all claims from before that drain had
    ended when it ended, as in HTCondor (ResMgr::startDraining). In the manual, only graceful drains have a START."""
    better_match_survives_shutdown: bool = False
    """A pending preempting claim takes over its slot even if the machine is shutting down, as in HTCondor."""
    claim_overtakes_match_in_backfill: bool = False
    """A slot in Backfill that is claimed after its match notification skips Matched when its client ends, as in
    HTCondor."""
    backs_off_backfill: bool = True
    """A backfill client that exits soon after its start is restarted after exponential delays. HTCondor restarts it at
    the next policy evaluation."""
    extends_cron_days_of_week: bool = False
    """A job with a ``cron_day_of_week`` but no ``cron_day_of_month`` also starts on the last day of each later month,
    on any weekday, every other minute until midnight, because HTCondor counts the days of these months from 0
    (CronTab::matchFields)."""
    evaluates_system_periodic_vacate: bool = True
    """SYSTEM_PERIODIC_VACATE is evaluated for running jobs (the manual's page "Configuration Macros"). HTCondor reads
    the setting but never evaluates it (UserPolicy::AnalyzeSinglePeriodicPolicy)."""
    shows_only_last_warning: bool = True
    """Users see only the last warning of submit requirements (the manual, "Submit Warnings"). HTCondor shows all
    warnings, the last one first."""
    transforms_see_all_attributes: bool = True
    """Regular expressions in transform statements match all attributes of the job, as in the manual. In HTCondor, they
    do not match the attributes of the job's cluster."""
    completes_submitted_noop_jobs: bool = True
    """A job submitted with ``noop_job = true`` completes without running (the manual, "Submit Description File
    Commands"). HTCondor 25 runs it, and completes only jobs whose IsNoopJob was edited later."""
    factories_hold_jobs: bool = True
    """A factory whose submit description contains ``hold = true`` creates held jobs. HTCondor's factories create idle
    jobs with a hold reason."""
    ends_idle_startd_immediately: bool = False
    """A startd that is shut down while it runs no job exits immediately, with its claims, as in HTCondor."""
    defrag_exceeds_maxima: bool = False
    """A defragmentation poll may drain more machines than DEFRAG_MAX_CONCURRENT_DRAINING and DEFRAG_MAX_WHOLE_MACHINES
    allow, and the polls of an hour more than DEFRAG_DRAINING_MACHINES_PER_HOUR, as in HTCondor."""
    defrag_joins_whole_machine_expr: bool = False
    """DEFRAG_WHOLE_MACHINE_EXPR is prepended to `&& PartitionableSlot ...` without parentheses, so in `a || b`, a true
    ``a`` alone is sufficient, as in HTCondor."""
    defrag_stops_at_long_intervals: bool = False
    """No machine is drained if DEFRAG_INTERVAL is more than an hour, as in HTCondor."""
    adds_margin_to_had_interval: bool = False
    """Two decisions of HAD are two seconds further apart than a third of the manual's stabilization period, as in
    HTCondor (HADStateMachine::softReconfigure)."""
    gives_up_dying_daemons: bool = True
    """The master "stops trying to start" a daemon that continues to die (the manual, "What is HTCondor?"): once its
    back-off is exhausted. HTCondor's master never stops."""

    def steps(self, trigger: str, state_activity: str) -> Steps:
        """Return the rows that a trigger fires from this state/activity."""
        return self.triggers.get(trigger, {}).get(state_activity, ())


MANUAL: Final = Dialect(
    name="manual",
    slot_rows=NUMBERED,
    state_activities=STATE_ACTIVITIES,
    triggers=TRIGGERS,
    rules=RULES,
    job_rows=JOB,
    job_status_numbers=JOB_STATUS_NUMBERS,
    setting_defaults={},
)

_ROUNDED_SIZES: Final = ("DiskUsage", "ExecutableSize", "ImageSize", "ProportionalSetSizeKb", "ResidentSetSize")

HTCONDOR_25: Final = Dialect(
    name="htcondor-25",
    slot_rows=NUMBERED_HTCONDOR_25,
    state_activities=states(NUMBERED_HTCONDOR_25, *STATE_ACTIVITIES),
    triggers=TRIGGERS_HTCONDOR_25,
    rules=RULES_HTCONDOR_25,
    job_rows=JOB_HTCONDOR_25,
    job_status_numbers=JOB_STATUS_NUMBERS_HTCONDOR_25,
    setting_defaults={
        "MAX_JOBS_PER_OWNER": "100000",
        "MAX_JOBS_PER_SUBMISSION": "20000",
        "MAX_JOBS_RUNNING": "10000",
        "SUBMIT_PREVENT_MULTI_QUEUE": "true",
        **{f"SCHEDD_ROUND_ATTR_{name}": "25%" for name in _ROUNDED_SIZES},
        "SCHEDD_ROUND_ATTR_NumCkpts": "4",
    },
    **{field: not default for field, default in Dialect._field_defaults.items()},
)

DIALECTS: Final[Mapping[str, Dialect]] = {dialect.name: dialect for dialect in (MANUAL, HTCONDOR_25)}
DEFAULT_DIALECT: Final = MANUAL.name


class UnknownDialectError(PoolbookError, ValueError):
    """A log uses a dialect that this version of Poolbook does not support.

    >>> try:
    ...     audit = log.audit()
    ... except UnknownDialectError as error:
    ...     print(f"upgrade Poolbook: {error}")
    """

    def __init__(self, dialect: str) -> None:
        super().__init__(f"{dialect!r} is not a dialect: use {' or '.join(DIALECTS)}")
        self.dialect = dialect


def dialect_named(name: str) -> Dialect:
    """Return the dialect with this name.

    :raises UnknownDialectError: if there is none
    """
    if name not in DIALECTS:
        raise UnknownDialectError(name)
    return DIALECTS[name]


@cache
def _rows_by_step(name: str) -> dict[tuple[str, str], tuple[TransitionRow, ...]]:
    rows: dict[tuple[str, str], tuple[TransitionRow, ...]] = {}
    for row in DIALECTS[name].slot_rows:
        for step in row.steps:
            rows[step] = (*rows.get(step, ()), row)
    return rows


def classify(dialect: Dialect, source: str, target: str) -> tuple[TransitionRow, ...]:
    """Return the row from one state/activity to another in a tuple, which is empty if the dialect has no such row."""
    return _rows_by_step(dialect.name).get((source, target), ())

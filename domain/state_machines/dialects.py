"""The two behaviours of a pool: as HTCondor's manual says, or as HTCondor 25's daemons do.

All differences are here: a table of each, and a named field where no table can say it. A field's default is what the
manual says, and HTCondor's daemons do the opposite. Code asks for a difference by its name, never for the dialect.
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
    state_activities: tuple[str, ...]  #: every state/activity of a slot, the manual's first
    triggers: Triggers
    rules: Rules
    job_rows: tuple[TransitionRow, ...]
    job_status_numbers: Mapping[str, int]  #: status -> JobStatus

    informs_startd_of_matches: bool = True
    """The negotiator tells slots of their matches (NEGOTIATOR_INFORM_STARTD, off by default in the real pool)."""
    limits_matches_of_submitters: bool = False
    """A submitter gets at most MAX_CONCURRENT_UPLOADS_PER_USER matches in a spin
    (SCHEDD_ENABLE_PER_USER_MATCH_LIMITS)."""
    preempts_only_worse_priorities: bool = True
    """A slot is preempted only for a better priority. The real negotiator leaves that to PREEMPTION_REQUIREMENTS."""
    oversubscribes_quotas: bool = False
    """Where NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION is not set, groups keep static quotas that are more than there is,
    as in the real pool. The manual scales them down unless it is set (CM, "Hierarchical Group Quotas")."""
    bends_group_quotas: bool = False
    """What a group may have in a cycle loses its fraction; whoever of it has got nothing yet may exceed it by one slot;
    slots may change hands beyond it; and what a cycle's last round leaves stays free: as with the real negotiator."""
    puts_unfillable_quotas_first: bool = True
    """By default a group whose quota is more than the pool has goes before all others, the larger quota first: the
    manual's strict priority ("will always negotiate first"). The real negotiator goes by the part of the quota that is
    in use alone, so that a group that has nothing goes before one that has something."""
    preempts_idle_claims: bool = False
    """Claims without a job count as slots that may be preempted, as for the real negotiator."""
    takes_job_rank_for_missing_rank: bool = False
    """A slot without a RANK takes the job's own Rank of the slot: the real startd looks up in the job what the slot's
    ad lacks (Resource::compute_rank). The manual: it values all jobs alike."""
    shares_load_by_cores: bool = False
    """A slot takes as much of the owner's load as it has cores, and the rest belongs to nobody (the real startd); else
    at most 1.0 in a turn (the manual, "Load Average for Multi-core Machines")."""
    hides_true_start: bool = True
    """A START that is locally true is left out of the public ad (the manual, "Machine States")."""
    drain_waits_for_longest_retirement: bool = True
    """In a graceful drain all jobs may stay until the one with the longest retirement time must go (the manual,
    "Drained State"). The real startd evicts a job earlier if its own retirement is over."""
    quick_drain_keeps_last_start: bool = False
    """In a quick or fast drain START is what the last graceful drain made of it, unless all that it found was gone by
    its end, as with the real startd (ResMgr::startDraining). The manual gives a START to graceful drains alone."""
    better_match_survives_shutdown: bool = False
    """A waiting better match takes its slot over although the machine is being shut down, as with the real startd."""
    claim_overtakes_match_in_backfill: bool = False
    """A slot in Backfill that was told of its match, and is then claimed before its client is gone, goes to Claimed
    without Matched (the real startd)."""
    backs_off_backfill: bool = True
    """A backfill client that ends soon after its start is started again later and later. The real startd starts it in
    each of the policy's rounds."""
    slips_days_of_schedules: bool = False
    """A job with a ``cron_day_of_week`` and no ``cron_day_of_month`` also begins on the last day before each month that
    follows, whatever its weekday, and there every other minute until midnight: the real schedd takes that month's days
    to begin with 0 (CronTab::matchFields)."""
    asks_system_periodic_vacate: bool = True
    """SYSTEM_PERIODIC_VACATE is asked of jobs that run (the manual's page "Configuration Macros"). The real schedd and
    its shadows read it, and never ask it (UserPolicy::AnalyzeSinglePeriodicPolicy)."""
    tells_last_warning_alone: bool = True
    """Of submit requirements that only warn, a user is told the last (the manual, "Submit Warnings"). The real schedd
    tells all of them, the last one first."""
    transforms_see_all_attributes: bool = True
    """Statements of a transform with regular expressions see all attributes of the job, as the manual has it. In the
    real schedd those of the cluster are not among a job's own."""
    factories_hold_jobs: bool = True
    """A factory whose submission says ``hold = true`` makes held jobs. Those of a real schedd are idle, and say why
    they were to be held."""
    ends_idle_startd_at_once: bool = False
    """A startd that is shut down while it runs no job ends at once, with its claims, as the real startd does."""
    defrag_exceeds_maxima: bool = False
    """A poll of the defragmentation that may drain several machines drains them all although fewer would reach
    DEFRAG_MAX_CONCURRENT_DRAINING or DEFRAG_MAX_WHOLE_MACHINES, and polls may drain more in an hour than
    DEFRAG_DRAINING_MACHINES_PER_HOUR, as the real condor_defrag does."""
    defrag_joins_whole_machine_expr: bool = False
    """DEFRAG_WHOLE_MACHINE_EXPR is joined to `&& PartitionableSlot ...` without parentheses, so that of `a || b` the
    first part counts by itself, as for the real condor_defrag."""
    defrag_stops_at_long_intervals: bool = False
    """With a DEFRAG_INTERVAL of more than an hour nothing is drained, as by the real condor_defrag."""

    def steps(self, trigger: str, state_activity: str) -> Steps:
        """Return the rows that the trigger fires from there; empty: nothing changes."""
        return self.triggers.get(trigger, {}).get(state_activity, ())


MANUAL: Final = Dialect(
    name="manual",
    slot_rows=NUMBERED,
    state_activities=STATE_ACTIVITIES,
    triggers=TRIGGERS,
    rules=RULES,
    job_rows=JOB,
    job_status_numbers=JOB_STATUS_NUMBERS,
)
"""The manual's behaviour, and nothing else."""

HTCONDOR_25: Final = Dialect(
    name="htcondor-25",
    slot_rows=NUMBERED_HTCONDOR_25,
    state_activities=states(NUMBERED_HTCONDOR_25, *STATE_ACTIVITIES),
    triggers=TRIGGERS_HTCONDOR_25,
    rules=RULES_HTCONDOR_25,
    job_rows=JOB_HTCONDOR_25,
    job_status_numbers=JOB_STATUS_NUMBERS_HTCONDOR_25,
    **{field: not default for field, default in Dialect._field_defaults.items()},
)
"""The behaviour of HTCondor 25's daemons, also where they go beyond the manual."""

DIALECTS: Final[Mapping[str, Dialect]] = {one.name: one for one in (MANUAL, HTCONDOR_25)}
DEFAULT_DIALECT: Final = MANUAL.name


class UnknownDialectError(PoolbookError, ValueError):
    def __init__(self, dialect: str) -> None:
        super().__init__(f"there is no dialect {dialect!r}: choose one of {', '.join(DIALECTS)}")
        self.dialect = dialect


def dialect_named(name: str) -> Dialect:
    """Return the dialect of this name.

    :raises UnknownDialectError: there is none
    """
    if name not in DIALECTS:
        raise UnknownDialectError(name)
    return DIALECTS[name]


@cache
def _rows_by_step(name: str) -> dict[tuple[str, str], tuple[TransitionRow, ...]]:
    found: dict[tuple[str, str], tuple[TransitionRow, ...]] = {}
    for row in DIALECTS[name].slot_rows:
        for step in row.steps:
            found[step] = (*found.get(step, ()), row)
    return found


def classify(dialect: Dialect, source: str, target: str) -> tuple[TransitionRow, ...]:
    """Return the rows that lead from one state/activity to another: one, or none if the dialect forbids it."""
    return _rows_by_step(dialect.name).get((source, target), ())

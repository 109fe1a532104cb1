"""The two ways in which a pool may behave: as HTCondor's manual says, or as HTCondor 25's daemons do.

Everything in which they differ stands here: a table of each, and a named difference where no table can say it. Whoever
needs to know asks for the difference by its name, never for the name of the dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from ..errors import PoolbookError
from .job import JOB, JOB_HTCONDOR_25, JOB_STATUS_NUMBERS, JOB_STATUS_NUMBERS_HTCONDOR_25
from .rows import Row, states
from .slot_rows import NUMBERED, STATE_ACTIVITIES
from .slot_rows_htcondor_25 import NUMBERED_HTCONDOR_25
from .slot_rules import RULES, RULES_HTCONDOR_25, Rules
from .slot_triggers import TRIGGERS, TRIGGERS_HTCONDOR_25, Steps, Triggers


class Dialect(NamedTuple):
    """One way in which a pool may behave."""

    name: str
    slot_rows: tuple[Row, ...]
    state_activities: tuple[str, ...]
    """Every state/activity in which a slot may be, those of the manual first."""
    triggers: Triggers
    rules: Rules
    job_rows: tuple[Row, ...]
    job_status_numbers: Mapping[str, int]
    """Status -> JobStatus."""

    informs_startd_of_matches: bool
    """Whether the negotiator tells the slots of its matches (NEGOTIATOR_INFORM_STARTD, off by default in the real
    pool)."""
    limits_matches_of_submitters: bool
    """Whether a submitter gets MAX_CONCURRENT_UPLOADS_PER_USER matches in a spin at most, as the real daemons have it
    (SCHEDD_ENABLE_PER_USER_MATCH_LIMITS)."""
    preempts_only_worse_priorities: bool
    """Whether a slot changes hands only to a submitter of a better priority. The real negotiator leaves that to
    PREEMPTION_REQUIREMENTS."""
    preempts_idle_claims: bool
    """Whether the negotiator takes claims that run no job for slots that may be preempted, as the real one does."""
    takes_job_rank_for_missing_rank: bool
    """Whether a slot without a RANK takes the job's own Rank of the slot for it: the real startd looks for what the
    slot's ad lacks in the job's (Resource::compute_rank). The manual: it values all jobs alike."""
    shares_load_by_cores: bool
    """Whether a slot takes as much of the owner's load as it has cores, and what is then left belongs to nobody (the
    real startd), or at most 1.0 in a turn (the manual, "Load Average for Multi-core Machines")."""
    hides_true_start: bool
    """Whether a START that is locally true is left out of the public ad (the manual, "Machine States")."""
    drain_waits_for_longest_retirement: bool
    """Whether all jobs of a machine that drains gracefully may stay until the one with the longest retirement time
    must go (the manual, "Drained State"). The real startd sends one away before whose own retirement is over."""
    better_match_survives_shutdown: bool
    """Whether a better match that waits takes its slot over although the machine is being shut down, as the real
    startd lets it."""
    ends_idle_startd_at_once: bool
    """Whether an execution point that is shut down while it runs no job ends at once, its claims with it, as the real
    startd does."""

    def steps(self, trigger: str, state_activity: str) -> Steps:
        """Return the rows that a slot there goes through when it is told so; none: nothing changes."""
        return self.triggers.get(trigger, {}).get(state_activity, ())


MANUAL: Final = Dialect(
    name="manual",
    slot_rows=NUMBERED,
    state_activities=STATE_ACTIVITIES,
    triggers=TRIGGERS,
    rules=RULES,
    job_rows=JOB,
    job_status_numbers=JOB_STATUS_NUMBERS,
    informs_startd_of_matches=True,
    limits_matches_of_submitters=False,
    preempts_only_worse_priorities=True,
    preempts_idle_claims=False,
    takes_job_rank_for_missing_rank=False,
    shares_load_by_cores=False,
    hides_true_start=True,
    drain_waits_for_longest_retirement=True,
    better_match_survives_shutdown=False,
    ends_idle_startd_at_once=False,
)
"""The dialect that does what the manual says, and nothing else."""

HTCONDOR_25: Final = Dialect(
    name="htcondor-25",
    slot_rows=NUMBERED_HTCONDOR_25,
    state_activities=states(NUMBERED_HTCONDOR_25, *STATE_ACTIVITIES),
    triggers=TRIGGERS_HTCONDOR_25,
    rules=RULES_HTCONDOR_25,
    job_rows=JOB_HTCONDOR_25,
    job_status_numbers=JOB_STATUS_NUMBERS_HTCONDOR_25,
    informs_startd_of_matches=False,
    limits_matches_of_submitters=True,
    preempts_only_worse_priorities=False,
    preempts_idle_claims=True,
    takes_job_rank_for_missing_rank=True,
    shares_load_by_cores=True,
    hides_true_start=False,
    drain_waits_for_longest_retirement=False,
    better_match_survives_shutdown=True,
    ends_idle_startd_at_once=True,
)
"""The dialect that does what HTCondor 25's daemons do, in what they go beyond the manual, too."""

DIALECTS: Final[Mapping[str, Dialect]] = {one.name: one for one in (MANUAL, HTCONDOR_25)}
DEFAULT_DIALECT: Final = MANUAL.name


class UnknownDialectError(PoolbookError, ValueError):
    """A dialect was named that does not exist."""

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
def _rows_by_step(name: str) -> dict[tuple[str, str], tuple[Row, ...]]:
    found: dict[tuple[str, str], tuple[Row, ...]] = {}
    for row in DIALECTS[name].slot_rows:
        for step in row.steps:
            found[step] = (*found.get(step, ()), row)
    return found


def classify(dialect: Dialect, source: str, target: str) -> tuple[Row, ...]:
    """Return the rows by which a slot may have gone from one state/activity to another: one, or none if the dialect
    does not allow it."""
    return _rows_by_step(dialect.name).get((source, target), ())

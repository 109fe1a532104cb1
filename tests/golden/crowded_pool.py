"""Actions of users, owners and administrators on the pools of ``decided``, and these pools' configurations."""

from __future__ import annotations

import random
from collections.abc import Callable

from poolbook import Pool
from poolbook.replay.virtual_world import Behaviour

Action = Callable[[Pool, random.Random], object]

CONFIGURATIONS = (
    "NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1 = 100%\nSLOT_TYPE_1_PARTITIONABLE = true\n",
    "RANK = (Owner == \"carol\") * 10\nMaxJobRetirementTime = 30\nMachineMaxVacateTime = 20\n",
    "PREEMPT = TotalJobRunTime > 600\nWANT_SUSPEND = TotalJobRunTime < 60\nSUSPEND = KeyboardIdle < 30\n"
    "CONTINUE = KeyboardIdle > 60\n",
    "START = KeyboardIdle > 20 || Owner == \"carol\"\nIS_OWNER = KeyboardIdle < 10\n",
    "CLAIM_WORKLIFE = 120\nCLAIM_PARTITIONABLE_LEFTOVERS = false\n",
    "ENABLE_BACKFILL = true\nBACKFILL_SYSTEM = EXEC\nEXEC_Executable = /bin/fold\nEXEC_InitialDir = /\n"
    "START_BACKFILL = KeyboardIdle > 40\nEVICT_BACKFILL = KeyboardIdle < 20\n",
    "PREEMPTION_REQUIREMENTS = RemoteUserPrio > SubmitterUserPrio * 1.1\nPREEMPTION_RANK = -TotalJobRunTime\n"
    "ALLOW_PSLOT_PREEMPTION = true\nNEGOTIATOR_CONSIDER_PREEMPTION = true\n",
    "NEGOTIATOR_INTERVAL = 60\nNEGOTIATOR_CYCLE_DELAY = 20\nPRIORITY_HALFLIFE = 600\n",
    "NEGOTIATOR_PRE_JOB_RANK = -Cpus\nNEGOTIATOR_POST_JOB_RANK = SlotID\nUSE_RESOURCE_REQUEST_COUNTS = false\n",
    "GROUP_NAMES = physics, physics.hep, physics.lep, chemistry\nGROUP_QUOTA_physics = 4\nGROUP_QUOTA_physics.lep = 1\n"
    "GROUP_QUOTA_DYNAMIC_physics.hep = 0.5\nGROUP_QUOTA_DYNAMIC_chemistry = 0.3\n",
    "GROUP_ACCEPT_SURPLUS = true\nGROUP_ACCEPT_SURPLUS_physics.lep = false\nGROUP_PRIO_FACTOR_chemistry = 3\n"
    "NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION = true\n",
    "GROUP_AUTOREGROUP_physics.hep = true\nGROUP_SORT_EXPR = GroupQuota\n",
    "XSW_LIMIT = 3\nLARGE.DEFAULT_LIMIT = 2\nCONCURRENCY_LIMIT_DEFAULT = 4\n",
    "JOB_TRANSFORM_NAMES = Short, Marked\nJOB_TRANSFORM_Short @=end\n  REQUIREMENTS RequestCpus > 1\n"
    "  SET JobMaxVacateTime 7\n@end\nJOB_TRANSFORM_Marked @=end\n  REQUIREMENTS Owner == \"bob\"\n  SET Marked 1\n"
    "  DEFAULT Project \"none\"\n@end\n",
    "SUBMIT_REQUIREMENT_NAMES = Small, Named\nSUBMIT_REQUIREMENT_Small = RequestMemory < 5000\n"
    "SUBMIT_REQUIREMENT_Small_REASON = strcat(\"too large: \", RequestMemory)\n"
    "SUBMIT_REQUIREMENT_Named = Marked isnt undefined\nSUBMIT_REQUIREMENT_Named_IS_WARNING = true\n",
    "MAX_JOBS_PER_OWNER = 40\nMAX_JOBS_PER_SUBMISSION = 12\n",
    "IMMUTABLE_JOB_ATTRS = Project\nPROTECTED_JOB_ATTRS = Marked\n",
    "DAEMON_LIST = $(DAEMON_LIST) DEFRAG\nDEFRAG_INTERVAL = 120\nDEFRAG_DRAINING_MACHINES_PER_HOUR = 60\n"
    "DEFRAG_MAX_WHOLE_MACHINES = 2\nDEFRAG_MAX_CONCURRENT_DRAINING = 1\nDEFRAG_SCHEDULE = quick\n",
    "DAEMON_LIST = $(DAEMON_LIST) NEGOTIATOR_M1\nNEGOTIATOR_M1.NEGOTIATOR_SLOT_CONSTRAINT = Machine == \"m1\"\n"
    "NEGOTIATOR_M1.PREEMPTION_REQUIREMENTS = false\nNEGOTIATOR_M1.GROUP_QUOTA_physics = 1\n",
    "SYSTEM_PERIODIC_HOLD = NumJobStarts > 4\nSYSTEM_PERIODIC_HOLD_REASON = \"too often\"\n"
    "SYSTEM_PERIODIC_RELEASE = HoldReasonCode == 26 && time() - EnteredCurrentStatus > 300\n"
    "PERIODIC_EXPR_INTERVAL = 30\n",
    "DEFAULT_PRIO_FACTOR = 100\nNICE_USER_PRIO_FACTOR = 10000\nNEGOTIATOR_MATCHLIST_CACHING = false\n",
)  # fmt: skip
"""Parts of a configuration: each story draws its own."""

JOBS = (
    Behaviour(40), Behaviour(150, load=1.0), Behaviour(25, code=3), Behaviour(300, grace=12.0),
    Behaviour(90, grace=None),
    Behaviour(700, load=0.5), Behaviour(5),
)  # fmt: skip
"""The behaviour of a cluster's jobs."""

_USERS = ("alice", "bob", "carol", "dave")
_COMMANDS = (
    "request_cpus = 2", "request_memory = 3 GB", "request_memory = 6000", "priority = 5", "priority = -3",
    "rank = Memory",
    "requirements = SlotID > 0", "requirements = Machine == \"m1\"", "concurrency_limits = XSW", "hold = true",
    "concurrency_limits = LARGE.one:2, free", "accounting_group = physics.hep", "accounting_group = physics.lep",
    "accounting_group = chemistry", "nice_user = true", "max_retries = 2", "on_exit_hold = ExitCode == 3",
    "on_exit_remove = NumJobStarts > 1", "deferral_time = QDate + 90\ndeferral_window = 200", "cron_minute = */3",
    "max_materialize = 2", "max_idle = 1", "universe = local", "allowed_execute_duration = 60", "keep_claim_idle = 20",
    "allowed_job_duration = 100", "job_max_vacate_time = 4", "leave_in_queue = ExitCode == 0", "+Project = \"one\"",
    "periodic_hold = JobStatus == 2 && time() - EnteredCurrentStatus > 50\nperiodic_hold_reason = \"long\"",
    "periodic_release = NumHolds < 3 && time() - EnteredCurrentStatus > 40", "periodic_remove = NumJobStarts > 3",
    "periodic_vacate = time() - EnteredCurrentStatus > 100", "max_job_retirement_time = 60",
    "success_exit_code = 3", "want_graceful_removal = true", "job_lease_duration = 60",
)  # fmt: skip


def _submit(pool: Pool, generator: random.Random) -> object:
    commands = dict.fromkeys(generator.sample(_COMMANDS, generator.randint(0, 3)))
    program = ("executable = /bin/fold", "transfer_executable = false", "should_transfer_files = no")
    lines = [*program, "arguments = $(Process)", *commands, f"queue {generator.choice((1, 1, 2, 4, 9))}"]
    return pool.submit("\n".join(lines), user=generator.choice(_USERS), folder="/")


def _jobs(pool: Pool, generator: random.Random) -> str:
    clusters = sorted(pool.state.clusters) or [1]
    cluster = generator.choice(clusters)
    return generator.choice((f"{cluster}", f"{cluster}.0", f"{cluster}.1"))


def _slot(pool: Pool, generator: random.Random) -> str:
    return generator.choice([*sorted(pool.state.slots), "slot9@m0"])


def _machine(pool: Pool, generator: random.Random) -> str:
    return generator.choice([*sorted(pool.state.machines), "m9"])


def _submitter(pool: Pool, generator: random.Random) -> str:
    return generator.choice([*sorted(pool.state.submitters), "nobody@site"])


def _return_machine(pool: Pool, generator: random.Random) -> None:
    """Add machines again that left."""
    for number in range(3):
        if f"m{number}" not in pool.state.machines:
            pool.add_machine(f"m{number}", cpus=generator.choice((1, 4)), memory=4096)


_FREQUENT_ACTIONS: tuple[Action, ...] = (
    _submit,
    lambda pool, chance: pool.advance(chance.choice((0.5, 1, 5, 20, 30, 61, 200))),
)
_RARE_ACTIONS: tuple[Action, ...] = (
    lambda pool, chance: pool.hold(_jobs(pool, chance), user="root"),
    lambda pool, chance: pool.hold(constraint="JobStatus == 2 && JobPrio >= 0", user=chance.choice(_USERS)),
    lambda pool, chance: pool.release(_jobs(pool, chance), user="root"),
    lambda pool, chance: pool.release(constraint="HoldReasonCode == 1", user="root"),
    lambda pool, chance: pool.remove(_jobs(pool, chance), user="root", reason="enough"),
    lambda pool, chance: pool.remove(_jobs(pool, chance), user=chance.choice(_USERS)),
    lambda pool, chance: pool.vacate(_jobs(pool, chance), fast=chance.random() < 0.5, user="root"),
    lambda pool, chance: pool.suspend(_jobs(pool, chance), user="root"),
    lambda pool, chance: pool.resume(_jobs(pool, chance), user="root"),
    lambda pool, chance: pool.edit(_jobs(pool, chance), user="root", RequestCpus=chance.choice((1, 2))),
    lambda pool, chance: pool.edit(_jobs(pool, chance), user=chance.choice(_USERS), Project="two", Marked=2),
    lambda pool, chance: pool.edit(_jobs(pool, chance), user="root", Requirements="Memory > 100"),
    lambda pool, chance: pool.prio(_jobs(pool, chance), value=chance.choice((-5, 0, 7)), user="root"),
    lambda pool, chance: pool.set_priority(_submitter(pool, chance), chance.choice((1.0, 50.0, 900.0))),
    lambda pool, chance: pool.set_priority_factor(_submitter(pool, chance), chance.choice((1.0, 10.0, 5000.0))),
    lambda pool, chance: pool.set_floor(_submitter(pool, chance), chance.choice((0, 2))),
    lambda pool, chance: pool.set_ceiling(_submitter(pool, chance), chance.choice((-1, 1, 4))),
    lambda pool, chance: pool.set_usage(_submitter(pool, chance), 5000),
    lambda pool, chance: pool.reset_usage(_submitter(pool, chance)),
    lambda pool, chance: pool.delete_submitter(_submitter(pool, chance)),
    lambda pool, chance: pool.vacate_slot(_slot(pool, chance), fast=chance.random() < 0.5),
    lambda pool, chance: pool.suspend_slot(_slot(pool, chance)),
    lambda pool, chance: pool.resume_slot(_slot(pool, chance)),
    lambda pool, chance: pool.drain(_machine(pool, chance), schedule=chance.choice(("Graceful", "Quick", "Fast"))),
    lambda pool, chance: pool.drain(_machine(pool, chance), completion="resume"),
    lambda pool, chance: pool.cancel_drain(_machine(pool, chance)),
    lambda pool, chance: pool.shut_down(_machine(pool, chance), how=chance.choice(("Graceful", "Fast", "Peaceful"))),
    _return_machine,
    lambda pool, chance: pool.negotiate(),
    lambda pool, chance: pool.configure("\n".join(chance.sample(CONFIGURATIONS[6:], 4))),
    lambda pool, chance: pool.reconfigure(_machine(pool, chance), "\n".join(CONFIGURATIONS[:3])),
    lambda pool, chance: pool.read(_machine(pool, chance), KeyboardIdle=chance.choice((0, 25, 1000)), LoadAvg=0.4),
)  # fmt: skip
ACTIONS: tuple[Action, ...] = (*_FREQUENT_ACTIONS * 12, *_RARE_ACTIONS)

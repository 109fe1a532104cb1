"""Hypothesis strategies for a pool: ads, expressions, submissions, configurations, machines, owners and scenarios.

All values are valid. The simplest ones come first, so that hypothesis reduces a failing example to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from attrs import evolve, frozen
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ...replay.virtual_world import Behaviour
from ..library.embedded_pool import Pool

Kind = Literal["boolean", "number", "string"]
USERS = ("alice", "bob")
SLOT_ATTRIBUTES: Mapping[str, Kind] = {
    "KeyboardIdle": "number", "LoadAvg": "number", "ClockMin": "number", "ClockDay": "number", "Cpus": "number",
    "Memory": "number", "State": "string", "Activity": "string", "Name": "string",
}  # fmt: skip
JOB_ATTRIBUTES: Mapping[str, Kind] = {
    "JobStatus": "number", "JobPrio": "number", "RequestCpus": "number", "RequestMemory": "number", "QDate": "number",
    "NumJobStarts": "number", "Owner": "string", "Cmd": "string", "WantCheckpoint": "boolean",
}  # fmt: skip
_NUMBERS = ("0", "1", "2", "60", "300", "900", "1024", "0.5", "-1")
_STRINGS = ('"alice"', '"bob"', '"Claimed"', '"Owner"', '"Busy"', '""')


def expressions(
    attributes: Mapping[str, Kind] = SLOT_ATTRIBUTES, *, kind: Kind = "boolean", max_leaves: int = 6
) -> SearchStrategy[str]:
    """Generate ClassAd expressions that read these attributes, and usually have a value of this kind.

    :param attributes: their names, with the kinds of their values
    :param max_leaves: the largest number of comparisons, or of operands
    """
    names = {wanted: [name for name, of_kind in attributes.items() if of_kind == wanted] for wanted in _LITERALS}
    leaves = {wanted: st.sampled_from([*_LITERALS[wanted], *names[wanted]]) for wanted in _LITERALS}
    if kind == "boolean":
        compared = st.one_of(
            leaves["boolean"],
            *(
                st.builds(" ".join, st.tuples(st.sampled_from(names[each]), st.sampled_from(operators), leaves[each]))
                for each, operators in _OPERATORS.items()
                if names[each]
            ),
            *([st.sampled_from(sorted(attributes)).map("isUndefined({})".format)] if attributes else []),
        )
        return st.recursive(compared, _combine_booleans, max_leaves=max_leaves)
    combine = _combine_numbers if kind == "number" else _combine_strings
    return st.recursive(leaves[kind], combine, max_leaves=max_leaves)


_LITERALS: Mapping[Kind, Sequence[str]] = {"boolean": ("true", "false"), "number": _NUMBERS, "string": _STRINGS}
_OPERATORS: Mapping[Kind, Sequence[str]] = {
    "number": ("<", ">=", "==", "!=", "<=", ">", "=?="),
    "string": ("==", "!=", "=?=", "=!="),
}


def _combine_booleans(parts: SearchStrategy[str]) -> SearchStrategy[str]:
    return st.one_of(
        st.builds("({} && {})".format, parts, parts),
        st.builds("({} || {})".format, parts, parts),
        parts.map("!({})".format),
        st.builds("ifThenElse({}, {}, {})".format, parts, parts, parts),
    )


def _combine_numbers(parts: SearchStrategy[str]) -> SearchStrategy[str]:
    operators = (st.builds(f"({{}} {operator} {{}})".format, parts, parts) for operator in ("+", "-", "*"))
    return st.one_of(*operators, st.builds("max({{ {}, {} }})".format, parts, parts))


def _combine_strings(parts: SearchStrategy[str]) -> SearchStrategy[str]:
    return st.one_of(st.builds("strcat({}, {})".format, parts, parts), parts.map("toUpper({})".format))


def ads(
    kind: Literal["slot", "job"] = "slot",
    *,
    users: Sequence[str] = USERS,
    extra: Mapping[str, SearchStrategy[str]] | None = None,
) -> SearchStrategy[dict[str, str]]:
    """Generate ads of slots or jobs: attribute names with expressions.

    :param users: the owners of jobs
    :param extra: further attributes, each of which an ad may lack
    """
    cpus, memory = st.integers(1, 8).map(str), st.sampled_from(["128", "1024", "4096"])
    always: dict[str, SearchStrategy[str]]
    if kind == "slot":
        always = {
            "Name": st.integers(1, 9).map('"slot{}@node1"'.format), "Arch": st.just('"X86_64"'),
            "OpSys": st.just('"LINUX"'), "Cpus": cpus, "Memory": memory, "Disk": st.just("1000000"),
            "Start": expressions(max_leaves=3), "Requirements": st.just("Start && TARGET.RequestCpus <= MY.Cpus"),
        }  # fmt: skip
        maybe = {"Rank": expressions({"RequestCpus": "number"}, kind="number"), "KeyboardIdle": _seconds()}
    else:
        always = {
            "ClusterId": st.integers(1, 9).map(str), "ProcId": st.integers(0, 9).map(str),
            "Owner": st.sampled_from([f'"{user}"' for user in users]), "Cmd": st.just('"/bin/sleep"'),
            "RequestCpus": cpus, "RequestMemory": memory, "RequestDisk": st.just("1024"), "JobUniverse": st.just("5"),
            "Requirements": expressions({"Memory": "number", "Cpus": "number"}, max_leaves=2),
        }  # fmt: skip
        maybe = {"JobPrio": st.integers(-5, 5).map(str), "Rank": expressions({"Memory": "number"}, kind="number")}
    return st.fixed_dictionaries(always, optional={**maybe, **(extra or {})})


def _seconds() -> SearchStrategy[str]:
    return st.sampled_from(["0", "30", "60", "600", "3600"])


def submit_descriptions(
    *,
    max_cpus: int = 2,
    max_memory: int = 1024,
    options: bool = True,
    extra: Mapping[str, SearchStrategy[object]] | None = None,
) -> SearchStrategy[dict[str, object]]:
    """Generate submit descriptions, as `Pool.submit` accepts them.

    :param max_cpus: the most cores that a job requests
    :param max_memory: the most memory, in MB
    :param options: whether jobs have priorities, policies, holds and requirements; if not, only requests
    :param extra: further submit commands, each of which a description may lack
    """
    optional: dict[str, SearchStrategy[object]] = {
        "priority": st.integers(-2, 2),
        "hold": st.just("true"),
        "leave_in_queue": st.just("true"),
        "on_exit_remove": st.just("NumJobCompletions > 1"),
        "requirements": st.sampled_from(['TARGET.OpSys == "LINUX"', 'TARGET.Machine != "node9"']),
        "rank": st.just("TARGET.Memory"),
        "max_job_retirement_time": st.sampled_from([0, 30, 3600]),
        "job_max_vacate_time": st.sampled_from([5, 60]),
        "periodic_hold": st.just("NumJobStarts > 3"),
        "periodic_release": st.just("NumJobStarts < 2"),
    }
    always: dict[str, SearchStrategy[object]] = {
        "executable": st.just("/bin/sleep"),
        "request_cpus": st.integers(1, max_cpus),
        "request_memory": st.sampled_from(sorted({min(128, max_memory), max_memory})),
    }
    return st.fixed_dictionaries(always, optional={**(optional if options else {}), **(extra or {})})


def behaviours(*, max_seconds: float = 3600, max_grace: float | None = None) -> SearchStrategy[Behaviour]:
    """Generate what jobs do: they run for some time, and end normally, with an exit code or by a signal.

    :param max_seconds: the longest run time
    :param max_grace: the longest time that they run after a soft kill; None: also without end
    """
    graces = st.sampled_from([0.0, 5.0, 60.0, None])
    return st.builds(
        Behaviour,
        seconds=st.sampled_from([each for each in (60.0, 5.0, 600.0) if each < max_seconds] + [max_seconds]),
        code=st.sampled_from([0, 0, 1]),
        signal=st.sampled_from([None, None, 11]),
        grace=graces if max_grace is None else st.sampled_from([0.0, max_grace]),
        load=st.sampled_from([0.0, 1.0]),
    )


# -- Configurations

_IDLE = st.sampled_from([900, 60, 300, 3600])
_SPAN = st.sampled_from([0, 60, 600, 7200])
BLOCKS: Mapping[str, SearchStrategy[str]] = {
    "slots": st.sampled_from(["use FEATURE : StaticSlots", "use FEATURE : PartitionableSlot"]),
    "template": st.sampled_from(
        ["", "use POLICY : Always_Run_Jobs", "use POLICY : Desktop", "use POLICY : Limit_Job_Runtimes(3600)"]
    ),
    "start": st.one_of(
        st.just(""),
        _IDLE.map("START = KeyboardIdle > {}".format),
        st.integers(1, 23).map("START = ClockMin < 60 * {0} || ClockDay == 0".format),
        st.sampled_from(USERS).map('START = TARGET.Owner == "{}" || KeyboardIdle > 300'.format),
    ),
    "suspend": st.one_of(
        st.just(""),
        st.builds(
            "WANT_SUSPEND = true\nSUSPEND = KeyboardIdle < {0}\nCONTINUE = KeyboardIdle > {0} + {1}".format,
            st.sampled_from([60, 10]),
            st.sampled_from([60, 240]),
        ),
        st.just("WANT_SUSPEND = false"),
    ),
    "preempt": st.one_of(
        st.just(""),
        _SPAN.map('PREEMPT = Activity == "Suspended" && time() - EnteredCurrentActivity > {}'.format),
        st.just("PREEMPT = KeyboardIdle < 60\nWANT_SUSPEND = false"),
    ),
    "vacate": st.one_of(
        st.just(""),
        _SPAN.map("MachineMaxVacateTime = {}".format),
        _SPAN.map("WANT_VACATE = true\nKILL = time() - EnteredCurrentActivity > {}".format),
    ),
    "retirement": st.one_of(st.just(""), _SPAN.map("MaxJobRetirementTime = {}".format)),
    "rank": st.one_of(st.just(""), st.sampled_from(USERS).map('RANK = (TARGET.Owner == "{}") * 10'.format)),
    "worklife": st.one_of(st.just(""), _SPAN.map("CLAIM_WORKLIFE = {}".format)),
    "preemption": st.one_of(
        st.just(""),
        st.just("PREEMPTION_REQUIREMENTS = RemoteUserPrio > TARGET.SubmitterUserPrio * 1.2"),
        st.just("PREEMPTION_REQUIREMENTS = false"),
    ),
    "groups": st.one_of(
        st.just(""),
        st.builds(
            "GROUP_NAMES = physics, biology\nGROUP_QUOTA_DYNAMIC_physics = 0.{0}\n"
            "GROUP_QUOTA_DYNAMIC_biology = 0.3\nGROUP_ACCEPT_SURPLUS = {1}".format,
            st.integers(1, 7),
            st.sampled_from(["true", "false"]),
        ),
    ),
    "intervals": st.sampled_from(["RUNBENCHMARKS = false", "RUNBENCHMARKS = false\nPOLLING_INTERVAL = 20"]),
}  # fmt: skip
"""The building blocks of configurations, by name: lines of an HTCondor configuration."""


def configurations(**blocks: str | SearchStrategy[str]) -> SearchStrategy[str]:
    """Generate configurations with a policy, made of `BLOCKS`. A keyword replaces a block by a text or a strategy, or
    adds one at the end: ``configurations(start="START = true", rank="", ours="FLOCK = ...")``."""
    chosen = {**BLOCKS, **{name: st.just(text) if isinstance(text, str) else text for name, text in blocks.items()}}
    return st.tuples(*chosen.values()).map(lambda texts: "".join(f"{text}\n" for text in texts if text))


# -- Machines


@frozen
class MachinePlan:
    """A machine of a `PoolPlan`: its cores, and its memory in MB."""

    name: str
    cpus: int = 1
    memory: int = 1024


@frozen
class PoolPlan:
    """The machines of a pool, and their configuration (empty: none).

    >>> PoolPlan((MachinePlan("node1", 2),)).lines
    ['machine node1 cores=2 memory=1024']
    """

    machines: tuple[MachinePlan, ...]
    config: str = ""

    @property
    def lines(self) -> list[str]:
        """The lines of a scenario for these machines."""
        lines = [f"machine {each.name} cores={each.cpus} memory={each.memory}" for each in self.machines]
        return [*lines, "config", *self.config.splitlines(), "end"] if self.config else lines

    def open(self, *, user: str = "", dialect: str = "manual") -> Pool:
        """Open a pool in virtual time with these machines."""
        pool = Pool.open(config=self.config or None, user=user, dialect=dialect)
        for machine in self.machines:
            pool.add_machine(machine.name, cpus=machine.cpus, memory=machine.memory)
        return pool


def pools(
    *,
    max_machines: int = 3,
    max_cpus: int = 4,
    config: str | SearchStrategy[str] = "",
    names: Sequence[str] = (),
) -> SearchStrategy[PoolPlan]:
    """Generate the machines of a pool; `names` are the names of all machines, if they matter."""
    counts = st.just(len(names)) if names else st.integers(1, max_machines)

    def plan(count: int) -> SearchStrategy[PoolPlan]:
        chosen = names or [f"node{number}" for number in range(1, count + 1)]
        machines = [
            st.builds(MachinePlan, st.just(name), st.integers(1, max_cpus), st.sampled_from([1024, 4096]))
            for name in chosen
        ]
        return st.builds(PoolPlan, st.tuples(*machines), st.just(config) if isinstance(config, str) else config)

    return counts.flatmap(plan)


# -- Owners


@frozen
class OwnerDay:
    """A day of a machine's owner: the times of continuous typing, in minutes since midnight.

    >>> OwnerDay(((540, 720),)).lines("desk", day=1)
    ['at 1d 9:00 to 1d 12:00 desk KeyboardIdle=0']
    """

    sessions: tuple[tuple[int, int], ...]

    def lines(self, machine: str, *, day: int = 0) -> list[str]:
        """The lines of a scenario that starts at midnight."""
        return [
            f"at {_clock(day, begin)} to {_clock(day, end)} {machine} KeyboardIdle=0" for begin, end in self.sessions
        ]

    def changes(self) -> Iterator[tuple[float, float | None]]:
        """Yield when typing begins and ends, in seconds since midnight, each with KeyboardIdle from then on (None: it
        grows)."""
        for begin, end in self.sessions:
            yield begin * 60.0, 0.0
            yield end * 60.0, None

    def is_present(self, second: float) -> bool:
        """Return True if the owner types at this second of the day."""
        return any(begin * 60 <= second < end * 60 for begin, end in self.sessions)


def _clock(day: int, minute: int) -> str:
    return f"{day}d {minute // 60}:{minute % 60:02}"


def owner_days(*, earliest: int = 8 * 60, latest: int = 18 * 60, max_sessions: int = 3) -> SearchStrategy[OwnerDay]:
    """Generate days of an owner, who types between two times of the day (in minutes)."""
    times = st.lists(st.integers(earliest, latest), max_size=2 * max_sessions, unique=True)
    return times.map(lambda minutes: OwnerDay(tuple(zip(*[iter(sorted(minutes))] * 2, strict=False))))


# -- Scenarios


def scenarios(
    *,
    machines: SearchStrategy[PoolPlan] | None = None,
    config: str | SearchStrategy[str] | None = None,
    users: Sequence[str] = USERS,
    owners: SearchStrategy[OwnerDay] | None = None,
    days: int = 1,
    max_steps: int = 8,
    actions: SearchStrategy[str] | None = None,
    until: str = "",
) -> SearchStrategy[str]:
    """Generate scenarios for `play`, which start at midnight: machines, their owners' days, submissions and actions.

    :param machines: `pools`; by default up to three machines
    :param config: their configuration; by default one of `configurations`
    :param owners: `owner_days`, for each machine and day
    :param actions: further steps, without times: "drain node1"
    :param until: when it ends, instead of after the last day
    """
    policies = st.just(config) if isinstance(config, str) else configurations() if config is None else config
    steps = st.one_of(_submissions(users), _job_actions(), *([] if actions is None else [actions]))
    dated = st.lists(st.tuples(st.integers(0, days * 1440 - 1), steps), max_size=max_steps)
    machines = pools() if machines is None else machines
    return _scenario(machines, policies, owner_days() if owners is None else owners, days, dated, until)


@st.composite
def _scenario(
    draw: DrawFn,
    machines: SearchStrategy[PoolPlan],
    policies: SearchStrategy[str],
    owners: SearchStrategy[OwnerDay],
    days: int,
    steps: SearchStrategy[list[tuple[int, str]]],
    until: str,
) -> str:
    plan = draw(machines)
    lines = ["start 2026-11-02 00:00", f"until {until or f'{days}d'}", *evolve(plan, config=draw(policies)).lines]
    for machine in plan.machines:
        for day in range(days):
            lines += draw(owners).lines(machine.name, day=day)
    for minute, step in sorted(draw(steps), key=lambda each: each[0]):
        lines.append(f"at {_clock(minute // 1440, minute % 1440)} {step}")
    return "\n".join(lines) + "\n"


def _submissions(users: Sequence[str]) -> SearchStrategy[str]:
    return st.builds(
        "submit {} run={}{}{}".format,
        st.sampled_from(users),
        st.sampled_from(["10:00", "1:00:00", "8h"]),
        st.sampled_from(["", " count=3", " cpus=2"]),
        st.sampled_from(["", " on-soft=ignores", " on-soft=ends-after 30", " load=1.0"]),
    )


def _job_actions() -> SearchStrategy[str]:
    verbs = st.sampled_from(["hold", "release", "remove", "vacate", "suspend", "continue"])
    return st.builds("{} {}".format, verbs, st.sampled_from(["1", "2", "1.0", "2.0"]))

"""Expectations of scenarios from recordings of HTCondor pools of several machines.

`python -m tests.network.recorded DIRECTORY` reads the recordings and writes tests/data/many/SCENARIO.json. The files
contain, in seconds since the first submission:

- `actions`: what was done to the machines, and when.
- `settings`: the settings of each machine that the other machines do not have.
- `submit`: the submit files, and the programs that they name.
- `jobs`: the events in the job event logs, per access point and job: seconds, number, slot, and detail (a return value,
  an eviction's code, or the reason). Image sizes (006) are left out, because they depend on the kernel.
- `slots`: the transitions in the StartLogs, per slot: seconds, source, target. A start of the startd has no source.
- `snapshots`: what `condor_status` and `condor_status -absent` showed: seconds, name, slots, absent slots (07).
- `commands`: the commands for tokens and what they printed (scenarios 14 and 14b).

What a run of Poolbook has to equal, and what not:

- **Equal**: the outcome of each job (its last event and return value). Per run of a job: the order of the events 000,
  001, 004, 005, 021, 022, 023 and 024, the code of 004, and the reasons of 022 and 024. Per slot: the transitions, in
  order.
- **Only in proportion**: all times. HTCondor's come from its timers: its shadows notice a silent machine by TCP
  keep-alives (78 s after the cut in 03), its master restarts daemons after 10 s, a deactivation is tried for 10 to 30
  s. What holds for both: a job ends at its execution point when its lease is over, no second run begins before that,
  and the access point gives the job up later. (In Poolbook a lease ends a third later, because the last renewal before
  a cut may be that old.)
- **Free**: which slot a job gets if several match equally, and the order in which slots are matched.
  (08: when both pools have free slots, the first one that matches a job gets it; HTCondor looks every 5 s. 09: if a
  user's share is not a whole number of slots, because its jobs ran a moment longer, its access points take turns;
  HTCondor counts the usage in whole seconds.)
- **Different on purpose**: a job that the same shadow reconnected cannot send its output in HTCondor (a fault: 02b,
  `transkey is invalid!`); it ends normally in Poolbook. The last seconds of a lease count from the last renewal, so
  whether 45 s without network end a job with a lease of 60 s (02) depends on the renewals' phase.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any, Final, NamedTuple

from poolbook.adapters.condor_files.importing.content import open_content, read_chunks
from poolbook.adapters.condor_files.job_event_log_reader import JobEventLogReader
from poolbook.adapters.condor_files.source_reader import SourceFile
from poolbook.adapters.condor_files.startlog import StartLogReader
from poolbook.domain.events import DaemonReported, JobLogged, JobsLogged, SlotTransitioned

DATA: Final = Path(__file__).parents[1] / "data" / "many"
_SCENARIOS: Final = (
    "01-plain", "02-cut-short", "02b-cut-short-lease-150", "03-cut-long", "04-schedd-killed", "05-startd-killed",
    "07-absent", "08-flocking", "08b-flocking-local-domain", "09-two-aps", "14-idtokens", "14b-token-request",
)  # fmt: skip
_IMAGE_SIZE: Final = 6
_SLOT = re.compile(r"(slot[\d_]+@[\w.-]+)")
_DETAILS: Final = {
    4: re.compile(r"(Code \d+ Subcode \d+)(?:(?s:.)*?\n\tReason: (.*))?"),
    5: re.compile(r"\((return value \d+|signal \d+)\)"),
    21: re.compile(r"\n\t(.*)"),
    22: re.compile(r"\n    (.*)"),
    24: re.compile(r"\n    (.*)"),
    40: re.compile(r"(.*)"),
}
"""The parts of an event's text that are its detail, by the event's number."""
_ACTION = re.compile(r"(\d+\.\d+) \S+ \S+ (\S+) +(.*)")
_SUBMISSION = re.compile(r"\((\w+)\) cd \S+ && condor_submit (\S+)")
_OUTPUT_MARK: Final = "      | "


class JobEvent(NamedTuple):
    """An event in a job event log, in seconds since the epoch."""

    job: str
    time: float
    number: int
    slot: str
    detail: str


class Transition(NamedTuple):
    """A slot's transition; `source` is "" and `slot` names the machine if the startd started."""

    slot: str
    time: float
    source: str
    target: str


class Action(NamedTuple):
    """A line of timeline.txt, with what the action printed."""

    time: float
    machine: str
    text: str
    output: list[str]


def job_events(data: bytes) -> list[JobEvent]:
    """Read a job event log."""
    events, _ = JobEventLogReader(_source("job.log", "userlog"), None, 0).read(data)
    logged_events = [event for event in events if isinstance(event, JobsLogged)]
    assert len(logged_events) == len(events), "a part of the job event log cannot be read"
    return [
        JobEvent(f"{entry.cluster}.{entry.proc}", entry.at / 1e6, entry.number, *_slot_and_detail(entry))
        for event in logged_events
        for entry in event.logged()
        if entry.number != _IMAGE_SIZE
    ]


def slot_transitions(data: bytes, machine: str) -> list[Transition]:
    """Read a StartLog."""
    events, _ = StartLogReader(_source("StartLog", "startlog", machine), None, 0).read(data)
    transitions = []
    for event in events:
        if isinstance(event, SlotTransitioned):
            transitions.append(Transition(event.slot, event.at / 1e6, event.source, event.target))
        elif isinstance(event, DaemonReported) and event.said == "began":
            transitions.append(Transition(machine, event.at / 1e6, "", "the startd starts"))
    return transitions


def actions(text: str) -> list[Action]:
    """Read timeline.txt."""
    lines: list[Action] = []
    for line in text.splitlines():
        if line.startswith(_OUTPUT_MARK.rstrip()):
            lines[-1].output.append(line.removeprefix(_OUTPUT_MARK))
        elif match := _ACTION.match(line):
            lines.append(Action(float(match[1]), match[2], match[3], []))
    return lines


def expectations(folder: Path) -> dict[str, Any]:
    """Return the expectations of a recorded scenario."""
    timeline = actions((folder / "timeline.txt").read_text())
    submissions = [line for line in timeline if _SUBMISSION.match(line.text)]
    begin = submissions[0].time if submissions else timeline[0].time
    result: dict[str, Any] = {
        "begin": begin,
        "actions": [
            [_seconds(line.time - begin), line.machine, line.text] for line in timeline if _changes_a_machine(line)
        ],
    }
    snapshots = [line for line in timeline if line.text.startswith("snapshot absent-")]
    if snapshots:
        names = [(line, line.text.partition(" ")[2]) for line in snapshots]
        result["snapshots"] = [
            [
                _seconds(line.time - begin),
                name,
                _slots(folder / name / "status.txt"),
                _slots(folder / name / "absent.txt"),
            ]
            for line, name in names
        ]
        return result
    if not submissions:
        commands = [line for line in timeline if line.output]
        result["commands"] = [[_seconds(line.time - begin), *line[1:]] for line in commands]
        return result
    settings = {path.parts[-3]: dict(_settings(path)) for path in sorted(folder.glob("*/config/20-*.conf"))}
    if any(settings.values()):
        result["settings"] = {machine: values for machine, values in settings.items() if values}
    result["submit"] = list(_submit_files(folder, submissions, begin))
    result["jobs"], result["slots"] = {}, {}
    for path in sorted(folder.glob("jobs/*/job.log")):
        schedd = path.parent.name.partition("-")[0]
        for job, *values in job_events(_read(path)):
            result["jobs"].setdefault(schedd, {}).setdefault(job, []).append(_since(begin, values))
    for path in sorted(folder.glob("ep*/log/StartLog*")):
        for slot, *values in slot_transitions(_read(path), f"{path.parts[-3]}.{_domain(path.parents[1])}"):
            result["slots"].setdefault(slot, []).append(_since(begin, values))
    return result


def _settings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the settings in a file, without settings of roles, of equal slots and of daemons' logs."""
    for line in path.read_text().splitlines():
        name, _, value = line.partition(" = ")
        if value and not re.search(r"_DEBUG$|^NUM_|^MEMORY$|^SLOT_TYPE", name):
            yield name, value


def _domain(machine: Path) -> str:
    """Return the domain of a machine, given its folder."""
    return dict(_settings(machine / "config/10-pool.conf"))["UID_DOMAIN"]


def _slots(path: Path) -> list[str]:
    return sorted(re.findall(r"(?m)^(slot\d+@\w+)\.", path.read_text()))


def _changes_a_machine(line: Action) -> bool:
    return not re.match(r"snapshot|collecting|ps |ss |ls |condor_(q|history|status|config_val)\b", line.text)


def _submit_files(folder: Path, submissions: list[Action], begin: float) -> Iterator[list[Any]]:
    """Yield for each submission: seconds, access point, user, the submit file, and the program that it names."""
    for line in submissions:
        match = _SUBMISSION.match(line.text)
        assert match is not None
        text = (folder / "submit" / f"{line.machine}-{match[1]}-{match[2]}").read_text()
        program = folder / "submit" / f"{line.machine}-work.sh"
        script = program.read_text() if f"executable = {program.name.partition('-')[2]}" in text else ""
        yield [_seconds(line.time - begin), line.machine, match[1], text, script]


def _seconds(value: float) -> float:
    return round(value, 1) or 0.0  # not -0.0


def _since(begin: float, values: list[Any]) -> list[Any]:
    return [int(values[0] - int(begin)), *values[1:]]


def _slot_and_detail(entry: JobLogged) -> tuple[str, str]:
    slot, pattern = _SLOT.search(entry.text), _DETAILS.get(entry.number)
    detail = pattern.search(entry.text) if pattern is not None else None
    return slot[1] if slot else "", ": ".join(filter(None, detail.groups())) if detail else ""


def _read(path: Path) -> bytes:
    with open_content(str(path)) as file:
        return b"".join(read_chunks(file))


def _source(path: str, kind: str, machine: str = "") -> SourceFile:
    return SourceFile(1, path, kind, machine, UTC, 2e9, 0)


def formatted(value: object, depth: int = 0) -> str:
    """Return JSON in which each innermost list is one line."""
    indent = "  " * (depth + 1)
    if isinstance(value, Mapping):
        parts = [f"{json.dumps(key)}: {formatted(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(indent + part for part in parts) + "\n" + indent[2:] + "}"
    if isinstance(value, list) and any(isinstance(item, list) for item in value) and isinstance(value[0], list):
        return "[\n" + ",\n".join(indent + json.dumps(item) for item in value) + "\n" + indent[2:] + "]"
    return json.dumps(value)


def load(scenario: str) -> dict[str, Any]:
    """Return the expectations of a scenario, such as "01-plain"."""
    result: dict[str, Any] = json.loads((DATA / f"{scenario}.json").read_text())
    return result


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    for scenario in _SCENARIOS:
        (DATA / f"{scenario}.json").write_text(formatted(expectations(Path(sys.argv[1]) / scenario)) + "\n")

"""``htcondor jobset submit, list, status, remove``, with the HTCondor tool's messages.

Source: htcondor_cli/job_set.py in HTCondor, and recordings of its output.
"""

from __future__ import annotations

import argparse
import getpass
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...domain.state.job_ad import quoted
from ..bounded_text import read_text
from ..condor_tools.options import parse
from ..runtime import pool_client
from .common import default_log

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..runtime.queries import Queries

Say = Callable[[str], object]
_NAME: Final = (("job_set_name",), {"help": "Job set name"})
_OWNER: Final = ("--owner",), {"default": None, "help": "a user, instead of yourself"}
VERBS: Final[dict[str, tuple[tuple[tuple[str, ...], dict[str, Any]], ...]]] = {
    "submit": ((("job_set_file",), {"help": "Job set submit file"}),),
    "list": ((("--allusers",), {"action": "store_true", "help": "List active sets from all users"}),),
    "status": (
        _NAME,
        _OWNER,
        (
            ("--skip-history",),
            {"action": "store_true", "help": "Skip checking history for completed or removed job clusters"},
        ),
    ),
    "remove": (_NAME, _OWNER),
}
"""The arguments of the verbs of ``htcondor jobset``."""
_SUBMIT_METHOD = 5  #: JobSubmitMethod of a job set


class _JobSetFile(NamedTuple):
    """A job set file: the set's name, the variables of its table, the table's rows, and the descriptions of its jobs,
    each with the names of variables to replace."""

    name: str
    variables: Sequence[str]
    rows: Sequence[Sequence[str]]
    jobs: Sequence[tuple[dict[str, str], str]]


def _read(file: str) -> _JobSetFile:
    lines = iter(enumerate(read_text(file).splitlines(), 1))
    values: dict[str, Any] = {}
    jobs: list[tuple[dict[str, str], str]] = []
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        command = re.split(r"[\s=]", text)[0].casefold()
        where = f"in {file} at line {number}"
        if command not in ("name", "iterator", "job"):
            raise ValueError(f'Unrecognized command "{command}" {where}.')
        if command in values:
            what = "name" if command == "name" else "iterator"
            raise ValueError(f"Job set {what} can only be set once, second {what} found {where}.")
        text = text.split("#")[0]
        value = " ".join(text.split()[1:]) if command == "job" else text.partition("=")[2].strip()
        *words, source = value.replace(",", " ").split() or [""]
        if not source:
            raise ValueError(f"Malformed {command} command {where}.")
        if command == "name":
            values["name"] = value
            continue
        body = _block(lines, where) if source == "{" else read_text(source)
        if command == "job":
            mappings = {old: new for old, _, new in (word.partition("=") for word in words)}
            if not all(mappings) or not all(mappings.values()):
                raise ValueError(f'Unsupported mapping "{" ".join(words)}" {where}.')
            jobs.append((mappings, body))
        elif words[:1] != ["table"] or len(words) < 2:
            raise ValueError(f'Unknown iterator type "{words[0] if words else source}" {where}.')
        else:
            values["iterator"] = words[1:], list(_rows(words[1:], body, where))
    for name, text in (("name", "name"), ("iterator", "iterator")):
        if name not in values:
            raise ValueError(f"Required {text} not found in {file}")
    variables, rows = values["iterator"]
    return _JobSetFile(values["name"], variables, rows, jobs)


def _block(lines: Iterator[tuple[int, str]], where: str) -> str:
    """Return the lines up to the closing bracket."""
    body: list[str] = []
    for _, line in lines:
        text = line.split("#")[0].strip()
        if text == "}":
            return "\n".join(body)
        if text.endswith("{"):
            break
        body.append(line.strip())
    raise ValueError(f"Unclosed bracket {where}.")


def _rows(names: Sequence[str], body: str, where: str) -> Iterator[list[str]]:
    for line in body.splitlines():
        if text := line.split("#")[0].strip():
            row = [cell.strip() for cell in text.split(",")]
            if len(row) != len(names):
                counts = f"({len(names)}) and values ({len(row)})"
                raise ValueError(f"Mismatch between number of iterator names {counts} {where}.")
            yield row


def _description(job_set: _JobSetFile, mappings: dict[str, str], body: str) -> str:
    """Return a job's submit description, with the set's table as items."""
    lines = [line for line in body.splitlines() if not re.match(r"\s*queue\b", line, re.IGNORECASE)]
    text = "\n".join(lines)
    for old, new in mappings.items():
        text = re.sub(rf"\$\({re.escape(old)}\)", lambda _, new=new: f"$({new})", text, flags=re.IGNORECASE)  # type: ignore[misc]
    rows = "\n".join("\x1f".join(row) for row in job_set.rows)
    of_set = f"MY.JobSetName = {quoted(job_set.name)}\nMY.InJobSet = true\nMY.JobSubmitMethod = {_SUBMIT_METHOD}"
    return f"{text}\n{of_set}\nqueue {','.join(job_set.variables)} from (\n{rows}\n)\n"


def _submit(arguments: argparse.Namespace, say: Say) -> None:
    from .submit import SUBMIT, description_of

    job_set = _read(arguments.job_set_file)
    with _queries() as queries:
        if queries.views.pool().settings.get("USE_JOBSETS", "").lower() != "true":
            raise ValueError(
                "Job sets not enabled on this schedd by an administrator, because USE_JOBSETS is false in the "
                "configuration.  Skipping submit."
            )
    if not job_set.jobs:
        say(f"Warning: No jobs found in {arguments.job_set_file}")
    base = description_of(parse(SUBMIT, [arguments.job_set_file]))
    submitted: list[int] = []
    for mappings, body in job_set.jobs:
        number = len(submitted)
        text = _description(job_set, mappings, body)
        try:
            answer = pool_client.submit(default_log(), base._replace(id=f"{base.id}-{number}", text=text))
        except Exception as error:
            say(f"Error while submitting job {number} from {arguments.job_set_file}:\n{error}")
            _remove_clusters(submitted, f"Aborted job set {job_set.name} submission.")
            return
        submitted.append(answer.cluster)
    say(f"Submitted job set {job_set.name} containing {len(submitted)} job clusters.")


def _remove_clusters(clusters: Sequence[int], reason: str) -> None:
    if clusters:
        body = {"kind": "Remove", "reason": reason, "selection": {"clusters": list(clusters)}}
        pool_client.change_jobs(default_log(), body)


@contextmanager
def _queries() -> Iterator[Queries]:
    from ..runtime.queries import Queries

    with Queries(default_log()) as queries:
        yield queries


def _sets(queries: Queries) -> list[ClassAd]:
    from ..condor_tools.job_set_table import job_set_ads

    return job_set_ads(queries.queue().ads, queries.views.job_set_attributes())


def _list(arguments: argparse.Namespace, say: Say) -> None:
    with _queries() as queries:
        sets = {(str(ad.eval("Owner")), str(ad.eval("JobSetName"))) for ad in _sets(queries)}
    rows = sorted(row for row in sets if arguments.allusers or row[0] == getpass.getuser())
    if not rows:
        say("No active job sets found.")
        return
    width = max(len(owner) for owner, _ in rows)
    for owner, name in [("OWNER", "JOB_SET_NAME"), *rows]:
        print(f"{owner:<{width}}  {name}" if arguments.allusers else name)


_PHRASES: Final = {
    "NumIdle": "job{s} idle", "NumRunning": "job{s} running", "NumHeld": "job{s} held",
    "NumCompleted": "job{s} completed", "NumSuspended": "job{s} suspended", "NumRemoved": "job{s} removed",
    "NumSchedulerIdle": "DAGMan scheduler job{s} idle", "NumSchedulerRunning": "DAGMan scheduler job{s} running",
    "NumSchedulerHeld": "DAGMan scheduler job{s} held", "NumSchedulerCompleted": "DAGMan scheduler job{s} completed",
    "NumSchedulerRemoved": "DAGMan scheduler job{s} removed",
}  # fmt: skip
_ALWAYS: Final = ("NumIdle", "NumRunning", "NumCompleted")


def _status(arguments: argparse.Namespace, say: Say) -> None:
    name, owner = arguments.job_set_name, arguments.owner or getpass.getuser()
    with _queries() as queries:
        job_set = next((ad for ad in _sets(queries) if _is_named(ad, name, owner)), None)
        if job_set is None:
            say(f'No active job sets found matching "{name}" for user {owner}.')
            return
        set_id = job_set.eval("JobSetId")
        jobs = [job for job in queries.queue().ads if "JobSetId" in job and job.eval("JobSetId") == set_id]
    counts = {attribute: int(str(job_set.eval(attribute))) for attribute in _PHRASES}
    texts = [
        f"{count} {_PHRASES[attribute].format(s=_plural(count))}"
        for attribute, count in counts.items()
        if count or attribute in _ALWAYS
    ]
    say(f"{job_set.eval('JobSetName')} currently has {', '.join(texts[:-1])}, and {texts[-1]}.")
    say(f"{job_set.eval('JobSetName')} contains:")
    clusters = Counter(int(str(job.eval("ClusterId"))) for job in jobs)
    lines = [f"\tJob cluster {cluster} with {count} total job{_plural(count)}" for cluster, count in clusters.items()]
    say("\n".join(sorted(lines)))


def _is_named(ad: ClassAd, name: str, owner: str) -> bool:
    return str(ad.eval("JobSetName")).lower() == name.lower() and str(ad.eval("Owner")).lower() == owner.lower()


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def _remove(arguments: argparse.Namespace, say: Say) -> None:
    name, user = arguments.job_set_name, getpass.getuser()
    owner = arguments.owner or user
    constraint = f"(JobSetName == {quoted(name)}) && (Owner == {quoted(owner)})"
    reason = f"via htcondor jobset remove (by user {user})"
    body = {"kind": "Remove", "reason": reason, "selection": {"constraint": constraint}}
    results: Counter[bool] = Counter()
    for result in pool_client.change_jobs(default_log(), body):
        results[result.result == "done"] += len(list(result.jobs()))
    say(f"Removed {results[True]} jobs matching job set {name} for user {owner}.")
    if results[False]:
        say(f"Warning: Could not remove {results[False]} matching jobs.")


ACTIONS: Final[dict[str, Callable[[argparse.Namespace, Say], None]]] = {
    "submit": _submit,
    "list": _list,
    "status": _status,
    "remove": _remove,
}

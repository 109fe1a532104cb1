"""Report the first failed job with the end of its stderr, the first held job with its reason, and the jobs that no slot
can run."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...domain.names import JobId
from ...domain.negotiator.unmatchable import misfit
from ...domain.state.job_ad import unquoted
from ...domain.state.proc_ads import Variants
from ...domain.state_machines.hold_codes import hold_advice
from ...replay.narration.unmatchable_words import no_slot
from ...replay.outcomes import Ended, Hold
from ...replay.why.rejections import fits_none
from ..condor_tools.terminal import visible

if TYPE_CHECKING:
    from ..runtime.engine import Engine
    from .cluster_results import ClusterResult

TAIL = 5
"""Lines of a job's stderr that are shown."""
_TAIL_BYTES = 8192
_LINE = 200
_LEFT = ("idle", "running", "suspended")
_OUTPUTS = ("Out", "Err")

Calls = list[tuple[str, str]]


class UnmatchableJob(NamedTuple):
    """Why no slot can run a cluster's first idle job, and how many jobs are like it."""

    words: str
    jobs: int = 1


def failures(
    found: Sequence[ClusterResult], unmatchable: Mapping[int, UnmatchableJob], interrupted: bool
) -> tuple[list[str], Calls]:
    """Return what went wrong, in paragraphs, and what to type next; both empty if all is well.

    :param unmatchable: the jobs that no slot can run, by cluster
    :param interrupted: whether a user ended the run; otherwise it ended because nothing was left that could run
    """
    told: list[str] = []
    worth: Calls = []
    failed = next(_failed(found), None)
    if failed is not None:
        one, proc, ended = failed
        name = f"{one.number}.{proc}"
        told.append(f"{name} failed ({ended.words}){_stderr(one, proc)}")
        worth.append((f"why {name}", "how it came to fail"))
    for one in found:
        if one.outcomes.held:
            told.append(_held(one))
            worth += [
                (f"why {one.number}.{one.outcomes.first('held')}", "why it is held"),
                (f"release {one.number}", "then they may run, with `poolbook resume`"),
            ]
            break
    for number, vain in unmatchable.items():
        name = f"{number}.{next(one for one in found if one.number == number).outcomes.first('idle')}"
        told.append(f"{name} waits: {vain.words}.")
        worth += [(f"why {name}", "what it asks for, and what there is"), (f"rm {number}", "if it is not to wait")]
    left = sum(status in _LEFT for one in found for status in one.outcomes.status.values())
    left -= sum(vain.jobs for vain in unmatchable.values())
    jobs, them = ("1 job is left", "it") if left == 1 else (f"{left:,} jobs are left", "them")
    if left > 0 and interrupted:
        told.append(f"{jobs}: `poolbook resume` goes on with {them}.")
        worth.insert(0, ("resume", "go on with what is left"))
    elif left > 0 and not unmatchable:
        told.append(f"{jobs}: no slot takes {them} now.")
        waiting = [f"{one.number}.{first}" for one in found if (first := one.outcomes.first("idle")) is not None]
        worth += [(f"why {name}", "what it waits for") for name in waiting[:1]]
    return told, worth


def unmatchable_job(engine: Engine, one: ClusterResult) -> UnmatchableJob | None:
    """Return why no slot could ever match a cluster's first idle job; None if one could, or no job is idle."""
    proc = one.outcomes.first("idle")
    words = "" if proc is None else unmatchable_reason(engine, one.number, proc)
    if not words:
        return None
    refused = (
        reason.jobs
        for name, reason in engine.state.rejections.get(one.number, {}).items()
        if fits_none(reason) and unmatchable_reason(engine, *JobId.parse(name))
    )
    return UnmatchableJob(words, min(max(1, sum(refused)), list(one.outcomes.status.values()).count("idle")))


def unmatchable_reason(engine: Engine, cluster: int, proc: int) -> str:
    """Return, in a sentence, why no slot could ever match a job of the queue; empty if one could or it needs none."""
    state = engine.state
    jobs = state.clusters.get(cluster)
    if jobs is None or proc not in jobs or jobs.local:
        return ""
    slots = ((slot.name, dict(slot.ad)) for slot in state.slots.values() if slot.kind != "dynamic")
    found = misfit(jobs.attributes(proc), slots, state.at // 1_000_000, state.user_maps)
    return "" if found is None else no_slot(found)


def _failed(found: Sequence[ClusterResult]) -> Iterator[tuple[ClusterResult, int, Ended]]:
    for one in found:
        proc = one.outcomes.first("failed")
        if proc is not None:
            yield one, proc, one.outcomes.failed[proc]


def _held(one: ClusterResult) -> str:
    held = one.outcomes.held
    proc, hold = next(iter(held.items()))
    name = f"{one.number}.{proc}"
    reason = visible(hold.words).rstrip(".")
    if len(held) == 1:
        text = f"{name} is held: {reason}."
    elif one.outcomes.one_hold:
        text = f"{len(held):,} jobs are held for the same reason; {name}: {reason}."
    else:
        text = f"{len(held):,} jobs are held, for several reasons; {name}: {reason}."
    return f"{text} {_way_out(one.ad_of(proc), hold, one.number, len(held))}"


def _way_out(ad: Mapping[str, str], hold: Hold, number: int, jobs: int) -> str:
    if hold.code == _SUBMITTED_HELD:
        them = "it" if jobs == 1 else "them"
        return f"You submitted {them} on hold: `poolbook release {number}` and `poolbook resume` let {them} run."
    folders = [os.path.dirname(path) for name in _OUTPUTS if (path := _path(ad, name))]
    missing = next((folder for folder in folders if not os.path.isdir(folder)), "") if hold.code in _FILES else ""
    if missing:
        return f"`mkdir -p {shlex.quote(missing)}`, then `poolbook release {number}` and `poolbook resume`."
    return f"{hold_advice(hold.code, 'poolbook', str(number))}; `poolbook resume` runs what was released."


_SUBMITTED_HELD = "15"
"""HoldReasonCode of a job that was submitted on hold."""
_FILES = ("7", "8")
"""HoldReasonCodes of an output or error file that could not be opened."""


def _path(ad: Mapping[str, str], name: str) -> str:
    named = unquoted(ad.get(name, ""))
    return os.path.join(unquoted(ad.get("Iwd", "")), named) if named and named != os.devnull else ""


def _stderr(one: ClusterResult, proc: int) -> str:
    """Return the last lines of a job's stderr, after the file's name."""
    path = _path(one.ad_of(proc), "Err")
    if not path:
        return "; its stderr was not kept (no `error =` in its submit file)."
    lines = _last_lines(path)
    if not lines:
        return "."
    shown = os.path.relpath(path)
    shown = visible(path if shown.startswith("..") else shown)
    if one.submitted.count > 1 and "Err" not in Variants(one.submitted.columns).names:
        shown += ", which other jobs write, too"
    return "\n".join([f"; the end of its stderr ({shown}):", *(f"    {line}" for line in lines)])


def _last_lines(path: str) -> list[str]:
    """Return a file's last lines that are not empty, made printable; none if it is no regular file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return []
        with Path(path).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    lines = [visible(line.rstrip()) for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
    return [line if len(line) <= _LINE else f"...{line[3 - _LINE :]}" for line in lines[-TAIL:]]

"""Print the jobs of a submission as condor_submit does: whole ads, or what it would send to the schedd."""

from __future__ import annotations

from collections.abc import Iterator

from ..classad.old_form import printed
from .submission import Submission


def dry_run(submission: Submission, *, verbose: bool = False) -> Iterator[str]:
    """Yield for each job the text that ``condor_submit -dry-run:full`` writes of it, or ``-verbose``."""
    for proc in range(submission.count):
        ad = submission.ad_of(proc)
        lines = [f"{name} = {printed(ad[name])}\n" for name in sorted(ad, key=str.lower)]
        head = f"\n** Proc {ad['ClusterId']}.{proc}:\n" if verbose else "\n"
        yield head + "".join(lines)


def sent(submission: Submission) -> Iterator[str]:
    """Yield for each job what ``condor_submit -dry-run`` and ``-dump`` write of it: what it would send to the schedd.

    The cluster's attributes are sent before the first job's own; of another job only what differs from them is. Short
    names go before long ones.
    """
    cluster = submission.ad_of(0)
    shared = {name: text for name, text in cluster.items() if name not in _OF_EACH_JOB and name != "ClusterId"}
    for proc in range(submission.count):
        ad = submission.ad_of(proc)
        head = [f"ClusterId={ad['ClusterId']}", *_lines(shared)] if proc == 0 else []
        own = {name: text for name, text in ad.items() if name in submission.columns and text != cluster[name]}
        own = {name: text for name, text in own.items() if name not in _OF_EACH_JOB}
        lines = [*head, f"ProcId={proc}", f"JobStatus={ad['JobStatus']}", *_lines(own)]
        yield "\n" + "".join(f"{line}\n" for line in lines)


_OF_EACH_JOB = ("ProcId", "JobStatus")


def _lines(ad: dict[str, str]) -> Iterator[str]:
    for name in sorted(ad, key=lambda name: (len(name), name.lower())):
        yield f"{name}={printed(ad[name])}"

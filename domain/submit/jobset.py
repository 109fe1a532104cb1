"""Name the set that a cluster's jobs are of, by ``jobset`` and ``JOBSET.*``.

Source: the manual's page "Submit Description File Commands", jobset; HTCondor's ``ProcessJobsetAttributes``. The ads of
the sets themselves are kept by a schedd with USE_JOBSETS alone, which is false by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..classad.old_form import string_text
from .job import Job, Section, stripped

PREFIX = "jobset."
NAME = "JobSetName"


def jobset(commands: Iterable[str]) -> list[Section]:
    """Return the section of those of the given commands that begin with ``JOBSET.``, if there are any."""
    names = tuple(name for name in commands if name.startswith(PREFIX))
    return [Section(_action(names), names, (NAME,), (NAME,))] if names else []


def _action(names: Sequence[str]) -> Callable[[Job], None]:
    def action(job: Job) -> None:
        given = [name for name in names if job.value(name) is not None]
        own = [name for name in given if name != f"{PREFIX}name"]
        for name in own:
            job.expression(name)
        if own:
            job.warn("schedd does not support jobsets.  Ignoring JOBSET.* attributes")
        if given and job.attribute(NAME) is None:
            named = job.value(f"{PREFIX}name")
            job.made[NAME] = string_text(str(job.facts.cluster) if named is None else stripped(named))

    return action

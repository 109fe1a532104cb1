"""submit -spool and condor_transfer_data: bring jobs' files into the spool, and fetch what they have made.

Both are done by the process of who asks, with its rights, in the spool beside the log: it must be that user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..condor_tools.tool_options import ToolEnded
from ..machine.host import user_name
from ..runtime.commands import ask
from ..runtime.requests import Refused, new_id

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

Move = Callable[[Path, tuple[int, int], dict[str, str]], dict[str, str]]


def spool(url: str, cluster: int, count: int) -> None:
    """Bring the files of a submission's jobs into the spool, and release them. Raise `ToolEnded` if that fails: the
    jobs stay held."""
    from ..runtime.queries import Queries
    from ..runtime.spooled_files import bring

    with Queries(url) as queries:
        jobs = {(cluster, proc): ad for proc in range(count) if (ad := queries.job(cluster, proc)) is not None}
    moved(url, jobs, bring, "ERROR: Failed to spool job files.\n")
    act = {"kind": "Act", "user": user_name(), "action": "spooled", "subcode": 0, "fast": False}
    ask(url, {**act, "id": new_id(), "reason": "Data files spooled", "selection": {"clusters": [cluster]}})


def moved(url: str, jobs: Mapping[tuple[int, int], ClassAd], move: Move, failed: str) -> None:
    """Move the files of jobs, and set what their ads say from then on. Raise `ToolEnded` with what went wrong and
    ``failed``."""
    from ...domain.schedd.submitted_job import text_in
    from ..runtime.spooled_files import SpoolError
    from ..stores.log_paths import log_paths

    folder = log_paths(url).folder
    for job, ad in jobs.items():
        texts = {name: text_in(ad, name) for name in ad}
        try:
            _set(url, job, move(folder, job, texts))
        except (SpoolError, Refused) as error:
            raise ToolEnded(1, f"Job {job[0]}.{job[1]}: {error}\n{failed}") from None


def _set(url: str, job: tuple[int, int], changes: Mapping[str, str]) -> None:
    edit = {"kind": "Edit", "user": user_name(), "selection": {"jobs": [job]}, "changes": changes, "own": False}
    outcomes: Iterable[Mapping[str, str]] = ask(url, {**edit, "id": new_id()})
    for outcome in outcomes:
        if outcome["result"] != "done":
            raise Refused(outcome["result"])

"""Golden: the ads that jobs of a real HTCondor 25.14 pool left in its history (traces 13 and 21) are those that they
leave here in virtual time, attribute by attribute, but for what two tables list with its reasons."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from poolbook.adapters.runtime.views import catch_up, open_tables
from poolbook.domain.classad import Expression
from poolbook.domain.classad.unparse import unparse_old
from poolbook.projections.views import Views

from ..beside.differences import compared, known, unlisted
from ..beside.stories import Told, word
from .pool import Pool
from .test_deferred_logs import CRON, DATA, Step, played

DIFFERENCES = DATA / "userlog" / "trace-differences.txt"
FACTORIES: list[Step] = [
    ("22:59:35", "submit 2", "alice-six"),
    ("22:59:35", "submit 3", "alice-three"),
    ("22:59:35", "submit 5", "bob-idle"),
    ("22:59:35", "submit 6", "bob-mat"),
    ("22:59:35", "submit 7", "carol-items"),
    ("22:59:35", "machine", "2 12052"),
    ("23:00:50", "submit 11", "carol-h"),
    ("23:00:50", "prio", "carol 11"),
    ("23:00:50", "qedit", "carol 11.1"),
    ("23:00:50", "remove", "carol 11.0"),
    ("23:00:50", "release", "carol 11.1"),
    ("23:00:56", "end", "carol"),
]
"""All that was taken; what was refused changed nothing. The jobs before cluster 11 have left by then."""
CUT_OFF = {"2.5", "3.0", "3.1", "3.2"}
"""The jobs of trace 21 that were removed when the recording ended; here they come to their end."""


def recorded(path: Path) -> dict[str, dict[str, str]]:
    """The ads of a history, by their jobs."""
    found = {}
    for text in re.split(r"\n\s*\n|^\*\*\*.*$", gzip.decompress(path.read_bytes()).decode(), flags=re.MULTILINE):
        ad = dict(line.split(" = ", 1) for line in text.split("\n") if " = " in line)
        if "ClusterId" in ad:
            found[f"{ad['ClusterId']}.{ad['ProcId']}"] = ad
    return found


def left(pool: Pool) -> dict[str, dict[str, str]]:
    """The ads of the jobs that have left a pool."""
    tables = open_tables(None)
    catch_up(pool.engine.log, tables)
    ads = [{name: _text(ad[name]) for name in ad} for ad in Views(tables).history_ads()]
    return {f"{ad['ClusterId']}.{ad['ProcId']}": ad for ad in ads}


def _text(value: object) -> str:
    return unparse_old(value) if isinstance(value, Expression) else str(value)


def told(trace: str, ads: dict[str, dict[str, str]]) -> dict[str, Told]:
    """What ads say, without what no two runs have in common."""
    return {
        f"{trace}-{job}": Told(
            (), {name: word(name, text) or re.sub(r"slot\d+@[\w.-]+", "SLOT", text) for name, text in ad.items()}, {}
        )
        for job, ad in ads.items()
    }


@pytest.mark.parametrize(
    ("trace", "steps", "seconds", "least"),
    [("13-deferral-crontab", CRON, 1.0, 9), ("21-factory-limits", FACTORIES, 3.0, 12)],
)
def test_the_ads_of_the_trace_are_the_real_ones(trace: str, steps: list[Step], seconds: float, least: int) -> None:
    folder = DATA / "traces" / trace
    ours = left(played("2026-11-20", steps, folder / "submit", dict.fromkeys(range(20), seconds), "5"))
    theirs = recorded(folder / "history.ads.gz")
    both = theirs.keys() & ours.keys() - (CUT_OFF if steps is FACTORIES else set())
    assert len(both) >= least
    there, here = (told(trace[:2], {job: ads[job] for job in both}) for ads in (theirs, ours))
    rows = known(DIFFERENCES)
    assert unlisted(compared(there, here), [*known(), *rows]) == []

"""Golden: `userprio` shows an idle submitter's priority as of the current time.

The values are what condor_userprio printed for users without slots in two recordings, after HTCondor's cycles.
HTCondor's accountant ages all users in each cycle, every NEGOTIATOR_INTERVAL, also while the pool is idle
(Accountant::UpdatePriorities)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.domain.negotiator.accounting import accountant_settings, standings
from poolbook.domain.state.records import Submitter
from poolbook.domain.units import SECOND

from ..tools.captures import surroundings_at

# Trace, user: the seconds at which a user without slots had its real priority, as condor_userprio printed them.
RECORDED = {
    "25-k-defrag-whole bob": [(1795719251, 0.500424), (1795719270, 0.500348), (1795719292, 0.50026)],
    "25-k-defrag-whole alice": [(1795719231, 0.500192), (1795719251, 0.500112)],
    "25-k-defrag-whole alice again": [(1795719312, 0.500348), (1795719328, 0.500284)],
    "08a-pslot bob": [(1795215080, 0.500464), (1795215092, 0.500416)],
}


@pytest.mark.parametrize("name", RECORDED)
def test_an_idle_users_priority_decays_between_cycles_as_in_htcondor(name: str) -> None:
    (begin, priority), *later = RECORDED[name]
    book = Submitter("user", priority=priority, updated=begin * SECOND)
    for at, expected in later:
        now = at * SECOND
        (standing,) = standings([book], accountant_settings({}), (), begin * SECOND, now, now, now)
        assert standing.priority == pytest.approx(expected, abs=2e-6)  # of six digits, times a factor of 1000


def test_userprio_shows_an_idle_user_as_of_now_although_no_cycle_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "pool.db")
    Pool.open(url).close()
    assert main(["userprio", "-log", url, "-setprio", "bob@x", "64"]) == 0
    now = surroundings_at()._replace(now=0)
    shown = {}
    for days in (0, 1, 3):
        # The log's time is this machine's.
        monkeypatch.setattr(
            "poolbook.adapters.cli.userprio.display_context",
            lambda days=days: now._replace(now=_founded(url) + days * 86400),
        )
        capsys.readouterr()
        assert main(["userprio", "-log", url, "bob@x", "--json"]) == 0
        (record,) = json.loads(capsys.readouterr().out)
        shown[days] = record["Priority"] / record["PriorityFactor"]
    assert shown == pytest.approx({0: 64.0, 1: 32.0, 3: 8.0}, rel=1e-3)


def _founded(url: str) -> int:
    from poolbook.adapters.stores.opening import open_log

    log = open_log(url, create=False)
    try:
        return next(iter(log.read(0, 1)))[1].at // SECOND
    finally:
        log.close()

"""Golden: the quotas and allocations of each round of each cycle of HTCondor negotiators, compared with Poolbook's for
the same requests."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from poolbook.domain.config import read as read_configuration
from poolbook.domain.negotiator.groups.quotas import assign_quotas, oversubscribes
from poolbook.domain.negotiator.groups.rounds import allocate_cores, recover_remainders
from poolbook.domain.negotiator.negotiator_settings import configured_settings, parse_settings
from poolbook.domain.state_machines.dialects import HTCONDOR_25

DATA = Path(__file__).resolve().parent.parent / "data"
RUNS = {
    "traces/09a-quota-static-nosurplus": 13, "traces/09b-quota-hier-surplus": 12, "cycles/group-surplus": 30,
    "cycles/autoregroup": 42, "cycles/group-weights": 23, "cycles/group-fractions": 31, "cycles/group-strict": 16,
}  # fmt: skip
"""The recorded runs with groups, and the number of complete rounds in their logs."""
BEGINS = re.compile(r"group quotas: assigning group quotas from (\S+) available")
ROUND = re.compile(r"group quotas: allocation round (\d+)")
TOLD = re.compile(r"group quotas: group= (\S+)  quota= (\S+)  requested= (\S+)  allocated= (\S+)  unallocated= (\S+)")
ASKS = re.compile(r"group quotas: fairshare \(1\): group= (\S+)  quota= (\S+)  requested= (\S+)")
ENDS = re.compile(r"group quotas: groups= .*  surplus= (\S+)  maxdelta=")


class RecordedRound(NamedTuple):
    """A round: the cores that were divided, its number, each group's quota, request and allocation, and the
    remainder."""

    total: float
    number: int  #: from 1 in each cycle
    groups: dict[str, tuple[float, float, float]]
    rest: float


def rounds(folder: Path) -> Iterator[RecordedRound]:
    """Yield the rounds that are complete in the log."""
    (path,) = folder.glob("NegotiatorLog*")
    total, number, groups = -1.0, 0, dict[str, tuple[float, float, float]]()
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        if match := BEGINS.search(line):
            total = float(match[1])
        elif match := ROUND.search(line):
            number, groups = int(match[1]), {}
        elif match := ASKS.search(line):
            groups[match[1]] = float(match[2]), float(match[3]), 0.0
        elif match := TOLD.search(line):
            groups[match[1]] = (*groups[match[1]][:2], float(match[4]))
        elif match := ENDS.search(line):
            if total >= 0 and groups:
                yield RecordedRound(total, number, groups, float(match[1]))
        elif "trimmed" in line:
            total = -1.0


@pytest.mark.parametrize("run", RUNS)
def test_quotas_and_allocations_are_those_of_htcondors_negotiator(run: str) -> None:
    folder, count = DATA / run, 0
    text = (folder / "scenario.conf").read_text(encoding="utf-8")
    rules = parse_settings(configured_settings(read_configuration(text, subsystem="NEGOTIATOR")))
    for recorded_round in rounds(folder):
        nodes = rules.tree.new_nodes()
        assign_quotas(nodes[0], recorded_round.total, oversubscribes(rules.quotas, HTCONDOR_25))
        for node in nodes:
            node.requested = recorded_round.groups[node.name][1]
        if nodes[0].group.autoregroup and recorded_round.number > 1:
            nodes[0].quota = recorded_round.total  # from the first round on
        unallocated = allocate_cores(nodes[0])
        if not rules.use_slot_weights:
            unallocated += recover_remainders(nodes[0])
        if nodes[0].group.autoregroup:
            nodes[0].allocated = recorded_round.total
        poolbook_nodes = {node.name: (node.quota, node.allocated) for node in nodes}
        recorded_nodes = {name: (quota, allocated) for name, (quota, _, allocated) in recorded_round.groups.items()}
        assert set(poolbook_nodes) == set(recorded_nodes)
        for name, figures in recorded_nodes.items():
            assert poolbook_nodes[name] == pytest.approx(figures, rel=1e-5), (recorded_round, name)
        assert unallocated == pytest.approx(recorded_round.rest, rel=1e-5, abs=1e-5)
        count += 1
    assert count == RUNS[run]

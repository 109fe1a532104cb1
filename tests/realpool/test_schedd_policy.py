"""Differential: in an HTCondor pool (`make realpool`), the transforms and requirements of tests/data/schedd have the
recorded results, with which `tests/schedd` compares Poolbook."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from ..beside.pools import CONF, Real

pytestmark = pytest.mark.realpool
DATA = Path(__file__).parents[1] / "data" / "schedd"
MORE_LINES = {
    "a": "+Alpha = 1\n+Gamma = 2\n+Flag = false\n",
    "b": "+Alpha = 1\n+Gamma = 2\n",
    "c": "+Vary = $(Process)\n",
}
JOB_COUNTS = {"c": 2, "n1": 3}
REJECTED = ("d", "f", "h", "r1", "r2", "u1", "n1")


def test_htcondor_s_schedd_has_the_recorded_ads_and_messages(tmp_path: Path) -> None:
    recorded = json.loads((DATA / "transforms.json").read_text())
    real = Real(Path(os.environ["POOLBOOK_REALPOOL"]).resolve(), os.environ["POOLBOOK_REALPOOL_SCRIPT"])
    maps = {path.name: path.read_text() for path in DATA.glob("*.map")}
    for name, text in maps.items():
        (real.folder / "root/etc/condor" / name).write_text(text)
    policy = (DATA / "transforms.conf").read_text().replace("= groups.map", "= /etc/condor/groups.map")
    messages: dict[str, list[str]] = {}
    with real.served(tmp_path / "scenario.conf", CONF + policy) as pool:
        names = sorted({job.partition(".")[0] for job in recorded["ads"]} | set(REJECTED))
        for name in names:
            folder = pool.home / name
            folder.mkdir(parents=True)
            os.chown(folder, pool.uid, pool.uid)
            (folder / "job.sub").write_text(
                f'executable = /bin/sleep\narguments = 1000\n+Which = "{name}"\n{MORE_LINES.get(name, "")}hold = true\n'
                f"queue {JOB_COUNTS.get(name, 1)}\n"
            )
            lines = pool.command("submit", "job.sub", folder=name).split("\n")
            errors = [line for line in lines if line.startswith(("ERROR", "WARNING", "|"))]
            messages |= {name: errors} if errors else {}
        ads = {}
        for block in re.split(r"\n\s*\n", pool.command("q", "-long")):
            ad = dict(line.split(" = ", 1) for line in block.splitlines() if " = " in line)
            if "Which" in ad:
                ads[f"{ad['Which'][1:-1]}.{ad['ProcId']}"] = ad
    for job, expected in recorded["ads"].items():
        assert {name: ads[job].get(name) for name in expected} == expected, job
    assert messages == {name: lines for name, lines in recorded["said"].items() if name in names}

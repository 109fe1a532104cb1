"""Golden: userprio's output for a Poolbook pool's groups equals condor_userprio's for a real pool in the same state."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.replay.virtual_world import Behaviour

TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"
Print = Callable[..., list[str]]


def lasting(launch: object) -> Behaviour:
    return Behaviour(seconds=1000)


def settings(run: str) -> str:
    """Return the scenario's settings of slots and groups."""
    text = (TRACES / run / "scenario.conf").read_text(encoding="utf-8")
    prefixes = ("GROUP_", "use ", "NUM_", "MEMORY")
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith(prefixes))


def printed(run: str, number: int, options: str) -> list[str]:
    """Return the lines of a real table, without the clock above and the number of users below."""
    (path,) = (TRACES / run).glob(f"userprio-{number}.txt*")
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    parts = re.split(r"^### condor_userprio -allusers (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[options].splitlines()[1:-1]


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Print:
    """Return a function that prints the groups of a pool of 30 slots under the settings of a recorded one."""

    def show(run: str, dialect: str, jobs: dict[str, tuple[str, int]], *options: str) -> list[str]:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
        with Pool.open(
            str(path), uid_domain="localhost", name="h", behave=lasting, config=settings(run), dialect=dialect,
            settings={"SCHEDD_ENABLE_PER_USER_MATCH_LIMITS": "false"},
        ) as pool:  # fmt: skip
            pool.add_machine("localhost")
            for user, (group, count) in jobs.items():
                pool.submit({"executable": "/bin/sleep", "accounting_group": group}, user=user, count=count)
            pool.advance(5)
        assert main(["userprio", "-log", str(path), "-allusers", *options]) == 0
        return capsys.readouterr().out.splitlines()[1:-1]

    return show


PHYSICS, HEP, LEP, CHEMISTRY = "group_physics", "group_physics.hep", "group_physics.lep", "group_chemistry"


def test_the_quotas_of_two_groups_are_printed_as_by_htcondor(shown: Print) -> None:
    run, jobs = "09a-quota-static-nosurplus", {"alice": (PHYSICS, 60), "bob": (CHEMISTRY, 60), "carol": ("", 10)}
    for dialect in ("manual", "htcondor-25"):
        assert shown(run, dialect, jobs, "-quotas") == printed(run, 2, "-quotas")


def test_the_quotas_of_nested_groups_are_printed_as_by_htcondor(shown: Print) -> None:
    """Groups without jobs also have lines."""
    run, jobs = "09b-quota-hier-surplus", {"alice": (HEP, 60), "bob": (LEP, 60)}
    assert shown(run, "htcondor-25", jobs, "-quotas") == printed(run, 2, "-quotas")
    assert shown(run, "htcondor-25", jobs, "-surplus") == printed(run, 2, "-surplus")


@pytest.mark.parametrize("options", ["", "-hierarchical", "-grouprollup", "-most", "-all"])
def test_every_table_shows_all_columns_of_a_group(options: str, shown: Print) -> None:
    run, jobs = "09b-quota-hier-surplus", {"alice": (HEP, 60), "bob": (LEP, 3)}
    lines = shown(run, "manual", jobs, *options.split())
    assert not any("n/d" in line for line in lines)
    groups = {"<none>", PHYSICS, HEP, LEP, CHEMISTRY}
    assert {line.split()[0] for line in lines if line.split()[0] in groups} == groups
    rows = {line.split()[0]: line for line in lines}
    if options == "-grouprollup":
        assert re.search(r" 20  ", rows[PHYSICS]) and re.search(r" 20  ", rows["<none>"])

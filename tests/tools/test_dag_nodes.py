"""Golden: condor_q shows jobs that are marked as nodes of DAGs by DAGManJobId and DAGNodeName, as HTCondor's does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook import Behaviour, Pool
from poolbook.adapters.condor_tools.job_selection import dag_of
from poolbook.adapters.machine.host import host_name, user_name
from poolbook.domain.classad import ClassAd

from ..clients.test_command_lines import read_recording, tool_caller
from ..together import together

DATA = Path(__file__).resolve().parent.parent / "data" / "dags"

SCHEDULER: dict[str, object] = {"universe": "scheduler", "requirements": "true"}
DAG: dict[str, object] = {"+DAG_NodesTotal": "7", "+DAG_NodesDone": "3"}


def node(name: str, dag: str, **more: object) -> dict[str, object]:
    return {"+DAGNodeName": f'"{name}"', "+DAGManJobId": dag, **more}


JOBS: list[dict[str, object]] = [
    node("n1", "99"),
    node("n2", "99", hold=True),
    node("n3", "99", batch_name="mybatch"),
    {"+DAGNodeName": '"n4"'},
    {"+DAGManJobId": "99"},
    {"+DAGManJobId": "99", "batch_name": "mybatch"},
    {},
    node("n8", "1"),
    {"+DAGNodeName": "17", "+DAGManJobId": "1"},
    node("averyveryverylongnodename_x", '"x"'),
    SCHEDULER,
    node("m1", "11"),
    node("m2", "11", hold=True),
    node("sub", "11", **SCHEDULER, **DAG),
    node("i1", "14"),
    node("i2_very_long_name", '"14.0"'),
    {**SCHEDULER, **DAG, "batch_name": "hi"},
    {**SCHEDULER, "batch_name": "hi"},
    {"+JobBatchId": '"11.0"'},
    {"batch_name": "zz"},
    node("zz", '"zz"', batch_name="zz"),
    node("m3", "11"),
]
"""The clusters, by number from 1; the last has three jobs."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("dags") / "pool.db")
    with Pool.open(path, name=host_name(), user=user_name(), behave=lambda launch: Behaviour(seconds=60_000)) as pool:
        pool.add_machine(host_name(), cpus=4, memory=8192)
        for number, job in enumerate(JOBS, 1):
            work = {"executable": "/bin/sleep", "arguments": "600", "requirements": "false", "request_disk": 1024}
            pool.submit({**work, **job}, count=3 if number == len(JOBS) else 1)
        pool.advance(5)
    return path


@pytest.fixture
def call(log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    yield tool_caller(log, capsys, monkeypatch)


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.txt")))
def test_nodes_of_dags_are_shown_as_by_condor_q(name: str, call: object) -> None:
    command, expected = read_recording(DATA / f"{name}.txt")
    assert callable(call)
    assert call(command) == expected


@together(
    ("value", "dag"),
    [("201", 201), ('"201.0"', 201), ('"201"', 201), ("0", None), ("-3", None), ('"x"', None), ('"12a"', None),
     ("undefined", None), ("error", None), ("200 + 1", 201), ("7.9", 7), ('""', None)],
)  # fmt: skip
def test_the_dag_of_a_node_is_a_number_or_the_beginning_of_a_text(value: str, dag: int | None) -> None:
    assert dag_of(ClassAd.from_old(f"DAGManJobId = {value}")) == dag


def test_a_job_without_the_attribute_is_not_a_node() -> None:
    assert dag_of(ClassAd({"DAGNodeName": "n1"})) is None

"""Measure the schedd's policy: `python tests/bench/bench_schedd.py [JOBS]`.

Jobs are submitted with three transforms and three submit requirements, and edited with a constraint: first decision and
fold, without a disk, then the command `poolbook submit` on a log that is not being served. Times are CPU seconds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent.parent / ".path"), str(Path(__file__).parent.parent.parent)]

from tests.schedd.policy_pool import PolicyPool  # noqa: E402

from poolbook.domain.ports import stimuli as s  # noqa: E402

POLICY = """
SCHEDD_CLASSAD_USER_MAP_NAMES = Groups
CLASSAD_USER_MAPDATA_Groups = * /^(.*)$/ group_\\1
JOB_TRANSFORM_NAMES = Group, Memory, Docker
JOB_TRANSFORM_Group @=end
  EVALSET AcctGroup userMap("Groups", Owner, AcctGroup)
  EVALSET AccountingGroup join(".", AcctGroup, Owner)
@end
JOB_TRANSFORM_Memory @=end
  REQUIREMENTS RequestMemory < 512
  SET RequestMemory 512
@end
JOB_TRANSFORM_Docker @=end
  REQUIREMENTS JobUniverse == 5 && WantSL6 =?= true
  SET Requirements TARGET.HasDocker && $(MY.Requirements)
@end
SUBMIT_REQUIREMENT_NAMES = Memory, NotChris, Cores
SUBMIT_REQUIREMENT_Memory = RequestMemory >= 512
SUBMIT_REQUIREMENT_NotChris = Owner != "chris"
SUBMIT_REQUIREMENT_Cores = RequestCpus < 64
"""
READ_ARGS_POLICY = POLICY.replace("RequestCpus < 64", 'stringListMember(Args, "-1") =!= true')
"""The same, with a requirement that reads an attribute that differs between jobs."""


def format_best(times: list[float]) -> str:
    return f"{min(times):.3f} s (of {len(times)})"


def main(jobs: int) -> None:
    args = [f'"{number}"' for number in range(jobs)]
    for name, config, columns in (
        ("without a policy", "", {}),
        ("three transforms, three requirements", POLICY, {}),
        ("the same, different arguments", POLICY, {"Args": args}),
        ("the same, reading the different arguments", READ_ARGS_POLICY, {"Args": args}),
    ):
        times = []
        for _ in range(3):
            pool = PolicyPool(config)
            began = time.process_time()
            answer = pool.submit(count=jobs, columns=columns)
            times.append(time.process_time() - began)
            assert answer.value["count"] == jobs
        print(f"submit {jobs:,} jobs, {name}: {format_best(times)}")
    pool = PolicyPool(POLICY)
    pool.submit(count=jobs, columns={"Args": args})
    times = []
    for number in range(3):
        began = time.process_time()
        selection = s.Selection(everything=True, constraint="RequestMemory < 1024")
        answer = pool.edit("alice", {"RequestMemory": str(600 + number)}, selection, together=True, own=True)
        times.append(time.process_time() - began)
        assert sum(last - first + 1 for edit in answer.value for first, last in edit["procs"]) == jobs
    print(f"qedit -constraint over {jobs:,} jobs: {format_best(times)}")
    for name, config in (("without a policy", ""), ("three transforms, three requirements", POLICY)):
        times = [submit_command_time(jobs, config) for _ in range(5)]
        print(f"poolbook submit of {jobs:,} jobs, {name}: {format_best(times)}")


COMMAND = [sys.executable, "-c", "from poolbook.adapters.cli.main import entry; entry()", "submit", "job.sub", "-terse"]
SUBMIT = "executable = /bin/sleep\narguments = $(Process)\noutput = out.$(Process)\nqueue {}\n"


def submit_command_time(jobs: int, config: str) -> float:
    """Return the CPU seconds of `poolbook submit` for jobs with different arguments and output files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.sub").write_text(SUBMIT.format(jobs))
        (folder / "policy.conf").write_text(config)
        environment = {**os.environ, "PYTHONPATH": sys.path[0], "POOLBOOK_CONFIG": str(folder / "policy.conf")}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(COMMAND, cwd=folder, env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)

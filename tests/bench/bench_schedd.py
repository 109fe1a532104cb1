"""Measures the schedd's policy: a submission of many jobs under three transforms and three requirements, and an edit of
all of them by a constraint. `python tests/bench/bench_schedd.py [JOBS]`; what is decided, folded and matched, without a
disk, and then the whole command `poolbook submit` on a log that nobody serves, in seconds of a processor."""

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
READ = POLICY.replace("RequestCpus < 64", 'stringListMember(Args, "-1") =!= true')
"""The same, with a requirement that reads what differs from job to job."""


def best(times: list[float]) -> str:
    return f"{min(times):.3f} s (of {len(times)})"


def main(jobs: int) -> None:
    args = [f'"{number}"' for number in range(jobs)]
    for name, config, columns in (
        ("without a policy", "", {}),
        ("three transforms, three requirements", POLICY, {}),
        ("the same, arguments that differ", POLICY, {"Args": args}),
        ("the same, arguments that are read", READ, {"Args": args}),
    ):
        times = []
        for _ in range(3):
            pool = PolicyPool(config)
            began = time.process_time()
            answer = pool.submit(count=jobs, columns=columns)
            times.append(time.process_time() - began)
            assert answer.value["count"] == jobs
        print(f"submit {jobs:,} jobs, {name}: {best(times)}")
    pool = PolicyPool(POLICY)
    pool.submit(count=jobs, columns={"Args": args})
    times = []
    for number in range(3):
        began = time.process_time()
        chosen = s.Selection(everything=True, constraint="RequestMemory < 1024")
        answer = pool.edit("alice", {"RequestMemory": str(600 + number)}, chosen, together=True, own=True)
        times.append(time.process_time() - began)
        assert sum(last - first + 1 for one in answer.value for first, last in one["procs"]) == jobs
    print(f"qedit -constraint over {jobs:,} jobs: {best(times)}")
    for name, config in (("without a policy", ""), ("three transforms, three requirements", POLICY)):
        print(f"poolbook submit of {jobs:,} jobs, {name}: {best([submitted(jobs, config) for _ in range(5)])}")


COMMAND = [sys.executable, "-c", "from poolbook.adapters.cli.main import entry; entry()", "submit", "job.sub", "-terse"]
SUBMIT = "executable = /bin/sleep\narguments = $(Process)\noutput = out.$(Process)\nqueue {}\n"


def submitted(jobs: int, config: str) -> float:
    """What a submission of jobs with arguments and output files of their own takes, the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "job.sub").write_text(SUBMIT.format(jobs))
        (place / "policy.conf").write_text(config)
        environment = {**os.environ, "PYTHONPATH": sys.path[0], "POOLBOOK_CONFIG": str(place / "policy.conf")}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(COMMAND, cwd=place, env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)

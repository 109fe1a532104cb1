"""The figures of a job history of 100,000 ads (231 MB): imported, how large it is then, one job found, usage by user.

The ads are those of the recorded runs, each made another job's: ids, users, arguments, paths, environments, machines,
times and what was used differ as they do where many people run many kinds of jobs.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from tests.bench.bench_views import tell  # noqa: E402

TRACES = ROOT / "tests/data/traces"
ADS = 100_000
BEGAN = 1_795_000_000

USERS = [f"user{number:02}" for number in range(60)]
SITES = ["cs.example.org", "physics.example.org", "hpc.example.org"]
PROGRAMS = ["simulate", "fit", "reduce.sh", "python3", "geant", "blast", "render", "train", "merge", "calibrate"]
WORDS = [
    "alpha", "beta", "gamma", "delta", "muon", "kaon", "north", "south", "seed", "sweep", "final", "test", "nightly",
    "beam", "field", "grid", "night",
]  # fmt: skip
LEFT_OUT = 0.835
"""The share of the other attributes that is left out: so the ads have the size of those that the aim speaks of."""

Make = Callable[["Job"], str]


class Job:
    """One job's fortune: what its cluster has in common, and what is its own."""

    def __init__(self, dice: random.Random, cluster: int, proc: int, shared: dict[str, str], at: int) -> None:
        self.dice, self.cluster, self.proc, self.shared = dice, cluster, proc, shared
        self.qdate = int(shared["QDate"])
        self.wait = int(dice.expovariate(1 / 900)) + 3
        self.wall = int(dice.lognormvariate(7, 1.3)) + 1
        self.done = at
        self.began = at - self.wall
        self.cpu = round(self.wall * dice.uniform(0.3, 1.0), 1)
        self.rss = dice.randrange(2_000, 4_000_000)
        self.disk = dice.randrange(40, 9_000_000)
        self.node = dice.randrange(1, 800)
        self.slot = dice.randrange(1, 65)
        self.site = SITES[self.node % len(SITES)]


def _of_cluster(name: str) -> Make:
    return lambda job: job.shared[name]


OWN: dict[str, Make] = {
    "ClusterId": lambda job: str(job.cluster),
    "ProcId": lambda job: str(job.proc),
    "GlobalJobId": lambda job: f'"ap1.example.org#{job.cluster}.{job.proc}#{job.qdate}"',
    "Args": lambda job: f'"--seed {job.dice.randrange(10**9)} --index {job.proc} {job.shared["words"]}"',
    "Out": lambda job: f'"out/{job.shared["word"]}.{job.cluster}.{job.proc}.out"',
    "Err": lambda job: f'"out/{job.shared["word"]}.{job.cluster}.{job.proc}.err"',
    "CompletionDate": lambda job: str(job.done),
    "EnteredCurrentStatus": lambda job: str(job.done),
    "JobFinishedHookDone": lambda job: str(job.done + job.dice.randrange(2)),
    "LastJobLeaseRenewal": lambda job: str(job.done),
    "JobCurrentStartDate": lambda job: str(job.began),
    "JobCurrentStartExecutingDate": lambda job: str(job.began + job.dice.randrange(3)),
    "JobStartDate": lambda job: str(job.began),
    "LastMatchTime": lambda job: str(job.began),
    "FirstJobMatchDate": lambda job: str(job.began),
    "InitialWaitDuration": lambda job: str(job.wait),
    "ResidentSetSize_RAW": lambda job: str(job.rss),
    "ResidentSetSize": lambda job: str(job.rss // 250_000 * 250_000 + 250_000),
    "ImageSize_RAW": lambda job: str(job.rss + 40_000),
    "ImageSize": lambda job: str(job.rss // 250_000 * 250_000 + 500_000),
    "DiskUsage_RAW": lambda job: str(job.disk),
    "DiskUsage": lambda job: str(job.disk // 2_500 * 2_500 + 2_500),
    "DiskProvisioned": lambda job: str(job.dice.randrange(10**6, 10**8)),
    "CumulativeSlotTime": lambda job: f"{job.wall * int(job.shared['cpus'])}.0",
    "RemoteWallClockTime": lambda job: f"{job.wall}.0",
    "LastRemoteWallClockTime": lambda job: f"{job.wall}.0",
    "CommittedSlotTime": lambda job: f"{job.wall * int(job.shared['cpus'])}.0",
    "CommittedTime": lambda job: str(job.wall),
    "ActivationDuration": lambda job: str(job.wall),
    "ActivationExecutionDuration": lambda job: str(job.wall - job.dice.randrange(2)),
    "CpusUsage": lambda job: repr(job.cpu / job.wall),
    "RemoteUserCpu": lambda job: f"{job.cpu}",
    "CumulativeRemoteUserCpu": lambda job: f"{job.cpu}",
    "RemoteSysCpu": lambda job: f"{job.dice.randrange(200)}.0",
    "BytesRecvd": lambda job: f"{job.dice.randrange(10**8)}.0",
    "BytesSent": lambda job: f"{job.dice.randrange(10**7)}.0",
    "ExitCode": lambda job: str(job.dice.choice((0, 0, 0, 0, 0, 0, 0, 1, 2, 139))),
    "LastRemoteHost": lambda job: f'"slot1_{job.slot}@node{job.node:03}.{job.site}"',
    "LastPublicClaimId": lambda job: (
        f'"<10.1.{job.node // 256}.{job.node % 256}:9618?addrs=10.1.{job.node // 256}.{job.node % 256}-9618'
        f"&alias=node{job.node:03}.{job.site}&noUDP&sock=startd_{1000 + job.node * 7}_{job.node * 77 % 65536:04x}>"
        f'#{BEGAN - job.node * 911}#{job.dice.randrange(90_000)}#..."'
    ),
    "StatsLifetimeStarter": lambda job: str(job.wall),
    "RecentStatsLifetimeStarter": lambda job: str(min(job.wall, 1200)),
    **{
        name: _of_cluster(name)
        for name in (
            "QDate", "Owner", "User", "Cmd", "Iwd", "UserLog", "Environment", "RequestMemory", "RequestCpus",
            "TotalSubmitProcs", "AcctGroup", "AccountingGroup", "AcctGroupUser", "JobSubmitFile", "JobBatchName",
        )
    },
}  # fmt: skip


def _shared(dice: random.Random, qdate: int, size: int) -> dict[str, str]:
    user, program, word = dice.choice(USERS), dice.choice(PROGRAMS), dice.choice(WORDS)
    home = f"/home/{user}/{word}/{dice.choice(WORDS)}-{dice.randrange(1000)}"
    variables = " ".join(f"{other.upper()}={home}/{other}" for other in dice.sample(WORDS, 4))
    cpus = str(dice.choice((1, 1, 1, 2, 4, 8)))
    return {
        "QDate": str(qdate), "Owner": f'"{user}"', "User": f'"{user}@example.org"', "Cmd": f'"{home}/bin/{program}"',
        "Iwd": f'"{home}"', "UserLog": f'"{home}/{word}.log"', "JobSubmitFile": f'"{word}.sub"',
        "Environment": f'"PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/{user} {variables}"', "RequestCpus": cpus,
        "RequestMemory": str(dice.choice((512, 1024, 2000, 4096, 16000))), "TotalSubmitProcs": str(size),
        "AcctGroup": f'"group_{word}"', "AccountingGroup": f'"group_{word}.{user}"', "AcctGroupUser": f'"{user}"',
        "JobBatchName": f'"{word}"', "words": f"--config {home}/{word}.toml --tag {dice.choice(WORDS)}", "word": word,
        "cpus": cpus,
    }  # fmt: skip


def _templates(dice: random.Random) -> list[list[tuple[str, Make | None]]]:
    """The ads of the recorded runs, without some of the attributes that no job has of its own: a line each, or what
    makes its value."""
    texts = []
    for path in sorted(TRACES.glob("*/history.ads*")):
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            texts += [ad for ad in file.read().decode().split("\n\n") if "\nLastRemoteHost = " in ad]
    ads = [[line for line in text.split("\n") if re.match(r"\w+ = ", line)] for text in texts]
    common = sorted({line.partition(" = ")[0] for lines in ads for line in lines}.difference(OWN))
    left = set(dice.sample(common, round(len(common) * LEFT_OUT)))
    parts = [[(line.partition(" = ")[0], line) for line in lines] for lines in ads]
    return [
        [(f"{name} = ", OWN[name]) if name in OWN else (line, None) for name, line in lines if name not in left]
        for lines in parts
    ]


def made(ads: int = ADS, seed: int = 4) -> Iterator[bytes]:
    """A job history of so many ads as the schedd writes it, ad by ad."""
    dice = random.Random(seed)
    templates = _templates(dice)
    open_clusters: list[list[int]] = []
    facts: dict[int, tuple[dict[str, str], list[tuple[str, Make | None]]]] = {}
    cluster, at, offset = 12_000, BEGAN, 0
    for _ in range(ads):
        at += dice.randrange(12)
        while len(open_clusters) < 25:
            cluster += 1
            size = min(3000, int(dice.lognormvariate(3, 1.7)) + 1)
            facts[cluster] = (_shared(dice, at - dice.randrange(40_000), size), dice.choice(templates))
            open_clusters.append([cluster, 0, size])
        chosen = dice.choice(open_clusters)
        number, proc, size = chosen
        chosen[1] += 1
        if chosen[1] == size:
            open_clusters.remove(chosen)
        shared, template = facts[number]
        job = Job(dice, number, proc, shared, at)
        text = "".join([f"{line}{make(job)}\n" if make else f"{line}\n" for line, make in template])
        owner = shared["Owner"]
        text += f"*** Offset = {offset} ClusterId = {number} ProcId = {proc} Owner = {owner} CompletionDate = {at}"
        data = f"{text} CurrentTime = {at}\n".encode()
        offset += len(data)
        yield data


COMMAND = "import sys; from poolbook.adapters.cli.main import main; sys.exit(main(sys.argv[1:]))"
WANTED = ADS // 2
"""The job that is looked for, counted from the last."""


def _called(*words: str) -> tuple[float, int]:
    """Seconds and peak memory (bytes) of a command as a whole process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / ".path")}
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - begin
    if status:
        raise SystemExit(f"poolbook {' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return took, used.ru_maxrss * 1024


def history(folder: Path) -> list[bool]:
    """The import of a job history, and what is asked of it then."""
    source, log = folder / "source", folder / "audit.db"
    source.mkdir()
    job = ""
    with (source / "history").open("wb") as file:
        for number, ad in enumerate(made()):
            file.write(ad)
            if number == WANTED:
                job = ".".join(re.findall(rb"^(?:ClusterId|ProcId) = (\d+)", ad, re.M)[at].decode() for at in (0, 1))
    size = (source / "history").stat().st_size
    took, memory = _called("import", str(source), "-log", str(log))
    kept = sum(path.stat().st_size for path in folder.glob("audit.db*"))
    asked = {
        name: min(_called(*words, "-log", str(log))[0] for _ in range(7))
        for name, words in (("one job, whole process", ("history", job)), ("usage by user, whole process", ("usage",)))
    }
    print(f"{f'  a history of {ADS:,} ads':<62}{size / 1e6:>12,.4g} MB")
    return [
        tell(f"import {ADS:,} history ads, whole process, views made", took, "s", 8),
        tell("  its peak memory", memory / 1e6, "MB", 300),
        tell("  log and views, of the history's size", kept / size, "", 0.25),
        *(tell(name, seconds, "s", 0.1) for name, seconds in asked.items()),
    ]


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        return 0 if all(history(Path(name))) else 1


if __name__ == "__main__":
    sys.exit(main())

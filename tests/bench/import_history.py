"""Measure a job history of 100,000 ads (231 MB): its import, the log's size, one job, usage by user.

The ads are recorded ads with other ids, users, arguments, paths, environments, machines, times and usage, which vary as
in a pool with many users and many kinds of jobs.
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

from tests.bench.bench_views import print_result  # noqa: E402

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
OMITTED_SHARE = 0.835
"""The share of the other attributes to leave out, so that the ads have the size for which the aim was set."""

GenerateValue = Callable[["Job"], str]


class Job:
    """The attributes of one job: its cluster's attributes, and its own times, usage and machine."""

    def __init__(self, rng: random.Random, cluster: int, proc: int, shared: dict[str, str], at: int) -> None:
        self.rng, self.cluster, self.proc, self.shared = rng, cluster, proc, shared
        self.qdate = int(shared["QDate"])
        self.wait = int(rng.expovariate(1 / 900)) + 3
        self.wall = int(rng.lognormvariate(7, 1.3)) + 1
        self.done = at
        self.began = at - self.wall
        self.cpu = round(self.wall * rng.uniform(0.3, 1.0), 1)
        self.rss = rng.randrange(2_000, 4_000_000)
        self.disk = rng.randrange(40, 9_000_000)
        self.node = rng.randrange(1, 800)
        self.slot = rng.randrange(1, 65)
        self.site = SITES[self.node % len(SITES)]


def _from_cluster(name: str) -> GenerateValue:
    return lambda job: job.shared[name]


GENERATED: dict[str, GenerateValue] = {
    "ClusterId": lambda job: str(job.cluster),
    "ProcId": lambda job: str(job.proc),
    "GlobalJobId": lambda job: f'"ap1.example.org#{job.cluster}.{job.proc}#{job.qdate}"',
    "Args": lambda job: f'"--seed {job.rng.randrange(10**9)} --index {job.proc} {job.shared["arguments"]}"',
    "Out": lambda job: f'"out/{job.shared["word"]}.{job.cluster}.{job.proc}.out"',
    "Err": lambda job: f'"out/{job.shared["word"]}.{job.cluster}.{job.proc}.err"',
    "CompletionDate": lambda job: str(job.done),
    "EnteredCurrentStatus": lambda job: str(job.done),
    "JobFinishedHookDone": lambda job: str(job.done + job.rng.randrange(2)),
    "LastJobLeaseRenewal": lambda job: str(job.done),
    "JobCurrentStartDate": lambda job: str(job.began),
    "JobCurrentStartExecutingDate": lambda job: str(job.began + job.rng.randrange(3)),
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
    "DiskProvisioned": lambda job: str(job.rng.randrange(10**6, 10**8)),
    "CumulativeSlotTime": lambda job: f"{job.wall * int(job.shared['cpus'])}.0",
    "RemoteWallClockTime": lambda job: f"{job.wall}.0",
    "LastRemoteWallClockTime": lambda job: f"{job.wall}.0",
    "CommittedSlotTime": lambda job: f"{job.wall * int(job.shared['cpus'])}.0",
    "CommittedTime": lambda job: str(job.wall),
    "ActivationDuration": lambda job: str(job.wall),
    "ActivationExecutionDuration": lambda job: str(job.wall - job.rng.randrange(2)),
    "CpusUsage": lambda job: repr(job.cpu / job.wall),
    "RemoteUserCpu": lambda job: f"{job.cpu}",
    "CumulativeRemoteUserCpu": lambda job: f"{job.cpu}",
    "RemoteSysCpu": lambda job: f"{job.rng.randrange(200)}.0",
    "BytesRecvd": lambda job: f"{job.rng.randrange(10**8)}.0",
    "BytesSent": lambda job: f"{job.rng.randrange(10**7)}.0",
    "ExitCode": lambda job: str(job.rng.choice((0, 0, 0, 0, 0, 0, 0, 1, 2, 139))),
    "LastRemoteHost": lambda job: f'"slot1_{job.slot}@node{job.node:03}.{job.site}"',
    "LastPublicClaimId": lambda job: (
        f'"<10.1.{job.node // 256}.{job.node % 256}:9618?addrs=10.1.{job.node // 256}.{job.node % 256}-9618'
        f"&alias=node{job.node:03}.{job.site}&noUDP&sock=startd_{1000 + job.node * 7}_{job.node * 77 % 65536:04x}>"
        f'#{BEGAN - job.node * 911}#{job.rng.randrange(90_000)}#..."'
    ),
    "StatsLifetimeStarter": lambda job: str(job.wall),
    "RecentStatsLifetimeStarter": lambda job: str(min(job.wall, 1200)),
    **{
        name: _from_cluster(name)
        for name in (
            "QDate", "Owner", "User", "Cmd", "Iwd", "UserLog", "Environment", "RequestMemory", "RequestCpus",
            "TotalSubmitProcs", "AcctGroup", "AccountingGroup", "AcctGroupUser", "JobSubmitFile", "JobBatchName",
        )
    },
}  # fmt: skip


def _cluster_attributes(rng: random.Random, qdate: int, size: int) -> dict[str, str]:
    user, program, word = rng.choice(USERS), rng.choice(PROGRAMS), rng.choice(WORDS)
    home = f"/home/{user}/{word}/{rng.choice(WORDS)}-{rng.randrange(1000)}"
    variables = " ".join(f"{other.upper()}={home}/{other}" for other in rng.sample(WORDS, 4))
    cpus = str(rng.choice((1, 1, 1, 2, 4, 8)))
    return {
        "QDate": str(qdate), "Owner": f'"{user}"', "User": f'"{user}@example.org"', "Cmd": f'"{home}/bin/{program}"',
        "Iwd": f'"{home}"', "UserLog": f'"{home}/{word}.log"', "JobSubmitFile": f'"{word}.sub"',
        "Environment": f'"PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/{user} {variables}"', "RequestCpus": cpus,
        "RequestMemory": str(rng.choice((512, 1024, 2000, 4096, 16000))), "TotalSubmitProcs": str(size),
        "AcctGroup": f'"group_{word}"', "AccountingGroup": f'"group_{word}.{user}"', "AcctGroupUser": f'"{user}"',
        "JobBatchName": f'"{word}"', "arguments": f"--config {home}/{word}.toml --tag {rng.choice(WORDS)}",
        "word": word, "cpus": cpus,
    }  # fmt: skip


def _templates(rng: random.Random) -> list[list[tuple[str, GenerateValue | None]]]:
    """Return the lines of the recorded ads, without some of the attributes that all jobs share.

    An attribute that differs between jobs has a function that generates its value.
    """
    texts = []
    for path in sorted(TRACES.glob("*/history.ads*")):
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            texts += [ad for ad in file.read().decode().split("\n\n") if "\nLastRemoteHost = " in ad]
    ads = [[line for line in text.split("\n") if re.match(r"\w+ = ", line)] for text in texts]
    common = sorted({line.partition(" = ")[0] for lines in ads for line in lines}.difference(GENERATED))
    omitted = set(rng.sample(common, round(len(common) * OMITTED_SHARE)))
    parts = [[(line.partition(" = ")[0], line) for line in lines] for lines in ads]
    return [
        [
            (f"{name} = ", GENERATED[name]) if name in GENERATED else (line, None)
            for name, line in lines
            if name not in omitted
        ]
        for lines in parts
    ]


def history_ads(ads: int = ADS, seed: int = 4) -> Iterator[bytes]:
    """Yield the ads of a job history as the schedd writes them."""
    rng = random.Random(seed)
    templates = _templates(rng)
    open_clusters: list[list[int]] = []
    cluster_data: dict[int, tuple[dict[str, str], list[tuple[str, GenerateValue | None]]]] = {}
    cluster, at, offset, previous_banner = 12_000, BEGAN, 0, 0
    for _ in range(ads):
        at += rng.randrange(12)
        while len(open_clusters) < 25:
            cluster += 1
            size = min(3000, int(rng.lognormvariate(3, 1.7)) + 1)
            cluster_data[cluster] = (
                _cluster_attributes(rng, at - rng.randrange(40_000), size),
                rng.choice(templates),
            )
            open_clusters.append([cluster, 0, size])
        open_cluster = rng.choice(open_clusters)
        number, proc, size = open_cluster
        open_cluster[1] += 1
        if open_cluster[1] == size:
            open_clusters.remove(open_cluster)
        shared, template = cluster_data[number]
        job = Job(rng, number, proc, shared, at)
        text = "".join([f"{line}{generate(job)}\n" if generate else f"{line}\n" for line, generate in template])
        owner = shared["Owner"]
        text += f"*** Offset = {previous_banner} ClusterId = {number} ProcId = {proc} Owner = {owner}"
        data = f"{text} CompletionDate = {at} CurrentTime = {at}\n".encode()
        previous_banner, offset = offset + data.rindex(b"*** Offset"), offset + len(data)
        yield data


COMMAND = "import sys; from poolbook.adapters.cli.main import main; sys.exit(main(sys.argv[1:]))"
QUERIED_JOB = ADS // 2
"""The index of the job that the queries ask for."""


def run_command(*command: str) -> tuple[float, int]:
    """Return the seconds and the peak memory (bytes) of a command's process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / ".path")}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    duration = time.perf_counter() - began
    if status:
        raise SystemExit(f"poolbook {' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return duration, usage.ru_maxrss * 1024


def history(folder: Path) -> list[bool]:
    """Measure the import of a job history, and queries on the imported log."""
    source, log = folder / "source", folder / "audit.db"
    source.mkdir()
    job = ""
    with (source / "history").open("wb") as file:
        for number, ad in enumerate(history_ads()):
            file.write(ad)
            if number == QUERIED_JOB:
                job = ".".join(re.findall(rb"^(?:ClusterId|ProcId) = (\d+)", ad, re.M)[at].decode() for at in (0, 1))
    size = (source / "history").stat().st_size
    import_time, memory = run_command("import", str(source), "-log", str(log))
    log_size = sum(path.stat().st_size for path in folder.glob("audit.db*"))
    queries = {
        name: min(run_command(*command, "-log", str(log))[0] for _ in range(7))
        for name, command in (
            ("one job, whole process", ("history", job)),
            ("usage by user, whole process", ("usage",)),
        )
    }
    print(f"{f'  a history of {ADS:,} ads':<62}{size / 1e6:>12,.4g} MB")
    return [
        print_result(f"import {ADS:,} history ads, whole process, with views", import_time, "s", 8),
        print_result("  peak memory", memory / 1e6, "MB", 300),
        print_result("  size of log and views / size of the history", log_size / size, "", 0.25),
        *(print_result(name, seconds, "s", 0.1) for name, seconds in queries.items()),
    ]


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        return 0 if all(history(Path(name))) else 1


if __name__ == "__main__":
    sys.exit(main())

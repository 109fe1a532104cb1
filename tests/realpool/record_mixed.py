"""Record HTCondor pools that go through many exit paths at random, and audit the recordings.

    python tests/realpool/record_mixed.py -pool DIR -script SCRIPT -to FOLDER SEED...

Each seed controls one pool for about a minute: jobs that end in every way, tools that interfere, and daemons that are
killed or frozen. Its logs, spool and some ads are packed as FOLDER/mixed-SEED.tar.xz and audited. The files of some
pools are copied one by one while the pool runs, or lose their first records. The records are genuine, so each finding
is a false positive. Needs root; SCRIPT is the script that `make realpool` uses.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

USERS = ("alice", "bob", "carol")
LOG, SPOOL, EXECUTE = "var/log/condor", "var/spool/condor", "var/lib/condor/execute"
IGNORED = re.compile(r"(SharedPort|Proc|KernelTuning|StarterLog\.testing|XferStats).*|\.schedd_classad|\..*|.*lock.*")
DAEMONS = ("shadow", "shadow", "starter", "starter", "startd", "schedd", "negotiator", "collector")
FREEZABLE = ("shadow", "starter", "startd", "schedd", "negotiator", "collector")
RECORD_ENDS = (
    (re.compile(r"(startd_)?history.*|epoch_history.*"), re.compile(rb"^\*\*\*.*\n", re.MULTILINE)),
    (re.compile(r"EventLog.*|job.*\.log"), re.compile(rb"^\.\.\.\n", re.MULTILINE)),
    (re.compile(r"(Sched|Start|Negotiator|Match)Log.*"), re.compile(rb"\n")),
)
"""The files whose first records may be cut, and patterns for the ends of their records."""
JOB = """\
#!/bin/sh
# run.sh HOW SECONDS NUMBER: end as HOW says after some seconds
case $1 in
  exit) sleep $2; exit $3 ;;
  signal) sleep $2; kill -$3 $$ ;;
  deaf) trap '' TERM; sleep $2; exit $3 ;;
  polite) trap 'exit 0' TERM; sleep $2 & wait; exit $3 ;;
  flaky) sleep $2; exit $(($(date +%s) % 2)) ;;
  write) sleep $2; echo result > result; exit $3 ;;
  steps) n=$(cat state 2>/dev/null || echo 0); sleep $2; n=$((n + 1)); echo $n > state
         [ $n -gt 3 ] && exit $3; exit 85 ;;
  burn) i=0; until [ $i -ge $(($2 * 200000)) ]; do i=$((i + 1)); done; exit $3 ;;
esac
"""
CONFIG = """\
NUM_CPUS = 4
MEMORY = 8000
UID_DOMAIN = pool.example
RUNBENCHMARKS = 0
ENABLE_KERNEL_TUNING = false
MAXJOBRETIREMENTTIME = 0
MachineMaxVacateTime = 4
KILLING_TIMEOUT = 5
PERIODIC_EXPR_INTERVAL = 3
STARTER_UPDATE_INTERVAL = 4
STARTER_INITIAL_UPDATE_INTERVAL = 1
SHADOW_QUEUE_UPDATE_INTERVAL = 5
MASTER_BACKOFF_CONSTANT = 2
MASTER_BACKOFF_FACTOR = 1.1
ALIVE_INTERVAL = 10
JOB_EPOCH_HISTORY = $(SPOOL)/epoch_history
STARTD_HISTORY = $(SPOOL)/startd_history
SUBMIT_SKIP_FILECHECKS = true
MAX_JOB_QUEUE_LOG_ROTATIONS = 4
ALLOW_ADMINISTRATOR = *
PREEMPTION_REQUIREMENTS = True
NEGOTIATOR_CONSIDER_PREEMPTION = True
PRIORITY_HALFLIFE = 60
"""
SETTINGS = (
    "NUM_SLOTS_TYPE_1 = 4\nSLOT_TYPE_1 = cpus=1,memory=25%,disk=25%",
    'RANK = (Owner == "carol") * 10',
    "SYSTEM_ON_VACATE_COOL_DOWN = 6",
    "SYSTEM_ON_VACATE_COOL_DOWN = ifThenElse(NumHolds =?= 0, 5, 1)",
    "MAX_SCHEDD_LOG = 12000\nMAX_NUM_SCHEDD_LOG = 9",
    "MAX_STARTD_LOG = 40000\nMAX_NUM_STARTD_LOG = 9",
    "MAX_NEGOTIATOR_LOG = 30000\nMAX_NUM_NEGOTIATOR_LOG = 5",
    "MAX_SHADOW_LOG = 20000\nMAX_STARTER_LOG = 20000",
    "MAX_HISTORY_LOG = 30000\nMAX_HISTORY_ROTATIONS = 8",
    "MAX_EPOCH_HISTORY_LOG = 30000\nMAX_EPOCH_HISTORY_ROTATIONS = 3",
    "EVENT_LOG_MAX_SIZE = 15000\nEVENT_LOG_MAX_ROTATIONS = 9",
    "QUEUE_CLEAN_INTERVAL = 20",
    "SHADOW_WORKLIFE = 0",
    "CLAIM_WORKLIFE = 10",
    "MAXJOBRETIREMENTTIME = 8",
    "SUSPEND = (TotalJobRunTime > 6 && TotalJobRunTime < 9)\nCONTINUE = TotalJobRunTime > 12\nWANT_SUSPEND = true",
    "PREEMPT = TotalJobRunTime > 25\nWANT_VACATE = true",
    "SYSTEM_PERIODIC_HOLD = JobStatus == 2 && time() - EnteredCurrentStatus > 18\n"
    "SYSTEM_PERIODIC_RELEASE = NumHolds < 3",
    "SYSTEM_PERIODIC_REMOVE = JobStatus == 5 && time() - EnteredCurrentStatus > 15",
    "SCHEDD_DEBUG = D_FULLDEBUG",
    "SHADOW_DEBUG = D_FULLDEBUG\nSTARTER_DEBUG = D_FULLDEBUG",
    "CLAIM_PARTITIONABLE_LEFTOVERS = false",
    "JOB_START_COUNT = 1\nJOB_START_DELAY = 1",
    "NEGOTIATOR_DEBUG = D_FULLDEBUG D_MATCH",
    "MAX_SCHEDD_LOG = 9000\nMAX_NUM_SCHEDD_LOG = 2\nMAX_STARTD_LOG = 30000\nMAX_NUM_STARTD_LOG = 2",
    "MAX_HISTORY_LOG = 15000\nMAX_HISTORY_ROTATIONS = 2",
    "MAX_EPOCH_HISTORY_LOG = 15000\nMAX_EPOCH_HISTORY_ROTATIONS = 2",
    "EVENT_LOG_MAX_SIZE = 9000\nEVENT_LOG_MAX_ROTATIONS = 2",
    "DAEMON_LIST = $(DAEMON_LIST) DEFRAG\nDEFRAG_INTERVAL = 6\nDEFRAG_DRAINING_MACHINES_PER_HOUR = 3600\n"
    "DEFRAG_REQUIREMENTS = true\nDEFRAG_MAX_CONCURRENT_DRAINING = 1\nDEFRAG_MAX_WHOLE_MACHINES = 1",
    "TRUNC_SCHEDD_LOG_ON_OPEN = true\nTRUNC_STARTD_LOG_ON_OPEN = true",
)
JOBS = (
    "arguments = exit {s} {code}",
    "arguments = exit {s} 0",
    "arguments = burn {s} {code}",
    "arguments = signal {s} {signal}",
    "arguments = deaf 60 0",
    "arguments = polite 40 {code}",
    "arguments = exit 60 0\nperiodic_hold = JobStatus == 2 && time() - EnteredCurrentStatus > {s}\n"
    "periodic_release = NumHolds < 2",
    "arguments = exit 60 0\nperiodic_remove = JobStatus == 2 && time() - EnteredCurrentStatus > {s}",
    "arguments = exit 60 0\nperiodic_vacate = JobStatus == 2 && time() - EnteredCurrentStatus > {s}",
    'arguments = exit {s} 3\non_exit_hold = ExitCode =!= 0\non_exit_hold_reason = "bad end"\n'
    "periodic_release = NumHolds < 2",
    "arguments = exit 2 1\non_exit_remove = NumJobCompletions > 2",
    "arguments = flaky 2 0\nmax_retries = 2",
    "arguments = exit 2 4\nmax_retries = 1\nsuccess_exit_code = 4",
    "arguments = exit 2 0\ntransfer_input_files = /nowhere/input",
    "arguments = exit 2 0\ntransfer_output_files = never_written",
    'arguments = write 2 0\ntransfer_output_files = result\ntransfer_output_remaps = "result=/root/result"',
    "arguments = exit 2 0\noutput = /nowhere/out",
    "arguments = steps 3 0\ncheckpoint_exit_code = 85\ntransfer_checkpoint_files = state\nwant_ftoncheckpoint = true",
    "arguments = steps 4 0\ntransfer_output_files = state\nwhen_to_transfer_output = ON_EXIT_OR_EVICT",
    "arguments = exit 2 $$(NoSuchAttribute)",
    'arguments = exit 2 0\nenvironment = "M=$$(Memory) N=$$(NoSuch)"',
    "universe = local\narguments = exit {s} {code}",
    "universe = scheduler\narguments = exit {s} {code}",
    "universe = local\narguments = signal {s} {signal}",
    "universe = scheduler\narguments = exit 30 0\nperiodic_hold = time() - QDate > 10",
    "arguments = exit 60 0\nallowed_execute_duration = 5",
    "arguments = exit 60 0\nallowed_job_duration = 6",
    "arguments = exit {s} 0\nmax_materialize = 2",
    "arguments = exit {s} 0\nmax_idle = 1",
    "arguments = exit {s} 0\nhold = true",
    "arguments = exit {s} 0\nleave_in_queue = time() - QDate < 40",
    "arguments = exit {s} 0\nshould_transfer_files = no",
    "arguments = exit {s} {code}\njob_lease_duration = 8",
    "arguments = exit 40 0\njob_lease_duration = 15",
    "arguments = exit {s} 0\nnoop_job = true\nnoop_job_exit_code = 5",
    "arguments = exit {s} 0\nkeep_claim_idle = 8",
    "arguments = exit {s} 0\nrequest_cpus = 2\naccounting_group = physics\naccounting_group_user = $ENV(USER)",
    "arguments = exit {s} 0\nexecutable = missing.sh",
    "arguments = exit {s} 0\nnice_user = true",
    "arguments = exit {s} 0\nconcurrency_limits = licence",
    "arguments = exit {s} 0\ndeferral_time = 100",
    "arguments = exit {s} 0\njob_max_vacate_time = 1\nwant_graceful_removal = true",
)
TOOLS = (
    ("root", "condor_hold {job}"),
    ("owner", "condor_hold {owner}"),
    ("root", "condor_release -all"),
    ("owner", "condor_release {owner}"),
    ("root", "condor_rm {job}"),
    ("root", "condor_rm {job}; condor_rm -forcex {job}"),
    ("owner", "condor_rm -constraint 'JobStatus == 2 && ProcId == 1'"),
    ("root", "condor_vacate_job {job}"),
    ("root", "condor_vacate_job -fast {job}"),
    ("root", "condor_vacate_job -constraint 'JobStatus == 2'"),
    ("root", "condor_vacate -all"),
    ("root", "condor_vacate -fast -all"),
    ("root", "condor_drain $(hostname); sleep 5; condor_drain -cancel $(hostname)"),
    ("root", "condor_drain -fast -resume-on-completion $(hostname)"),
    ("root", "condor_off -fast -startd; sleep 4; condor_on -startd"),
    ("root", "condor_off -startd; sleep 6; condor_on -startd"),
    ("root", "condor_off -peaceful -startd; sleep 4; condor_off -fast -startd; sleep 2; condor_on -startd"),
    ("root", "condor_off -fast -schedd; sleep 3; condor_on -schedd"),
    ("root", "condor_restart -schedd"),
    ("root", "condor_restart -fast -startd"),
    ("root", "condor_reconfig"),
    ("root", "condor_suspend {job}; sleep 4; condor_continue {job}"),
    ("root", "condor_suspend -constraint 'JobStatus == 2'; sleep 3; condor_rm -constraint 'JobStatus == 7'"),
    ("owner", "condor_qedit {owner} Noted 17"),
    ("owner", "condor_prio +5 {job}"),
    ("root", "condor_qedit {job} Requirements false"),
    ("root", "condor_userprio -setfactor {user} 50"),
    ("root", "condor_userprio -setprio {user} 800"),
    ("root", "condor_userprio -resetusage {user}"),
    ("root", "condor_now {job} {other}"),
    ("owner", "condor_hold {job} -reason 'stop it' -subcode 9; condor_release {job}"),
    ("root", "condor_vacate_job {job}; condor_hold {job}"),
    ("root", "condor_hold {job}; sleep 1; condor_rm {job}"),
    ("root", "condor_rm -constraint 'JobStatus == 2'; condor_rm -forcex -all"),
    ("root", "condor_restart -fast; sleep 4"),
    ("owner", "condor_submit -spool again.sub; condor_transfer_data {owner}"),
    ("owner", "condor_submit_dag -force again.dag"),
)  # fmt: skip


class MixedPool:
    """An HTCondor pool that a seed controls."""

    def __init__(self, folder: Path, script: str, seed: int, freezes: bool) -> None:
        self.folder, self.script, self.root = folder, script, folder / "root"
        self.random, self.jobs, self.actions = random.Random(seed), 0, [f"seed {seed}"]
        self.freezes = freezes
        self.frozen: list[tuple[float, int]] = []

    def call(self, *arguments: str, limit: float = 60) -> str:
        try:
            process = subprocess.run(
                ["bash", self.script, *arguments], capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return ""
        return process.stdout + process.stderr

    def run(self, command: str, limit: float = 20) -> str:
        return self.call("run", str(self.folder), "sh", "-c", command, limit=limit)

    def as_user(self, user: str, command: str) -> str:
        return self.call("as", user, str(self.folder), command, limit=20)

    def start(self, config: Path) -> None:
        self.call("up", str(self.folder), str(config), limit=90)

    def processes(self, name: str) -> list[int]:
        """Return the process ids of a daemon of this pool, by their root directory; "" returns all daemons."""
        shown = f"condor_{name}"[:15] if name else ""
        pids = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "root") == str(self.root) and (entry / "comm").read_text().startswith(shown):
                    pids.append(int(entry.name))
            except OSError:
                continue
        return sorted(pids)

    def kill(self, *names: str, all_of_them: bool = False) -> None:
        pids = [pid for name in names for pid in self.processes(name)]
        for pid in pids if all_of_them else self.random.sample(pids, min(1, len(pids))):
            self.send(pid, signal.SIGKILL)

    def freeze(self, name: str, seconds: int) -> None:
        pids = self.processes(name) if self.freezes else []
        for pid in self.random.sample(pids, min(1, len(pids))):
            self.note(f"freeze {name} for {seconds} s")
            self.send(pid, signal.SIGSTOP)
            self.frozen.append((time.time() + seconds, pid))

    def thaw(self, all_of_them: bool = False) -> None:
        for until, pid in [entry for entry in self.frozen if all_of_them or entry[0] <= time.time()]:
            self.send(pid, signal.SIGCONT)
            self.frozen.remove((until, pid))

    def send(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def reset_files(self) -> None:
        homes = [f"home/{user}" for user in USERS]
        for folder in (LOG, SPOOL, EXECUTE, *homes):
            for entry in (self.root / folder).iterdir() if (self.root / folder).is_dir() else ():
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        for user in USERS:
            run = self.root / "home" / user / "run.sh"
            run.write_text(JOB)
            run.chmod(0o755)
            (run.parent / "again.sub").write_text(
                "executable = run.sh\narguments = exit 3 0\nlog = job.log\nrequest_memory = 100\nrequest_disk = 1000\n"
                "should_transfer_files = yes\nqueue\n"
            )
            nodes = "".join(f"JOB {node} again.sub\nRETRY {node} 1\n" for node in "AB")
            (run.parent / "again.dag").write_text(f"{nodes}PARENT A CHILD B\n")

    def submit(self) -> None:
        rng, user = self.random, self.random.choice(USERS)
        kind = rng.choice(JOBS).format(
            s=rng.randint(1, 14), code=rng.choice((0, 0, 1, 7)), signal=rng.choice((9, 11, 15))
        )
        self.jobs += 1
        lines = [
            "executable = run.sh",
            f"log = {rng.choice(('job.log', f'job{self.jobs}.log'))}",
            "request_memory = 100\nrequest_disk = 1000\nshould_transfer_files = yes",
            kind,
            f"queue {rng.randint(1, 4)}",
        ]
        path = self.root / "home" / user / f"{self.jobs}.sub"
        path.write_text("\n".join(lines) + "\n")
        self.note(f"submit as {user}: {kind!r} -> {self.as_user(user, f'condor_submit {path.name}').split()[-4:]}")

    def act_randomly(self, config: Path) -> None:
        rng, roll = self.random, self.random.random()
        if roll < 0.3:
            name = rng.choice(DAEMONS)
            self.note(f"kill {name}")
            self.kill(name, all_of_them=rng.random() < 0.3)
        elif roll < 0.36:
            self.freeze(rng.choice(FREEZABLE), rng.choice((2, 6, 12, 30)))
        elif roll < 0.39:
            self.note("power failure")
            self.kill("master", all_of_them=True)
            self.kill("", all_of_them=True)
            time.sleep(2)
            self.start(config)
        else:
            account, command = rng.choice(TOOLS)
            user, cluster = rng.choice(USERS), rng.randint(max(1, self.jobs - 5), max(1, self.jobs))
            job = f"{cluster}.{rng.randint(0, 2)}" if "now" in command else rng.choice((cluster, f"{cluster}.0"))
            command = command.format(job=job, other=f"{max(1, cluster - 1)}.0", owner=user, user=f"{user}@pool.example")
            self.note(command)
            self.run(command) if account == "root" else self.as_user(user, command)

    def note(self, action: str) -> None:
        self.actions.append(f"{time.strftime('%H:%M:%S', time.gmtime())} {action}")

    def collect(self, to: Path, seconds: float = 0) -> None:
        """Copy the files within this number of seconds."""
        files: list[tuple[Path, str]] = []
        for folder, name in ((LOG, "log"), (SPOOL, "spool")):
            paths = sorted((self.root / folder).iterdir())
            files += [(path, name) for path in paths if path.is_file() and not IGNORED.fullmatch(path.name)]
        for user in USERS:
            files += [(path, f"jobs/{user}") for path in sorted((self.root / "home" / user).glob("job*.log"))]
        self.random.shuffle(files)
        for path, name in files:
            (to / name).mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # the file was rotated meanwhile
                shutil.copy2(path, to / name / path.name)
            time.sleep(seconds / len(files))

    def cut_first_records(self, to: Path) -> None:
        """Cut the first records of one or two unrotated files, as an administrator does to free space."""
        parts = [path for path in sorted(to.rglob("*")) if path.is_file()]
        stems = Counter(path.with_name(path.name.partition(".")[0]) for path in parts)
        files = [path for path in parts if stems[path.with_name(path.name.partition(".")[0])] == 1]
        cuttable = [(path, ends) for path in files for name, ends in RECORD_ENDS if name.fullmatch(path.name)]
        for path, ends in self.random.sample(cuttable, min(self.random.randint(1, 2), len(cuttable))):
            data = path.read_bytes()
            offsets = [end.end() for end in ends.finditer(data)]
            if len(offsets) > 2:
                offset = self.random.choice(offsets[: len(offsets) // 2])
                path.write_bytes(data[offset:])
                self.note(f"cut {offset} bytes from the start of {path.relative_to(to)}")

    def dump_queries(self, to: Path) -> None:
        for name, command in (
            ("q.long", "condor_q -all -long"),
            ("slots.long", "condor_status -long"),
            ("userprio.long", "condor_userprio -all -long"),
        ):
            if text := self.run(command):
                (to / name).write_text(text)


def record(folder: Path, script: str, seed: int, to: Path, freezes: bool) -> None:
    pool = MixedPool(folder, script, seed, freezes)
    rng = pool.random
    to.mkdir(parents=True)
    config = to / "mixed.conf"
    config.write_text(CONFIG + "\n".join(rng.sample(SETTINGS, rng.randint(3, 9))) + "\n")
    pool.call("down", str(folder))
    pool.reset_files()
    pool.start(config)
    for user in USERS:
        pool.run(f"chown -R {user}: /home/{user}")
    until, action_share = time.time() + rng.randint(50, 70), rng.choice((0.3, 0.5, 0.7))
    for _ in range(3):
        pool.submit()
    while time.time() < until:
        pool.thaw()
        pool.act_randomly(config) if rng.random() < action_share else pool.submit()
        time.sleep(rng.choice((0, 1, 1, 2, 4)))
    if rng.random() < 0.5:
        pool.run("condor_release -all")
        time.sleep(12)
    pool.thaw(all_of_them=True)
    pool.dump_queries(to)
    if running := rng.random() < 0.3:
        pool.collect(to, rng.choice((0, 0, 8, 20)))
    pool.call("down", str(folder))
    if not running:
        pool.collect(to)
    if rng.random() < 0.25:
        pool.cut_first_records(to)
    (to / "done.txt").write_text("\n".join(pool.actions) + "\n")


def audit(folder: Path) -> str:
    """Return the violations and contradictions in a recording; empty if there are none."""
    with tempfile.TemporaryDirectory() as scratch:
        return _audit(folder, Path(scratch) / "audit.db")


def _audit(folder: Path, log: Path) -> str:
    poolbook = ["nice", str(Path(sys.executable).with_name("poolbook"))]
    command = [*poolbook, "import", str(folder), "-log", str(log), "-zone", "UTC"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode not in (0, 1):
        return process.stdout + process.stderr
    process = subprocess.run([*poolbook, "audit", str(log)], capture_output=True, text=True, check=False)
    sound = process.returncode == 0 and "contradiction" not in process.stdout.partition("\n")[0]
    return "" if sound else process.stdout + process.stderr


def main(arguments: Sequence[str], report: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-pool", type=Path, required=True, metavar="DIR", help="the directory of an HTCondor pool")
    parser.add_argument("-script", required=True, help="the script that runs the pool")
    parser.add_argument("-to", type=Path, required=True, metavar="FOLDER", help="where to write the recordings")
    parser.add_argument("-no-freeze", action="store_true", help="kill daemons, but do not freeze any")
    parser.add_argument("seeds", type=int, nargs="+", metavar="SEED")
    options = parser.parse_args(arguments)
    sound = 0
    for seed in options.seeds:
        folder = options.to / f"mixed-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        record(options.pool.resolve(), options.script, seed, folder, not options.no_freeze)
        with tarfile.open(options.to / f"mixed-{seed}.tar.xz", "w:xz") as archive:
            archive.add(folder, folder.name)
        findings = audit(folder)
        sound = 0 if findings else sound + 1
        verdict = "false positives" if findings else "sound"
        report(f"{seed}: {verdict} ({sound} sound in a row)\n{findings}".rstrip())
    return 0 if sound == len(options.seeds) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], lambda text: print(text, flush=True)))

"""Golden: the tools that Poolbook has under HTCondor's names alone print, and end, as HTCondor's did. Each capture is
of a queue with job 1.0 running, 2.0 held and 3.0 idle, as the log here is."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.htcondor import readable_time, status_lines
from poolbook.adapters.cli.main import TOOLS, main, tool_name
from poolbook.adapters.condor_tools.tool_options import usage_of
from poolbook.replay.virtual_world import Behaviour

from ..together import together
from .captures import DATA, capture, changed, whole

Call = Callable[..., tuple[str, str, int]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log whose job 1.0 runs, 2.0 is held and 3.0 waits."""
    path = str(tmp_path_factory.mktemp("queue") / "pool.db")
    work = {"executable": "/bin/work", "request_disk": 1024}
    with Pool.open(path, user="alice", behave=lambda launch: Behaviour(seconds=600)) as pool:
        pool.add_machine("node1", cpus=4, memory=8192)
        pool.submit(work)
        pool.submit({**work, "hold": True})
        pool.submit({**work, "requirements": "false"})
        pool.advance(10)
    return path


@pytest.fixture
def call(log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """What a tool prints, and its exit code, called in an empty folder."""
    monkeypatch.setenv("POOLBOOK_LOG", log)
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.chdir(tmp_path)

    def called(tool: str, *words: str) -> tuple[str, str, int]:
        monkeypatch.setattr("sys.argv", [f"condor_{tool}", *words])
        code = main([f"condor_{tool}", *words])
        out, err = capsys.readouterr()
        return out, err, code

    return called


# What depends on the words alone, and on the jobs' statuses.
@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("tail", "tail_badid"),
        ("tail", "tail_help"),
        ("tail", "tail_maxbytes_bad"),
        ("tail", "tail_maxbytes_none"),
        ("tail", "tail_noargs"),
        ("tail", "tail_nostdout"),
        ("tail", "tail_unknown"),
        ("transfer_data", "transfer_data_all_more"),
        ("transfer_data", "transfer_data_badconstraint"),
        ("transfer_data", "transfer_data_badopt"),
        ("transfer_data", "transfer_data_constraint"),
        ("transfer_data", "transfer_data_help"),
        ("transfer_data", "transfer_data_name"),
        ("transfer_data", "transfer_data_noargs"),
        ("transfer_data", "transfer_data_unknown"),
        ("transfer_data", "transfer_data_weird"),
        ("transfer_data", "transfer_data"),
        ("evicted_files", "evicted_files_bad"),
        ("evicted_files", "evicted_files_badid"),
        ("evicted_files", "evicted_files_list"),
        ("evicted_files", "evicted_files_noargs"),
        ("evicted_files", "evicted_files_none"),
        ("evicted_files", "evicted_files_two"),
        ("now", "now_bad"),
        ("now", "now_debug_last"),
        ("now", "now_flags"),
        ("now", "now_flags_last"),
        ("now", "now_held"),
        ("now", "now_help"),
        ("now", "now_minus"),
        ("now", "now_name"),
        ("now", "now_noargs"),
        ("now", "now_one"),
        ("now", "now_self"),
        ("now", "now_unknown"),
        ("now", "now_unknown_option"),
        ("now", "now_unknown_victim"),
        ("now", "now_victim_idle"),
        ("now", "now_victims"),
        ("ssh_to_job", "ssh_to_job_badid"),
        ("ssh_to_job", "ssh_to_job_badopt"),
        ("ssh_to_job", "ssh_to_job_held"),
        ("ssh_to_job", "ssh_to_job_help"),
        ("ssh_to_job", "ssh_to_job_idle"),
        ("ssh_to_job", "ssh_to_job_noargs"),
        ("ssh_to_job", "ssh_to_job_unknown"),
        ("check_userlogs", "check_userlogs_missing"),
        ("check_userlogs", "check_userlogs_none"),
        ("config_val", "config_val_badopt"),
        ("config_val", "config_val_default"),
        ("config_val", "config_val_help"),
        ("config_val", "config_val_macro"),
        ("config_val", "config_val_macro_path"),
        ("config_val", "config_val_name_none"),
        ("config_val", "config_val_noargs"),
        ("config_val", "config_val_nosuch"),
        ("config_val", "config_val_nosuch_v"),
        ("config_val", "config_val_subsystem_none"),
        ("config_val", "config_val_two"),
        ("config_val", "config_val_use_bad"),
        ("config_val", "config_val_use_list"),
        ("ping", "ping_bad"),
        ("ping", "ping_help"),
        ("ping", "ping_quiet"),
        ("qsub", "qsub_bad"),
        ("qsub", "qsub_help"),
        ("qsub", "qsub_version"),
        ("qedit", "qedit_attribute_bad"),
        ("qedit", "qedit_constraint_none"),
        ("qedit", "qedit_name_unknown"),
        ("qedit", "qedit_no_edit"),
        ("ssh_to_job", "ssh_to_job_none"),
        ("transfer_data", "transfer_data_addr_bad"),
        ("wait", "wait_num_bad"),
        ("wait", "wait_num_none"),
        ("wait", "wait_wait_none"),
        ("who", "who_bad"),
        ("who", "who_help"),
        ("version", "version_bad"),
        ("version", "version_arch"),
        ("qsub", "qsub"),
        ("htcondor", "htcondor_none"),
        ("htcondor", "htcondor_help"),
        ("htcondor", "htcondor_job"),
        ("htcondor", "htcondor_job_help"),
        ("htcondor", "htcondor_job_submit_none"),
        ("htcondor", "htcondor_job_submit_help"),
        ("htcondor", "htcondor_job_submit_missing"),
        ("htcondor", "htcondor_job_status_none"),
        ("htcondor", "htcondor_job_status_help"),
        ("htcondor", "htcondor_job_status_bad"),
        ("htcondor", "htcondor_job_status_unknown"),
        ("htcondor", "htcondor_job_resources_help"),
        ("htcondor", "htcondor_job_resources_unknown"),
        ("htcondor", "htcondor_noun_bad"),
        ("wait", "wait_badopt"),
        ("wait", "wait_help"),
        ("wait", "wait_noargs"),
        ("qedit", "qedit_badconstraint"),
        ("qedit", "qedit_badid"),
        ("qedit", "qedit_badname"),
        ("qedit", "qedit_badopt"),
        ("qedit", "qedit_dry"),
        ("qedit", "qedit_help"),
        ("qedit", "qedit_name"),
        ("qedit", "qedit_noargs"),
        ("qedit", "qedit_noconstraint"),
        ("qedit", "qedit_nouser"),
        ("qedit", "qedit_one"),
        ("qedit", "qedit_secure"),
        ("qedit", "qedit_bad"),
    ],
)
def test_it_prints_and_ends_as_the_real_one(tool: str, name: str, call: Call, tmp_path: Path) -> None:
    real = capture(name)
    if tool == "config_val":
        (tmp_path / "poolbook.conf").write_text("NEGOTIATOR_INTERVAL = 2\nSCHEDD_INTERVAL = 2\n")
    words = [word for word in real.argv if word not in ("|", "head", "-20")]
    out, err, code = call(tool, *words)
    wanted = "\n".join(out.split("\n")[:20]) + "\n" if name == "qsub" else out
    assert (wanted, err, code) == (real.out, real.err, real.exit_code)


def test_a_setting_is_told_as_the_real_one_tells_it(call: Call, tmp_path: Path) -> None:
    conf = tmp_path / "poolbook.conf"
    conf.write_text("\nCONDOR_HOST = 127.0.0.1\nSPOOL = /var/spool/condor\n")
    real = capture("config_val")
    assert call("config_val", *real.argv) == (real.out, real.err, real.exit_code)
    real = capture("config_val_v")
    out, err, code = call("config_val", *real.argv)
    told = out.replace(str(conf), "/etc/condor/config.d/90-base.conf").replace(
        "poolbook.conf", "/etc/condor/config.d/90-base.conf"
    )
    assert (told, err, code) == (real.out, real.err, real.exit_code)


@together(
    ("words", "out"),
    [
        (["-dump", "^NEGOTIATOR_INTERVAL$"], "NEGOTIATOR_INTERVAL = 7\n"),
        (["-summary"], "#\n# from poolbook.conf\n#\nNEGOTIATOR_INTERVAL = 7\n"),
        (["-dump", "-verbose", "^NEGOTIATOR_INTERVAL$"], " # expanded: 7\n # default: 60\n"),
    ],
)
def test_many_settings_are_told_together(
    words: list[str], out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poolbook.conf").write_text("NEGOTIATOR_INTERVAL = 7\n")
    assert main(["condor_config_val", *words]) == 0
    assert out in capsys.readouterr().out


# Users of a pool are known by the socket (FS in HTCondor's words), and nothing is encrypted: the methods differ.
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("ping_read", "READ command using (no encryption, no integrity, and FS) succeeded as {me} to local schedd.\n"),
        ("ping", "READ command using (no encryption, no integrity, and FS) succeeded as {me} to local collector.\n"),
        (
            "ping_noargs",
            "WRITE command using (no encryption, no integrity, and FS) succeeded as {me} to local schedd.\n",
        ),
        (
            "ping_command",
            "DC_NOP command using (no encryption, no integrity, and FS) succeeded as {me} to local schedd.\n",
        ),
    ],
)
def test_ping_says_what_a_user_may_ask(name: str, line: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.cli.ping.user_name", lambda: "dave")
    out, err, code = call("ping", *capture(name).argv)
    me = re.search(r"as (dave@\S*) to", out)
    assert me is not None
    assert (out, err, code) == (line.format(me=me[1]), "", capture(name).exit_code)


@pytest.mark.parametrize("name", ["ping_table", "ping_all_user", "ping_all", "ping_admin"])
def test_ping_refuses_what_is_for_owners_and_daemons(name: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.cli.ping.user_name", lambda: "dave")
    real = capture(name)
    out, err, code = call("ping", *real.argv)
    assert (err, code) == (real.err, real.exit_code)

    def refused(text: str) -> list[str]:
        return [line for line in text.splitlines() if "FAIL" in line or "failed" in line]

    if name != "ping_all":  # which was typed by the pool's own user, who may more
        assert refused(out) == refused(real.out)
    assert [line.split()[0] for line in out.splitlines()] == [line.split()[0] for line in real.out.splitlines()]


# htcondor


@pytest.mark.parametrize(
    ("name", "job", "measured"),
    [
        ("htcondor_job_status_running", (2, 0), {"MemoryUsage": 2}),
        ("htcondor_job_status_held", (3, 0), {}),
        ("htcondor_job_status_idle", (4, 0), {}),
    ],
)
def test_htcondor_tells_the_status_of_a_job_as_the_real_one(
    name: str, job: tuple[int, int], measured: dict[str, object]
) -> None:
    (ad,) = (ad for ad in whole("q_now_long") if (ad.eval("ClusterId"), ad.eval("ProcId")) == job)
    real = capture(name)
    said = real.err.splitlines()
    seconds = re.search(r"It was submitted ([0-9.]+) seconds ago", real.err)
    assert seconds is not None
    lines = list(status_lines(changed(ad, **measured), real.argv[-1], ad.eval("QDate") + float(seconds[1])))
    # The real one looks at the clock for each line.
    assert [re.sub(r"\.\d{6}|\.\d+(?= seconds)", "", line) for line in lines] == [
        re.sub(r"\.\d{6}|\.\d+(?= seconds)", "", line) for line in said
    ]


@together(
    ("seconds", "words"),
    [
        (0.0, "0.0 second"), (1.5, "1.5 seconds"), (60, "1 minute"), (150, "2 minutes"), (3600, "1 hour"),
        (90_000, "1 day 1 hour"), (200_000, "2 days 8 hours"),
    ],
)  # fmt: skip
def test_htcondor_tells_lengths_of_time_in_their_largest_unit(seconds: float, words: str) -> None:
    assert readable_time(seconds) == words


@together(
    ("words", "why"),
    [
        ("jobset list", "htcondor jobset is not supported: job sets are not implemented"),
        ("job template", "htcondor job template is not supported: "),
        ("job submit a.sub --resource slurm", "--resource slurm is not supported: "),
        ("job submit many.sub", "Can only submit one job at a time"),
        ("job submit a.sub --annex-name x", "HPC Annex functionality has not been enabled"),
        ("job status 1 2", "htcondor: error: unrecognized arguments: 2"),
    ],
)
def test_htcondor_says_what_it_does_not_do(words: str, why: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.sub").write_text("executable = /bin/true\nqueue\n")
    (tmp_path / "many.sub").write_text("executable = /bin/true\nqueue 2\n")
    out, err, code = call("htcondor", *words.split())
    assert (out, why in err, code) == ("", True, 2 if "unrecognized" in why else 1), err


# condor_qedit


@pytest.mark.parametrize(
    "name",
    [
        "qedit", "qedit_badexpr", "qedit_cluster", "qedit_constraint", "qedit_eq", "qedit_immutable", "qedit_jobids",
        "qedit_owner", "qedit_two", "qedit_user",
    ],
)  # fmt: skip
def test_an_edit_is_told_as_the_real_one_tells_it(name: str, call: Call) -> None:
    real = capture(name)
    words = [word.replace("65.0", "1.0") for word in real.argv]  # some were typed when job 65.0 ran
    assert call("qedit", *words) == (real.out, real.err, real.exit_code)


# Job event logs


def entry(number: int, proc: int) -> str:
    texts = {0: "Job submitted from host: <h>", 1: "Job executing on host: <h>", 6: "Image size of job updated: 1",
             5: "Job terminated.", 40: "Started transferring input files"}  # fmt: skip
    return f"{number:03} (0{proc // 100 or 56}.{proc % 100:03}.000) 2026-11-20 22:36:38 {texts[number]}\n...\n"


NUMBERS = {"SUBMIT": 0, "EXECUTE": 1, "IMAGE_SIZE": 6, "JOB_TERMINATED": 5, "FILE_TRANSFER": 40}


@pytest.mark.parametrize("name", ["check_userlogs", "check_userlogs_open"])
def test_job_event_logs_are_judged_as_by_the_real_one(name: str, call: Call, tmp_path: Path) -> None:
    real = capture(name)
    entries = re.findall(r"^Log event: ULOG_(\w+) \((\d+)\.(\d+)\.0\)", real.out, re.MULTILINE)
    text = "".join(
        f"{NUMBERS[kind]:03} ({int(cluster):03}.{int(proc):03}.000) 2026-11-20 22:36:38 It happened.\n...\n"
        for kind, cluster, proc in entries
    )
    (tmp_path / real.argv[0]).write_text(text)
    assert call("check_userlogs", *real.argv) == (real.out, real.err, real.exit_code)


# condor_qsub

DESCRIPTIONS = {
    "plain": (["q.sh", "a", "b"], ["executable = /bin/sh", "arguments = q.sh a b", "output = q.sh.o$(Cluster)"]),
    "named": (["-N", "n", "-o", "o.txt", "-j", "n", "q.sh"], ["output = o.txt", "error = n.e$(Cluster)"]),
    "joined": (["-N", "n", "-j", "oe", "q.sh"], ["output = n.o$(Cluster)", "error = n.o$(Cluster)"]),
    "a command": (["-b", "y", "/bin/echo", "hi"], ["arguments = \"-c '/bin/echo hi'\""]),
    "resources": (
        ["-l", "mem=2gb,nodes=1:ppn=2", "-l", "arch=X86_64", "q.sh"],
        ["request_memory = 2GB", "request_cpus = 2", 'requirements = Arch == "X86_64"'],
    ),
    "its environment": (["-v", "A=1,B", "-V", "q.sh"], ['environment = "A=1 B=True"', "getenv = True"]),
    "held": (["-h", "-p", "5", "q.sh"], ["hold = True", "priority = 5"]),
    "mail": (["-m", "ae", "-M", "me@x", "q.sh"], ["notification = Complete", "notify_user = me@x"]),
    "never again": (["-r", "n", "q.sh"], ["requirements = ( NumJobStarts == 0 )"]),
    "an array": (["-t", "1-5:2", "q.sh"], ["error = q.sh.e$(Cluster).3", "output = q.sh.o$(Cluster).5"]),
    "staged": (["-W", "stagein=a@h:b,c@h:d", "q.sh"], ["transfer_input_files = b,d"]),
}


@pytest.mark.parametrize("words", DESCRIPTIONS)
def test_qsub_writes_a_submit_file(words: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "q.sh").write_text("echo hi\n")
    argv, wanted = DESCRIPTIONS[words]
    out, err, code = call("qsub", "-test", "-print", *argv)
    assert (err, code) == ("", 0)
    assert set(wanted) <= set(out.splitlines())
    assert len(re.findall("^Queue$", out, re.MULTILINE)) == (3 if words == "an array" else 1)


def test_qsub_reads_the_options_in_a_script(call: Call, tmp_path: Path) -> None:
    (tmp_path / "q.sh").write_text("#!/bin/sh\n#$ -N fromscript -o there\n#PBS -p 7\necho hi\n")
    assert "output = there" in call("qsub", "-test", "-print", "q.sh")[0]
    out, _, _ = call("qsub", "-f", "q.sh", "-test", "-print")
    assert "priority = 7" in out
    assert out.endswith('Your job 0 ("fromscript") has been submitted\n')


def test_qsub_takes_a_script_from_its_input(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"echo piped\n")))
    out, _, code = call("qsub", "-test")
    (script,) = tmp_path.glob("STDIN_qsub.*")
    assert (script.read_text(), code) == ("echo piped\n", 0)
    assert out.endswith('Your job 0 ("STDIN") has been submitted\n')


# The tables


@pytest.mark.parametrize("tool", [name for name in TOOLS if name not in ("version", "evicted_files")])
def test_every_tool_tells_how_it_is_called(tool: str, call: Call) -> None:
    out, err, _ = call(tool, "-help") if tool not in ("check_userlogs", "chirp") else call(tool)
    assert usage_of(tool) in (out, err)[bool(err)]


def test_a_help_is_what_htcondors_tool_prints() -> None:
    files = {path.stem for path in Path(usage_path()).glob("*.txt")}
    assert files <= {*TOOLS, "qedit", "wait", "htcondor_job"}
    assert tool_name("htcondor") == "htcondor" and tool_name("now") == "condor_now"
    assert (DATA / "tail_help.txt").read_text().count(usage_of("tail")) == 1


def usage_path() -> str:
    import poolbook.adapters.condor_tools as package

    return str(Path(package.__path__[0]) / "usages")

"""Golden: the tools that Poolbook has only under HTCondor's names have the same output and exit code as HTCondor's.
Each capture is of a queue with job 1.0 running, 2.0 held and 3.0 idle, like the log here."""

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
from .captures import DATA, capture, captured_ads, changed

Call = Callable[..., tuple[str, str, int]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log with job 1.0 running, 2.0 held and 3.0 idle."""
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
    """Return a function that calls a tool in an empty folder and returns its output and exit code."""
    monkeypatch.setenv("POOLBOOK_LOG", log)
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.chdir(tmp_path)

    def called(tool: str, *arguments: str) -> tuple[str, str, int]:
        monkeypatch.setattr("sys.argv", [f"condor_{tool}", *arguments])
        code = main([f"condor_{tool}", *arguments])
        output, errors = capsys.readouterr()
        return output, errors, code

    return called


# Output that depends only on the arguments, and on the jobs' statuses.
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
def test_output_and_exit_code_equal_htcondors(tool: str, name: str, call: Call, tmp_path: Path) -> None:
    expected = capture(name)
    if tool == "config_val":
        (tmp_path / "poolbook.conf").write_text("NEGOTIATOR_INTERVAL = 2\nSCHEDD_INTERVAL = 2\n")
    arguments = [word for word in expected.argv if word not in ("|", "head", "-20")]
    output, err, code = call(tool, *arguments)
    expected_output = "\n".join(output.split("\n")[:20]) + "\n" if name == "qsub" else output
    assert (expected_output, err, code) == (expected.out, expected.err, expected.exit_code)


def test_a_setting_is_printed_as_by_htcondor(call: Call, tmp_path: Path) -> None:
    conf = tmp_path / "poolbook.conf"
    conf.write_text("\nCONDOR_HOST = 127.0.0.1\nSPOOL = /var/spool/condor\n")
    expected = capture("config_val")
    assert call("config_val", *expected.argv) == (expected.out, expected.err, expected.exit_code)
    expected = capture("config_val_v")
    output, err, code = call("config_val", *expected.argv)
    comparable = output.replace(str(conf), "/etc/condor/config.d/90-base.conf").replace(
        "poolbook.conf", "/etc/condor/config.d/90-base.conf"
    )
    assert (comparable, err, code) == (expected.out, expected.err, expected.exit_code)


@together(
    ("arguments", "expected"),
    [
        (["-dump", "^NEGOTIATOR_INTERVAL$"], "NEGOTIATOR_INTERVAL = 7\n"),
        (["-summary"], "#\n# from poolbook.conf\n#\nNEGOTIATOR_INTERVAL = 7\n"),
        (["-dump", "-verbose", "^NEGOTIATOR_INTERVAL$"], " # expanded: 7\n # default: 60\n"),
    ],
)
def test_many_settings_are_printed_together(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poolbook.conf").write_text("NEGOTIATOR_INTERVAL = 7\n")
    assert main(["condor_config_val", *arguments]) == 0
    assert expected in capsys.readouterr().out


# A pool's users are authenticated by the socket (HTCondor's FS), and nothing is encrypted: the methods differ.
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
def test_ping_reports_what_a_user_may_do(name: str, line: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.cli.ping.user_name", lambda: "dave")
    output, err, code = call("ping", *capture(name).argv)
    identity = re.search(r"as (dave@\S*) to", output)
    assert identity is not None
    assert (output, err, code) == (line.format(me=identity[1]), "", capture(name).exit_code)


@pytest.mark.parametrize("name", ["ping_table", "ping_all_user", "ping_all", "ping_admin"])
def test_ping_refuses_the_levels_of_owners_and_daemons(name: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.cli.ping.user_name", lambda: "dave")
    expected = capture(name)
    output, err, code = call("ping", *expected.argv)
    assert (err, code) == (expected.err, expected.exit_code)

    def refused(text: str) -> list[str]:
        return [line for line in text.splitlines() if "FAIL" in line or "failed" in line]

    if name != "ping_all":  # typed by the pool's own user, who has more rights
        assert refused(output) == refused(expected.out)
    assert [line.split()[0] for line in output.splitlines()] == [line.split()[0] for line in expected.out.splitlines()]


# htcondor


@pytest.mark.parametrize(
    ("name", "job", "measured"),
    [
        ("htcondor_job_status_running", (2, 0), {"MemoryUsage": 2}),
        ("htcondor_job_status_held", (3, 0), {}),
        ("htcondor_job_status_idle", (4, 0), {}),
    ],
)
def test_htcondor_job_status_prints_as_htcondors(name: str, job: tuple[int, int], measured: dict[str, object]) -> None:
    (ad,) = (ad for ad in captured_ads("q_now_long") if (ad.eval("ClusterId"), ad.eval("ProcId")) == job)
    expected = capture(name)
    error_lines = expected.err.splitlines()
    seconds = re.search(r"It was submitted ([0-9.]+) seconds ago", expected.err)
    assert seconds is not None
    lines = list(status_lines(changed(ad, **measured), expected.argv[-1], ad.eval("QDate") + float(seconds[1])))
    # HTCondor's tool reads the clock for each line.
    assert [re.sub(r"\.\d{6}|\.\d+(?= seconds)", "", line) for line in lines] == [
        re.sub(r"\.\d{6}|\.\d+(?= seconds)", "", line) for line in error_lines
    ]


@together(
    ("seconds", "expected"),
    [
        (0.0, "0.0 second"), (1.5, "1.5 seconds"), (60, "1 minute"), (150, "2 minutes"), (3600, "1 hour"),
        (90_000, "1 day 1 hour"), (200_000, "2 days 8 hours"),
    ],
)  # fmt: skip
def test_htcondor_prints_durations_in_their_largest_unit(seconds: float, expected: str) -> None:
    assert readable_time(seconds) == expected


@together(
    ("arguments", "why"),
    [
        ("snake run", "htcondor snake is not supported: `poolbook run` runs the jobs of a submit file"),
        ("job template", "htcondor job template is not supported: "),
        ("job submit a.sub --resource slurm", "--resource slurm is not supported: "),
        ("job submit many.sub", "Can only submit one job at a time"),
        ("job submit a.sub --annex-name x", "HPC Annex functionality has not been enabled"),
        ("job status 1 2", "htcondor: error: unrecognized arguments: 2"),
    ],
)
def test_htcondor_refuses_unsupported_verbs(arguments: str, why: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.sub").write_text("executable = /bin/true\nqueue\n")
    (tmp_path / "many.sub").write_text("executable = /bin/true\nqueue 2\n")
    output, err, code = call("htcondor", *arguments.split())
    assert (output, why in err, code) == ("", True, 2 if "unrecognized" in why else 1), err


# condor_qedit


@pytest.mark.parametrize(
    "name",
    [
        "qedit", "qedit_badexpr", "qedit_cluster", "qedit_constraint", "qedit_eq", "qedit_immutable", "qedit_jobids",
        "qedit_owner", "qedit_two", "qedit_user",
    ],
)  # fmt: skip
def test_an_edit_is_reported_as_by_htcondor(name: str, call: Call) -> None:
    expected = capture(name)
    arguments = [word.replace("65.0", "1.0") for word in expected.argv]  # some were typed while job 65.0 ran
    assert call("qedit", *arguments) == (expected.out, expected.err, expected.exit_code)


# Job event logs


def entry(number: int, proc: int) -> str:
    texts = {0: "Job submitted from host: <h>", 1: "Job executing on host: <h>", 6: "Image size of job updated: 1",
             5: "Job terminated.", 40: "Started transferring input files"}  # fmt: skip
    return f"{number:03} (0{proc // 100 or 56}.{proc % 100:03}.000) 2026-11-20 22:36:38 {texts[number]}\n...\n"


NUMBERS = {"SUBMIT": 0, "EXECUTE": 1, "IMAGE_SIZE": 6, "JOB_TERMINATED": 5, "FILE_TRANSFER": 40}


@pytest.mark.parametrize("name", ["check_userlogs", "check_userlogs_open"])
def test_job_event_logs_are_checked_as_by_htcondor(name: str, call: Call, tmp_path: Path) -> None:
    expected = capture(name)
    entries = re.findall(r"^Log event: ULOG_(\w+) \((\d+)\.(\d+)\.0\)", expected.out, re.MULTILINE)
    text = "".join(
        f"{NUMBERS[kind]:03} ({int(cluster):03}.{int(proc):03}.000) 2026-11-20 22:36:38 It happened.\n...\n"
        for kind, cluster, proc in entries
    )
    (tmp_path / expected.argv[0]).write_text(text)
    assert call("check_userlogs", *expected.argv) == (expected.out, expected.err, expected.exit_code)


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


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_qsub_writes_a_submit_file(case: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "q.sh").write_text("echo hi\n")
    argv, expected = DESCRIPTIONS[case]
    output, err, code = call("qsub", "-test", "-print", *argv)
    assert (err, code) == ("", 0)
    assert set(expected) <= set(output.splitlines())
    assert len(re.findall("^Queue$", output, re.MULTILINE)) == (3 if case == "an array" else 1)


def test_qsub_reads_the_options_in_a_script(call: Call, tmp_path: Path) -> None:
    (tmp_path / "q.sh").write_text("#!/bin/sh\n#$ -N fromscript -o there\n#PBS -p 7\necho hi\n")
    assert "output = there" in call("qsub", "-test", "-print", "q.sh")[0]
    output, _, _ = call("qsub", "-f", "q.sh", "-test", "-print")
    assert "priority = 7" in output
    assert output.endswith('Your job 0 ("fromscript") has been submitted\n')


def test_qsub_takes_a_script_from_its_input(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"echo piped\n")))
    output, _, code = call("qsub", "-test")
    (script,) = tmp_path.glob("STDIN_qsub.*")
    assert (script.read_text(), code) == ("echo piped\n", 0)
    assert output.endswith('Your job 0 ("STDIN") has been submitted\n')


# The tables


# condor_gpu_utilization, condor_mips and condor_kflops, which have no options, ignore -help and run.
@pytest.mark.parametrize("tool", sorted({*TOOLS} - {"version", "evicted_files", "gpu_utilization", "mips", "kflops"}))
def test_every_tool_has_a_help(tool: str, call: Call) -> None:
    output, err, _ = call(tool, "-help") if tool not in ("check_userlogs", "chirp") else call(tool)
    assert usage_of(tool) in (output, err)[bool(err)]


def test_a_help_equals_htcondors() -> None:
    files = {path.stem for path in Path(usage_path()).glob("*.txt")}
    assert files <= {*TOOLS, "qedit", "wait", "htcondor_job", "htcondor_jobset"}
    assert tool_name("htcondor") == "htcondor" and tool_name("now") == "condor_now"
    assert (DATA / "tail_help.txt").read_text().count(usage_of("tail")) == 1


def usage_path() -> str:
    import poolbook.adapters.condor_tools as package

    return str(Path(package.__path__[0]) / "usages")

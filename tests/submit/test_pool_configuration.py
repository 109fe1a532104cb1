"""Golden: the pool's configuration determines the defaults and domains of every submission."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.adapters.machine.host import host_name, user_name
from poolbook.adapters.simulation import ScenarioMachines, Simulation, play
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.config import ConfigError, read
from poolbook.domain.config.tables import defaults, names_without_default
from poolbook.domain.decide import Refusal
from poolbook.domain.decide.pool_configuration import configured_pool_settings, configured_submission_settings
from poolbook.domain.fold.evolve import fold
from poolbook.domain.state.pool_settings import DOMAINS, SET_TO_EMPTY, SUBMISSION
from poolbook.domain.state.state import State
from poolbook.domain.submit import parse_submit
from poolbook.replay.scenario import parse_scenario as read_play

from ..pool.real import Folder
from ..together import together
from .fakes import FakeFiles, facts

DOMAIN = Path(__file__).parents[2] / "domain" / "submit"
JOB = {"executable": "/bin/sleep", "arguments": "60"}
SUB = "executable = /bin/sleep\narguments = 0\nqueue\n"
DOMAINS_CONFIG = "UID_DOMAIN = my.dom\nFILESYSTEM_DOMAIN = files.dom\n"


# The table of settings


def test_the_table_has_exactly_the_settings_that_the_submit_package_reads() -> None:
    text = "".join(path.read_text() for path in DOMAIN.glob("*.py"))
    assert set(SUBMISSION) == {name for name in re.findall(r'"([A-Z][A-Z_]+)"', text) if name in SUBMISSION}
    read_names = re.findall(r'\bsetting\("([A-Z_]+)"\)', text)
    assert read_names and set(read_names) <= set(SUBMISSION)


def test_the_table_has_every_job_default_of_htcondor() -> None:
    names = [name.upper() for name in defaults() if name.startswith("job_default_")]
    assert names and set(names) <= set(SUBMISSION)
    assert {name: defaults()[name.lower()].value for name in names} == {name: SUBMISSION[name] for name in names}


@together(
    ("text", "expected"),
    [
        ("", {}),
        ("JOB_DEFAULT_REQUESTCPUS = 2", {"JOB_DEFAULT_REQUESTCPUS": "2"}),
        ("SUBMIT.JOB_DEFAULT_REQUESTCPUS = 3\nJOB_DEFAULT_REQUESTCPUS = 2", {"JOB_DEFAULT_REQUESTCPUS": "3"}),
        ("JOB_DEFAULT_LEASE_DURATION =", {"JOB_DEFAULT_LEASE_DURATION": SET_TO_EMPTY}),
        ("UID_DOMAIN =\nFILESYSTEM_DOMAIN =", {}),
        (DOMAINS_CONFIG, {"UID_DOMAIN": "my.dom", "FILESYSTEM_DOMAIN": "files.dom"}),
        ("X = my\nUID_DOMAIN = $(X).dom", {"UID_DOMAIN": "my.dom"}),
    ],
)
def test_a_pool_uses_the_configured_settings(text: str, expected: dict[str, str]) -> None:
    assert configured_submission_settings(read(text, subsystem="SUBMIT")) == expected


def test_every_setting_may_be_empty() -> None:
    names = [default.name for default in defaults().values()] + [
        name for name in names_without_default() if "<" not in name
    ]
    configuration = "".join(f"{name.rpartition('.')[2]} =\n" for name in names)
    in_force = configured_pool_settings(lambda daemon: read(configuration, subsystem=daemon))
    assert not {"UID_DOMAIN", "FILESYSTEM_DOMAIN"} & in_force.keys()
    settings = {name: text.strip() for name, text in in_force.items()}
    ad = parse_submit("executable = /bin/sleep\nqueue", facts(settings=settings), FakeFiles()).ad
    assert (ad["JobUniverse"], ad["JobNotification"], "RequestMemory" in ad) == ("5", "0", False)


@pytest.mark.parametrize("value", ["a b", "a@b", 'a"b'])
def test_an_invalid_domain_is_rejected_with_its_line(value: str) -> None:
    with pytest.raises(ConfigError, match=r"<text>:2: UID_DOMAIN = .*: give a domain, such as example.org"):
        configured_submission_settings(read(f"# a comment\nUID_DOMAIN = {value}"))
    with pytest.raises(Refusal, match="give a domain"):
        Pool.open(settings={"UID_DOMAIN": value})


def test_the_page_lists_every_setting_that_a_submission_reads() -> None:
    page = (DOMAIN.parents[1] / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \| .* \|$", page, re.MULTILINE))
    assert {name: rows[name] for name in SUBMISSION} == {name: f"`{default}`" for name, default in SUBMISSION.items()}
    assert set(DOMAINS) <= set(rows)


# Domains


def test_users_and_files_have_the_configured_domains() -> None:
    with Pool.open(config=DOMAINS_CONFIG + "RUNBENCHMARKS = False", user="alice", name="h") as pool:
        pool.add_machine("h")
        pool.submit(JOB | {"should_transfer_files": "NO"})
        (job,), (slot, *_) = pool.jobs(), pool.slots()
        assert (job["User"], job["FileSystemDomain"]) == ("alice@my.dom", "files.dom")
        assert "TARGET.FileSystemDomain == MY.FileSystemDomain" in str(job["Requirements"])
        assert (slot["UidDomain"], slot["FileSystemDomain"]) == ("my.dom", "files.dom")
        assert job["JobStatus"] == 2 and list(pool.state.submitters) == ["alice@my.dom"]
        assert pool.judge() == []


def test_jobs_keep_the_domain_that_was_configured_at_submission() -> None:
    with Pool.open(config="", user="alice", uid_domain="old.dom") as pool:
        pool.submit(JOB)
        pool.configure(DOMAINS_CONFIG)
        pool.submit(JOB)
        pool.add_machine("new")
        pool.configure("")
        pool.submit(JOB)
        pool.add_machine("old")
        assert [job["User"] for job in pool.jobs()] == ["alice@old.dom", "alice@my.dom", "alice@old.dom"]
        assert {slot["Machine"]: slot["UidDomain"] for slot in pool.slots()} == {"new": "my.dom", "old": "old.dom"}
        assert set(pool.state.submitters) == {"alice@old.dom", "alice@my.dom"}
        pool.hold(1, user="alice")
        assert [job["JobStatus"] for job in pool.jobs("ClusterId == 1")] == [5], "owners are compared without domain"
        assert pool.judge() == []


def test_a_machine_s_domain_changes_with_its_configuration() -> None:
    with Pool.open(config=DOMAINS_CONFIG, user="alice") as pool:
        pool.add_machine("h")
        pool.reconfigure("h", "UID_DOMAIN = your.dom")
        assert {(slot["UidDomain"], slot["FileSystemDomain"]) for slot in pool.slots()} == {("your.dom", "files.dom")}


def test_a_scenario_s_configuration_applies_to_its_users_and_jobs() -> None:
    config = f"{DOMAINS_CONFIG}JOB_DEFAULT_REQUESTMEMORY = 77\n"
    text = f"machine a\nconfig\n{config}end\nat 0:01 submit alice run=9:00\nuntil 1:00\n"
    scenario = read_play(text)
    log = open_log("memory:", create=True)
    simulation = Simulation(scenario, ScenarioMachines(scenario), log, lambda line: None)
    assert play(simulation)
    ad = simulation.engine.state.clusters[1].attributes(0)
    assert [ad[name] for name in ("User", "RequestMemory")] == ['"alice@my.dom"', "77"]
    assert {slot.ad["UidDomain"] for slot in simulation.engine.state.slots.values()} == {'"my.dom"'}


# Defaults of jobs


@pytest.mark.parametrize(
    ("setting", "attribute", "value"),
    [
        ("JOB_DEFAULT_REQUESTCPUS = 3", "RequestCpus", 3),
        ("JOB_DEFAULT_REQUESTMEMORY = 64", "RequestMemory", 64),
        ("JOB_DEFAULT_REQUESTDISK = 5000", "RequestDisk", 5000),
        ("JOB_DEFAULT_REQUESTGPUS = 2", "RequestGPUs", 2),
        ("JOB_DEFAULT_NOTIFICATION = ERROR", "JobNotification", 3),
        ("JOB_DEFAULT_LEASE_DURATION = 77", "JobLeaseDuration", 77),
        ("JOB_DEFAULT_LEASE_DURATION =", "JobLeaseDuration", None),
        ("DEFAULT_RANK = Memory", "Rank", "Memory"),
    ],
)
def test_a_pool_s_configuration_sets_the_defaults_of_its_jobs(setting: str, attribute: str, value: object) -> None:
    with Pool.open(config=setting, user="alice") as pool:
        pool.submit(JOB)
        (job,) = pool.jobs()
        actual = job.get(attribute)
        assert (actual if value is None or isinstance(value, int) else str(actual)) == value
        assert pool.judge() == []


# The commands


Call = Callable[..., tuple[str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command in a new folder and returns its output."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.lower().startswith(("_condor_", "poolbook_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "job.sub").write_text(SUB)

    def run_command(*arguments: str) -> tuple[str, str]:
        assert main(arguments) == 0
        output = capsys.readouterr()
        return output.out, output.err

    return run_command


def state(path: Path) -> State:
    log = open_log(str(path / "pool.db"), create=False)
    try:
        return fold(log.read())
    finally:
        log.close()


def test_a_pool_created_by_a_submission_has_the_domains_of_the_folder_s_configuration(
    tmp_path: Path, call: Call
) -> None:
    (tmp_path / "poolbook.conf").write_text(DOMAINS_CONFIG + "JOB_DEFAULT_REQUESTCPUS = 4\n")
    assert "RequestCpus = 4\n" in call("submit", "job.sub", "-dry-run:full", "-")[0]
    out, err = call("submit", "job.sub", "-verbose")
    assert 'FileSystemDomain = "files.dom"\n' in out and "not followed" not in err
    ad = state(tmp_path).clusters[1].attributes(0)
    assert (ad["User"], ad["RequestCpus"]) == (f'"{user_name()}@my.dom"', "4")
    (tmp_path / "poolbook.conf").write_text("UID_DOMAIN = your.dom\nJOB_DEFAULT_REQUESTCPUS = 5\n")
    out, err = call("submit", "job.sub")
    assert "WARNING: UID_DOMAIN = your.dom has no effect: the pool last read my.dom;" in err
    ad = state(tmp_path).clusters[2].attributes(0)
    assert (ad["User"], ad["RequestCpus"]) == (f'"{user_name()}@my.dom"', "5")


def test_without_a_configuration_the_domains_are_those_of_this_machine(tmp_path: Path, call: Call) -> None:
    assert f'FileSystemDomain = "{host_name()}"\n' in call("submit", "job.sub", "-dry-run:full", "-")[0]
    call("submit", "job.sub")
    ad = state(tmp_path).clusters[1].attributes(0)
    assert (ad["User"], ad["RequestCpus"]) == (f'"{user_name()}@{host_name()}"', "1")


def test_a_dry_run_is_rejected_if_the_log_is_unreadable(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("job.sub", "executable = /bin/true\nqueue\n")
    folder.write("pool.db", "no log, but a text " * 100)
    output = folder.call("submit", "job.sub", "-dry-run:full", "-", code=1)
    assert "pool.db" in output and "Dry-Run" not in output


def test_run_uses_the_configuration_that_it_names(tmp_path: Path, call: Call) -> None:
    (tmp_path / "poolbook.conf").write_text("UID_DOMAIN = other.dom\nJOB_DEFAULT_REQUESTMEMORY = 17\n")
    (tmp_path / "pool.conf").write_text(DOMAINS_CONFIG + "JOB_DEFAULT_REQUESTDISK = 2000\nRUNBENCHMARKS = False\n")
    _, err = call("run", "job.sub", "-config", "pool.conf", "-quiet")
    assert "not followed" not in err
    out, _ = call("history", "-af", "User", "RequestDisk", "RequestMemory", "FileSystemDomain")
    assert out.split() == [f"{user_name()}@my.dom", "2000", "128", "files.dom"]


def test_submissions_to_a_server_use_the_server_s_configuration(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("job.sub", "executable = /bin/sleep\narguments = 300\nrequest_disk = 1 MB\nqueue\n")
    folder.write("pool.conf", DOMAINS_CONFIG + "JOB_DEFAULT_REQUESTMEMORY = 16\nSTART = false\nRUNBENCHMARKS = False\n")
    folder.write("poolbook.conf", "JOB_DEFAULT_REQUESTMEMORY = 999\nJOB_DEFAULT_REQUESTCPUS = 2\n")
    try:
        with folder.served("-config", "pool.conf"):
            dry_run = folder.call("submit", "job.sub", "-dry-run:full", "-")
            assert "RequestMemory = 16\n" in dry_run and 'FileSystemDomain = "files.dom"' in dry_run
            output = folder.call("submit", "job.sub")
            assert "JOB_DEFAULT_REQUESTMEMORY = 999 has no effect: the pool last read 16;" in output
            assert "REQUESTCPUS" not in output
            folder.write("pool.conf", "JOB_DEFAULT_REQUESTMEMORY = 32\nSTART = false\nRUNBENCHMARKS = False\n")
            folder.call("reconfig")
            folder.call("submit", "job.sub")
            jobs = folder.call("q", "-af", "User", "RequestMemory", "RequestCpus").splitlines()
            assert jobs == [f"{user_name()}@my.dom 16 2", f"{user_name()}@{host_name()} 32 2"]
            domains = folder.call("status", "-af", "UidDomain", "FileSystemDomain").split()
            assert domains == [host_name(), host_name()]
        assert "sound" in folder.call("verify")
    finally:
        folder.kill_everything()


def test_pool_open_accepts_the_domains_as_settings() -> None:
    with Pool.open(settings={"UID_DOMAIN": "set.dom", "JOB_DEFAULT_REQUESTCPUS": 2}, user="alice") as pool:
        pool.submit(JOB)
        (job,) = pool.jobs()
        assert (job["User"], job["RequestCpus"]) == ("alice@set.dom", 2)
        assert set(DOMAINS) <= set(pool.state.settings)

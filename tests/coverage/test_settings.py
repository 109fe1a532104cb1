"""golden: every HTCondor setting is implemented, rejected, or reported as unsupported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook import ConfigError, ConfigWarning, Pool, Refusal
from poolbook.adapters.cli.main import main
from poolbook.adapters.machine.cron_settings import BENCHMARKS, cron_list
from poolbook.adapters.machine.sensors import Sensors
from poolbook.adapters.runtime.configuration import load
from poolbook.domain.config import Configuration, is_known, is_supported, read
from poolbook.domain.config.param_info import PREDEFINED
from poolbook.domain.config.tables import defaults, names_without_default
from poolbook.domain.coverage.settings import UNKNOWN_EFFECT, describe_effect, sections_of
from poolbook.domain.negotiator.negotiator_settings import configured_settings
from poolbook.domain.startd import provisioning
from poolbook.domain.startd.startd_settings import SETTINGS
from poolbook.domain.state import pool_settings as pools

from ..pool.real import Folder
from ..together import together
from . import code

pytestmark = pytest.mark.usefixtures("told_speed")

EVERYTHING = """
SLOT_TYPE_1 = cpus=1
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1_PARTITIONABLE = true
CONSUMPTION_POLICY = true
MACHINE_RESOURCE_Cogs = 2
MACHINE_RESOURCE_gpus @=end
   DetectedGPUs = 1
@end
STARTD_CRON_JOBLIST = date
STARTD_CRON_date_EXECUTABLE = /bin/date
STARTD_CRON_date_PERIOD = 60
GROUP_NAMES = a
GROUP_PRIO_FACTOR_a = 3
GROUP_QUOTA_a = 1
GROUP_QUOTA_DYNAMIC_a = 0.5
GROUP_ACCEPT_SURPLUS_a = true
GROUP_AUTOREGROUP_a = true
"""
SUBMISSION = [name for name in pools.SUBMISSION if name != "JOB_DEFAULT_NOTIFICATION"]  # it requests mail
VOLUME = provisioning.ExecuteVolume("disk", 10**9, 10**9)
EQUIPMENT = provisioning.Equipment(4, 8192, 10**6, {"": VOLUME})


@pytest.fixture
def read_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Yield the names that the test reads from configurations."""
    names: set[str] = set()
    original = Configuration._key

    def record_and_find(self: Configuration, name: str) -> str | None:
        names.add(name)
        return original(self, name)

    monkeypatch.setattr(Configuration, "_key", record_and_find)
    yield names


def test_every_setting_that_the_code_reads_is_listed_as_implemented(read_names: set[str]) -> None:
    configuration = read(EVERYTHING)
    provisioning.machine_offer("1", "node1", configuration, EQUIPMENT)
    configured_settings(configuration)
    cron_list(configuration)
    cron_list(configuration, BENCHMARKS)
    Sensors.from_configuration(configuration).close()
    rejected = {"SLOT_TYPE_0", "NUM_SLOTS_TYPE_0"}
    custom = {"Cogs", "date"}
    others = {name for name in read_names - rejected if not custom.intersection(name.split("_"))}
    assert {name for name in others if not is_supported(name)} == set()


@together("name", [*SETTINGS, *provisioning.POLICY, *pools.NEGOTIATOR, *pools.SETTINGS, *SUBMISSION])
def test_the_tables_of_settings_contain_implemented_names(name: str) -> None:
    spellings = provisioning.POLICY[name][0] if name in provisioning.POLICY else (name,)
    assert all(map(is_supported, spellings))


@together("name", [name for _, names in sections_of("followed") for name in names])
def test_a_name_listed_as_implemented_is_in_the_code(name: str) -> None:
    assert code.contains_name(name)


def manual(kind: str) -> list[str]:
    sections_of = (line.split("\t") for line in (code.DATA / "names.tsv").read_text().splitlines()[1:])
    return [name for row_kind, name, _ in sections_of if row_kind == kind]


def unreported(names: list[str]) -> list[str]:
    """Return the names that are neither supported nor in a warning when a configuration sets them."""
    unsupported = [name for name in names if not is_supported(name) and "." not in name and name not in PREDEFINED]
    warnings = read("\n".join(f"{name} = 7" for name in unsupported)).warnings
    reported = set(re.findall(r"[\w-]+", " ".join(warnings)))
    return [name for name in unsupported if name not in reported]


def test_every_setting_in_the_five_documents_is_supported_or_reported() -> None:
    assert unreported([re.sub("<[^>]*>", "1", name) for name in manual("setting")]) == []


def test_every_setting_in_the_manual_is_supported_or_reported() -> None:
    names = (code.DATA / "settings.txt").read_text().split()
    plain = [name.replace("<SUBSYS>", "SCHEDD").replace("<DaemonName>", "SCHEDD").partition("[")[0] for name in names]
    assert unreported([re.sub("<[^>]*>|[*]", "1", name) for name in plain]) == []


def test_every_default_is_known_and_most_unsupported_settings_have_a_subject() -> None:
    names = {default.name.rpartition(".")[2] for default in defaults().values()} | set(names_without_default())
    assert all(is_known(name) for name in names if "<" not in name)
    without = [name for name in sorted(names) if not is_supported(name) and describe_effect(name) == UNKNOWN_EFFECT]
    assert len(without) < len(names) / 6


@together(
    ("text", "message"),
    [
        ("SCHEDD_QUERY_WORKERS = 5%", "has no effect: Poolbook does not implement this"),
        (
            "DAEMON_LIST = MASTER, TRANSFERER\nHA_LOCK_URL = a",
            "DAEMON_LIST, HA_LOCK_URL have no effect: Poolbook does not",
        ),
        (
            "DAEMON_LIST = MASTER, SCHEDD, DEFRAG",
            "DAEMON_LIST has no effect: Poolbook does not implement this",
        ),
        ("DEFRAG_STATE_FILE = /tmp/x", "DEFRAG_STATE_FILE has no effect"),
        (
            "STATE_FILE = /tmp/x\nREPLICATION_INTERVAL = 7\nHAD2.REPLICATION_SOCKET_NAME = r2",
            "STATE_FILE, REPLICATION_INTERVAL, HAD2.REPLICATION_SOCKET_NAME have no effect",
        ),
        ("STARTD.STARTD_LOCK = lock", "STARTD.STARTD_LOCK has no effect"),
        ("SLOT1_CPU_AFFINITY = 1", "SLOT1_CPU_AFFINITY has no effect"),
        (
            "START_VANILLA_UNIVERSE = 3",
            "START_VANILLA_UNIVERSE: Poolbook does not enforce which jobs the schedd starts yet, and would allow",
        ),
        ("STARTD_ATTRS = HasVM\nHasVM = true", "HasVM: slots would advertise what Poolbook does not support"),
        ("STARTD_ATTRS = HasVM\nSLOT1_HasVM = true", "HasVM: slots would advertise"),
        ("START = HasVM", "START reads HasVM, which no slot has"),
        ("Able = HasVM\nSTART = $(Able)", "START reads HasVM, which no slot has"),
        ("use FEATURE : HPC_ANNEX", "use FEATURE:HPC_ANNEX (HPC_ANNEX_ENABLED, "),
        ("use FEATURE : GPUs\nSTARTD_JOB_ATTRS = $(STARTD_JOB_ATTRS) x", "STARTD_JOB_ATTRS has no effect"),
        ("TRANSFORM_FACTORY_AND_JOB_ADS = true", "TRANSFORM_FACTORY_AND_JOB_ADS has no effect"),
    ],
)
def test_a_setting_without_effect_causes_a_warning(text: str, message: str) -> None:
    (warning,) = read(text).warnings
    assert message in warning


@together(
    "text",
    [
        "",
        "START = true\nSLOT1_START = false\nSLOT_TYPE_1_START = true",
        "use POLICY : Desktop",
        "use FEATURE : StaticSlots",
        "use FEATURE : GPUs",  # its STARTD_JOB_ATTRS are what slots publish anyway
        "SPOOL = 7\nSTART = $(SPOOL) > 0",  # another setting reads it
        "SPOOL = 1\nMine = $(SPOOL)\nSTART = $(Mine) > 0",  # a setting reads it indirectly
        "HIBERNATE = 1\nSTARTD_ATTRS = HIBERNATE",  # as an attribute
        "SYSTEM_PERIODIC_HOLD =",
        "NEGOTIATOR_USE_WEIGHTED_DEMAND = true",  # HTCondor's default
        "MINUTE = 60",
        "MY_OWN_THING = 3",
        "GROUP_NAMES = a\nGROUP_QUOTA_a = 3\nGROUP_ACCEPT_SURPLUS_a = true\nGROUP_QUOTA_MAX_ALLOCATION_ROUNDS = 2",
        'START = Note != "HasVM"',
        "DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD",
        "DAEMON_LIST = $(DAEMON_LIST) DEFRAG\nDEFRAG_INTERVAL = 300",
    ],
)
def test_a_setting_that_is_supported_read_or_at_its_default_causes_no_warning(text: str) -> None:
    assert read(text).warnings == []


def test_one_warning_names_each_setting_once() -> None:
    names = [name for name in manual("setting") if not is_supported(name) and "<" not in name and "." not in name]
    (warning,) = read("\n".join(f"{name} = 7" for name in names)).warnings
    words = warning.replace(":", " ").replace(",", " ").split()
    assert [name for name in names if words.count(name) != 1] == []


# Commands


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("names", [name for _, names in sections_of("unenforced") for name in names])
def test_run_rejects_a_setting_that_it_does_not_enforce(
    names: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = names.replace("<SUBSYS>", "SCHEDD").replace("<", "").replace(">", "")
    (folder / "pool.conf").write_text(f"{name} = 1\n")
    (folder / "job.sub").write_text("executable = /bin/true\nqueue\n")
    assert main(["run", "job.sub", "-config", "pool.conf"]) == 1
    errors = capsys.readouterr().err
    assert f"{name}: Poolbook does not enforce" in errors
    assert "-ignore-unenforced" in errors


def test_run_with_ignore_unenforced_warns_about_each_setting_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pool.conf").write_text("START_VANILLA_UNIVERSE = 1\nSCHEDD_QUERY_WORKERS = 5\n")
    (folder / "job.sub").write_text("executable = /bin/true\nqueue\n")
    assert main(["run", "job.sub", "-config", "pool.conf", "-ignore-unenforced"]) == 0
    output = "".join(capsys.readouterr())
    assert output.count("START_VANILLA_UNIVERSE") == output.count("SCHEDD_QUERY_WORKERS") == 1


def test_pool_open_rejects_a_setting_that_it_does_not_enforce() -> None:
    with pytest.raises(ConfigError, match=r"START_VANILLA_UNIVERSE: .* not enforce .* pass ignore_unenforced=True"):
        Pool.open("memory:", config="START_VANILLA_UNIVERSE = 1")
    with pytest.raises(Refusal, match="START_VANILLA_UNIVERSE: Poolbook does not enforce"):
        Pool.open("memory:", settings={"START_VANILLA_UNIVERSE": 1})
    with pytest.warns(ConfigWarning, match="START_VANILLA_UNIVERSE"):
        Pool.open("memory:", config="START_VANILLA_UNIVERSE = 1", ignore_unenforced=True).close()


def test_pool_open_warns_about_an_unsupported_setting() -> None:
    with pytest.warns(ConfigWarning, match="HA_LOCK_URL has no effect"):
        Pool.open("memory:", config="HA_LOCK_URL = a").close()


def test_set_rejects_a_setting_that_the_pool_does_not_enforce(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "job.sub").write_text("executable = /bin/true\nqueue\n")
    assert main(["run", "job.sub", "-set", "START_VANILLA_UNIVERSE=1"]) == 2
    assert (
        "-set START_VANILLA_UNIVERSE: Poolbook does not enforce which jobs the schedd starts yet"
        in capsys.readouterr().err
    )


def test_the_config_command_warns_about_an_unsupported_setting(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pool.conf").write_text("HAD_UPDATE_INTERVAL = 7\n")
    assert main(["config", "-config", "pool.conf", "HAD_UPDATE_INTERVAL"]) == 0
    output = capsys.readouterr()
    assert output.out == "7\n"
    assert "HAD_UPDATE_INTERVAL has no effect: Poolbook does not implement this yet" in output.err


def test_settings_in_the_environment_are_read_like_those_in_a_file() -> None:
    configuration = load(text="", environment={"_CONDOR_HA_LOCK_URL": "a:1"})
    assert [setting.name for setting in configuration.unsupported_settings()] == ["HA_LOCK_URL"]


def test_settings_in_the_environment_apply_without_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "job.sub").write_text("executable = /bin/true\nqueue\n")
    monkeypatch.setenv("_CONDOR_SCRATCH_DIR", "/tmp")  # a job's variable, not a setting
    assert main(["run", "job.sub", "-quiet"]) == 0
    monkeypatch.setenv("_CONDOR_START_VANILLA_UNIVERSE", "3")
    assert main(["run", "job.sub", "-quiet"]) == 1
    assert "START_VANILLA_UNIVERSE: Poolbook does not enforce" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["a file", "the environment"])
def test_submit_without_a_server_warns_about_an_unsupported_setting(
    source: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "job.sub").write_text("executable = /bin/true\nqueue\n")
    if source == "a file":
        (folder / "poolbook.conf").write_text("HA_LOCK_URL = a:1\n")
    else:
        monkeypatch.setenv("_CONDOR_HA_LOCK_URL", "a:1")
    assert main(["submit", "job.sub"]) == 0
    assert capsys.readouterr().err.count("HA_LOCK_URL has no effect: Poolbook does not implement this") == 1


def test_submit_to_a_server_does_not_warn_about_an_unsupported_setting(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("job.sub", "executable = /bin/true\nqueue\n")
    folder.write("poolbook.conf", "HA_LOCK_URL = a:1\n")
    with folder.served():
        assert "HA_LOCK_URL" not in folder.call("submit", "job.sub")

"""golden: ``poolbook config`` with files, an environment and commands."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime.config_sources import config_files
from poolbook.adapters.runtime.configuration import load
from poolbook.domain.config import ConfigError

from ..together import together

CONF = """\
use POLICY : Desktop
SLOT_TYPE_2_START = $(START) && NumJobStarts == 0
HERE @=end
  one
  two
@end
BAD = $INT(word)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.lower().startswith(("_condor_", "poolbook_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "poolbook.conf").write_text(CONF)
    return tmp_path


def run_config(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["config", *arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_a_name_prints_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_config(capsys, "ContinueIdleTime", "kill") == (0, "5 * 60\nFalse\n", "")


def test_verbose_prints_the_line_and_the_raw_value_as_condor_config_val_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run_config(capsys, "-verbose", "WANT_VACATE", "KILL", "HERE")
    assert code == 0
    assert out == (
        "WANT_VACATE = ifThenElse(JobStart =!= UNDEFINED, (time() - JobStart), 0) > 600 || (TARGET.JobUniverse == 5)\n"
        " # at: poolbook.conf, line 1, use POLICY:DESKTOP+6\n"
        " # raw: WANT_VACATE = $(ActivationTimer) > 600 || $(IsVanilla)\n"
        "\n"
        "KILL = False\n"
        " # at: <Default>\n"
        " # raw: KILL = False\n"
        "\n"
        "HERE @=end\n"
        "   one\n"
        "   two\n"
        "@end\n"
        " # at: poolbook.conf, line 6\n"
        " # raw: \n"
        " #   HERE = one\n"
        " #   two\n"
        "\n"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-raw", "ContinueIdleTime"), "5 * $(MINUTE)\n"),
        (("-default", "START"), "True\n"),
        (("-macro", "$INT(MaxSuspendTime) seconds"), "600 seconds\n"),
        (("-slot", "3:2", "-raw", "START"), "$(START) && NumJobStarts == 0\n"),
        (("-slot", "3", "-raw", "IS_OWNER"), "(START =?= False)\n"),
        (("-dump", "^continueI", "^KILL$"), "ContinueIdleTime = 5 * $(MINUTE)\nKILL = False\n"),
        (
            ("-dump", "-expanded", "^ContinueIdle", "^BAD$"),
            "BAD = (error: BAD: $INT(word): the first argument must be an integer or an integer expression)\n"
            "ContinueIdleTime = 5 * 60\n",
        ),
        (("-dump", "-verbose", "^HighLoad"), "HighLoad = 0.5\n # at: <Default>\n # expanded: 0.5\n # default: 0.5\n"),
        (("-subsystem", "schedd", "IsSchedd"), "true\n"),
        (("-local-name", "me", "LOCALNAME"), "me\n"),
        (("use", "ROLE:personal"), None),
        (("use", "POLICY"), None),
    ],
)
def test_other_options(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: str | None) -> None:
    code, out, err = run_config(capsys, *arguments)
    assert (code, err) == (0, "")
    assert out == expected if expected is not None else out.startswith(f"use {arguments[1].split(':')[0]}")


def test_an_undefined_name_is_reported_with_a_similar_name(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_config(capsys, "SUSPNED", "NOTHING_LIKE_IT", "CLAIM_WORKLIFE", "KILL")
    assert (code, out) == (1, "False\n")
    assert err == (
        "Not defined: SUSPNED; did you mean SUSPEND?\nNot defined: NOTHING_LIKE_IT\nNot defined: CLAIM_WORKLIFE\n"
    )


@together(
    "name", ["SYSTEM_PERIODIC_HOLD", "system_periodic_hold", "GROUP_NAMES", "GROUP_QUOTA_any", "SUBMIT_REQUIREMENT_A"]
)
def test_a_known_setting_without_a_value_is_not_defined_and_not_its_own_suggestion(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_config(capsys, name) == (1, "", f"Not defined: {name}\n")


@together(
    ("text", "warning"),
    [
        ("SYSTEM_PERIODIC_HOLD = $(JobStatus != 3) && (JobUniverse =?= 5)", "SYSTEM_PERIODIC_HOLD is not a valid"),
        ("SYSTEM_PERIODIC_HOLD_NAMES = A\nSYSTEM_PERIODIC_HOLD_A = (1", "SYSTEM_PERIODIC_HOLD_A is not a valid"),
        ("SYSTEM_PERIODIC_REMOVE = x &&", "SYSTEM_PERIODIC_REMOVE is not a valid expression"),
        ("SYSTEM_PERIODIC_REMOVE = true\nSYSTEM_PERIODIC_REMOVE_REASON = (", "SYSTEM_PERIODIC_REMOVE_REASON is not"),
        ("SYSTEM_ON_VACATE_COOL_DOWN = 1 +", "SYSTEM_ON_VACATE_COOL_DOWN is not a valid expression"),
        ("SUBMIT_REQUIREMENT_NAMES = A\nSUBMIT_REQUIREMENT_A = (", "SUBMIT_REQUIREMENT_A is not a valid expression"),
        ("JOB_TRANSFORM_NAMES = A\nJOB_TRANSFORM_A = REQUIREMENTS (", "JOB_TRANSFORM_A is not a valid transform"),
        ("START_LOCAL_UNIVERSE = (", "START_LOCAL_UNIVERSE is not a valid expression"),
        ("START_SCHEDULER_UNIVERSE = a b", "START_SCHEDULER_UNIVERSE is not a valid expression"),
        ("MAX_TRANSFER_INPUT_MB = (", "MAX_TRANSFER_INPUT_MB is not a valid expression"),
        ("GROUP_SORT_EXPR = (", "GROUP_SORT_EXPR = (: expected an operand"),
        ("NEGOTIATOR_JOB_CONSTRAINT = a b", "NEGOTIATOR_JOB_CONSTRAINT = a b: expected the end"),
        ("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT = (", "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT = (: expected an operand"),
        ("NEGOTIATOR_SLOT_CONSTRAINT = (", "NEGOTIATOR_SLOT_CONSTRAINT = (: expected an operand"),
    ],
)
def test_an_invalid_expression_causes_a_warning(
    text: str, warning: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "poolbook.conf").write_text(f"{text}\n")
    code, _, err = run_config(capsys, "KILL")
    assert (code, warning in err) == (0, True), err


def test_without_a_name_all_settings_in_files_are_printed(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "poolbook.conf").write_text("include : more.conf\nB = 2\n")
    (folder / "more.conf").write_text("A = 1\nKILL = False\n")
    assert run_config(capsys) == (0, "#\n# from more.conf\n#\nA = 1\n#\n# from poolbook.conf\n#\nB = 2\n", "")
    (folder / "poolbook.conf").write_text("")
    assert "all settings have their defaults" in run_config(capsys)[1]


def test_json_has_all_details_of_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_config(capsys, "--json", "CONTINUE", "NONE")
    settings = json.loads(out)
    assert code == 1
    assert settings["CONTINUE"]["template"] == "POLICY:DESKTOP+8"
    assert settings["CONTINUE"]["default"] == "True"
    assert settings["NONE"]["raw"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "A = $(B)\nB = $(A)\n",
            "poolbook config: poolbook.conf:1: A: circular macros: $(a) -> $(b) -> $(a)",
        ),
        ("\nSTART = Cpus >", "poolbook config: poolbook.conf:2: START: Cpus > is not an expression"),
        ("include : lacks", "poolbook config: poolbook.conf:1: include : lacks: No such file or directory"),
        (
            "include : /no/such/program |",
            "poolbook config: poolbook.conf:1: include : /no/such/program |: No such file",
        ),
    ],
)
def test_an_invalid_configuration_is_rejected_with_its_line(
    capsys: pytest.CaptureFixture[str], folder: Path, text: str, message: str
) -> None:
    (folder / "poolbook.conf").write_text(text)
    code, _, err = run_config(capsys, "START")
    assert code == 1
    assert err.startswith(message)


def test_a_misspelled_setting_causes_a_warning(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "poolbook.conf").write_text("SUSPNED = true\n")
    code, out, err = run_config(capsys, "KILL")
    assert (code, out) == (0, "False\n")
    assert err == "poolbook config: warning: poolbook.conf:1: SUSPNED: no such setting; did you mean SUSPEND?\n"


def test_named_files_override_poolbook_config_and_that_overrides_the_file_in_the_folder(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    for name in "abc":
        (folder / f"{name}.conf").write_text(f"X = $(X){name}\n")
    assert load().source("START").file == "poolbook.conf"
    monkeypatch.setenv("POOLBOOK_CONFIG", "a.conf")
    assert load().get("X") == "a"
    assert load(["b.conf", "c.conf"]).get("X") == "bc"
    monkeypatch.setenv("_CONDOR_X", "environment")
    assert load(["b.conf"]).get("X") == "environment"
    monkeypatch.delenv("POOLBOOK_CONFIG")
    (folder / "poolbook.conf").unlink()
    assert config_files() == []
    assert load().get("START") == "True"


def test_an_unreadable_file_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"^gone.conf: the configuration cannot be read: No such file or directory"):
        load(["gone.conf"])


def test_commands_run_without_a_shell_and_their_exit_code_is_ignored(folder: Path) -> None:
    script = folder / "script"
    script.write_text('#!/bin/sh\necho "A$# = $*"\nexit 3\n')
    script.chmod(0o755)
    (folder / "poolbook.conf").write_text(
        f"include : {script} $(MINUTE) ; x |\n"
        f"""include command : "{script} 'a b'"\n"""
        f"include command into kept : {script} y z\n"
    )
    assert [load().get(f"A{number}") for number in (1, 2, 3)] == ["a b", "y z", "60 ; x"]
    assert (folder / "kept").read_text() == "A2 = y z\n"
    script.unlink()
    (folder / "poolbook.conf").write_text(f"include command into kept : {script} y z\n")
    assert str(load().source("A2")) == "kept, line 1"


def test_files_of_a_local_directory_are_read_in_alphabetical_order(folder: Path) -> None:
    (folder / "config.d").mkdir()
    for name in ("20-b", "10-a", "30-c~", ".hidden", "40.rpmsave"):
        (folder / "config.d" / name).write_text(f"X = $(X) {name}\n")
    (folder / "poolbook.conf").write_text("LOCAL_CONFIG_DIR = config.d\n")
    assert load().get("X").split() == ["10-a", "20-b"]


def test_detected_values_are_known_when_the_files_are_read(folder: Path) -> None:
    (folder / "poolbook.conf").write_text("X = $INT(DETECTED_CPUS) $(OPSYS) $(CONFIG_ROOT) $(HOSTNAME)\n")
    cpus, system, root, host = load().get("X").split()
    assert int(cpus) > 0
    assert (system, Path(root)) == ("LINUX", folder)
    assert host == subprocess.run(["hostname", "-s"], capture_output=True, text=True).stdout.strip()
    assert load(detected={"DETECTED_CPUS": "64"}).integer("NUM_CPUS", 0) == 64


def test_the_environment_limits_detected_cores_but_not_given_ones(folder: Path) -> None:
    (folder / "poolbook.conf").write_text("COUNT_HYPERTHREAD_CPUS = $(HYPER:true)\n")
    limited = {"OMP_THREAD_LIMIT": "1"}
    assert load(environment=limited).integer("NUM_CPUS", 0) == 1
    configuration = load(environment=limited | {"_CONDOR_HYPER": "false"}, detected={"DETECTED_CPUS": "64"})
    assert configuration.integer("NUM_CPUS", 0) == 64

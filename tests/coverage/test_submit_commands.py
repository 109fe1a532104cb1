"""golden: every HTCondor submit command, and every attribute that it sets, is implemented, rejected or reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.domain.coverage.attributes import attributes, commands
from poolbook.domain.submit.build import known_commands
from poolbook.domain.submit.requirements import REQUIREMENTS
from poolbook.domain.submit.resources import TRANSFER, request_sections
from poolbook.domain.submit.sections import FIRST, LAST, MIDDLE
from poolbook.domain.submit.submit_commands import UNSUPPORTED as UNSUPPORTED_COMMANDS
from poolbook.domain.submit.unsupported_commands import is_read_by_htcondor

from ..submit.fakes import submit
from ..together import together
from . import code
from .page import OTHER_UNIVERSES

SET_ATTRIBUTES = {
    name for section in (*FIRST, *request_sections(()), *MIDDLE, TRANSFER, *LAST, REQUIREMENTS) for name in section.sets
}
WITHOUT_READER = {
    # Attributes that HTCondor also only stores; that only the submission or OnExitRemove's text reads; or that the code
    # reads under a generated name.
    "AcctGroupUser", "ContainerImageSource", "DAGManJobId", "DeferralPrepTime", "EnvDelim", "ExecutableSize",
    "GPUsMaxCapability", "TransferContainer",
    "GPUsMinCapability", "GPUsMinMemory", "GPUsMinRuntime", "JobBatchId", "ProjectName", "RequireGPUs",
    "ScheddInterval", "StreamIn", "TransferErr", "TransferExecutable", "TransferIn", "TransferInputSizeMB",
    "TransferOut", "WantFTOnCheckpoint", "WantTransferPluginMethods", "JobMaxRetries", "OnExitHoldReason",
    "OnExitHoldSubCode",
    # TLS encrypts all files that are transferred between machines; a true EncryptExecuteDirectory is rejected.
    "DontEncryptInputFiles", "DontEncryptOutputFiles", "EncryptExecuteDirectory", "EncryptInputFiles",
    "EncryptOutputFiles",
    "MaxRequestMemory", "NextRequestMemory", "RetryRequestDisk", "RetryRequestMemory", "TransformBody_RequestDisk",
    "TransformBody_RequestMemory",
}  # fmt: skip
"""Attributes that no other code names, and that have no effect themselves."""
UNSUPPORTED = {*attributes("not acted on"), *attributes("no effect")}


def read_elsewhere(attribute: str) -> bool:
    """Return True if a string contains the attribute's name, outside of tables and readers of records."""
    return code.has_word(attribute, (*code.NAME_TABLES, *code.RECORD_READERS))


@together("attribute", sorted(SET_ATTRIBUTES - UNSUPPORTED - WITHOUT_READER))
def test_an_attribute_listed_as_implemented_is_read_by_the_code(attribute: str) -> None:
    assert read_elsewhere(attribute)


@together("attribute", sorted(UNSUPPORTED))
def test_an_attribute_listed_as_unsupported_is_set_by_a_command_and_not_read(attribute: str) -> None:
    assert attribute in SET_ATTRIBUTES
    assert not read_elsewhere(attribute)


@together("command", (code.DATA / "submit_commands.txt").read_text().split())
def test_every_command_in_the_manual_is_implemented_rejected_or_reported(command: str) -> None:
    plain = re.sub("<[^>]*>", "x", command).lower()
    known = (
        plain in known_commands()
        or plain in dict(UNSUPPORTED_COMMANDS)
        or is_read_by_htcondor(plain)
        or plain.startswith("request_")
    )
    assert known or plain == "queue" or OTHER_UNIVERSES.get(plain)


@together(
    ("lines", "message"),
    [
        ("manifest = true", "manifest is kept in the ad and not acted on yet"),
        (
            "manifest = true\nwant_job_networking = true",
            "manifest and want_job_networking are kept in the ad and not acted on yet",
        ),
        ("+ManifestDesired = true", "+ManifestDesired is kept in the ad"),
        ("ec2_ami_id = a\nuse_scitokens = true", "use_scitokens has no effect yet"),
        ("aws_region = a\nskip_filechecks = true", "aws_region and skip_filechecks have no effect yet"),
        ("requirements = HasVM && HasJava", "requirements reads HasJava and HasVM, which no slot has"),
        ("rank = TARGET.JavaMFlops", "rank reads JavaMFlops, which no slot has"),
        ("on_exit_remove = LastRejMatchTime > 0", "on_exit_remove reads LastRejMatchTime, which no job has"),
        (
            "leave_in_queue = MY.lastrejmatchreason =?= 1",
            "leave_in_queue reads LastRejMatchReason, which no job has",
        ),
        (
            'requirements = regexp("a")',
            'Requirements is an error for every job: regexp takes 2 to 3 arguments, but regexp("a") has 1',
        ),
        (
            "periodic_hold = isDefined(MemoryUsage) && MemoryUsage > 3",
            "PeriodicHold is an error for every job: there is no function isDefined; write MemoryUsage isnt undefined",
        ),
        (
            "rank = ifThenElse(x, true)",
            "Rank is an error for every job: ifThenElse takes 3 arguments, but ifThenElse(x,true) has 2",
        ),
        ("+Steps = quantize(5)", "Steps is an error for every job: quantize takes 2 arguments, but quantize(5) has 1"),
        ("priority = 3\nqueue manifest in (true)", "manifest is kept in the ad"),
    ],
)
def test_an_unsupported_command_causes_one_warning(lines: str, message: str) -> None:
    text = lines if "queue" in lines else f"{lines}\nqueue"
    warnings = [warning for warning in submit(text).warnings if "unused" not in warning]
    assert len(warnings) == 1
    assert message in warnings[0]


@together(
    "line",
    [
        "periodic_remove = false",
        "periodic_release = 0",
        "requirements = MY.HasVM\n+HasVM = true",
        "requirements = HasVM\n+HasVM = true",
        "notification = never",
        "should_transfer_files = IF_NEEDED",
        "should_transfer_files = YES",
        "should_transfer_files = YES\nencrypt_input_files = a\ndont_encrypt_output_files = b",
        "encrypt_execute_directory = false",
        "transfer_input_files = a, b",
        "transfer_output_files = a, b",
        "stream_output = true",
        "when_to_transfer_output = ON_SUCCESS",
        "when_to_transfer_output = ON_EXIT_OR_EVICT",
        "checkpoint_exit_code = 85\ntransfer_checkpoint_files = a",
        "should_transfer_files = NO",
        "when_to_transfer_output = ON_EXIT",
        "transfer_executable = false",
        "leave_in_queue = false",
        "on_exit_remove = true",
        "kill_sig = SIGINT",
        "batch_name = a",
        "+Mine = 3",
        "requirements = TARGET.Mine > 3",
        "log_xml = false",
    ],
)
def test_a_command_that_requests_existing_behaviour_causes_no_warning(line: str) -> None:
    assert submit(f"{line}\nqueue").warnings == []


@together("command", [*commands("the parser"), *commands("condor_submit")])
def test_a_command_that_condor_submit_reads_is_not_reported_as_unused(command: str) -> None:
    assert not any("unused" in warning for warning in submit(f"{command} = 1\nqueue").warnings)


@together("command", ["ec2_tag_names", "vm_type", "machine_count", "node_count", "gce_image", "send_credential"])
def test_a_command_of_another_universe_is_reported_as_unused(command: str) -> None:
    (warning,) = submit(f"{command} = 1\nqueue").warnings
    assert warning.startswith(f"the line '{command} = 1' was unused by condor_submit")


def test_one_warning_names_all_unsupported_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = "executable = /bin/true\nmanifest = true\nwant_job_networking = true\nmatch_list_length = 5\nqueue\n"
    Path("job.sub").write_text(lines)
    for command in (["submit", "job.sub"], ["run", "job.sub"]):
        assert main(command) == 0
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "manifest" in line]
        assert line == (
            "WARNING: manifest and want_job_networking are kept in the ad and not acted on yet; "
            "match_list_length has no effect yet"
        )


def test_the_lists_of_commands_contain_each_command_once() -> None:
    assert not set(attributes("not acted on")) & set(attributes("no effect"))
    assert len(commands("what is not here")) == len(set(commands("what is not here")))

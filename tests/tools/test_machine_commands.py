"""Golden: drain, off, on, reconfig, and suspend, continue and vacate of slots answer as HTCondor's tools do; they
report wrong arguments."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.machine.host import host_name
from poolbook.adapters.runtime.pool_client import is_written

from ..pool.real import Folder
from .captures import capture

HERE = host_name()
ADDRESS = "<127.0.0.1:9618?addrs=127.0.0.1-9618+[--1]-9618&alias=localhost&noUDP&sock=startd_22366_cb4d>"
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The log of a served pool, with one slot of this machine."""
    folder = Folder(tmp_path_factory.mktemp("served"))
    with folder.served("-slots", "1"):
        yield folder.path / "pool.db"
    folder.kill_everything()


@pytest.fixture
def call(served: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("POOLBOOK_LOG", str(served))

    def called(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return called


def htcondors_output(name: str) -> str:
    """Return the output of the HTCondor tool, with this machine's name in place of the recorded one."""
    return capture(name).out.replace(ADDRESS, f"<{HERE}>").replace("slot1@localhost", f"slot1@{HERE}")


def test_draining_and_its_cancellation_print_htcondors_messages(call: Call) -> None:
    slot = f"slot1@{HERE}"
    assert call("drain", slot) == (0, htcondors_output("drain_slot"), "") == (0, htcondors_output("drain"), "")
    for again in ("drain_again", "drain_fast_reason"):
        arguments = [slot if word == "slot1@localhost" else word for word in capture(again).argv]
        code, output, err = call("drain", *arguments)
        assert (code, output) == (capture(again).exit_code, "")
        assert "Draining already in progress" in err and "Draining already in progress" in capture(again).err
    for name in ("drain_cancel", "drain_cancel_again"):
        assert call("drain", "-cancel", slot) == (0, htcondors_output(name), "")
    for name in ("drain_denied", "drain_unknown"):
        code, output, err = call("drain", *capture(name).argv)
        assert (code, output) == (capture(name).exit_code, "")
        assert f"there is no machine {capture(name).argv[-1]}" in err


def test_the_id_of_a_drain_is_printed_and_accepted(call: Call) -> None:
    _, output, err = call("drain", HERE, "-quick", "-reason", "new disk", "-start", 'Owner == "alice"', "-json")
    assert err == "poolbook drain: -start is not used with -quick: only a graceful drain sets START\n"
    number = json.loads(output)["request"]
    assert "No matching draining request id 99" in call("drain", "-cancel", "-request-id", "99", HERE)[2]
    assert call("drain", "-cancel", "-request-id", number, HERE)[0] == 0
    assert f"\tRequest id: {int(number) + 1}\n" in call("drain", "-verbose", HERE)[1]
    assert call("drain", "-cancel", HERE)[0] == 0


def test_a_check_that_a_slot_does_not_meet_stops_a_drain(call: Call) -> None:
    code, _, err = call("drain", HERE, "-check", "Cpus > 1000")
    assert code == 1 and f"Draining check expression is false on slot1@{HERE}" in err
    assert call("drain", HERE, "-check", "(")[0] == 1


def test_off_and_on_print_htcondors_messages(call: Call) -> None:
    assert call("off", *capture("off_startd").argv) == (0, htcondors_output("off_startd"), "")
    code, _, err = call("off")
    assert code == 1 and "there is no machine" in err, "it ran nothing, and is gone at once"
    assert call("on", *capture("on_startd").argv) == (0, htcondors_output("on_startd"), "")
    assert call("reconfig") == (0, htcondors_output("reconfig"), "")
    assert call("reschedule") == (0, htcondors_output("reschedule"), "")
    assert call("off", "-fast", HERE)[1] == f'Sent "Kill-Daemon-Fast" command for "startd" to master {HERE}\n'
    assert call("on", "-json")[1] == json.dumps({"machine": HERE, "warnings": []}, indent=2) + "\n"


def test_the_negotiator_is_off_until_it_is_on(call: Call, served: Path, tmp_path: Path) -> None:
    (tmp_path / "job.sub").write_text("executable = /bin/true\nrequest_memory = 16\nqueue\n")
    assert call("off", "-neg") == (0, 'Sent "Kill-Daemon" command for "negotiator" to local master\n', "")
    assert call("status", "-negotiator", "-af", "Name")[1] == ""
    number = call("submit", str(tmp_path / "job.sub"), "-terse")[1].partition(".")[0]
    _, answer, _ = call("why", number)
    assert "No negotiation cycle considers it: root turned the negotiator off at" in answer
    assert "poolbook on -negotiator" in answer
    assert "there is no daemon HAD in this manager; it has NEGOTIATOR" in call("off", "-subsystem", "-had")[2]
    assert call("on", "-subsystem", "NEGOTIATOR")[1] == 'Sent "Spawn-Daemon" command for "negotiator" to local master\n'
    assert call("wait", number)[0] == 0
    assert call("status", "-negotiator", "-af", "MyType")[1] == "Negotiator\n"


def test_jobs_of_slots_are_suspended_continued_and_vacated(call: Call, served: Path, tmp_path: Path) -> None:
    (tmp_path / "job.sub").write_text("executable = /bin/sleep\narguments = 300\nrequest_memory = 16\nqueue\n")
    slot = f"slot1@{HERE}"
    assert call("suspend", slot) == (1, "", f"\nSlot {slot} not running to be suspended\n")
    number = call("submit", str(tmp_path / "job.sub"), "-terse")[1].partition(".")[0]
    Folder(served.parent).wait_for(lambda: call("suspend", slot)[0] == 0)
    assert call("q", "-af", "JobStatus")[1] == "7\n"
    for name, participle in (("continue", "continued"), ("suspend", "suspended"), ("continue", "continued")):
        assert call(name, "-machine", HERE) == (0, f"Slot {HERE} {participle}\n", "")
    job = f"{number}.0"
    for name in ("suspend", "continue"):
        assert call(name, job) == (0, capture(name).out.replace("65.0", job), "")
    assert call("vacate", "-machine", HERE) == (0, f"Slot {HERE} vacated\n", "")
    assert capture("vacate").out == 'Sent "Vacate-All-Claims" command to local startd\n'
    assert call("rm", number)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("drain",), "specify one machine"),
        (("drain", "a", "b"), "specify one machine"),
        (("drain", "a", "-request-id", "1"), "-request-id may only be used with -cancel"),
        (("drain", "a", "-cancel", "-check", "true"), "-check may not be used with -cancel"),
        (("drain", "a", "-cancel", "-exit-on-completion"), "-exit-on-completion may not be used with -cancel"),
        (("drain", "a", "-cancel", "-request-id", "x"), "must be a whole number"),
        (("drain", "a", "-resume", "-restart"), "-restart-on-completion conflicts with -resume-on-completion"),
        (("off", "a", "b"), "specify only one machine"),
        (("on", "a"), "only affects this machine"),
        (("restart", "-schedd", "-daemon", "startd"), "name only one daemon"),
        (("off", "-collector", "-all", "-constraint", "true"), "this command affects only this machine"),
        (("set_shutdown",), "-exec NAME"),
        (("reschedule", "a"), "only affects this machine"),
    ],
)
def test_wrong_arguments_are_reported_with_exit_code_2(call: Call, arguments: tuple[str, ...], message: str) -> None:
    code, output, err = call(*arguments)
    assert (code, output) == (2, "")
    assert message in err


@pytest.mark.parametrize("command", ["drain here", "drain -cancel here", "off", "on", "reconfig", "reschedule"])
def test_a_machine_command_needs_a_running_server(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(tmp_path / "pool.db")
    assert main([*command.split(), "-log", log]) == 1
    name, remedy = command.split()[0], f"start it with `poolbook serve -log {log}`, then try again\n"
    assert capsys.readouterr().err == f"poolbook {name}: the pool is not running; {remedy}"


def test_a_write_protected_log_is_not_reported_as_without_a_server(tmp_path: Path) -> None:
    """The request is made anyway, and its refusal names what is not allowed."""
    tmp_path.chmod(0o500)
    root = os.geteuid() == 0
    if root:  # root may do everything
        os.seteuid(65534)
    try:
        assert is_written(str(tmp_path / "pool.db"))
    finally:
        if root:
            os.seteuid(0)
        tmp_path.chmod(0o700)

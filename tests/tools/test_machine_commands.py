"""Golden: drain, off, on, reconfig, and suspend, continue and vacate of slots answer as HTCondor's tools answered; what
they are given wrong, they say."""

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
    """The log of a pool that is served, with one slot of this machine."""
    folder = Folder(tmp_path_factory.mktemp("served"))
    with folder.served("-slots", "1"):
        yield folder.path / "pool.db"
    folder.kill_everything()


@pytest.fixture
def call(served: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("POOLBOOK_LOG", str(served))

    def called(*words: str) -> tuple[int, str, str]:
        code = main(words)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return called


def real(name: str) -> str:
    """What HTCondor's tool printed, of this machine in place of its own."""
    return capture(name).out.replace(ADDRESS, f"<{HERE}>").replace("slot1@localhost", f"slot1@{HERE}")


def test_a_machine_is_drained_and_opened_again_in_htcondors_words(call: Call) -> None:
    slot = f"slot1@{HERE}"
    assert call("drain", slot) == (0, real("drain_slot"), "") == (0, real("drain"), "")
    for again in ("drain_again", "drain_fast_reason"):
        words = [slot if word == "slot1@localhost" else word for word in capture(again).argv]
        code, out, err = call("drain", *words)
        assert (code, out) == (capture(again).exit_code, "")
        assert "Draining already in progress" in err and "Draining already in progress" in capture(again).err
    for name in ("drain_cancel", "drain_cancel_again"):
        assert call("drain", "-cancel", slot) == (0, real(name), "")
    for name in ("drain_denied", "drain_unknown"):
        code, out, err = call("drain", *capture(name).argv)
        assert (code, out) == (capture(name).exit_code, "")
        assert f"there is no machine {capture(name).argv[-1]}" in err


def test_the_number_of_a_drain_is_told_and_can_be_asked_for(call: Call) -> None:
    _, out, err = call("drain", HERE, "-quick", "-reason", "new disk", "-start", 'Owner == "alice"', "-json")
    assert err == "poolbook drain: -start is not used with -quick: only a graceful drain sets START\n"
    number = json.loads(out)["request"]
    assert "No matching draining request id 99" in call("drain", "-cancel", "-request-id", "99", HERE)[2]
    assert call("drain", "-cancel", "-request-id", number, HERE)[0] == 0
    assert f"\tRequest id: {int(number) + 1}\n" in call("drain", "-verbose", HERE)[1]
    assert call("drain", "-cancel", HERE)[0] == 0


def test_a_check_that_a_slot_does_not_meet_stops_a_drain(call: Call) -> None:
    code, _, err = call("drain", HERE, "-check", "Cpus > 1000")
    assert code == 1 and f"Draining check expression is false on slot1@{HERE}" in err
    assert call("drain", HERE, "-check", "(")[0] == 1


def test_a_machine_is_turned_off_and_on_in_htcondors_words(call: Call) -> None:
    assert call("off", *capture("off_startd").argv) == (0, real("off_startd"), "")
    code, _, err = call("off")
    assert code == 1 and "there is no machine" in err, "it ran nothing, and is gone at once"
    assert call("on", *capture("on_startd").argv) == (0, real("on_startd"), "")
    assert call("reconfig") == (0, real("reconfig"), "")
    assert call("reschedule") == (0, real("reschedule"), "")
    assert call("off", "-fast", HERE)[1] == f'Sent "Kill-Daemon-Fast" command for "startd" to master {HERE}\n'
    assert call("on", "-json")[1] == json.dumps({"machine": HERE, "warnings": []}, indent=2) + "\n"


def test_what_slots_run_is_suspended_continued_and_vacated(call: Call, served: Path, tmp_path: Path) -> None:
    (tmp_path / "job.sub").write_text("executable = /bin/sleep\narguments = 300\nrequest_memory = 16\nqueue\n")
    slot = f"slot1@{HERE}"
    assert call("suspend", slot) == (1, "", f"\nSlot {slot} not running to be suspended\n")
    number = call("submit", str(tmp_path / "job.sub"), "-terse")[1].partition(".")[0]
    Folder(served.parent).wait_for(lambda: call("suspend", slot)[0] == 0)
    assert call("q", "-af", "JobStatus")[1] == "7\n"
    for name, done in (("continue", "continued"), ("suspend", "suspended"), ("continue", "continued")):
        assert call(name, "-machine", HERE) == (0, f"Slot {HERE} {done}\n", "")
    job = f"{number}.0"
    for name in ("suspend", "continue"):
        assert call(name, job) == (0, capture(name).out.replace("65.0", job), "")
    assert call("vacate", "-machine", HERE) == (0, f"Slot {HERE} vacated\n", "")
    assert capture("vacate").out == 'Sent "Vacate-All-Claims" command to local startd\n'
    assert call("rm", number)[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drain",), "name one machine"),
        (("drain", "a", "b"), "name one machine"),
        (("drain", "a", "-request-id", "1"), "-request-id may only be used with -cancel"),
        (("drain", "a", "-cancel", "-check", "true"), "-check may not be used with -cancel"),
        (("drain", "a", "-cancel", "-exit-on-completion"), "-exit-on-completion may not be used with -cancel"),
        (("drain", "a", "-cancel", "-request-id", "x"), "takes a whole number"),
        (("drain", "a", "-resume", "-restart"), "-restart-on-completion conflicts with -resume-on-completion"),
        (("off", "a", "b"), "name only one machine"),
        (("on", "a"), "only affects this machine"),
        (("reconfig", "-daemon", "startd"), "one process has all roles"),
        (("reschedule", "a"), "only affects this machine"),
    ],
)
def test_what_is_wrong_is_said_and_ends_with_2(call: Call, words: tuple[str, ...], said: str) -> None:
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize("command", ["drain here", "drain -cancel here", "off", "on", "reconfig", "reschedule"])
def test_what_a_machine_is_to_do_needs_a_pool_that_is_served(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(tmp_path / "pool.db")
    assert main([*command.split(), "-log", log]) == 1
    name, said = command.split()[0], f"start it with `poolbook serve -log {log}`, then try again\n"
    assert capsys.readouterr().err == f"poolbook {name}: the pool is not running; {said}"


def test_a_log_that_one_may_not_write_to_is_not_said_to_have_no_pool(tmp_path: Path) -> None:
    """The request is made all the same, and what is not allowed is said by that."""
    tmp_path.chmod(0o500)
    root = os.geteuid() == 0
    if root:  # who may do everything
        os.seteuid(65534)
    try:
        assert is_written(str(tmp_path / "pool.db"))
    finally:
        if root:
            os.seteuid(0)
        tmp_path.chmod(0o700)

"""Golden: which parts of a job's ad reach its processes, and what is reported about them."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from poolbook.adapters.runtime.activations import activation
from poolbook.adapters.runtime.local_world import LocalWorld
from poolbook.domain.ports.stimuli import ActivationEnded, ActivationStarted, Stimulus, Transferred
from poolbook.domain.ports.world import Launch

from ..together import together


@together(
    ("ad", "name", "expected"),
    [
        ({"Args": "\"a  b 'c'\""}, "arguments", ("a", "b", "'c'")),
        (
            {"Arguments": '"-c \'echo ""two words""\' x"'.replace('""', '\\"')},
            "arguments",
            ("-c", 'echo "two words"', "x"),
        ),
        ({"Arguments": '""'}, "arguments", ()),
        ({"Env": '"A=1;B=two words"'}, "environment", {"A": "1", "B": "two words"}),
        ({"Env": '"A=1|B=2"', "EnvDelim": '"|"'}, "environment", {"A": "1", "B": "2"}),
        ({"Environment": "\"A=1 B='two words' C='it''s'\""}, "environment", {"A": "1", "B": "two words", "C": "it's"}),
        ({"Environment": '""'}, "environment", {}),
        ({"KillSig": '"SIGUSR1"'}, "kill_signals", {"soft": 10, "hold": 10, "remove": 10}),
        ({"KillSig": '"usr2"'}, "kill_signals", {"soft": 12, "hold": 12, "remove": 12}),
        ({"KillSig": "9"}, "kill_signals", {"soft": 9, "hold": 9, "remove": 9}),
        ({"KillSig": '"SIGNOTHING"'}, "kill_signals", {"soft": 15, "hold": 15, "remove": 15}),
        ({"KillSig": "3000"}, "kill_signals", {"soft": 15, "hold": 15, "remove": 15}),
        ({"HoldKillSig": '"SIGUSR1"'}, "kill_signals", {"soft": 15, "hold": 10, "remove": 15}),
        (
            {"KillSig": '"SIGINT"', "HoldKillSig": '"SIGUSR1"', "RemoveKillSig": "12"},
            "kill_signals",
            {"soft": 2, "hold": 10, "remove": 12},
        ),
        (
            {"KillSig": '"SIGINT"', "RemoveKillSig": '"SIGNOTHING"'},
            "kill_signals",
            {"soft": 2, "hold": 2, "remove": 2},
        ),
        ({"Cmd": 'strcat("/bin/", "true")'}, "executable", "/bin/true"),
        ({"Cmd": '"/bin/with \\"quotes\\""'}, "executable", '/bin/with "quotes"'),
        ({"In": '"/dev/null"'}, "stdin", "/dev/null"),
        ({"Iwd": '"/tmp"'}, "iwd", "/tmp"),
        ({}, "kill_signals", {"soft": 15, "hold": 15, "remove": 15}),
        ({}, "iwd", "/"),
    ],
)
def test_an_activation_follows_the_job_ad(ad: dict[str, str], name: str, expected: object) -> None:
    slot = {"Memory": "512", "Disk": "1024", "Cpus": "2", "DynamicSlot": "true"}
    launched = activation(Launch("7", 1, 0, "slot1_1@h", {"Cmd": '"/bin/true"', **ad}, slot, "alice"))
    assert getattr(launched, name) == expected
    assert (launched.cpus, launched.memory_mb, launched.disk_kb) == (2, 512, 1024)
    assert (launched.limits.memory_mb, launched.limits.disk_kb) == (512, 1024)


def test_a_static_slots_share_is_not_a_limit() -> None:
    ad = {"Cmd": '"/bin/true"'}
    launched = activation(Launch("7", 1, 0, "slot1@h", ad, {"Memory": "512", "DynamicSlot": "false"}, "alice"))
    assert launched.limits.memory_mb is None


def test_a_job_whose_start_failed_but_that_runs_is_reported_only_as_running(tmp_path: Path) -> None:
    """A restarted pool starts a job, and then checks all jobs that are running according to the log."""
    world = LocalWorld(tmp_path)
    job = Launch("7", 1, 0, "slot1@h", {"Cmd": '"/bin/true"', "Iwd": '"/"'}, {"DynamicSlot": "false"}, "eve")
    world.start([job])
    world.owners.add("eve")
    reports = world.recover([job])
    while not any(isinstance(report, ActivationEnded) for report in reports):
        reports += world.wait(None)
    world.acknowledge(["7"])
    world.close()
    assert [type(report) for report in reports] == [ActivationStarted, ActivationEnded]
    assert [(report.code, report.failed) for report in reports if isinstance(report, ActivationEnded)] == [(0, False)]


def test_a_job_that_waits_with_its_files_starts_if_the_pool_was_killed_after_logging_that_it_is_due(
    tmp_path: Path,
) -> None:
    ad = {"Cmd": '"/bin/true"', "Iwd": f'"{tmp_path}"', "ShouldTransferFiles": '"YES"', "TransferExecutable": "false"}
    job = Launch("7", 1, 0, "slot1@h", ad, {"DynamicSlot": "false"}, "eve", waits=True)
    reports: list[Stimulus] = []

    def is_over() -> bool:
        return any(isinstance(each, Transferred) and each.ended for each in reports) if job.waits else ends() != []

    def ends() -> list[ActivationEnded]:
        return [report for report in reports if isinstance(report, ActivationEnded)]

    killed = LocalWorld(tmp_path / "folder")
    killed.owners.add("eve")
    killed.start([job])
    while not is_over():
        reports += killed.wait(None)
    killed.close()
    job = replace(job, waits=False)
    world = LocalWorld(tmp_path / "folder")
    world.owners.add("eve")
    reports += world.recover([job])
    while not is_over():
        reports += world.wait(None)
    world.acknowledge(["7"])
    world.close()
    assert [end.code for end in ends()] == [0]

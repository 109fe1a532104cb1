"""Golden: the owner's own sensors (STARTD_CRON): which programs run when, and which of their output becomes
attributes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from poolbook.adapters.machine.cron_settings import BENCHMARKS, DEFAULT_BENCHMARKS, CronJob, cron_list
from poolbook.adapters.runtime import local_world
from poolbook.adapters.runtime.configuration import load
from poolbook.adapters.runtime.local_world import LocalWorld
from poolbook.domain.config import ConfigError
from poolbook.domain.ports.stimuli import AddMachine, BenchmarksDone, SensorsReported, SlotPlan, Stimulus
from poolbook.domain.startd.slot_records import with_slot_records
from poolbook.domain.state.records import Slot

from ..domain.pools import TestPool
from ..together import together
from .bench import PATIENCE_S

SECOND = 1_000_000


def jobs(text: str) -> list[CronJob]:
    return [*cron_list(load(text=text, environment={})).jobs]


@together(
    ("text", "job"),
    [
        ("PERIOD = 5", CronJob("A", ("/bin/a",), "Periodic", 5)),
        ("PERIOD = 5s", CronJob("A", ("/bin/a",), "Periodic", 5)),
        ("PERIOD = 2M", CronJob("A", ("/bin/a",), "Periodic", 120)),
        ("PERIOD = 1h\nMODE = waitforexit", CronJob("A", ("/bin/a",), "WaitForExit", 3600)),
        ("PERIOD = 0\nMODE = WaitForExit", CronJob("A", ("/bin/a",), "WaitForExit", 0)),
        ("MODE = OneShot\nPERIOD = 7", CronJob("A", ("/bin/a",), "OneShot")),
        ("MODE = OnDemand", CronJob("A", ("/bin/a",), "OnDemand")),
        ("PERIOD = 1\nARGS = -x  y", CronJob("A", ("/bin/a", "-x", "y"), "Periodic", 1)),
        ("PERIOD = 1\nARGS = \"'two words' z\"", CronJob("A", ("/bin/a", "two words", "z"), "Periodic", 1)),
        (
            "PERIOD = 1\nENV = X=1;Y=two words",
            CronJob("A", ("/bin/a",), "Periodic", 1, environment=(("X", "1"), ("Y", "two words"))),
        ),
        (
            "PERIOD = 1\nPREFIX = A_\nKILL = true\nCWD = /tmp",
            CronJob("A", ("/bin/a",), "Periodic", 1, "A_", True, "/tmp"),
        ),
        ("PERIOD = 1\nJOB_LOAD = 0.5", CronJob("A", ("/bin/a",), "Periodic", 1, load=0.5)),
        ("PERIOD = 1\nSLOTS = 1, 3", CronJob("A", ("/bin/a",), "Periodic", 1, slots=(1, 3))),
        (
            "MODE = OneShot\nRECONFIG = true\nRECONFIG_RERUN = true",
            CronJob("A", ("/bin/a",), "OneShot", hangs_up=True, reruns=True),
        ),
    ],
)
def test_a_job_follows_its_settings(text: str, job: CronJob) -> None:
    settings = "\n".join(f"STARTD_CRON_A_{line}" for line in ["EXECUTABLE = /bin/a", *text.split("\n")])
    assert jobs(f"STARTD_CRON_JOBLIST = A, A\n{settings}\n") == [job]


@together(
    ("text", "complaint"),
    [
        ("PERIOD = 1", "EXECUTABLE: the job has no executable"),
        ("EXECUTABLE = /bin/a", "PERIOD: '' is not a valid period"),
        ("EXECUTABLE = /bin/a\nPERIOD = 0", "PERIOD: '0' is not a valid period"),
        ("EXECUTABLE = /bin/a\nPERIOD = 3d", "PERIOD: '3d' is not a valid period"),
        ("EXECUTABLE = /bin/a\nMODE = Sometimes", "MODE: unknown mode Sometimes; use Periodic, WaitForExit"),
        ("EXECUTABLE = /bin/a\nPERIOD = 1\nARGS = \"'", "ARGS: "),
        ("EXECUTABLE = /bin/a\nPERIOD = 1\nSLOTS = slot1", "SLOTS: 'slot1' is not a list of slot ids"),
        ("EXECUTABLE = /bin/a\nPERIOD = 1\nKILL = perhaps", "KILL: perhaps is neither true nor false"),
    ],
)
def test_a_job_with_invalid_settings_is_refused(text: str, complaint: str) -> None:
    settings = "\n".join(f"STARTD_CRON_A_{line}" for line in text.split("\n"))
    with pytest.raises(ConfigError, match=f"STARTD_CRON_A_{complaint}"):
        jobs(f"STARTD_CRON_JOBLIST = A\n{settings}\n")


class CronWorld:
    """A world whose configuration has one job, a shell script."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.reports = folder, list[str]()
        self.world = LocalWorld(folder / "jobs", self.reports.append)

    def program(self, name: str, script: str) -> Path:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def run(self, script: str, *settings: str, more: str = "") -> None:
        path = self.program("sensor.sh", script)
        lines = [f"EXECUTABLE = {path}", f"CWD = {self.folder}", *settings]
        text = "STARTD_CRON_JOBLIST = A\n" + "".join(f"STARTD_CRON_A_{line}\n" for line in lines)
        self.world.configure(load(text=text + more, environment={}))

    def read(self) -> dict[str, str]:
        """Return the attributes of all slots, without the time of the last update."""
        attributes = self.world.sense("here").attributes
        return {name: text for name, text in attributes.items() if not name.endswith("LastUpdate")}

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def wait_for(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < until, f"the condition was not met: {self.read()} {self.reports}"
            self.world.wait(self.world.now() + SECOND // 20)


@pytest.fixture
def sensed(tmp_path: Path) -> Iterator[CronWorld]:
    sensors = CronWorld(tmp_path)
    yield sensors
    sensors.world.close()


def test_a_record_appears_completely_and_replaces_the_last_one(sensed: CronWorld) -> None:
    script = (
        'printf "X = 1\\nY = \\"a b\\"\\n"; while [ ! -e go ]; do sleep 0.05; done; echo "- update:true"; echo "X = 2"'
    )
    sensed.run(script, "MODE = OneShot", "PREFIX = My")
    sensed.world.wait(sensed.world.now() + SECOND // 4)
    assert sensed.read() == {}
    (sensed.folder / "go").touch()
    sensed.wait_for(lambda: sensed.read() == {"MyX": "2"})


def test_expressions_stay_expressions_and_an_invalid_line_is_ignored_with_one_warning(sensed: CronWorld) -> None:
    sensed.run('echo "X = SlotID + 1"; echo "this is nothing"; printf "Last = true"', "PERIOD = 1")
    sensed.wait_for(lambda: (sensed.folder / "sensor.sh").exists() and bool(sensed.read()))
    assert sensed.read() == {"X": "SlotID + 1", "Last": "true"}
    sensed.world.wait(sensed.world.now() + 3 * SECOND // 2)
    assert [text.partition("'")[0] for text in sensed.reports] == ["STARTD_CRON_A printed an invalid line "]


def slots_with(ads: dict[str, dict[str, str]]) -> list[Slot]:
    """Return slots of a machine with these ads."""
    pool = TestPool()
    plans = tuple(SlotPlan(name, "static", {"Cpus": "1", "Memory": "1", **ad}) for name, ad in ads.items())
    assert not pool.handle(AddMachine(pool.id(), "h", {"Machine": '"h"'}, plans)).refusal
    return list(pool.state.slots.values())


def test_a_record_for_single_slots_appears_only_there(sensed: CronWorld) -> None:
    slots = slots_with({f"slot{number}@h": {"SlotID": str(number)} for number in (1, 2)})
    sensed.run(
        'echo "X = 1"; echo "SlotID = 2"; echo "- two"; echo "X = 2"; echo "SlotName = \\"slot1\\""', "MODE = OneShot"
    )
    sensed.wait_for(lambda: len(sensed.world.sense("here").records) == 2)
    assert sensed.read() == {}
    published = with_slot_records(sensed.world.sense("here"), slots).slots
    assert {name: ad["X"] for name, ad in published.items()} == {"slot1@h": "2", "slot2@h": "1"}


def test_a_program_runs_only_on_a_machine_that_meets_its_condition(sensed: CronWorld) -> None:
    sensed.run('echo "X = 1"', "PERIOD = 1", "CONDITION = TotalGPUs > 0")
    for ad in ({}, {"TotalGPUs": "0"}):
        sensed.world.describe(ad)
        waits, until = 0, sensed.world.now() + SECOND // 4
        while sensed.world.now() < until:
            sensed.world.wait(until)
            waits += 1
        assert waits < 5, "the loop is not busy until the next check"
        assert sensed.read() == {}
    sensed.world.describe({"TotalGPUs": "1"})
    sensed.wait_for(lambda: sensed.read() == {"X": "1"})


MONITOR = """
while read -r seconds memory; do
    echo 'SlotMergeConstraint = StringListMember("GPU-one", AssignedGPUs)'
    printf 'UptimeGPUsSeconds = %s\\nUptimeGPUsMemoryPeakUsage = %s\\n- GPUsSlot0\\n' "$seconds" "$memory"
done < use
sleep 60
"""


def test_a_monitor_s_records_add_up_in_the_slots_of_its_device(sensed: CronWorld) -> None:
    ads = {"slot1@h": {"AssignedGPUs": '"GPU-one,GPU-two"'}, "slot2@h": {"AssignedGPUs": '"GPU-two"'}, "slot3@h": {}}
    slots = slots_with(ads)
    (sensed.folder / "use").write_text("2.5 100\n1.5 4007\n1 300\n")
    sensed.run(MONITOR, "MODE = WaitForExit", "PERIOD = 1", "METRICS = SUM:GPUs, PEAK:GPUsMemory")
    sensed.wait_for(lambda: [record.peaks for record in sensed.world.sense("h").records] == [{"GPUsMemory": 4007.0}])
    readings = sensed.world.sense("h")
    assert readings.records[0].averages["GPUs"] > 0.5, "5 s of use in the few seconds since the start"
    published = with_slot_records(readings, slots).slots
    assert published.keys() == {"slot1@h"}
    assert published["slot1@h"]["DeviceGPUsMemoryPeakUsage"] == "4007.0"


def test_an_unsupported_setting_is_ignored_with_a_warning(sensed: CronWorld) -> None:
    sensed.run('echo "HasVM = true"; echo "X = 1"', "MODE = OneShot")
    sensed.wait_for(lambda: bool(sensed.read()))
    assert sensed.read() == {"X": "1"}
    assert "HasVM, which is ignored" in sensed.reports[0]


@pytest.mark.parametrize(
    "flood",
    [
        "yes 'X = 1'",
        "tr '\\0' a < /dev/zero",
        "printf 'X = \"'; head -c 3000000 /dev/zero | tr '\\0' a; echo '\"'; sleep 1000",
    ],
    ids=["lines", "one line without an end", "one line"],
)
def test_a_program_with_endless_output_is_ended_and_its_record_ignored(sensed: CronWorld, flood: str) -> None:
    sensed.run(f"echo $$ > pid; echo 'Y = 1'; echo -; {flood}", "MODE = OneShot")
    sensed.wait_for(lambda: bool(sensed.reports))
    pid = (sensed.folder / "pid").read_text().strip()
    sensed.wait_for(lambda: not Path(f"/proc/{pid}").exists())
    assert sensed.read() == {"Y": "1"}
    assert ["more than 1048576 characters" in text for text in sensed.reports] == [True]


def test_processes_that_a_program_leaves_behind_are_not_read_indefinitely(sensed: CronWorld) -> None:
    sensed.run("echo 'Y = 1'; echo -; yes 'X = 1' & exit", "PERIOD = 1")
    sensed.wait_for(lambda: sensed.read().get("Y") == "1")
    sensed.world.wait(sensed.world.now() + 3 * SECOND // 2)


def test_only_the_first_invalid_line_is_reported_and_shortened(sensed: CronWorld) -> None:
    sensed.run("i=0; while [ $i -lt 100 ]; do echo $i; i=$((i+1)); done; echo 'Y = 1'", "PERIOD = 1")
    sensed.wait_for(lambda: bool(sensed.read()))
    (readings,) = sensed.reports
    assert readings.startswith("STARTD_CRON_A printed an invalid line '0'")
    sensed.run("head -c 300000 /dev/zero | tr '\\0' '('; echo; echo 'Z = 1'", "PERIOD = 1")
    sensed.wait_for(lambda: "Z" in sensed.read())
    assert [len(text) < 250 and "\n" not in text for text in sensed.reports] == [True, True]


def test_a_program_that_cannot_be_run_is_reported_and_the_pool_continues(sensed: CronWorld) -> None:
    sensed.run("true", "PERIOD = 1")
    (sensed.folder / "sensor.sh").unlink()
    sensed.wait_for(lambda: bool(sensed.reports))
    assert "cannot be run" in sensed.reports[0]


def test_a_periodic_program_that_still_runs_is_killed_and_run_again_only_if_configured(sensed: CronWorld) -> None:
    script = "trap '' TERM; echo $$ >> pids; echo 'X = 1'; echo -; while :; do sleep 0.1; done"
    sensed.run(script, "PERIOD = 2", "KILL = true")
    sensed.wait_for(lambda: len(sensed.lines("pids")) == 2)
    assert not Path(f"/proc/{sensed.lines('pids')[0]}").exists()
    sensed.run(script, "PERIOD = 1")
    sensed.world.wait(sensed.world.now() + 3 * SECOND)
    assert len(sensed.lines("pids")) == 2, "it continues with the new settings"
    sensed.run(script, "MODE = OneShot")
    assert sensed.read() == {}, "the output of a program with another mode is dropped"
    sensed.wait_for(lambda: len(sensed.lines("pids")) == 3)
    assert not Path(f"/proc/{sensed.lines('pids')[1]}").exists()
    sensed.world.close()
    assert not Path(f"/proc/{sensed.lines('pids')[2]}").exists()
    sensed.world = LocalWorld(sensed.folder / "more")


def test_a_program_waits_until_the_running_ones_leave_room_for_its_load(sensed: CronWorld) -> None:
    path = sensed.program("sensor.sh", "echo start >> runs; while [ ! -e go ]; do sleep 0.05; done; echo 'X = 1'")
    text = "STARTD_CRON_JOBLIST = A B\nSTARTD_CRON_MAX_JOB_LOAD = 0.2\n"
    for name in "AB":
        for line in (f"EXECUTABLE = {path}", f"CWD = {sensed.folder}", "MODE = OneShot", "JOB_LOAD = 0.15"):
            text += f"STARTD_CRON_{name}_{line}\n"
    sensed.world.configure(load(text=text, environment={}))
    sensed.wait_for(lambda: bool(sensed.lines("runs")))
    sensed.world.wait(sensed.world.now() + SECOND // 4)
    assert sensed.lines("runs") == ["start"]
    (sensed.folder / "go").touch()
    sensed.wait_for(lambda: sensed.lines("runs") == ["start", "start"])


def test_a_reconfiguration_runs_a_program_again_or_hangs_it_up(sensed: CronWorld) -> None:
    once = "MODE = OneShot"
    sensed.run("echo run >> runs; echo 'X = 1'", once)
    sensed.wait_for(lambda: sensed.read() == {"X": "1"})
    sensed.run("echo run >> runs; echo 'X = 1'", once)
    sensed.world.wait(sensed.world.now() + SECOND // 4)
    assert sensed.lines("runs") == ["run"]
    sensed.run("echo run >> runs; echo 'X = 1'", once, "RECONFIG_RERUN = true")
    sensed.wait_for(lambda: sensed.lines("runs") == ["run", "run"])
    script = "trap 'echo hup >> signals' HUP; echo 'Y = 1'; echo -; while :; do sleep 0.05; done"
    hangs_up = ("MODE = WaitForExit", "PERIOD = 9", "RECONFIG = true")
    sensed.run(script, *hangs_up)
    sensed.wait_for(lambda: sensed.read() == {"Y": "1"})
    sensed.run(script, *hangs_up)
    sensed.wait_for(lambda: sensed.lines("signals") == ["hup"])


def test_slots_selects_the_slots_with_the_attributes_of_a_program(sensed: CronWorld) -> None:
    slots = slots_with({f"slot{number}@h": {"SlotID": str(number)} for number in (1, 2, 3)})
    sensed.run('echo "X = 1"', "MODE = OneShot", "SLOTS = 1 3")
    sensed.wait_for(lambda: bool(sensed.world.sense("here").records))
    assert sensed.read() == {}
    assert with_slot_records(sensed.world.sense("here"), slots).slots.keys() == {"slot1@h", "slot3@h"}


def test_a_program_has_htcondors_environment(sensed: CronWorld) -> None:
    sensed.run(
        "env > variables; echo 'X = 1'", "MODE = OneShot", "ENV = MINE=1",
        more="STARTD_CRON_CONFIG_VAL = /bin/config_val\n",
    )  # fmt: skip
    sensed.wait_for(lambda: bool(sensed.read()))
    variables = {"STARTD_CRON_NAME=STARTD", "STARTD_INTERFACE_VERSION=1", "STARTD_CRON_CONFIG_VAL=/bin/config_val"}
    assert variables | {"MINE=1"} <= {*sensed.lines("variables")}


@together(
    ("setting", "second_record", "reports"),
    [
        ("NEVER", "X = 2\n-", 0),
        ("NEVER", "X = 2\n- tag update", 1),
        ("NEVER", "X = 2\n- update:true", 1),
        ("ALWAYS", "X = 1\n-", 2),
        ("ALWAYS", "X = 1\n- update:false", 1),
        ("IF_CHANGED", "X = 1\n-", 1),
        ("IfDifferent", "X = 2\n-", 2),
    ],
)
def test_autopublish_and_the_program_decide_what_is_published_at_once(
    setting: str, second_record: str, reports: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sensed = CronWorld(tmp_path_factory.mktemp("cron"))
    sensed.world.describe({"Machine": '"here"'})
    lines = second_record.replace("\n", '"; echo "')
    script = f'echo "X = 1"; echo -; echo "{lines}"; touch done'
    sensed.run(script, "MODE = OneShot", more=f"STARTD_CRON_AUTOPUBLISH = {setting}\n")
    came: list[Stimulus] = []
    until = time.monotonic() + PATIENCE_S
    while not (sensed.folder / "done").exists():
        assert time.monotonic() < until
        came += sensed.world.wait(sensed.world.now() + SECOND // 20)
    for _ in range(5):
        came += sensed.world.wait(sensed.world.now() + SECOND // 20)
    sensed.world.close()
    published = [(stimulus.machine, stimulus.names) for stimulus in came if isinstance(stimulus, SensorsReported)]
    assert published == [("here", frozenset({"x", "lastupdate"}))] * reports


def test_reported_readings_are_published_at_once(sensed: CronWorld) -> None:
    sensed.run('echo "X = 1"', "MODE = OneShot")
    sensed.wait_for(lambda: bool(sensed.read()))
    pool = TestPool()
    plans = (SlotPlan("slot1@h", "static", {"Cpus": "1", "Memory": "1"}),)
    assert not pool.handle(AddMachine(pool.id(), "h", {"Machine": '"h"'}, plans)).refusal
    pool.world.set_readings("h", sensed.world.sense("h"))
    assert "X" not in pool.state.slots["slot1@h"].published_ad
    pool.handle(SensorsReported(pool.id(), "h", frozenset({"x"})))
    assert pool.state.slots["slot1@h"].published_ad["X"] == "1"


def test_the_output_of_a_failed_program_is_reported_if_configured(sensed: CronWorld) -> None:
    script = "echo 'X = 1'; echo -; echo 'Y = 1'; echo wrong >&2; exit 3"
    sensed.run(script, "MODE = OneShot", more="STARTD_CRON_LOG_NON_ZERO_EXIT = true\n")
    sensed.wait_for(lambda: bool(sensed.reports))
    assert sensed.reports == ["STARTD_CRON_A exited with status 3; output:\nY = 1; errors:\nwrong"]
    assert sensed.read() == {"Y": "1"}


def test_benchmarks_run_one_after_the_other_and_publish_further_attributes(sensed: CronWorld) -> None:
    script = "[ ! -e busy ] || echo overlap >> runs; touch busy; sleep 0.1; rm busy; echo $1 >> runs; echo $2; echo --"
    path = sensed.program("benchmark.sh", f"cd {sensed.folder}; {script}")
    text = "BENCHMARKS_JOBLIST = mips kflops OTHER\nBENCHMARKS_OTHER_ARGS = 3 Other=7\n"
    text += (
        f"BENCHMARKS_MIPS_ARGS = 1 Mips=5\nBENCHMARKS_KFLOPS_ARGS = 2 KFlops=6\nBENCHMARKS_OTHER_EXECUTABLE = {path}\n"
    )
    text += "".join(f"BENCHMARKS_{name}_EXECUTABLE = {path}\n" for name in ("MIPS", "KFLOPS"))
    sensed.world.configure(load(text=text, environment={}))
    sensed.world.benchmark("slot1@here")
    came: list[Stimulus] = []
    while not came:
        came += sensed.world.wait(sensed.world.now() + SECOND)
    (done,) = came
    assert isinstance(done, BenchmarksDone) and (done.slot, done.mips, done.kflops) == ("slot1@here", 5, 6)
    assert sensed.lines("runs") == ["1", "2", "3"]
    assert sensed.read() == {"Other": "7"}


def test_the_default_benchmarks_are_those_of_the_configuration_without_settings() -> None:
    assert {job.command for job in cron_list(load(text="LIBEXEC = /x\n", environment={}), BENCHMARKS).jobs} == {
        (f"/x/{program}",) for job in DEFAULT_BENCHMARKS.jobs for program in job.command
    }


def test_the_pool_starts_when_its_sensors_have_reported(sensed: CronWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_world, "WARM_UP", PATIENCE_S * SECOND)
    sensed.run('sleep 0.3; echo "X = 1"', "PERIOD = 1")
    sensed.world.warm_up()
    assert sensed.read() == {"X": "1"}


def test_a_machine_without_a_configuration_has_no_sensor_jobs(sensed: CronWorld) -> None:
    assert sensed.world.sense("here").last_input is None

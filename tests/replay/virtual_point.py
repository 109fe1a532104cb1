"""A virtual pool whose execution points receive more than jobs: actions of their owners, their administrators, and
claim holders outside the pool. It accepts the lines of ``virtual_pool``, and more."""

from __future__ import annotations

from msgspec.structs import replace

from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.sensor_readings import NOTHING_READ
from poolbook.domain.state.job_ad import quoted
from poolbook.replay.virtual_world import CLIENT, VirtualWorld

from .virtual_pool import Pool

HOLDER = "other.example.org"
BACKFILL = "ENABLE_BACKFILL=true BACKFILL_SYSTEM=EXEC EXEC_Executable=/bin/burn EXEC_InitialDir=/var/tmp"
"""A machine's settings for backfill."""


def _options(arguments: tuple[str, ...]) -> dict[str, str]:
    """lease=60 rank=5: keyword arguments."""
    return dict(word.split("=", 1) for word in arguments if "=" in word)


class PointPool(Pool):
    @property
    def _world(self) -> VirtualWorld:
        world = self.engine.world
        assert isinstance(world, VirtualWorld)
        return world

    # The owner and the sensors

    def _touch(self, machine: str) -> None:
        """touch h: press a key."""
        self._read(machine, last_input=self._world.now())

    def _load(self, machine: str, load: str) -> None:
        """load h 1.5: the owner's own processes cause this load."""
        self._read(machine, load=float(load))

    def _read(self, machine: str, **readings: object) -> None:
        previous = self._world.sense(machine)
        self._world.set_readings(machine, replace(previous if previous else NOTHING_READ, **readings))

    def _benchmarked(self, slot: str, mips: str, kflops: str) -> StimulusResult:
        return self._handle(s.BenchmarksDone(self._id("benchmarks"), slot, int(mips), int(kflops)))

    def _configure(self, machine: str, *arguments: str) -> StimulusResult:
        """configure h POLLING_INTERVAL=10 slot1@h.PREEMPT=false: all the settings; the changes of the ads."""
        settings = {name: text for name, text in _options(arguments).items() if "." not in name}
        slots = [slot for slot in self.engine.state.slots.values() if slot.machine == machine and not slot.parent]
        plans = []
        for slot in slots:
            slot_settings = {
                name.removeprefix(f"{slot.name}."): text
                for name, text in _options(arguments).items()
                if name.startswith(f"{slot.name}.")
            }
            plans.append(s.SlotPlan(slot.name, slot.kind, {**slot.ad, **slot_settings}))
        return self._handle(s.Reconfigure(self._id("configure"), machine, settings, {}, tuple(plans)))

    # The backfill client

    def _client(self, machine: str, *arguments: str) -> None:
        """client h seconds=30: how the next clients behave; client h immortal: no signal ends them."""
        seconds = float(_options(arguments).get("seconds", CLIENT.seconds))
        self._world.clients[machine] = replace(CLIENT, seconds=seconds, immortal="immortal" in arguments)

    def _exit(self, machine: str, code: str = "0") -> None:
        """exit h 1: the client exits."""
        self._world.end_client(machine, int(code))

    # The administrator

    def _drain(self, machine: str, schedule: str, *arguments: str) -> StimulusResult:
        """drain h Graceful completion=resume start=true"""
        return self._handle(s.Drain(self._id("drain"), "root", machine, schedule, "because", **_options(arguments)))

    def _undrain(self, machine: str) -> StimulusResult:
        return self._handle(s.CancelDrain(self._id("undrain"), "root", machine))

    def _off(self, machine: str, how: str) -> StimulusResult:
        return self._handle(s.ShutDown(self._id("off"), "root", machine, how))

    def _freeze(self, slot: str) -> StimulusResult:
        return self._handle(s.SuspendClaim(self._id("freeze"), "root", slot))

    def _thaw(self, slot: str) -> StimulusResult:
        return self._handle(s.ContinueClaim(self._id("thaw"), "root", slot))

    # A claim holder outside the pool

    def _notify(self, slot: str) -> StimulusResult:
        return self._handle(s.NotifyMatch(self._id("notify"), slot))

    def _claim(self, slot: str, claim: str, *arguments: str) -> StimulusResult:
        """claim slot1@h c1 lease=60 Department=3: capitalized names are the job's attributes."""
        options = _options(arguments)
        lease = int(options.pop("lease", "0"))
        ad = {"Owner": quoted("carol"), "User": quoted("carol@example.org"), "RequestCpus": "1", **options}
        job = f"77.{claim.removeprefix('c')}"
        return self._handle(s.RequestClaim(self._id("claim"), slot, claim, HOLDER, "carol@example.org", job, ad, lease))

    def _begin(self, slot: str, job: str = "77.1", *arguments: str) -> StimulusResult:
        """begin slot1@h 77.1 key=run-1 Department=3: with a key, the execution point runs the job."""
        options = _options(arguments)
        key = options.pop("key", "")
        return self._handle(s.ActivateClaim(self._id("begin"), slot, job, options, key=key))

    def _report(self, slot: str) -> StimulusResult:
        return self._handle(s.StarterReported(self._id("report"), slot))

    def _gone(self, slot: str) -> StimulusResult:
        return self._handle(s.StarterGone(self._id("gone"), slot))

    def _finish(self, slot: str, *arguments: str) -> StimulusResult:
        return self._handle(s.DeactivateClaim(self._id("finish"), slot, "fast" in arguments, "closing" in arguments))

    def _give(self, slot: str) -> StimulusResult:
        return self._handle(s.ReleaseClaim(self._id("give"), slot))

    def _fail(self, slot: str) -> StimulusResult:
        return self._handle(s.FailClaim(self._id("fail"), slot))

    def _withdraw(self, slot: str) -> StimulusResult:
        return self._handle(s.WithdrawClaim(self._id("withdraw"), slot))

    def _silent(self, slot: str) -> StimulusResult:
        return self._handle(s.HolderSilent(self._id("silent"), slot, self._world.now()))

    def _heard(self, slot: str) -> StimulusResult:
        return self._handle(s.HolderHeard(self._id("heard"), slot))

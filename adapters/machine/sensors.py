"""The sensors of this machine: when it was last used, and its load, for the policy of its slots.

The access time of a login terminal is the time of its last use. The file utmp lists the terminals with a login; without
it every terminal counts (HTCondor's STARTD_HAS_BAD_UTMP). The console is CONSOLE_DEVICES, by their access times, and
/dev/input, whose input is read and discarded; with KBDD in DAEMON_LIST, also the X server (``x_display``)."""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import iglob
from pathlib import Path

from msgspec import Struct, field

from ...domain.config import Configuration
from ...domain.coverage.settings import DAEMON_LIST, KBDD, parse_daemon_list
from ...domain.ports.sensor_readings import Readings
from .x_display import DEFAULT_DISPLAY, XDisplay

# The load of each slot's jobs: the cores that they kept busy over the last minute.
#
# Rule: the mean over a minute of the CPU time of a job's processes, at most the machine's load, as in HTCondor.

WINDOW = 60_000_000  #: the length of the mean, in microseconds


class _CpuTimes(Struct):
    """A job's CPU time (microseconds) at its measurements, in order."""

    slot: str
    samples: deque[tuple[int, int]] = field(default_factory=deque)

    def add_measurement(self, at: int, used_us: int) -> None:
        self.samples.append((at, used_us))
        while len(self.samples) > 2 and self.samples[1][0] <= at - WINDOW:
            self.samples.popleft()

    def cores(self, now: int) -> float:
        """Return the mean number of cores used in the window. The time before the first measurement counts as idle."""
        first_sample, last_sample = self.samples[0], self.samples[-1]
        return max(0, last_sample[1] - first_sample[1]) / max(WINDOW, now - first_sample[0], 1)


class CondorLoad(Struct):
    """The load of the slots' jobs, from their measured usage."""

    _jobs: dict[str, _CpuTimes] = field(default_factory=dict)

    def add_activation(self, key: str, slot: str, at: int) -> None:
        """Add an activation that has started."""
        self._jobs[key] = _CpuTimes(slot)
        self._jobs[key].add_measurement(at, 0)

    def record_cpu_time(self, key: str, at: int, used_us: int) -> None:
        """Record the total CPU time of an activation, in microseconds."""
        if key in self._jobs:
            self._jobs[key].add_measurement(at, used_us)

    def remove_activation(self, key: str) -> None:
        self._jobs.pop(key, None)

    def loads(self, now: int, most: float) -> Mapping[str, float]:
        """Return the load of each slot; no value exceeds ``most``, which is the machine's load."""
        return {job.slot: min(job.cores(now), most) for job in self._jobs.values()}


class Sensors(Struct, frozen=True):
    _idle: Idle

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> Sensors:
        """Return the sensors of a configuration: CONSOLE_DEVICES, STARTD_HAS_BAD_UTMP, X_CONSOLE_DISPLAY."""
        devices = configuration.get("CONSOLE_DEVICES").replace(",", " ").split()
        console = [device.removeprefix("/dev/") for device in devices]
        display = configuration.get("X_CONSOLE_DISPLAY")
        if not display and KBDD in parse_daemon_list(configuration.get(DAEMON_LIST)):
            display = DEFAULT_DISPLAY
        bad_utmp = configuration.boolean("STARTD_HAS_BAD_UTMP", False)
        return cls(Idle(console, bad_utmp=bad_utmp, x_display=XDisplay(display) if display else None))

    def read(self, now: int, condor_load: Mapping[str, float]) -> Readings:
        """Return the readings at the instant ``now``."""
        any_input, console_input = self._idle.recent(now)
        return Readings(any_input, console_input, machine_load(), condor_load)

    def close(self) -> None:
        self._idle.close()


def machine_load() -> float:
    """Return the machine's load average over a minute, or 0 if the system has none."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


_UTMP = struct.Struct("=hxxi32s4s32s256shhiii4i20x")
"""A record of glibc's utmp: its kind, the process, the line; the rest is skipped."""
_USER_PROCESS = 7
_READ_EVERY = 100_000  #: microseconds


def logged_in(utmp: Path) -> list[str] | None:
    """Return the terminals with a login, such as pts/3, or None if the system does not record them."""
    try:
        data = utmp.read_bytes()
    except OSError:
        return None
    complete_size = len(data) - len(data) % _UTMP.size
    lines = [record[2] for record in _UTMP.iter_unpack(data[:complete_size]) if record[0] == _USER_PROCESS]
    return [line.partition(b"\0")[0].decode(errors="replace") for line in lines]


def terminals(devices: Path) -> Iterator[str]:
    for pattern in ("tty*", "pty*", "pts/*"):
        yield from iglob(pattern, root_dir=devices)


def last_access(devices: Path, names: Iterable[str]) -> int | None:
    """Return the latest access time of these devices, in microseconds. Ignore files that are not devices, and ignore
    /dev/null."""
    null_major = _major_device_number(devices / "null")
    latest_time = 0
    for name in names:
        if not name or name.startswith("unix:"):
            continue
        with suppress(OSError):
            info = os.stat(os.path.join(devices, name))
            if null_major is None or os.major(info.st_rdev) != null_major:
                latest_time = max(latest_time, info.st_atime_ns // 1000)
    return latest_time or None


def _major_device_number(path: Path) -> int | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return os.major(info.st_rdev) if info.st_rdev else None


class InputDevices:
    """Keyboards and mice: the readable devices below /dev/input."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}

    def had_input(self) -> bool:
        """Return True if any device had input since the last call."""
        had_input = False
        present_names = {path.name for path in self._folder.glob("event*")}
        for name in [name for name in self._open if name not in present_names]:
            os.close(self._open.pop(name))
        for name in sorted(present_names):
            if name not in self._open:
                with suppress(OSError):
                    self._open[name] = os.open(self._folder / name, os.O_RDONLY | os.O_NONBLOCK)
        for descriptor in self._open.values():
            with suppress(OSError):
                while os.read(descriptor, 65536):
                    had_input = True
        return had_input

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


class Idle:
    """When this machine was last used. ``root`` is /; ``console`` are CONSOLE_DEVICES, ``bad_utmp`` is
    STARTD_HAS_BAD_UTMP."""

    def __init__(
        self, console: Sequence[str] = (), *, bad_utmp: bool = False, root: Path = Path("/"),
        x_display: XDisplay | None = None,
    ) -> None:  # fmt: skip
        self._x_display = x_display
        self._devices, self._utmp = root / "dev", root / "var/run/utmp"
        self._console, self._bad_utmp = tuple(console), bad_utmp
        self._input = InputDevices(self._devices / "input")
        self._seen: int | None = None
        self._touched: int | None = None
        self._recent: tuple[int | None, int | None] = (None, None)
        self._recent_at = 0

    def recent(self, now: int) -> tuple[int | None, int | None]:
        """Return the result of ``read`` as of at most `_READ_EVERY` ago: it looks at all terminals."""
        if not self._recent_at <= now < self._recent_at + _READ_EVERY:
            self._recent, self._recent_at = self.last_use(now), now
        return self._recent

    def last_use(self, now: int) -> tuple[int | None, int | None]:
        """Return the instants, in microseconds, of the last use anywhere and at the console; None: unknown. An access
        time in the future counts as now."""
        lines = None if self._bad_utmp else logged_in(self._utmp)
        terminal_input = last_access(self._devices, terminals(self._devices) if lines is None else lines)
        if self._input.had_input():
            self._touched = now
        x_input = self._x_display.last_input(now) if self._x_display is not None else None
        self._touched = _latest_instant(self._touched, x_input)
        console = _latest_instant(last_access(self._devices, self._console), self._touched)
        self._seen = _latest_instant(self._seen, terminal_input, console)
        return _not_later(self._seen, now), _not_later(console, now)

    def close(self) -> None:
        self._input.close()
        if self._x_display is not None:
            self._x_display.close()


def _latest_instant(*instants: int | None) -> int | None:
    return max((instant for instant in instants if instant is not None), default=None)


def _not_later(instant: int | None, now: int) -> int | None:
    return None if instant is None else min(instant, now)

"""Slot ads for benchmarks: variations of a recorded ad (tests/data/classad/slot.ad)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

SLOT_AD = Path(__file__).parent.parent / "data" / "classad" / "slot.ad"

# The Requirements that condor_submit writes, and a last clause that half of the slots fail.
REQUIREMENTS = (
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") &&'
    ' (versionGE(split(TARGET.CondorVersion)[1],"25.12.0") || (TARGET.Disk >= RequestDisk)) &&'
    " (TARGET.Memory >= RequestMemory) && ((TARGET.FileSystemDomain == MY.FileSystemDomain) ||"
    " (TARGET.HasFileTransfer)) && (TARGET.LoadAvg < 2.0)"
)


def slot_texts(count: int, seed: int = 1) -> Iterator[str]:
    """Yield the ads of ``count`` slots as old ClassAds: 153 attributes each, 28 of which differ between slots."""
    rng = random.Random(seed)
    lines = [line for line in SLOT_AD.read_text().split("\n") if line]
    for number in range(count):
        values = _slot_values(rng, number)
        new_lines = (f"{name} = {values[name]}" if name in values else line for line in lines for name in [_name(line)])
        yield "\n".join(new_lines) + "\n"


def _name(line: str) -> str:
    return line.split(" = ", 1)[0]


def _slot_values(rng: random.Random, number: int) -> dict[str, object]:
    cpus = rng.choice([1, 2, 4, 8, 16, 32, 64])
    memory = cpus * rng.choice([1024, 2048, 3000, 4096])
    disk = rng.randrange(10**6, 10**9)
    host = f"e{number:06}.example.org"
    address = (
        f'"<10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:9618?addrs=10.0.0.1-9618'
        f'&alias={host}&noUDP&sock=startd_{number}_ebd9>"'
    )
    now = 1795213255
    return {
        "Name": f'"slot1@{host}"',
        "Machine": f'"{host}"',
        "MyAddress": address,
        "StartdIpAddr": address,
        "Cpus": cpus,
        "DetectedCpus": cpus,
        "TotalSlotCpus": cpus,
        "TotalCpus": float(cpus),
        "Memory": memory,
        "TotalMemory": memory,
        "TotalSlotMemory": memory,
        "Disk": disk,
        "TotalDisk": disk,
        "GPUs": rng.choice([0, 0, 0, 1, 4]),
        "LoadAvg": round(rng.random() * 4, 2),
        "CondorLoadAvg": round(rng.random(), 2),
        "KeyboardIdle": rng.randrange(10**5),
        "ConsoleIdle": rng.randrange(10**5),
        "LastHeardFrom": now - rng.randrange(300),
        "MyCurrentTime": now - rng.randrange(300),
        "DaemonStartTime": now - rng.randrange(10**6),
        "EnteredCurrentState": now - rng.randrange(10**5),
        "UpdateSequenceNumber": rng.randrange(1000),
        "State": rng.choice(['"Unclaimed"', '"Owner"', '"Claimed"']),
        "Activity": rng.choice(['"Idle"', '"Busy"']),
        "Arch": rng.choice(['"X86_64"'] * 19 + ['"aarch64"']),
        "OpSysAndVer": rng.choice(['"Debian12"', '"Rocky9"', '"Rocky8"']),
        "CondorVersion": rng.choice(
            [f'"$CondorVersion: 25.{n}.1 2026-10-16 PackageID: 25.{n}.1+dfsg-1 $"' for n in (8, 12, 14)]
        ),
        "FileSystemDomain": f'"d{rng.randrange(20)}"',
    }

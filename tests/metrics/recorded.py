"""What HTCondor's gangliad and metricd published about a recorded pool, and the ads from which they did so."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from poolbook.domain.classad import ClassAd, Context

DATA = Path(__file__).parent.parent / "data/monitoring"
HOST = "cm1.poola.example"
NOW = Context(now=1795719858)


def ads() -> list[ClassAd]:
    """The ads of the pool's daemons, submitters and slots a few seconds after the recorded update."""
    text = gzip.decompress((DATA / "ads.gz").read_bytes()).decode()
    return [ClassAd.from_old(part) for part in re.split(r"^###.*$|\n\n", text, flags=re.M) if part.strip()]


def ganglia_lines() -> list[list[str]]:
    """The packets of an update: kind, host, name, spoofed, type, units, slope, tmax, dmax, and extra or value."""
    return [
        line.split("\t")
        for line in gzip.decompress((DATA / "ganglia/packets.tsv.gz").read_bytes()).decode().splitlines()
    ]


def libganglia_packets() -> list[bytes]:
    """The packets of condor_gangliad with libganglia."""
    lines = gzip.decompress((DATA / "ganglia/packets.hex.gz").read_bytes()).decode().split()
    return [bytes.fromhex(line) for line in lines]

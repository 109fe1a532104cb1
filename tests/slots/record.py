"""What a real startd makes of configurations: run once, against a real pool, to make tests/data/slots/offers.json.gz.

    python -m tests.slots.record POOL_SCRIPT POOL_FOLDER

Each of the ``configurations`` is laid over the pool's own, the startd is restarted, and the attributes of
its slots' ads that the layout decides are kept; or what its log says, where it does not come up.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from .configurations import DATA, FACTS, KEPT, configurations

PATIENCE = 60
"""Seconds until a startd that has not come up is given up."""
WRONG = re.compile(
    r".*(?:allocate .*slot|Bad description|Unknown attribute|bind local resource|Can't parse|Can't define|reserved).*"
)
"""What a startd's log says of slots that cannot be made."""


def main(script: str, folder: str) -> None:
    root = Path(folder) / "root"
    place = root / "etc/condor/config.d/99-slots.conf"
    log = root / "var/log/condor/StartLog"

    def run(*words: str) -> str:
        done = subprocess.run(["bash", script, "run", folder, *words], capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    def restarted(number: int, text: str) -> None:
        place.write_text(f"{text}\nSTARTD_ATTRS = $(STARTD_ATTRS) Recorded\nRecorded = {number}\n")
        for pid in startds():  # the master starts another, which reads what is there now
            os.kill(pid, signal.SIGKILL)

    def startds() -> list[int]:
        master = (root / "tmp/master.pid").read_text().strip()
        listed = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", master], capture_output=True, text=True).stdout
        return [int(pid) for pid, comm in map(str.split, listed.splitlines()) if comm == "condor_startd"]

    def ads(number: int) -> list[dict[str, str]]:
        found = []
        for block in run("condor_status", "-l", "-constraint", f"Recorded == {number}").split("\n\n"):
            ad = dict(line.split(" = ", 1) for line in block.splitlines() if " = " in line)
            if ad:
                found.append(ad)
        return found

    def settled(number: int, begin: int) -> tuple[list[dict[str, str]], str]:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            time.sleep(0.5)
            found = ads(number)
            if found and len(found) == int(found[0].get("TotalSlots", "0")):
                return found, ""
            text = log.read_bytes()[begin:].decode(errors="replace")
            wrong = WRONG.findall(text)
            if wrong and time.monotonic() > until - PATIENCE + 12:
                return found, "\n".join(dict.fromkeys(wrong))
        return ads(number), "nothing came up"

    records = []
    for number, (name, text) in enumerate(configurations(), int(time.time()) % 100_000 * 1000):
        begin = log.stat().st_size if log.exists() else 0
        restarted(number, text)
        slots, error = settled(number, begin)
        kept = [{key: ad[key] for key in ad if KEPT.fullmatch(key)} for ad in slots]
        kept.sort(key=lambda ad: int(ad["SlotID"]))
        facts = {key: slots[0][key] for key in FACTS if slots and key in slots[0]}
        records.append({"name": name, "text": text, "slots": kept, "facts": facts, "error": error})
        print(f"{name}: {len(kept)} slots {error[:200]}", flush=True)
    place.unlink(missing_ok=True)
    (DATA / "offers.json.gz").write_bytes(gzip.compress(json.dumps(records, indent=0).encode(), mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])

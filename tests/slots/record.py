"""Record the slot ads that HTCondor's startd makes of configurations, in tests/data/slots/offers.json.gz.

    python -m tests.slots.record POOL_SCRIPT POOL_FOLDER

Each of the ``configurations`` is added to the pool's configuration, and the startd is restarted. The recording has
those attributes of its slots' ads that depend on the configuration, or the errors in its log if it does not start.
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

from .configurations import DATA, FACTS, RECORDED_NAMES, configurations

TIMEOUT = 60
"""Seconds to wait for a startd."""
ERROR_MESSAGES = re.compile(
    r".*(?:allocate .*slot|Bad description|Unknown attribute|bind local resource|Can't parse|Can't define|reserved).*"
)
"""Messages in the startd's log about slots that it cannot create."""


def main(script: str, folder: str) -> None:
    root = Path(folder) / "root"
    config_file = root / "etc/condor/config.d/99-slots.conf"
    log = root / "var/log/condor/StartLog"

    def run(*command: str) -> str:
        process = subprocess.run(["bash", script, "run", folder, *command], capture_output=True, text=True, timeout=60)
        return process.stdout + process.stderr

    def restart_startd(number: int, text: str) -> None:
        config_file.write_text(f"{text}\nSTARTD_ATTRS = $(STARTD_ATTRS) Recorded\nRecorded = {number}\n")
        for pid in startds():  # the master starts another one, which reads the new file
            os.kill(pid, signal.SIGKILL)

    def startds() -> list[int]:
        master = (root / "tmp/master.pid").read_text().strip()
        output = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", master], capture_output=True, text=True).stdout
        return [int(pid) for pid, comm in map(str.split, output.splitlines()) if comm == "condor_startd"]

    def read_ads(number: int) -> list[dict[str, str]]:
        ads = []
        for block in run("condor_status", "-l", "-constraint", f"Recorded == {number}").split("\n\n"):
            ad = dict(line.split(" = ", 1) for line in block.splitlines() if " = " in line)
            if ad:
                ads.append(ad)
        return ads

    def wait_for_ads(number: int, log_start: int) -> tuple[list[dict[str, str]], str]:
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            time.sleep(0.5)
            ads = read_ads(number)
            if ads and len(ads) == int(ads[0].get("TotalSlots", "0")):
                return ads, ""
            text = log.read_bytes()[log_start:].decode(errors="replace")
            errors = ERROR_MESSAGES.findall(text)
            if errors and time.monotonic() > deadline - TIMEOUT + 12:
                return ads, "\n".join(dict.fromkeys(errors))
        return read_ads(number), "no slots appeared"

    records = []
    for number, (name, text) in enumerate(configurations(), int(time.time()) % 100_000 * 1000):
        log_start = log.stat().st_size if log.exists() else 0
        restart_startd(number, text)
        slots, error = wait_for_ads(number, log_start)
        slot_ads = [{key: ad[key] for key in ad if RECORDED_NAMES.fullmatch(key)} for ad in slots]
        slot_ads.sort(key=lambda ad: int(ad["SlotID"]))
        facts = {key: slots[0][key] for key in FACTS if slots and key in slots[0]}
        records.append({"name": name, "text": text, "slots": slot_ads, "facts": facts, "error": error})
        print(f"{name}: {len(slot_ads)} slots {error[:200]}", flush=True)
    config_file.unlink(missing_ok=True)
    (DATA / "offers.json.gz").write_bytes(gzip.compress(json.dumps(records, indent=0).encode(), mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])

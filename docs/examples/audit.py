"""Read a log without a running pool: count events, verify the log, and explain the state of a job.

The example creates a small log first, and then reads it as an auditor would.
"""

import tempfile
from collections import Counter
from pathlib import Path

from poolbook import Log, Pool, events

path = str(Path(tempfile.mkdtemp()) / "pool.db")
with Pool.open(path, user="alice", uid_domain="example.org") as pool:
    pool.add_machine("node1", cpus=1, memory=1024)
    pool.submit({"executable": "/bin/sleep", "arguments": "300"}, count=2)
    pool.advance(100)
    pool.vacate_slot("slot1_1@node1")
    pool.run()

with Log.open(path) as log:
    kinds = Counter(type(event) for _, event in log.events())
    print("jobs ended:", kinds[events.JobExited], "slot transitions:", kinds[events.SlotTransitioned])
    print("events that no rule allowed:", log.verify().violations)
    print("why job 1.0 is in its state:")
    for sentence in log.why("1.0", verbose=True):
        print(" ", sentence)

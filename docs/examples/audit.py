"""Reading a log that lies somewhere: what it holds, whether it is sound, and why something happened.

This makes a small log first, so that there is one to read; then it looks at it as an auditor would, with no pool
running.
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
    print("not allowed by any rule:", log.verify().violations)
    print("why job 1.0 is where it is:")
    for sentence in log.why("1.0", verbose=True):
        print(" ", sentence)

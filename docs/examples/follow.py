"""Following a log while its pool runs: what happens to jobs, as it happens.

The pool and whoever follows its log are two tasks here; they could be two programs, on two machines.
"""

import asyncio
import tempfile
from pathlib import Path

from poolbook import AsyncLog, AsyncPool, Behaviour
from poolbook.events import JobActivated, JobExited


async def follow(url: str) -> None:
    """Tell of starts and ends, until the second job has ended by itself."""
    ended = 0
    async with AsyncLog.open(url) as log:
        async for _, event in log.follow(0, interval=0.05):
            match event:
                case JobActivated():
                    print(f"{event.cluster}.{event.proc} starts on {event.slot}")
                case JobExited(outcome="exited"):
                    print(f"{event.cluster}.{event.proc} ends with code {event.code}")
                    ended += 1
                case JobExited():
                    print(f"{event.cluster}.{event.proc} is {event.outcome}")
            if ended == 2:
                return


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "pool.db")
        async with AsyncPool.open(url, user="alice", behave=lambda launch: Behaviour(seconds=300)) as pool:
            following = asyncio.create_task(follow(url))
            await pool.add_machine("node1")
            await pool.submit({"executable": "/bin/work"}, count=2)
            await pool.advance(100)
            await pool.vacate("1.0", fast=True)
            await pool.run()
            await following


asyncio.run(main())

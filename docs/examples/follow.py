"""Follow a log while its pool runs, and print the starts and ends of jobs.

The pool and the follower are two tasks here, but they could also be two programs.
"""

import asyncio
import tempfile
from pathlib import Path

from poolbook import AsyncLog, AsyncPool, Behaviour
from poolbook.events import JobActivated, JobExited


async def follow(url: str) -> None:
    """Print starts and ends until two jobs have exited."""
    exited_jobs = 0
    async with AsyncLog.open(url) as log:
        async for _, event in log.follow(0, interval=0.05):
            match event:
                case JobActivated():
                    print(f"{event.cluster}.{event.proc} starts on {event.slot}")
                case JobExited(outcome="exited"):
                    print(f"{event.cluster}.{event.proc} ends with code {event.code}")
                    exited_jobs += 1
                case JobExited():
                    print(f"{event.cluster}.{event.proc} is {event.outcome}")
            if exited_jobs == 2:
                return


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "pool.db")
        async with AsyncPool.open(url, user="alice", behave=lambda launch: Behaviour(seconds=300)) as pool:
            follower = asyncio.create_task(follow(url))
            await pool.add_machine("node1")
            await pool.submit({"executable": "/bin/work"}, count=2)
            await pool.advance(100)
            await pool.vacate("1.0", fast=True)
            await pool.run()
            await follower


asyncio.run(main())

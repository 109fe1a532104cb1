"""Embed a pool in a program: submit jobs, advance the time, query the pool.

The time is virtual, so an hour passes in a moment. `Pool.open("pool.db", execute=True)` runs the jobs on this machine
instead.
"""

from poolbook import Behaviour, Launch, Pool


def behave(launch: Launch) -> Behaviour:
    """Let each job run for ten minutes, and every second one fail."""
    return Behaviour(seconds=600, code=launch.proc % 2)


with Pool.open("memory:", user="alice", uid_domain="example.org", behave=behave) as pool:
    pool.add_machine("node1", cpus=4, memory=8192)
    pool.subscribe(lambda position, event: None)  # called with each event after it was logged

    cluster = pool.submit({"executable": "/bin/work", "arguments": "$(Process)", "request_memory": "2 GB"}, count=6)
    print("just submitted:", sorted((job["ProcId"], job["JobStatus"]) for job in pool.jobs()))

    pool.hold(f"{cluster}.5", reason="not yet")
    pool.advance(660)
    print("after 11 minutes:", [(job["ProcId"], job["JobStatus"]) for job in pool.jobs()])

    pool.release(f"{cluster}.5")
    pool.run()
    print("at the end:", sorted((job["ProcId"], job["ExitCode"]) for job in pool.history()))
    print("alice used", pool.usage())

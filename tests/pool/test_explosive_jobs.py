"""golden: jobs of a few lines whose expressions have 2^40 nodes, in a pool for all users: no other user waits."""

from __future__ import annotations

import os

import pytest

from ..classad.explosions import SHAPES
from .test_strangers import folder_of_all
from .test_users import CONF, OTHER, OWNER, PoolForAll

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can serve a pool for all users")

EVERYWHERE = """rank = E40
periodic_hold = E40 =?= 3
periodic_release = E40 =?= 3
periodic_remove = E40 =?= 3
on_exit_hold = E40 =?= 3
on_exit_remove = E40 =!= 3
leave_in_queue = E40 =?= 3
concurrency_limits_expr = strcat("a", E40)
+Wanted = "$$([E40])"
"""


def submit_file(shape: str) -> str:
    return "".join(f"+{name} = {text}\n" for name, text in SHAPES[shape].items())


def test_jobs_with_exploding_expressions_keep_no_other_user_waiting_even_after_a_restart() -> None:
    """Without a limit, no request would be answered; commands give up after a minute, and so would the test."""
    with folder_of_all() as folder:
        pool = PoolForAll(folder.path)
        pool.path.chmod(0o755)
        pool.write("pool.conf", CONF + "PERIODIC_EXPR_INTERVAL = 1\nMAX_PERIODIC_EXPR_INTERVAL = 1\n")
        with pool.served("-users", "-config", "pool.conf") as server:
            for shape in ("sums", "strings", "lists", "nested ads", "choices by the slot", "circular references"):
                for used in ("requirements = E40 =!= 3\n", EVERYWHERE):
                    pool.submit(OWNER, "exit 0", submit_file(shape) + used)
            assert pool.output_of_job(OTHER, "echo on") == ["on"]
            server.kill()
            server.wait()
        (pool.path / "pool.db.sock").unlink(missing_ok=True)
        with pool.served("-users", "-config", "pool.conf"):
            assert pool.output_of_job(OTHER, "echo on again") == ["on again"]
            assert "Total for all users" in pool.says(OTHER, "q", "-allusers")


CHECKED = """JOB_TRANSFORM_NAMES = Copy
JOB_TRANSFORM_Copy @=end
  REQUIREMENTS E40 =!= 3
  EVALSET Copied E40
@end
SUBMIT_REQUIREMENT_NAMES = Least
SUBMIT_REQUIREMENT_Least = E40 =!= 3 || true
SUBMIT_REQUIREMENT_Least_REASON = strcat("no ", E40)
"""
COMMANDS = (
    ("q", "-constraint", "E40 > 0"),
    ("q", "-af", "E40", "E39"),
    ("q", "-format", "%s", "E40"),
    ("qedit", "-constraint", "E40 =!= 3", "Added", "E40 + E40"),
    ("hold", "-constraint", "E40 =!= 3 && E39 =!= 3"),
    ("release", "-constraint", "Added =!= 3"),
    ("history", "-constraint", "E40 > 0"),
    ("rm", "-constraint", "E40 =!= 3"),
)


@pytest.mark.parametrize("shape", ["contexts", pytest.param("sums of random numbers", marks=pytest.mark.soak)])
def test_commands_and_submissions_with_such_jobs_keep_no_other_user_waiting(shape: str) -> None:
    """Without a limit, a request of the other user would not be answered within a minute."""
    with folder_of_all() as folder:
        pool = PoolForAll(folder.path)
        pool.path.chmod(0o755)
        pool.write("pool.conf", CONF + CHECKED)
        with pool.served("-users", "-config", "pool.conf"):
            for fields in (
                "",
                "accounting_group = E40\n",
                "cron_minute = */5\n+CronHour = E40\n",
                "deferral_time = E40\n",
            ):
                home = pool.home(OWNER)
                (home / "job.sub").write_text(
                    f"executable = /bin/true\n{submit_file(shape)}{fields}requirements = false\nqueue 3\n"
                )
                pool.says(OWNER, "submit", "job.sub")
            cluster = pool.submit(OTHER, "exit 0", "hold = true")
            for command in COMMANDS:
                pool.says(OWNER, *command)
                assert "Set attribute" in pool.says(OTHER, "qedit", f"{cluster}.0", "Answered", "true")
            assert pool.output_of_job(OTHER, "echo on") == ["on"]


def test_a_table_shows_the_start_of_a_huge_hold_reason_and_how_much_is_cut() -> None:
    with folder_of_all() as folder:
        pool = PoolForAll(folder.path)
        pool.path.chmod(0o755)
        pool.write("pool.conf", CONF + "PERIODIC_EXPR_INTERVAL = 1\n")
        with pool.served("-users", "-config", "pool.conf"):
            condition = f'"{"x" * 100_000}" isnt undefined'
            cluster = pool.submit(OWNER, "sleep 1000", f"periodic_hold = {condition}\nperiodic_hold_subcode = 7")
            pool.wait_for_end(cluster)
            reason = pool.says(None, "q", "-allusers", str(cluster), "-af", "HoldReason")
            assert len(reason) > len(condition)
            for arguments in (("q", "-hold", "-allusers"), ("why", f"{cluster}.0")):
                output = pool.says(None, *arguments)
                assert "more characters)" in output
                assert len(output) < 10_000

"""Golden: a pool that root serves for all users: the accounts of real jobs, their environment and files, and what
another user cannot do. The users are the system's; one pool serves all cases."""

from __future__ import annotations

import os
import pwd
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.adapters.machine.execution.activation import UnixAccount
from poolbook.adapters.machine.spool import Spool

from .. import forked
from .real import PATIENCE, POOLBOOK, environment
from .test_strangers import SharedFolder, folder_of_all

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can serve a pool for all users")

OWNER, SLOTS, OTHER = (pwd.getpwnam(name) for name in ("games", "mail", "news"))
NOBODY = pwd.getpwnam("nobody")
CONF = "UPDATE_INTERVAL = 1\nNUM_SLOTS = 2\nNUM_SLOTS_TYPE_1 = 2\nSLOT_TYPE_1 = cpus=1\nRunBenchmarks = false\n"
HEAD = "request_memory = 16\nrequest_disk = 1 MB\n"


class PoolForAll(SharedFolder):
    """A served pool, and a directory of each user that only that user may write."""

    def home(self, user: pwd.struct_passwd) -> Path:
        home = self.path / user.pw_name
        if not home.exists():
            home.mkdir()
            os.chown(home, user.pw_uid, user.pw_gid)
        return home

    def says(self, user: pwd.struct_passwd | None, *arguments: str) -> str:
        """Return the output of a command that a user types in the user's own directory."""
        home = self.path if user is None else self.home(user)
        env = {**environment(), "POOLBOOK_LOG": str(self.path / "pool.db"), "HOME": str(home)}
        env |= {"XDG_CACHE_HOME": str(home / ".cache"), "XDG_STATE_HOME": str(home / ".state")}
        return self.said_to(None if user is None else user.pw_uid, *arguments, cwd=home, env=env)

    def submit(self, user: pwd.struct_passwd, script: str, more: str = "") -> int:
        """Submit a shell script as a user; return the cluster."""
        home = self.home(user)
        name = f"{len(list(home.iterdir()))}"
        (home / f"{name}.sh").write_text(f"#!/bin/sh\n{script}\n")
        (home / f"{name}.sh").chmod(0o755)
        (home / f"{name}.sub").write_text(
            f"executable = {name}.sh\noutput = {name}.out\nerror = {name}.err\nlog = {name}.log\n{HEAD}{more}\nqueue\n"
        )
        output = self.says(user, "submit", f"{name}.sub")
        assert "submitted to cluster" in output, output
        self.name = name
        return int(output.split("cluster ")[1].split(".")[0])

    def wait_for_end(self, cluster: int) -> str:
        """Wait until a job has left the queue or is held; return its status then."""

        def state() -> str:
            return self.says(None, "q", "-allusers", str(cluster), "-af", "JobStatus", "HoldReasonCode").strip()

        self.wait_for(lambda: state()[:1] in ("", "5"))
        return state()

    def configure(self, text: str) -> None:
        self.write("pool.conf", CONF + text)
        assert "Sent" in self.says(None, "reconfig")

    def output_of_job(self, user: pwd.struct_passwd, script: str, more: str = "") -> list[str]:
        """Run a job until it ends; return what it printed."""
        cluster = self.submit(user, script, more)
        state, name = self.wait_for_end(cluster), self.name
        home = self.home(user)
        assert state == "", (state, self.says(None, "why", f"{cluster}.0"))
        assert (home / f"{name}.err").read_text() == ""
        return (home / f"{name}.out").read_text().splitlines()


@pytest.fixture(scope="module")
def pool() -> Iterator[PoolForAll]:
    with folder_of_all() as folder:
        folder.path.chmod(0o755)
        served = PoolForAll(folder.path)
        served.path.chmod(0o755)
        served.write("pool.conf", CONF)
        with served.served("-users", "-config", "pool.conf"):
            yield served


NOT = "STARTER_ALLOW_RUNAS_OWNER = false\n"
SLOT_USERS = f"{NOT}SLOT1_USER = {SLOTS.pw_name}\nSLOT2_USER = {SLOTS.pw_name}\n"

# The configuration, what the job requests, and its account.
WHOM = [
    ("", "", OWNER),
    ("", "run_as_owner = false", NOBODY),
    (NOT, "", NOBODY),
    (SLOT_USERS, "", SLOTS),
    (SLOT_USERS, "universe = local", OWNER),
]
TELLS = """id -u; id -g; id -G; umask; ulimit -c; echo "$HOME"; stat -c '%u %a' "$_CONDOR_SCRATCH_DIR" "$_CONDOR_JOB_AD"
cat .job.ad >/dev/null 2>&1 && echo inside; echo made > made; exit 0"""


def test_jobs_run_in_the_configured_account_and_their_files_belong_to_the_owner(pool: PoolForAll) -> None:
    for text, fields, user in WHOM:
        pool.configure(text)
        for transfer in ("NO", "YES") if "local" not in fields else ("NO",):
            home = pool.home(OWNER)
            home.chmod(0o777 if transfer == "NO" else 0o755)
            case = (text, fields, transfer)
            lines = pool.output_of_job(OWNER, TELLS, f"{fields}\nshould_transfer_files = {transfer}")
            groups = " ".join(map(str, os.getgrouplist(user.pw_name, user.pw_gid)))
            expected = [str(user.pw_uid), str(user.pw_gid), groups, "0022", "0", user.pw_dir]
            scratch = [f"{user.pw_uid} 700", f"{user.pw_uid} 644"]
            assert lines[:8] == [*expected, *scratch], case
            assert (lines[8:] == ["inside"]) == (transfer == "YES"), case
            # The owner writes transferred files; the account that the job runs in writes the files that the job opens.
            writer = OWNER if transfer == "YES" else user
            for name in ("made", f"{pool.name}.out"):
                assert (home / name).stat().st_uid == writer.pw_uid, (case, name)
                (home / name).unlink()
            assert (home / f"{pool.name}.log").stat().st_uid == OWNER.pw_uid, case
    pool.configure("")
    assert "sound" in pool.says(None, "verify")


@pytest.mark.parametrize(("variable", "blocks"), [("4096", "8"), ("-1", "unlimited"), ("0", "0")])
def test_a_core_file_may_become_as_large_as_the_job_requests(pool: PoolForAll, variable: str, blocks: str) -> None:
    assert pool.output_of_job(OWNER, "ulimit -Sc; ulimit -Hc", f"core_size = {variable}") == [blocks, blocks]


def test_no_processes_remain_in_a_dedicated_account(pool: PoolForAll) -> None:
    lurker = forked.start(["-c", "import time; print('lurks', flush=True); time.sleep(1000)"], user=SLOTS.pw_uid)
    assert lurker.stdout is not None
    assert lurker.stdout.readline() == "lurks\n"
    pool.configure(SLOT_USERS)
    pool.output_of_job(OWNER, "true", "should_transfer_files = YES")
    assert lurker.poll() is None
    pool.configure(f"{SLOT_USERS}DEDICATED_EXECUTE_ACCOUNT_REGEXP = {SLOTS.pw_name}")
    pool.output_of_job(OWNER, "true", "should_transfer_files = YES")
    assert lurker.wait(PATIENCE) == -9
    pool.configure("")


# What a job of one user names that belongs to another or to root, and the hold code: the output, input, directory and
# program are opened with the owner's rights, and so are transferred files. Only root may read {secret}.
TRICKS = [
    ("output = {secret}", "", "5 7"),
    ("output = link", "ln -s {secret} link", "5 7"),
    ("error = {others}/x", "", "5 7"),
    ("input = {secret}", "", "5 8"),
    ("input = link", "ln -s {secret} link", "5 8"),
    ("executable = {closed}/run\ntransfer_executable = false", "", "5 6"),
    ("should_transfer_files = YES\ntransfer_input_files = {secret}", "", "5 13"),
    ("should_transfer_files = YES\ntransfer_input_files = link", "ln -s {secret} link", "5 13"),
    ("should_transfer_files = YES\ntransfer_output_files = {secret}", "", "5 12"),
    ('should_transfer_files = YES\ntransfer_output_files = x\ntransfer_output_remaps = "x = {others}/x"', "", "5 12"),
    ("should_transfer_files = YES\noutput = {others}/x", "", "5 12"),
    ("should_transfer_files = YES\nstream_output = true\noutput = {others}/x", "", "5 9"),
]


@pytest.fixture(scope="module")
def traps(pool: PoolForAll) -> dict[str, str]:
    closed = pool.path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "run").write_text("#!/bin/sh\n")
    (closed / "run").chmod(0o755)
    secret = pool.path / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    return {"secret": str(secret), "others": str(pool.home(OTHER)), "closed": str(closed)}


def test_files_that_a_job_names_are_opened_with_its_owners_rights(pool: PoolForAll, traps: dict[str, str]) -> None:
    home = pool.home(OWNER)
    clusters = []
    for number, (lines, before, code) in enumerate(TRICKS):
        folder = home / f"trick-{number}"
        folder.mkdir()
        if before:
            os.symlink(traps["secret"], folder / "link")
        for path in [*folder.iterdir(), folder]:
            os.chown(path, OWNER.pw_uid, OWNER.pw_gid, follow_symlinks=False)
        sub = f"executable = /bin/sh\narguments = \"-c 'echo x > x'\"\ntransfer_executable = false\n{HEAD}"
        (folder / "job.sub").write_text(
            f"{sub}log = {folder}/log\ninitialdir = {folder}\n{lines.format(**traps)}\nqueue\n"
        )
        output = pool.says(OWNER, "submit", str(folder / "job.sub"))
        assert "submitted to cluster" in output, (lines, output)
        clusters.append((int(output.split("cluster ")[1].split(".")[0]), lines, code))
    refused = (
        f"executable = /bin/true\ninitialdir = {traps['closed']}\nqueue\n",
        f"No such directory: {traps['closed']}",
    )
    (home / "closed.sub").write_text(refused[0])
    assert refused[1] in pool.says(OWNER, "submit", str(home / "closed.sub"))
    for cluster, lines, code in clusters:
        assert pool.wait_for_end(cluster) == code, (lines, pool.says(None, "why", f"{cluster}.0"))
        reason = pool.says(None, "q", "-allusers", str(cluster), "-af", "HoldReason")
        assert "ermission denied" in reason, (lines, reason)
    assert Path(traps["secret"]).read_text() == "root's"
    assert list(pool.home(OTHER).iterdir()) == []
    assert not any("secret" in names for _, _, names in os.walk(home))
    pool.says(OWNER, "rm", "-all")


def test_a_job_log_that_links_elsewhere_is_not_written(pool: PoolForAll, traps: dict[str, str]) -> None:
    """The link is created after the submission: condor_submit itself holds a job whose log cannot be written."""
    home = pool.home(OWNER)
    cluster = pool.submit(OWNER, "true", "hold = true")
    log = home / f"{pool.name}.log"
    log.unlink()
    log.symlink_to(traps["secret"])
    assert "released" in pool.says(OWNER, "release", str(cluster))
    assert pool.wait_for_end(cluster) == ""
    assert Path(traps["secret"]).read_text() == "root's"


def test_a_job_touches_neither_the_pools_files_nor_another_jobs(pool: PoolForAll) -> None:
    waits = pool.submit(OTHER, "echo $_CONDOR_SCRATCH_DIR > where; cp where $_CONDOR_SCRATCH_DIR/mine; sleep 1000")
    pool.wait_for((pool.home(OTHER) / "where").exists)
    place = (pool.home(OTHER) / "where").read_text().strip()
    pid = pool.says(None, "q", "-allusers", str(waits), "-af", "JobPid").strip()
    script = (
        f"cat {place}/mine; ls {place}; ls {pool.path}/pool.db.execute; ls {pool.path}/pool.db.d;"
        f"echo x > {place}/mine;"
        f"cat {place}/.job.ad; rm -rf {place} {pool.path}/pool.db; echo x >> {pool.path}/pool.db;"
        "for p in /proc/[0-9]*; do test -O $p || kill -9 ${p#/proc/}; done; cat /proc/*/environ"
    )
    cluster = pool.submit(OWNER, f"({script}) 2>/dev/null; true")
    name = pool.name
    assert pool.wait_for_end(cluster) == ""
    text = (pool.home(OWNER) / f"{name}.out").read_text()
    assert place not in text.replace(f"rm -rf {place}", "").split("\0")[0]
    assert pid != "" and pool.says(None, "q", "-allusers", str(waits), "-af", "JobStatus") == "2\n"
    assert Path(f"{place}/mine").exists()
    for command in ("rm", "hold", "vacate", "suspend"):
        assert "ermission denied" in (output := pool.says(OWNER, command, f"{waits}.0")), output
    output = pool.says(OWNER, "qedit", f"{waits}.0", "Environment", '"LD_PRELOAD=/tmp/x"')
    assert "Failed to set attribute" in output, output
    assert "marked for removal" in pool.says(OTHER, "rm", f"{waits}.0")
    assert "sound" in pool.says(None, "verify")


def test_links_in_a_scratch_directory_are_neither_followed_nor_given_away(
    pool: PoolForAll, traps: dict[str, str]
) -> None:
    """The job runs in the account nobody, so its scratch directory changes owners twice."""
    secret = Path(traps["secret"])
    readable = pool.path / "readable"
    readable.write_text("root's")
    before = readable.stat()
    cluster = pool.submit(
        OWNER,
        f"ln -s {secret} s; ln {readable} hard; ln -s {pool.path} up; mkdir d; ln -s {secret} d/s; echo x > d/x; true",
        "should_transfer_files = YES\nrun_as_owner = false\ntransfer_output_files = d",
    )
    assert pool.wait_for_end(cluster) == ""
    after = readable.stat()
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    assert os.listdir(pool.home(OWNER) / "d") == ["x"]
    pool.wait_for(lambda: not os.listdir(pool.path / "pool.db.execute"))


def test_the_files_of_an_evicted_job_are_stored_for_its_owner_alone(pool: PoolForAll) -> None:
    pool.configure(SLOT_USERS)
    home = pool.home(OWNER)
    script = "trap 'exit 9' TERM; test -e made && cat made && exit 0; id -u > made; sleep 1000 & wait"
    more = "should_transfer_files = YES\nwhen_to_transfer_output = ON_EXIT_OR_EVICT\ntransfer_output_files = made"
    cluster = pool.submit(OWNER, script, more)
    name = pool.name
    place = pool.path / f"pool.db.spool/{OWNER.pw_uid}/{cluster}/0/cluster{cluster}.proc0.subproc0"
    pool.wait_for(lambda: "001 (" in (home / f"{name}.log").read_text())
    pool.wait_for(lambda: list(pool.path.glob("pool.db.execute/dir_*/scratch/made")))
    pool.says(OWNER, "vacate", str(cluster))
    pool.wait_for(lambda: (place / "made").exists())
    assert {path.stat().st_uid for path in (place, place / "made")} == {OWNER.pw_uid}
    assert stat.S_IMODE(place.parent.parent.parent.stat().st_mode) == 0o700
    assert pool.wait_for_end(cluster) == ""
    assert (home / f"{name}.out").read_text() == f"{SLOTS.pw_uid}\n"
    pool.wait_for(lambda: not place.exists())
    pool.configure("")


PLUGIN = r"""#!/bin/sh
grep -o '\[[^]]*\]' "$2" | while read -r ad; do
    url=$(echo "$ad" | sed 's/.*Url = "\([^"]*\)".*/\1/') path=$(echo "$ad" | sed 's/.*FileName = "\([^"]*\)".*/\1/')
    mkdir -p "$(dirname "${url#own://}")"; cp "$path" "${url#own://}"
    echo "[ TransferUrl = \"$url\"; TransferSuccess = true ]"
done > "$4"
"""


def test_checkpoints_at_a_url_are_stored_and_deleted_as_the_owner(pool: PoolForAll) -> None:
    pool.write("clean", """rm "${2#own://}/$4"; id -un > "${2#own://}/../../$4" """)
    pool.write("map", f"* own:// /bin/sh,{pool.path}/clean\n")
    pool.configure(f"{SLOT_USERS}CHECKPOINT_DESTINATION_MAPFILE = {pool.path}/map\n")
    home = pool.home(OWNER)
    pool.write("plugin", PLUGIN)
    (pool.path / "plugin").chmod(0o755)
    more = "checkpoint_exit_code = 85\ntransfer_checkpoint_files = made\nshould_transfer_files = YES\n"
    more += f"checkpoint_destination = own://{home}/store\ntransfer_plugins = own={pool.path}/plugin\n"
    more += "transfer_output_files ="
    cluster = pool.submit(OWNER, "test -e made && exit 0; touch made; exit 85", more)
    assert pool.wait_for_end(cluster) == ""
    pool.wait_for(lambda: not list((pool.path / f"pool.db.spool/{OWNER.pw_uid}").iterdir()))
    (checkpoint,) = (home / "store").glob(f"*_{cluster}.0_*/0000")
    assert (list(checkpoint.iterdir()), checkpoint.stat().st_uid) == ([], OWNER.pw_uid)
    assert (home / "store/made").read_text() == f"{OWNER.pw_name}\n"
    pool.configure("")


def test_only_root_can_read_the_pools_files(pool: PoolForAll) -> None:
    modes = {
        "pool.db": 0o644, "pool.db.lock": 0o644, "pool.db.sock": 0o666, "pool.db.d": 0o700, "pool.db.execute": 0o711,
    }  # fmt: skip
    modes_found = {name: stat.S_IMODE((pool.path / name).lstat().st_mode) for name in modes}
    assert modes_found == modes


def test_roots_own_pool_runs_its_jobs_as_slot_users_if_they_may_not_run_as_root() -> None:
    with folder_of_all() as folder:
        folder.path.chmod(0o755)
        folder.write("pool.conf", f"{CONF}{SLOT_USERS}")
        script = "-c 'id -u > mine; id -u; stat -c %u .'"
        folder.write(
            "job.sub",
            f'executable = /bin/sh\narguments = "{script}"\nshould_transfer_files = YES\n{HEAD}'
            "transfer_executable = false\noutput = out\nqueue\n",
        )
        with folder.served("-config", "pool.conf"):
            folder.call("submit", "job.sub")
            folder.wait_for((folder.path / "out").exists)
        uid = str(SLOTS.pw_uid)
        assert (folder.path / "out").read_text().split() == [uid, uid]
        assert (folder.path / "mine").read_text() == f"{uid}\n"
        assert (folder.path / "mine").stat().st_uid == 0
        folder.wait_for(lambda: not os.listdir(folder.path / "pool.db.execute"))


def test_root_has_no_jobs_there(pool: PoolForAll) -> None:
    pool.write("root.sub", f"executable = /bin/true\n{HEAD}queue\n")
    output = pool.says(None, "submit", "root.sub")
    assert "The given user is not allowed to own jobs" in output


def test_another_user_may_not_serve_all() -> None:
    with folder_of_all() as folder:
        assert "-users: only root can run jobs as their owners" in folder.call_as(65534, "serve", "-users")


def test_a_place_that_others_may_write_serves_no_users() -> None:
    with folder_of_all() as folder:
        output = folder.call("serve", "-users", code=1)
        assert "cannot serve all users: others may write" in output


def test_a_place_that_others_cannot_enter_serves_no_users(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    completed = forked.run([*POOLBOOK, "serve", "-users"], cwd=closed, env=environment(), timeout=PATIENCE)
    assert "cannot serve all users:" in completed.stderr


def test_a_users_job_ends_with_its_supervisor_and_leaves_nothing_behind(pool: PoolForAll) -> None:
    """The next supervisor ends the job's processes, removes the scratch directory of the user, and starts the job
    again."""
    script = "echo $_CONDOR_SCRATCH_DIR >> places; mkdir -m 0 $_CONDOR_SCRATCH_DIR/d; test -s again || exec sleep 1000"
    cluster = pool.submit(OWNER, script)
    places = pool.home(OWNER) / "places"
    pool.wait_for(lambda: places.exists() and places.read_text())
    (first,) = places.read_text().split()
    pool.wait_for(lambda: Path(f"{first}/d").exists())
    (pool.home(OWNER) / "again").write_text("yes")
    os.kill(int((pool.path / "pool.db.d" / "lock").read_text()), signal.SIGKILL)
    assert pool.wait_for_end(cluster) == ""
    _, second = places.read_text().split()
    pool.wait_for(lambda: not Path(first).parent.exists() and not Path(second).parent.exists())
    assert "sound" in pool.says(None, "verify")


def test_a_users_spool_is_removed_with_the_users_rights_whatever_link_leads_to_it(pool: PoolForAll) -> None:
    spool = Spool(pool.path / "other.d")
    paths = {
        user.pw_name: Path(spool.path(0, 0, UnixAccount(user.pw_name, user.pw_uid, user.pw_gid)))
        for user in (OWNER, OTHER)
    }
    for user in (OWNER, OTHER):
        path = paths[user.pw_name]
        path.mkdir(parents=True)
        (path / "kept").touch()
        for place_of_user in (path, *path.parents[:2], path / "kept"):
            os.chown(place_of_user, user.pw_uid, user.pw_gid)
    own_folder, others = paths["games"], paths["news"]
    parent = own_folder.parents[2]
    spool.remove(str(own_folder))
    assert list(parent.iterdir()) == []
    (parent / "1").symlink_to(others.parents[1])
    spool.remove(str(own_folder))
    assert (others / "kept").exists()

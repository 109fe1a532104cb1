"""Golden: an action for another user has all rights of that user and of the user's groups, and no others. A file shows
it: it belongs to root, and one of the user's groups may use it, not the primary one."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine import accounts
from poolbook.adapters.machine.execution.activation import Chirp, Exited, FileTransfer, UnixAccount
from poolbook.adapters.machine.execution.supervisor.rights import UserIds, acting_as, become
from poolbook.adapters.machine.execution.supervisor.scratch import hand_over
from poolbook.adapters.runtime import job_users
from poolbook.adapters.runtime.hold_reasons import held_for_failure

from ..children import child
from ..pool.test_strangers import folder_of_all
from .bench import Bench
from .test_chirp import Client

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act with the rights of another user")

USER, OTHER = pwd.getpwnam("games"), pwd.getpwnam("news")
GROUP, OTHERS_GROUP = 54_321, 54_322  #: a group that the system does not have: a number is enough
GROUPS = (USER.pw_gid, GROUP)
RIGHTS = UserIds(USER.pw_uid, USER.pw_gid, GROUPS)
ACCOUNT = UnixAccount(USER.pw_name, USER.pw_uid, USER.pw_gid, GROUPS, "/")


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a directory that all users can enter, with a file for each of two groups."""
    with folder_of_all() as folder:
        folder.path.chmod(0o755)
        for name, group in (("groups", GROUP), ("others", OTHERS_GROUP), ("roots", 0)):
            path = folder.path / name
            path.write_text(f"{name}\n")
            os.chown(path, 0, group)
            path.chmod(0o660)
        writable = folder.path / "writable"
        writable.mkdir()
        os.chown(writable, 0, GROUP)
        writable.chmod(0o2770)
        yield folder.path


def readable(place: Path) -> set[str]:
    groups = set()
    for name in ("groups", "others", "roots"):
        try:
            groups.add((place / name).read_text().strip())
        except PermissionError:
            continue
    return groups


def in_a_process(work: Callable[[], str]) -> str:
    """Return the result of `work` in a separate process."""

    def say(tell: int) -> None:
        try:
            os.write(tell, work().encode())
        except BaseException as error:
            os.write(tell, repr(error).encode())

    with child(say) as forked:
        return forked.read().decode()


@contextmanager
def roots_groups(*groups: int) -> Iterator[None]:
    """Give this process supplementary groups."""
    before = os.getgroups()
    os.setgroups(groups)
    try:
        yield
    finally:
        os.setgroups(before)


def test_a_process_that_becomes_a_user_has_the_users_groups_and_none_of_roots(place: Path) -> None:
    def work() -> str:
        become(RIGHTS)
        return repr((os.getresuid(), os.getresgid(), sorted(os.getgroups()), sorted(readable(place))))

    with roots_groups(OTHERS_GROUP):
        answer = in_a_process(work)
    assert answer == repr(((USER.pw_uid,) * 3, (USER.pw_gid,) * 3, sorted(GROUPS), ["groups"]))


def process_of(rights: UserIds) -> str:
    become(rights)
    return "it is"


@pytest.mark.parametrize("rights", [UserIds(0, USER.pw_gid, GROUPS), UserIds(USER.pw_uid, 0, GROUPS)])
def test_no_process_becomes_root_for_others(rights: UserIds) -> None:
    assert "programs of other users never run with root's privileges" in in_a_process(lambda: process_of(rights))


def test_an_action_as_a_user_has_the_users_groups_and_roots_again_afterwards(place: Path) -> None:
    with roots_groups(OTHERS_GROUP):
        with acting_as(RIGHTS):
            assert readable(place) == {"groups"}
            (place / "writable/made").write_text("made\n")
            with pytest.raises(PermissionError):
                (place / "made").write_text("made\n")
        assert readable(place) == {"groups", "others", "roots"}
        assert os.getgroups() == [OTHERS_GROUP]
    assert (place / "writable/made").stat().st_uid == USER.pw_uid


def test_an_error_in_an_action_as_a_user_restores_roots_rights(place: Path) -> None:
    with roots_groups(OTHERS_GROUP):
        with pytest.raises(PermissionError), acting_as(RIGHTS):
            (place / "roots").read_text()
        assert readable(place) == {"groups", "others", "roots"} and os.getgroups() == [OTHERS_GROUP]


def test_one_thread_that_acts_as_a_user_leaves_the_others_roots_rights(place: Path) -> None:
    calls: list[set[str]] = []
    go = threading.Event()

    def look() -> None:
        go.wait(60)
        calls.append(readable(place))

    before = threading.Thread(target=look)
    before.start()
    with acting_as(RIGHTS):
        go.set()
        before.join(60)
        after = threading.Thread(target=look)  # a thread has the rights of the one that created it
        after.start()
        after.join(60)
    assert calls == [{"groups", "others", "roots"}, {"groups"}]


@pytest.fixture
def bench(place: Path) -> Iterator[Bench]:
    with Bench(place) as bench:
        yield bench


def job(bench: Bench, script: str, **fields: Any) -> Exited:
    """Run a job as the user."""
    execute = bench.home / "execute"
    execute.mkdir(exist_ok=True)
    execute.chmod(0o711)
    fields = {"account": ACCOUNT, "files": ACCOUNT, "execute": str(execute), "run_in_iwd": True} | fields
    bench.sh("1", script, iwd=str(bench.home), **fields)
    end: Exited = bench.end("1")
    return end


def test_a_job_has_the_groups_of_its_account_and_can_write_where_they_may(bench: Bench, place: Path) -> None:
    end = job(bench, "id -G; cat groups; cat others", stdout="writable/out", stderr="writable/err")
    assert end.code == 1
    assert (place / "writable/out").read_text() == f"{' '.join(map(str, GROUPS))}\ngroups\n"
    assert "others: Permission denied" in (place / "writable/err").read_text()


def test_streamed_output_is_opened_as_the_user_whose_files_it_is(bench: Bench, place: Path) -> None:
    runs_as = UnixAccount(OTHER.pw_name, OTHER.pw_uid, OTHER.pw_gid, (OTHER.pw_gid,), "/")
    transfer = FileTransfer(executable=False, outputs=(), streamed=("stdout",))
    end = job(bench, "id -u", account=runs_as, stdout="writable/out", transfer=transfer, run_in_iwd=False)
    assert end.code == 0
    assert (place / "writable/out").read_text() == f"{OTHER.pw_uid}\n"
    assert (place / "writable/out").stat().st_uid == USER.pw_uid


def test_only_files_of_the_giver_are_handed_over(place: Path) -> None:
    scratch = place / "scratch"
    (scratch / "theirs").mkdir(parents=True)
    (scratch / "roots").mkdir()
    owners = {"a": USER, "theirs/b": USER, "theirs/root": None, "roots/c": USER, "third": pwd.getpwnam("mail")}
    for name, owner in owners.items():
        (scratch / name).write_text(name)
        os.chown(scratch / name, *((owner.pw_uid, owner.pw_gid) if owner else (0, 0)))
    (scratch / "link").symlink_to(place / "roots")
    for path in (scratch, scratch / "theirs", scratch / "link"):
        os.chown(path, USER.pw_uid, USER.pw_gid, follow_symlinks=False)
    (scratch / "a").chmod(0o6755)
    hand_over(str(scratch), UserIds(USER.pw_uid, USER.pw_gid), UserIds(OTHER.pw_uid, OTHER.pw_gid))
    owners_found = {name: (scratch / name).stat().st_uid for name in (*owners, ".", "theirs", "roots")}
    assert owners_found == {
        "a": OTHER.pw_uid, "theirs/b": OTHER.pw_uid, "theirs/root": 0, "roots/c": USER.pw_uid,
        "third": pwd.getpwnam("mail").pw_uid, ".": OTHER.pw_uid, "theirs": OTHER.pw_uid, "roots": 0,
    }  # fmt: skip
    assert (place / "roots").stat().st_uid == 0 and (scratch / "link").lstat().st_uid == USER.pw_uid
    assert (scratch / "a").stat().st_mode & 0o7777 == 0o755, "no program runs as its next owner"


def test_a_jobs_files_are_moved_with_the_groups_of_their_owner(bench: Bench, place: Path) -> None:
    transfer = FileTransfer(executable=False, inputs=("groups",), outputs=("made",), remaps={"made": "writable/made"})
    assert job(bench, "cat groups > made", transfer=transfer, run_in_iwd=False).code == 0
    assert (place / "writable/made").read_text() == "groups\n"


def test_a_jobs_files_are_moved_with_no_other_groups(bench: Bench) -> None:
    transfer = FileTransfer(executable=False, inputs=("others",), outputs=())
    bench_end = job(bench, "true", transfer=transfer, run_in_iwd=False)
    assert "others: (errno 13) Permission denied" in held_for_failure(bench_end, None)  # type: ignore[arg-type]


def test_a_jobs_chirp_has_the_groups_of_the_owner_of_its_files(bench: Bench, place: Path) -> None:
    activation = {"chirp": Chirp(), "transfer": FileTransfer(executable=False, outputs=())}
    execute = place / "execute"
    execute.mkdir()
    execute.chmod(0o711)
    bench.sh(
        "1",
        "touch ready; sleep 1000",
        iwd=str(place),
        account=ACCOUNT,
        files=ACCOUNT,
        execute=str(execute),
        **activation,
    )
    scratch = execute / "dir_1/scratch"
    bench.until(lambda: (scratch / "ready").exists())
    client = Client(scratch / ".chirp.config")
    try:
        assert client.say(f"cookie {client.cookie}") == 0
        assert (client.fetched("getfile groups"), client.say("getfile others")) == (b"groups\n", -2)
    finally:
        client.close()
        bench.supervisor.signal("1", "hard")
        bench.end("1")


def test_an_account_has_all_groups_that_the_system_lists_for_its_user(
    monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    """The system's users in a container have no second group, so the system's answer is given here."""
    monkeypatch.setattr(os, "getgrouplist", lambda name, group: [group, GROUP] if name == USER.pw_name else [group])
    assert accounts.account_named(USER.pw_name).groups == GROUPS
    with job_users.rights_of(USER.pw_name):
        assert readable(place) == {"groups"}
    with job_users.rights_of(OTHER.pw_name):
        assert readable(place) == set()

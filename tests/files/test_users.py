"""Golden: at both ends, a job's files are read and written with the rights of their owner; only root has other users'
rights."""

from __future__ import annotations

import errno
import os
import pwd
import stat

import pytest
from attrs import evolve

from poolbook.adapters.machine.execution.activation import UnixAccount

from .site import Site, tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users' rights")
OWNER, RUNS_AS = "games", "news"  #: users that every Debian system has: at the access point, at the execution point


def account(name: str) -> UnixAccount:
    entry = pwd.getpwnam(name)
    return UnixAccount(name, entry.pw_uid, entry.pw_gid, (entry.pw_gid,))


@pytest.fixture
def owned_site(site: Site) -> Site:
    """Return a site whose job's directory belongs to its owner."""
    for folder in site.iwd.parents[:-1]:
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    owner = account(OWNER)
    os.chown(site.iwd, owner.uid, owner.gid)
    return site


def test_an_input_that_its_owner_may_not_read_is_not_sent(owned_site: Site) -> None:
    site = owned_site
    secret = site.folder / "secret"
    secret.write_text("secret\n")
    secret.chmod(0o600)
    (site.iwd / "link").symlink_to(secret)
    request = site.request("true", transfer={"inputs": ("link",)})
    site.start_with(request, site.offers.offer(evolve(request, files=account(OWNER)), run=1))
    end = site.bench.end("1")
    assert (end.failure.code, end.failure.errno, end.failure.end) == (13, errno.EACCES, "sending")


def test_an_output_is_not_written_where_its_owner_may_not(owned_site: Site) -> None:
    site = owned_site
    transfer = {"outputs": ("made",), "remaps": {"made": f"{site.folder}/made"}}
    request = site.request("echo > made", transfer=transfer)
    site.start_with(request, site.offers.offer(evolve(request, files=account(OWNER)), run=1))
    end = site.bench.end("1")
    assert (end.failure.code, end.failure.errno, end.failure.end) == (12, errno.EACCES, "receiving")
    assert os.listdir(site.iwd) == ["out"]


@pytest.mark.parametrize("runs_as", [None, RUNS_AS])
def test_outputs_belong_to_their_owner_whoever_runs_the_job(owned_site: Site, runs_as: str | None) -> None:
    site = owned_site
    (site.iwd / "a").write_text("alpha\n")
    request = site.request(
        "cat a > made; mkdir d; id -un > d/user", transfer={"inputs": ("a",), "outputs": ("made", "d")}
    )
    transfer_key = site.offers.offer(evolve(request, files=account(OWNER)), run=1)
    execute = site.bench.home / "execute"
    execute.mkdir(mode=0o711)
    user = account(runs_as) if runs_as else None
    site.start_with(evolve(request, account=user, files=user, execute=str(execute)), transfer_key)
    end = site.bench.end("1")
    assert (end.code, end.undelivered, end.failure) == (0, False, None)
    contents = {name: content for name, (_, content) in tree(site.iwd).items()}
    user_name = f"{runs_as or 'root'}\n".encode()
    assert contents == {"a": b"alpha\n", "d": None, "d/user": user_name, "made": b"alpha\n", "out": b""}
    owners = {name: (site.iwd / name).stat().st_uid for name in contents}
    assert owners == {**dict.fromkeys(contents, account(OWNER).uid), "a": 0}

"""Run a program in another root, as docker and apptainer do, as far as the tests need it. The root has an image's files
on top of this machine's programs, and bound directories of this machine. The only argument is JSON."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 1 << 18
_PROGRAMS = ("bin", "sbin", "lib", "lib64", "usr", "proc", "dev", "opt")
_LIBRARY = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    if getattr(_LIBRARY, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    _call("mount", source.encode(), target.encode(), kind.encode() if kind else None, flags, None)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "w").close()
    _mount(source, target, None, _BIND | _REC)


def enter(image: str, binds: list[list[str]], directory: str, user: list[int]) -> None:
    """Enter the image, with ``binds`` ([source, target]), as user and group."""
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", _NEWNS | (0 if uid == 0 else _NEWUSER))
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _mount("none", "/", None, _REC | _PRIVATE)
    root = "/mnt" if os.path.isdir("/mnt") else "/tmp"
    sources = {source: os.open(source, os.O_PATH) for source, _ in binds}  # opened before the new root hides them
    image_fd = os.open(image, os.O_PATH)
    _mount("none", root, "tmpfs", 0)
    for name in _PROGRAMS:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")
        elif os.path.isdir(f"/{name}"):
            _bind(f"/{name}", f"{root}/{name}")
    os.makedirs(f"{root}/tmp", 0o777, exist_ok=True)
    os.chmod(f"{root}/tmp", 0o1777)
    for name in os.listdir(f"/proc/self/fd/{image_fd}"):
        if name not in ("name", "arguments"):
            _bind(f"/proc/self/fd/{image_fd}/{name}", f"{root}/{name}")
    for source, target in binds:
        _bind(f"/proc/self/fd/{sources[source]}", f"{root}{target}")
    os.chroot(root)
    os.chdir(directory)
    if uid == 0 and user != [0, 0]:
        os.setgroups([])
        os.setgid(user[1])
        os.setuid(user[0])


def main() -> None:
    specification = json.loads(sys.argv[1])
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if number < signal.SIGRTMIN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if megabytes := specification.get("memory"):
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    enter(specification["image"], specification["binds"], specification["directory"], specification["user"])
    try:
        os.execvpe(specification["arguments"][0], specification["arguments"], specification["environment"])
    except OSError as error:
        sys.stderr.write(f"{specification['arguments'][0]}: {error.strerror}\n")
        os._exit(127)


if __name__ == "__main__":
    main()

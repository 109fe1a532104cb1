"""Run a job in a container of docker, as HTCondor's starter does: its command lines, its words where it fails.

Source: HTCondor 25.14's ``docker_proc.cpp`` and ``docker-api.cpp``. The pool has read ads and configuration; what it
asks for stands in the order's ``container``.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import select
import socket
import subprocess
import time
from typing import Any

from .launch import Order
from .processes import MARK, POOL
from .rights import UserIds

_INSPECTIONS, _PAUSE_S = 20, 1.0  #: an ended container may run on for docker for a while
_FIRST_LOOK_S = 2.0  #: what it uses is asked for the first time then
_WORDS = 511  #: bytes of docker's own words in a hold's reason
_STATE = (
    "Running={{.State.Running}}\nExitCode={{.State.ExitCode}}\nDockerError={{json .State.Error}}\n"
    "OOMKilled={{.State.OOMKilled}}"
)
_ARCHITECTURES = {"x86_64": "amd64"}  #: those that HTCondor compares
_LABELS = (("pool", POOL), ("activation", MARK))  #: of each label the variable that says whose it is

Failure = dict[str, Any]


class _CannotRun(Exception):
    """The container cannot run: the part of the start, and the words of the hold."""

    def __init__(self, part: str, words: str) -> None:
        super().__init__(words)
        self.part, self.words = part, words


class _EndsEarly(Exception):
    """It is to end before it has begun."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class DockerContainer:
    """One container, from its image to its removal."""

    def __init__(
        self,
        order: Order,
        scratch: str,
        variables: dict[str, str],
        streams: list[int],
        talk: socket.socket,
        user: UserIds,
    ) -> None:
        self._order, self._spec, self._scratch = order, order["container"], scratch
        self._variables, self._streams, self._talk, self._user = variables, streams, talk, user
        self.usage: dict[str, int] = {}
        self.removed = False
        self._paused = False

    def run(self) -> tuple[Failure | None, int]:
        """Run it to its end; return why it is held (None: it is not), and its exit code, above 128 a signal's."""
        try:
            self._has_image()
            self._create()
            self._fits()
            return None, self._attended()
        except _CannotRun as refused:
            return {"part": refused.part, "errno": 0, "reason": refused.words}, 1
        except _EndsEarly as told:
            return None, 128 + told.number
        finally:
            self._remove()

    # Its image

    def _has_image(self) -> None:
        spec = self._spec
        listed = self._said("images", "--format", "{{.Repository}}:{{.Tag}}")
        if spec["annotated"] in listed.split():
            return
        self._make_room()
        code, words = self._call("pull", "-q", spec["image"])
        if code:
            raise _CannotRun("image", f"Cannot pull image {spec['image']} {_one_line(words, '')}")

    def _make_room(self) -> None:
        """Remove images of the pool's, those tagged longest ago first, until one more is within the limit."""
        most = max(0, self._spec["images"])
        rows = [
            line.split(" ")
            for line in self._said("images", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}").splitlines()
        ]
        ours = {row[1]: row[0] for row in rows if len(row) == 2 and row[0].startswith("htcondor.org/")}
        if len(ours) < most:
            return
        told = self._said("inspect", "--format", "{{.Id}} {{.Metadata.LastTagTime}}", *ours).splitlines()
        when = {
            image: line.partition(" ")[2] for line in told for image in ours if line.partition(":")[2].startswith(image)
        }
        for image in sorted(ours, key=lambda image: when.get(image, ""))[: len(ours) - most + 1]:
            name = ours[image]
            if not self._call("rmi", name)[0]:
                self._call("rmi", "/".join(name.split("/")[2:]))

    def _fits(self) -> None:
        spec = self._spec
        if spec["annotated"] != spec["image"]:
            self._call("tag", spec["image"], spec["annotated"])
        wanted = _ARCHITECTURES.get(platform.machine())
        found = self._said("inspect", "--format", "{{.Architecture}}", spec["image"]).strip()
        if spec["architecture"] and wanted and found not in ("", wanted):
            words = f"DockerProc::StartJob(): Image Architecture {found} not compatible with this machine."
            raise _CannotRun("image", words)

    # The container

    def command(self) -> list[str]:
        """Return the words of docker create behind docker's own."""
        order, spec = self._order, self._spec
        words = ["create", *spec["first"], "--name", spec["name"]]
        # HTCondor's own label is not used: its startd removes what bears it and does not run.
        words += [f"--label=org.poolbook.{what}={self._variables[name]}" for what, name in _LABELS]
        words += spec["logs"]
        for name, value in self._variables.items():
            words += ["-e", f"{name}={value}"]
        volumes = [f"{self._scratch}:{self._scratch}", f"{order['iwd']}:{order['iwd']}"]
        volumes += [f"{self._scratch}/{path.strip('/')}/:{path}" for path in spec["under_scratch"]]
        for volume in dict.fromkeys([*volumes, *spec["volumes"]]):
            words += ["--volume", volume]
        where = order["iwd"] if order["run_in_iwd"] else self._scratch
        words += ["--workdir", where, "--user", f"{self._user.uid}:{self._user.gid}"]
        for group in self._user.groups:
            words += ["--group-add", str(group)]
        words += spec["last"]
        if order["stdin"]:
            words.append("--interactive")
        program = [spec["program"]] if spec["program"] else []
        if program and spec["entrypoint"]:
            return [*words, "--entrypoint", *program, spec["image"], *order["arguments"]]
        return [*words, spec["image"], *program, *order["arguments"]]

    def _create(self) -> None:
        for path in self._spec["under_scratch"]:
            self._make(f"{self._scratch}/{path.lstrip('/')}")
        code, words = self._call(*self.command())
        if code:
            raise _CannotRun("image", _one_line(words, " "))

    def _make(self, path: str) -> None:
        """Make a directory of the job's for one of the container's; everybody may write there, as in /tmp."""
        with contextlib.suppress(OSError):
            before = os.umask(0)
            made = path
            while not os.path.exists(os.path.dirname(made)):
                made = os.path.dirname(made)
            os.makedirs(path, 0o1777, exist_ok=True)
            os.umask(before)
            while os.geteuid() == 0 and len(made) <= len(path):
                os.chown(made, self._user.uid, self._user.gid)
                if made == path:
                    break
                made = f"{made}/{path[len(made) + 1 :].partition('/')[0]}"

    def _attended(self) -> int:
        """Run the container, do what is told meanwhile, and return its exit code."""
        attach = ["start", "-a", *(["-i"] if self._order["stdin"] else []), self._spec["name"]]
        child = subprocess.Popen(
            [*self._spec["command"], *attach],
            stdin=self._streams[0], stdout=self._streams[1], stderr=self._streams[2],
        )  # fmt: skip
        self._until_over(child)
        for _ in range(_INSPECTIONS):
            lines = (
                line.partition("=")
                for line in self._said("inspect", "--format", _STATE, self._spec["name"]).splitlines()
            )
            state = {name: value for name, _, value in lines}
            if state.get("Running") == "false":
                return self._judged(state)
            time.sleep(_PAUSE_S)
        raise _CannotRun("container", "Cannot inspect exited container")

    def _judged(self, state: dict[str, str]) -> int:
        if state["OOMKilled"] == "true":
            words = f"Docker job has gone over memory limit of {self._order['memory_mb']} Mb"
            raise _CannotRun("memory", words)
        error = json.loads(state["DockerError"] or '""')
        if error:
            raise _CannotRun("container", f"Error running docker job: {error}")
        return int(state["ExitCode"])

    def _until_over(self, child: subprocess.Popen[bytes]) -> None:
        ended = os.pidfd_open(child.pid)
        look = time.monotonic() + _FIRST_LOOK_S
        watched: list[Any] = [ended, self._talk]
        while True:
            ready, _, _ = select.select(watched, [], [], max(0.0, look - time.monotonic()))
            if ended in ready:
                break
            if self._talk in ready:
                order = self._talk.recv(4096).decode()
                if order:
                    self._do(order)
                else:  # the supervisor is gone: the next one ends this
                    watched.remove(self._talk)
            if time.monotonic() >= look:
                self._measure()
                look = time.monotonic() + self._spec["seconds"]
        os.close(ended)
        child.wait()

    def _do(self, order: str) -> None:
        verb, _, number = order.partition(" ")
        if verb == "pause":
            self._paused = True
        if verb == "kill" and self._paused and number != "9":
            self._call("unpause", self._spec["name"])
        if verb == "unpause":
            self._paused = False
        words = ["kill", "--signal", number] if verb == "kill" else [verb]
        self._call(*words, self._spec["name"], told=False)

    def _measure(self) -> None:
        """Ask docker's server what the container uses."""
        said = _asked(f"/containers/{self._spec['name']}/stats?stream=0&one-shot=1")
        try:
            memory, cpu = said["memory_stats"].get("stats", {}), said["cpu_stats"]["cpu_usage"]
            rss = memory["rss"] if "rss" in memory else memory["anon"] + memory.get("shmem", 0)
            peak = max(self.usage.get("peak_kb", 0), rss // 1024)
            self.usage = {"rss_kb": rss // 1024, "peak_kb": peak, "user_us": cpu["usage_in_usermode"] // 1000,
                          "system_us": cpu["usage_in_kernelmode"] // 1000}  # fmt: skip
        except (KeyError, TypeError, AttributeError):
            return
        with contextlib.suppress(OSError):
            self._talk.send(json.dumps({"usage": self.usage}).encode())

    def _remove(self) -> None:
        code, words = self._call("rm", "-f", "-v", self._spec["name"], told=False)
        self.removed = code == 0 or "no such container" in words.lower()

    # Its command line

    def _said(self, *words: str) -> str:
        """Return what docker prints on standard output."""
        return self._called(words, subprocess.DEVNULL)[1]

    def _call(self, *words: str, told: bool = True) -> tuple[int, str]:
        """Return docker's exit code and what it says. ``told``: whether the job may be told to end meanwhile."""
        return self._called(words, subprocess.STDOUT, told)

    def _called(self, words: tuple[str, ...], errors: int, told: bool = True) -> tuple[int, str]:
        child = subprocess.Popen(
            [*self._spec["command"], *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        )
        assert child.stdout is not None
        parts = []
        watched: list[Any] = [child.stdout, *([self._talk] if told else [])]
        while True:
            ready, _, _ = select.select(watched, [], [])
            if self._talk in ready and told:
                self._cut_short(child)
            if child.stdout in ready:
                part = os.read(child.stdout.fileno(), 1 << 16)
                if not part:
                    break
                parts.append(part)
        return child.wait(), b"".join(parts).decode(errors="replace")

    def _cut_short(self, child: subprocess.Popen[bytes]) -> None:
        verb, _, number = self._talk.recv(4096).decode().partition(" ")
        if verb == "kill":
            child.kill()
            child.wait()
            raise _EndsEarly(int(number))


def _one_line(text: str, between: str) -> str:
    return text[:_WORDS].replace("\n", between).strip()


def _asked(path: str) -> Any:
    """Return docker's server's answer; None if there is none."""
    from http.client import HTTPConnection, HTTPException  # the supervisor itself has no need of it

    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://"):
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.settimeout(5)
            server.connect(host.removeprefix("unix://"))
            connection = HTTPConnection("docker")
            connection.sock = server
            connection.request("GET", path)
            return json.load(connection.getresponse())
    except (OSError, ValueError, HTTPException):
        return None

"""Run a job in a docker container, with HTCondor's command lines and error messages.

Source: HTCondor 25.14's ``docker_proc.cpp`` and ``docker-api.cpp``. The pool evaluates ads and configuration; the
order's ``container`` has the result.
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

_INSPECTIONS, _PAUSE_S = 20, 1.0  #: docker may report an ended container as running for a while
_FIRST_LOOK_S = 2.0  #: when to measure the container's usage for the first time
_WORDS = 511  #: maximum number of bytes of docker's output in a hold reason
_STATE = (
    "Running={{.State.Running}}\nExitCode={{.State.ExitCode}}\nDockerError={{json .State.Error}}\n"
    "OOMKilled={{.State.OOMKilled}}"
)
_ARCHITECTURES = {"x86_64": "amd64"}  #: the architectures that HTCondor compares
_LABELS = (("pool", POOL), ("activation", MARK))  #: each label, and the variable that has its value

Failure = dict[str, Any]


class _CannotRun(Exception):
    """The container cannot run: the part of the start that failed, and the hold reason."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(reason)
        self.part, self.reason = part, reason


class _KilledEarly(Exception):
    """A kill command arrived before the container started."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class DockerContainer:
    """One container, from pulling its image to its removal."""

    def __init__(
        self,
        order: Order,
        scratch: str,
        variables: dict[str, str],
        streams: list[int],
        channel: socket.socket,
        user: UserIds,
    ) -> None:
        self._order, self._spec, self._scratch = order, order["container"], scratch
        self._variables, self._streams, self._talk, self._user = variables, streams, channel, user
        self.usage: dict[str, int] = {}
        self.removed = False
        self._paused = False

    def run(self) -> tuple[Failure | None, int]:
        """Run it until it ends. Return the failure that holds the job, if any, and the exit code (128 + signal)."""
        try:
            self._ensure_image()
            self._create()
            self._check_architecture()
            return None, self._run_attached()
        except _CannotRun as cannot_run:
            return {"part": cannot_run.part, "errno": 0, "reason": cannot_run.reason}, 1
        except _KilledEarly as killed_early:
            return None, 128 + killed_early.number
        finally:
            self._remove()

    # Its image

    def _ensure_image(self) -> None:
        spec = self._spec
        image_names = self._output("images", "--format", "{{.Repository}}:{{.Tag}}")
        if spec["annotated"] in image_names.split():
            return
        self._make_room()
        code, output = self._call("pull", "-q", spec["image"])
        if code:
            raise _CannotRun("image", f"Cannot pull image {spec['image']} {_one_line(output, '')}")

    def _make_room(self) -> None:
        """Remove the pool's images, the oldest tag first, until the limit leaves room for another."""
        kept_count = max(0, self._spec["images"])
        listing = self._output("images", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}")
        rows = [line.split(" ") for line in listing.splitlines()]
        pool_images = {row[1]: row[0] for row in rows if len(row) == 2 and row[0].startswith("htcondor.org/")}
        if len(pool_images) < kept_count:
            return
        text = self._output("inspect", "--format", "{{.Id}} {{.Metadata.LastTagTime}}", **pool_images)
        when = {
            image: tag_time
            for id, _, tag_time in (line.partition(" ") for line in text.splitlines())
            for image in pool_images
            if id.partition(":")[2].startswith(image)
        }
        for image in sorted(pool_images, key=lambda image: when.get(image, ""))[: len(pool_images) - kept_count + 1]:
            name = pool_images[image]
            if not self._call("rmi", name)[0]:
                self._call("rmi", "/".join(name.split("/")[2:]))

    def _check_architecture(self) -> None:
        spec = self._spec
        if spec["annotated"] != spec["image"]:
            self._call("tag", spec["image"], spec["annotated"])
        own_architecture = _ARCHITECTURES.get(platform.machine())
        architecture = self._output("inspect", "--format", "{{.Architecture}}", spec["image"]).strip()
        if spec["architecture"] and own_architecture and architecture not in ("", own_architecture):
            reason = f"DockerProc::StartJob(): Image Architecture {architecture} not compatible with this machine."
            raise _CannotRun("image", reason)

    # The container

    def command(self) -> list[str]:
        """Return the arguments after docker's own: create and its options."""
        order, spec = self._order, self._spec
        argv = ["create", *spec["first"], "--name", spec["name"]]
        # Don't use HTCondor's label: its startd removes stopped containers that have it.
        argv += [f"--label=org.poolbook.{label}={self._variables[name]}" for label, name in _LABELS]
        argv += spec["logs"]
        for name, value in self._variables.items():
            argv += ["-e", f"{name}={value}"]
        volumes = [f"{self._scratch}:{self._scratch}", f"{order['iwd']}:{order['iwd']}"]
        volumes += [f"{self._scratch}/{path.strip('/')}/:{path}" for path in spec["under_scratch"]]
        for volume in dict.fromkeys([*volumes, *spec["volumes"]]):
            argv += ["--volume", volume]
        where = order["iwd"] if order["run_in_iwd"] else self._scratch
        argv += ["--workdir", where, "--user", f"{self._user.uid}:{self._user.gid}"]
        for group in self._user.groups:
            argv += ["--group-add", str(group)]
        argv += spec["last"]
        if order["stdin"]:
            argv.append("--interactive")
        program = [spec["program"]] if spec["program"] else []
        if program and spec["entrypoint"]:
            return [*argv, "--entrypoint", *program, spec["image"], *order["arguments"]]
        return [*argv, spec["image"], *program, *order["arguments"]]

    def _create(self) -> None:
        for path in self._spec["under_scratch"]:
            self._make(f"{self._scratch}/{path.lstrip('/')}")
        code, output = self._call(*self.command())
        if code:
            raise _CannotRun("image", _one_line(output, " "))

    def _make(self, path: str) -> None:
        """Create a directory in the job's scratch directory for a directory of the container; like /tmp, all users may
        write to it."""
        with contextlib.suppress(OSError):
            old_umask = os.umask(0)
            made_path = path
            while not os.path.exists(os.path.dirname(made_path)):
                made_path = os.path.dirname(made_path)
            os.makedirs(path, 0o1777, exist_ok=True)
            os.umask(old_umask)
            while os.geteuid() == 0 and len(made_path) <= len(path):
                os.chown(made_path, self._user.uid, self._user.gid)
                if made_path == path:
                    break
                made_path = f"{made_path}/{path[len(made_path) + 1 :].partition('/')[0]}"

    def _run_attached(self) -> int:
        """Run the container, obey commands meanwhile, and return its exit code."""
        attach_arguments = ["start", "-a", *(["-i"] if self._order["stdin"] else []), self._spec["name"]]
        child = subprocess.Popen(
            [*self._spec["command"], *attach_arguments],
            stdin=self._streams[0], stdout=self._streams[1], stderr=self._streams[2],
        )  # fmt: skip
        self._wait(child)
        for _ in range(_INSPECTIONS):
            lines = self._output("inspect", "--format", _STATE, self._spec["name"]).splitlines()
            state = {name: value for name, _, value in (line.partition("=") for line in lines)}
            if state.get("Running") == "false":
                return self._exit_code(state)
            time.sleep(_PAUSE_S)
        raise _CannotRun("container", "Cannot inspect exited container")

    def _exit_code(self, state: dict[str, str]) -> int:
        if state["OOMKilled"] == "true":
            reason = f"Docker job has gone over memory limit of {self._order['memory_mb']} Mb"
            raise _CannotRun("memory", reason)
        error = json.loads(state["DockerError"] or '""')
        if error:
            raise _CannotRun("container", f"Error running docker job: {error}")
        return int(state["ExitCode"])

    def _wait(self, child: subprocess.Popen[bytes]) -> None:
        ended = os.pidfd_open(child.pid)
        look_at = time.monotonic() + _FIRST_LOOK_S
        watched_files: list[Any] = [ended, self._talk]
        while True:
            ready_files, _, _ = select.select(watched_files, [], [], max(0.0, look_at - time.monotonic()))
            if ended in ready_files:
                break
            if self._talk in ready_files:
                order_text = self._talk.recv(4096).decode()
                if order_text:
                    self._obey(order_text)
                else:  # the supervisor has ended: the next one kills this process
                    watched_files.remove(self._talk)
            if time.monotonic() >= look_at:
                self._measure()
                look_at = time.monotonic() + self._spec["seconds"]
        os.close(ended)
        child.wait()

    def _obey(self, order_text: str) -> None:
        verb, _, number = order_text.partition(" ")
        if verb == "pause":
            self._paused = True
        if verb == "kill" and self._paused and number != "9":
            self._call("unpause", self._spec["name"])
        if verb == "unpause":
            self._paused = False
        command = ["kill", "--signal", number] if verb == "kill" else [verb]
        self._call(*command, self._spec["name"], is_interruptible=False)

    def _measure(self) -> None:
        """Request the container's resource usage from the Docker daemon."""
        stats = _query_server(f"/containers/{self._spec['name']}/stats?stream=0&one-shot=1")
        try:
            memory, cpu = stats["memory_stats"].get("stats", {}), stats["cpu_stats"]["cpu_usage"]
            rss = memory["rss"] if "rss" in memory else memory["anon"] + memory.get("shmem", 0)
            peak = max(self.usage.get("peak_kb", 0), rss // 1024)
            self.usage = {"rss_kb": rss // 1024, "peak_kb": peak, "user_us": cpu["usage_in_usermode"] // 1000,
                          "system_us": cpu["usage_in_kernelmode"] // 1000}  # fmt: skip
        except (KeyError, TypeError, AttributeError):
            return
        with contextlib.suppress(OSError):
            self._talk.send(json.dumps({"usage": self.usage}).encode())

    def _remove(self) -> None:
        code, output = self._call("rm", "-f", "-v", self._spec["name"], is_interruptible=False)
        self.removed = code == 0 or "no such container" in output.lower()

    # Its command line

    def _output(self, *arguments: str) -> str:
        """Return docker's standard output."""
        return self._execute(arguments, subprocess.DEVNULL)[1]

    def _call(self, *arguments: str, is_interruptible: bool = True) -> tuple[int, str]:
        """Return docker's exit code and output. ``is_interruptible``: whether a kill command interrupts the call."""
        return self._execute(arguments, subprocess.STDOUT, is_interruptible)

    def _execute(self, arguments: tuple[str, ...], errors: int, is_interruptible: bool = True) -> tuple[int, str]:
        child = subprocess.Popen(
            [*self._spec["command"], *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        )
        assert child.stdout is not None
        chunks = []
        watched_files: list[Any] = [child.stdout, *([self._talk] if is_interruptible else [])]
        while True:
            ready_files, _, _ = select.select(watched_files, [], [])
            if self._talk in ready_files and is_interruptible:
                self._interrupt(child)
            if child.stdout in ready_files:
                chunk = os.read(child.stdout.fileno(), 1 << 16)
                if not chunk:
                    break
                chunks.append(chunk)
        return child.wait(), b"".join(chunks).decode(errors="replace")

    def _interrupt(self, child: subprocess.Popen[bytes]) -> None:
        verb, _, number = self._talk.recv(4096).decode().partition(" ")
        if verb == "kill":
            child.kill()
            child.wait()
            raise _KilledEarly(int(number))


def _one_line(text: str, separator: str) -> str:
    return text[:_WORDS].replace("\n", separator).strip()


def _query_server(path: str) -> Any:
    """Return the Docker daemon's answer, or None if it does not answer."""
    from http.client import HTTPConnection, HTTPException  # the supervisor itself does not need it

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

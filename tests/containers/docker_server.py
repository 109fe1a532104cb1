"""A small replacement for the docker daemon in tests. It runs programs in another root directory.

As with docker, containers are children of the server, so they continue if the client is killed. The client is
``docker`` in this directory. Commands and error messages are docker's. Images are directories in the server's folder:
``images/NAME:TAG``; images that can be pulled are in ``registry``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ENTER = Path(__file__).parent / "enter.py"
VERSION = "Docker version 20.10.24+dfsg1, build 297e128"
_WITH_VALUE = frozenset(
    {"--name", "--label", "-e", "--volume", "--workdir", "--user", "--group-add", "--hostname", "-p", "--shm-size",
     "--security-opt", "--log-driver", "--entrypoint", "--pull", "--format", "--signal", "-i"}
)  # fmt: skip


class Server:
    """The containers by name, and the images."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.containers: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.command_log = folder / "commands"
        for name in ("images", "registry"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def answer(self, command: list[str], fds: list[int]) -> tuple[int, str, str]:
        """Run a docker command; return its exit code, standard output and standard error."""
        with self.command_log.open("a") as file:
            file.write(json.dumps(command) + "\n")
        verb, arguments = command[0], command[1:]
        if verb == "start":
            arguments = [argument for argument in arguments if argument not in ("-a", "-i")]
        options, names = _parse(arguments)
        try:
            result = getattr(self, f"_{verb.lstrip('-')}")(options, names, fds)
        except _DockerError as error:
            return error.code, "", f"{error}\n"
        return result if isinstance(result, tuple) else (0, result, "")

    def _v(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        return f"{VERSION}\n"

    def _info(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        return "Server Version: 20.10.24+dfsg1\n"

    def _images(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        rows = sorted((self.folder / "images").rglob("name"))
        template = options["--format"][0]
        return "".join(
            template.replace("{{.Repository}}:{{.Tag}}", str(row.parent.relative_to(self.folder / "images")))
            .replace("{{.ID}}", f"{row.stat().st_ino:012x}") + "\n"
            for row in rows
        )  # fmt: skip

    def _pull(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        name = names[-1]
        if not (self.folder / "registry" / name).is_dir():
            raise _DockerError(1, f"Error response from daemon: manifest for {name} not found: manifest unknown")
        shutil.copytree(self.folder / "registry" / name, self.folder / "images" / name, symlinks=True)
        return f"docker.io/library/{name}\n"

    def _tag(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        shutil.copytree(self._image(names[0]), self.folder / "images" / names[1], symlinks=True, dirs_exist_ok=True)
        return ""

    def _rmi(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        shutil.rmtree(self._image(names[0]))
        return f"Untagged: {names[0]}\n"

    def _image(self, name: str) -> Path:
        path = self.folder / "images" / name
        if not path.is_dir():
            raise _DockerError(125, f"Unable to find image '{name}' locally\ndocker: No such image: {name}.")
        return path

    def _create(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        image = self._image(names[0])
        container = options["--name"][0]
        if container in self.containers:
            raise _DockerError(
                125, f'Error response from daemon: Conflict. The container name "/{container}" is in use.'
            )
        image_arguments = (image / "arguments").read_text().split() if (image / "arguments").exists() else []
        arguments = [*options.get("--entrypoint", []), *(names[1:] or image_arguments)]
        variables = dict(value.split("=", 1) for value in options.get("-e", []))
        self.containers[container] = {
            "image": str(image), "arguments": arguments, "environment": {"PATH": os.defpath, **variables},
            "binds": [value.split(":")[:2] for value in options.get("--volume", [])],
            "directory": options["--workdir"][0], "user": [int(number) for number in options["--user"][0].split(":")],
            "Running": False, "ExitCode": 0, "Error": "", "OOMKilled": False,
        }  # fmt: skip
        return f"{container}\n"

    def _start(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> tuple[int, str, str]:
        container = self._container(names[0])
        specification = {
            name: container[name] for name in ("image", "arguments", "environment", "binds", "directory", "user")
        }
        if os.path.exists(f"{container['image']}/broken"):
            container["Error"] = "OCI runtime create failed: the image is broken"
            return 1, "", f"Error response from daemon: {container['Error']}\n"
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(ENTER), json.dumps(specification)],
            stdin=fds[0], stdout=fds[1], stderr=fds[2], start_new_session=True,
        )  # fmt: skip
        self.processes[names[0]] = child
        container["Running"] = True
        code = child.wait()
        container |= {"Running": False, "ExitCode": code if code >= 0 else 128 - code}
        container["OOMKilled"] = os.path.exists(f"{container['image']}/greedy")
        return container["ExitCode"], "", ""

    def _container(self, name: str) -> dict[str, Any]:
        if name not in self.containers:
            raise _DockerError(1, f"Error: No such container: {name}")
        return self.containers[name]

    def _inspect(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        template, lines = options["--format"][0], []
        for name in names:
            if name in self.containers:
                state = self.containers[name]
                values = {
                    "{{.State.Running}}": str(state["Running"]).lower(), "{{.State.ExitCode}}": str(state["ExitCode"]),
                    "{{json .State.Error}}": json.dumps(state["Error"]),
                    "{{.State.OOMKilled}}": str(state["OOMKilled"]).lower(),
                }  # fmt: skip
            else:
                values = {"{{.Architecture}}": "arm64" if "arm" in name else "amd64", "{{.Id}}": f"sha256:{name}"}
                values["{{.Metadata.LastTagTime}}"] = "2026-01-01"
            text = template
            for placeholder, value in values.items():
                text = text.replace(placeholder, value)
            lines.append(text + "\n")
        return "".join(lines)

    def _signal(self, name: str, number: int) -> str:
        self._container(name)
        child = self.processes.get(name)
        if child is None or child.poll() is not None:
            raise _DockerError(1, f"Error response from daemon: Container {name} is not running")
        if number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT):
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)
        return f"{name}\n"

    def _kill(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        return self._signal(names[0], int(options["--signal"][0]))

    def _pause(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        return self._signal(names[0], signal.SIGSTOP)

    def _unpause(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        return self._signal(names[0], signal.SIGCONT)

    def _rm(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        self._container(names[-1])
        child = self.processes.pop(names[-1], None)
        if child is not None and child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        del self.containers[names[-1]]
        return f"{names[-1]}\n"


class _DockerError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _parse(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options with their values, and the arguments from the first one that is not an option."""
    options: dict[str, list[str]] = {}
    unread = list(arguments)
    while unread and unread[0].startswith("-"):
        name, equals, value = unread.pop(0).partition("=")
        options.setdefault(name, []).append(value if equals else unread.pop(0) if name in _WITH_VALUE else "")
    return options, unread


def _serve(server: Server, connection: socket.socket) -> None:
    with connection:
        data, fds, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if data.startswith(b"GET "):
            cpu = {"usage_in_usermode": 3_000_000_000, "usage_in_kernelmode": 1_000_000_000}
            stats = {"memory_stats": {"stats": {"anon": 7 << 20, "shmem": 1 << 20}}, "cpu_stats": {"cpu_usage": cpu}}
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(stats).encode())
            return
        size, _, text = data.partition(b"\n")
        while len(text) < int(size):
            text += connection.recv(1 << 16)
        code, output, errors = server.answer(json.loads(text), fds)
        for fd in fds:
            os.close(fd)
        try:
            connection.sendall(json.dumps([code, output, errors]).encode())
        except OSError:
            return  # the client was killed


def main(folder: str) -> None:
    server = Server(Path(folder))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"{folder}/unready.sock")
    listener.listen(64)
    os.rename(f"{folder}/unready.sock", f"{folder}/docker.sock")
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(server, connection), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])

"""A server that has docker's containers, for tests: small, but what it runs really runs, in another root.

It holds the containers, as docker's does: they are no descendants of whoever asks for them, and go on when that is
killed. ``docker`` beside it is the client; the words are docker's, and so are those of its errors. Images are
directories below the server's folder: ``images/NAME:TAG``; what can be pulled is below ``registry``.
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
        self.asked = folder / "asked"
        for name in ("images", "registry"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def answer(self, words: list[str], fds: list[int]) -> tuple[int, str, str]:
        """Do what docker is told; return its exit code, its output and what it says of errors."""
        with self.asked.open("a") as file:
            file.write(json.dumps(words) + "\n")
        verb, rest = words[0], words[1:]
        options, names = _parsed(rest if verb != "start" else [word for word in rest if word not in ("-a", "-i")])
        try:
            said = getattr(self, f"_{verb.lstrip('-')}")(options, names, fds)
        except _Failed as failed:
            return failed.code, "", f"{failed}\n"
        return said if isinstance(said, tuple) else (0, said, "")

    def _v(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        return f"{VERSION}\n"

    def _info(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        return "Server Version: 20.10.24+dfsg1\n"

    def _images(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        rows = sorted((self.folder / "images").rglob("name"))
        form = options["--format"][0]
        return "".join(
            form.replace("{{.Repository}}:{{.Tag}}", str(row.parent.relative_to(self.folder / "images")))
            .replace("{{.ID}}", f"{row.stat().st_ino:012x}") + "\n"
            for row in rows
        )  # fmt: skip

    def _pull(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        name = names[-1]
        if not (self.folder / "registry" / name).is_dir():
            raise _Failed(1, f"Error response from daemon: manifest for {name} not found: manifest unknown")
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
            raise _Failed(125, f"Unable to find image '{name}' locally\ndocker: No such image: {name}.")
        return path

    def _create(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        image = self._image(names[0])
        container = options["--name"][0]
        if container in self.containers:
            raise _Failed(125, f'Error response from daemon: Conflict. The container name "/{container}" is in use.')
        own = (image / "words").read_text().split() if (image / "words").exists() else []
        words = [*options.get("--entrypoint", []), *(names[1:] or own)]
        variables = dict(value.split("=", 1) for value in options.get("-e", []))
        self.containers[container] = {
            "image": str(image), "words": words, "environment": {"PATH": os.defpath, **variables},
            "binds": [value.split(":")[:2] for value in options.get("--volume", [])],
            "where": options["--workdir"][0], "user": [int(each) for each in options["--user"][0].split(":")],
            "Running": False, "ExitCode": 0, "Error": "", "OOMKilled": False,
        }  # fmt: skip
        return f"{container}\n"

    def _start(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> tuple[int, str, str]:
        container = self._container(names[0])
        order = {name: container[name] for name in ("image", "words", "environment", "binds", "where", "user")}
        if os.path.exists(f"{container['image']}/broken"):
            container["Error"] = "OCI runtime create failed: the image is broken"
            return 1, "", f"Error response from daemon: {container['Error']}\n"
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(ENTER), json.dumps(order)],
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
            raise _Failed(1, f"Error: No such container: {name}")
        return self.containers[name]

    def _inspect(self, options: dict[str, list[str]], names: list[str], fds: list[int]) -> str:
        form, found = options["--format"][0], []
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
            text = form
            for place, value in values.items():
                text = text.replace(place, value)
            found.append(text + "\n")
        return "".join(found)

    def _signal(self, name: str, number: int) -> str:
        self._container(name)
        child = self.processes.get(name)
        if child is None or child.poll() is not None:
            raise _Failed(1, f"Error response from daemon: Container {name} is not running")
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


class _Failed(Exception):
    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


def _parsed(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options with their values, and the other words: behind the first of them all are."""
    options: dict[str, list[str]] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        options.setdefault(name, []).append(value if equals else rest.pop(0) if name in _WITH_VALUE else "")
    return options, rest


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
        code, said, complaint = server.answer(json.loads(text), fds)
        for fd in fds:
            os.close(fd)
        try:
            connection.sendall(json.dumps([code, said, complaint]).encode())
        except OSError:
            return  # the client was killed


def main(folder: str) -> None:
    server = Server(Path(folder))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"{folder}/docker.sock")
    listener.listen(64)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(server, connection), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])
